"""Numeric constants of templates: Go's literals and what kinds can hold them (parse/node.go ``newNumber``, package strconv)."""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

from injector.gotemplate.text import unquote_char

Kinds: TypeAlias = tuple[int | None, int | None, float | None, complex | None]
"""A number as int64, uint64, float64 and complex128; None for the kinds that cannot hold it."""

_INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO](?P<oct>[0-7]+)|0(?P<old>[0-7]*)|(?P<dec>[1-9][0-9]*))",
    re.ASCII,
)
_DECIMAL_FLOAT = re.compile(r"[+-]?(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]++\.?+[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++", re.ASCII)
_SIGN_AND_PREFIX = re.compile(r"[+-]?(0[bBoOxX])?")
# What fmt.Sscan takes for a float; whether it is one is found out later.
_FLOAT_TOKEN = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|[0-9_]*(?:\.[0-9_]*)?(?:[eEpP][+-]?[0-9_]*)?)",
    re.ASCII,
)
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "old": 8, "dec": 10}
_DIGITS: Final = 20
"""Of the largest integer of Go; a longer one is as much too large as any other."""
_INT64: Final = 2**63
_UINT64: Final = 2**64
_REPLACEMENT: Final = 0xFFFD


def parse_int(text: str) -> int | None:
    """Return an integer literal of any base, or None (strconv.ParseInt with base 0, without its bounds but in proportion to them)."""
    match = _INTEGER.fullmatch(text.replace("_", "")) if _underscores_separate(text) else None
    if match is None:
        return None
    name = next(key for key in _BASES if match[key] is not None)
    digits = match[name] or "0"
    number = int(digits, _BASES[name]) if name != "dec" or len(digits) <= _DIGITS else 10**_DIGITS
    return -number if match["sign"] == "-" else number


def parse_float(text: str) -> float | None:
    """Return a float literal, or None where Go has none, or none in range (strconv.ParseFloat)."""
    number = _float_of(text)
    return None if number is None or math.isinf(number) else number


def _float_of(text: str) -> float | None:
    """Return a float literal, infinite where it is out of range; None for what is no literal."""
    plain = text.replace("_", "")
    if not _underscores_separate(text):
        return None
    if _HEX_FLOAT.fullmatch(plain):
        try:
            return float.fromhex(plain)
        except OverflowError:
            return math.inf
    return float(plain) if _DECIMAL_FLOAT.fullmatch(plain) else None


def _underscores_separate(text: str) -> bool:
    """Return whether underscores stand only between digits, or between a prefix and a digit (strconv.underscoreOK)."""
    prefix = _SIGN_AND_PREFIX.match(text)
    digits = "0123456789abcdefABCDEF" if prefix and prefix[1] in ("0x", "0X") else "0123456789"
    last = "0" if prefix and prefix[1] else "^"
    for char in text[prefix.end() if prefix else 0 :]:
        if "_" in (char, last) and (last if char == "_" else char) not in digits:
            return False
        last = char
    return last != "_"


def number_kinds(text: str) -> Kinds:
    """Return a literal as every kind of number that can hold it.

    Raises:
        ValueError: it is no number; with Go's words.
    """
    imaginary = parse_float(text[:-1]) if text.endswith("i") else None
    if imaginary is not None:
        return _of_complex(complex(0, imaginary))
    number = parse_int(text)
    as_int = number if number is not None and -_INT64 <= number < _INT64 else None
    unsigned = number is not None and (text[0] not in "+-" or number == 0)
    as_uint = number if unsigned and number is not None and 0 <= number < _UINT64 else None
    if as_int is not None or as_uint is not None:
        return as_int, as_uint, float(as_int if as_int is not None else as_uint or 0), None
    value = parse_float(text)
    if value is None:
        raise ValueError(f'illegal number syntax: "{text}"')
    if not any(mark in text for mark in ".eEpP"):
        raise ValueError(f'integer overflow: "{text}"')
    return (*_whole(value), value, None)


def complex_kinds(text: str) -> Kinds:
    """Return a complex literal such as ``1+2i``, as fmt.Sscan reads it.

    Raises:
        ValueError: it is no number; with Go's words.
    """
    real = _FLOAT_TOKEN.match(text)
    imaginary = _FLOAT_TOKEN.match(text, real.end()) if real and text[real.end() : real.end() + 1] in "+-" else None
    if real is None or imaginary is None or text[imaginary.end() :] != "i":
        raise ValueError("syntax error scanning complex number")
    return _of_complex(complex(_scanned(real[0]), _scanned(imaginary[0])))


def _scanned(text: str) -> float:
    """Return a float that fmt.Sscan has found; a decimal number may have a binary exponent there."""
    mantissa, binary, exponent = text.partition("p") if "x" not in text.lower() else (text, "", "")
    number = _float_of(mantissa)
    if number is None or (binary and not exponent.lstrip("+-").isdigit()):
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax')
    if math.isinf(number):
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": value out of range')
    return math.ldexp(number, int(exponent)) if binary else number


def _of_complex(number: complex) -> Kinds:
    """Return a complex number, and what it is without an imaginary part."""
    if number.imag:
        return None, None, None, number
    return (*_whole(number.real), number.real, number)


def _whole(value: float) -> tuple[int | None, int | None]:
    """Return a float as int64 and uint64, if it is whole and they can hold it."""
    whole = int(value) if value.is_integer() else None
    if whole is None:
        return None, None
    return whole if -_INT64 <= whole < _INT64 else None, whole if 0 <= whole < _UINT64 else None


def rune_of(text: str) -> int:
    """Return the code of a character constant such as ``'a'``.

    Raises:
        ValueError: it is none; with Go's words.
    """
    value, end = unquote_char(text, 1, "'")
    if text[end:] != "'":
        raise ValueError(f"malformed character constant: {text}")
    if len(value) == 1:
        return value[0] if text[1].isascii() else _REPLACEMENT
    return ord(value.decode("utf-8"))
