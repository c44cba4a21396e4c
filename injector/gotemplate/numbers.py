"""Numeric constants of templates: Go's literals and what kinds can hold them (parse/node.go ``newNumber``)."""

from __future__ import annotations

import re
from typing import Final

from injector.gotemplate.text import unquote_char

_INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>_?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*)|0[bB](?P<bin>_?[01]+(?:_[01]+)*)"
    r"|0[oO](?P<oct>_?[0-7]+(?:_[0-7]+)*)|0(?P<old>(?:_?[0-7]+)*)|(?P<dec>[1-9][0-9]*(?:_[0-9]+)*))",
    re.ASCII,
)
_DECIMAL_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII)
_UNDERSCORES = re.compile(r"(?<=[0-9a-fA-FxX])_(?=[0-9a-fA-F])")
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "old": 8, "dec": 10}
_INT64: Final = 2**63
_UINT64: Final = 2**64


def parse_int(text: str) -> int | None:
    """Return an integer literal of any base, or None (strconv.ParseInt with base 0, without its bounds)."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    name = next(key for key in _BASES if match[key] is not None)
    number = int(match[name].replace("_", "") or "0", _BASES[name])
    return -number if match["sign"] == "-" else number


def parse_float(text: str) -> float | None:
    """Return a float literal, or None where Go has none, or none in range (strconv.ParseFloat)."""
    is_hex = text.lstrip("+-")[:2] in ("0x", "0X")
    plain = _UNDERSCORES.sub("", text) if is_hex else text
    if _HEX_FLOAT.fullmatch(plain):
        try:
            return float.fromhex(plain)
        except OverflowError:
            return None
    if not _DECIMAL_FLOAT.fullmatch(plain):
        return None
    number = float(plain)
    return None if number in (float("inf"), float("-inf")) else number


def number_kinds(text: str) -> tuple[int | None, int | None, float | None, complex | None]:
    """Return a literal as int, uint, float and complex, each None where the kind cannot hold it.

    Raises:
        ValueError: it is no number; with Go's words.
    """
    if text.endswith("i"):
        return _imaginary(text)
    number = parse_int(text)
    signed = text[0] in "+-"
    as_uint = number if number is not None and not signed and 0 <= number < _UINT64 else None
    as_int = number if number is not None and -_INT64 <= number < _INT64 else None
    if as_int == 0:
        as_uint = 0
    if as_int is not None or as_uint is not None:
        return as_int, as_uint, float(as_int if as_int is not None else as_uint or 0), None
    value = parse_float(text)
    if value is None:
        raise ValueError(f'illegal number syntax: "{text}"')
    if not any(mark in text for mark in ".eEpP"):
        raise ValueError(f'integer overflow: "{text}"')
    whole = int(value) if value.is_integer() else None
    as_int = whole if whole is not None and -_INT64 <= whole < _INT64 else None
    as_uint = whole if whole is not None and 0 <= whole < _UINT64 else None
    return as_int, as_uint, value, None


def _imaginary(text: str) -> tuple[int | None, int | None, float | None, complex | None]:
    imaginary = parse_float(text[:-1])
    if imaginary is None:
        whole = parse_int(text[:-1])
        if whole is None:
            raise ValueError(f'illegal number syntax: "{text}"')
        imaginary = float(whole)
    return (0, 0, 0.0, 0j) if imaginary == 0 else (None, None, None, complex(0, imaginary))


def complex_kinds(text: str) -> tuple[int | None, int | None, float | None, complex | None]:
    """Return a complex literal such as ``1+2i``; without imaginary part it is a real number of every kind.

    Raises:
        ValueError: it is no number.
    """
    split = max(text.rfind("+", 1), text.rfind("-", 1))
    while split > 1 and text[split - 1] in "eEpP":
        split = max(text.rfind("+", 1, split), text.rfind("-", 1, split))
    real, imaginary = parse_float(text[:split]), parse_float(text[split:-1])
    if real is None or imaginary is None:
        raise ValueError(f'illegal number syntax: "{text}"')
    if imaginary:
        return None, None, None, complex(real, imaginary)
    whole = int(real) if real.is_integer() else None
    return whole, whole if whole is not None and whole >= 0 else None, real, complex(real, 0)


def rune_of(text: str) -> int:
    """Return the code of a character constant such as ``'a'``.

    Raises:
        ValueError: it is none; with Go's words.
    """
    value, end = unquote_char(text, 1, "'")
    if text[end:] != "'":
        raise ValueError(f"malformed character constant: {text}")
    decoded = value.decode("utf-8", "surrogateescape")
    return value[0] if len(value) == 1 else ord(decoded)
