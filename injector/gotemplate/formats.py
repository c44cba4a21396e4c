"""How Go formats booleans, numbers and strings: flags, width, precision (fmt/format.go, Go 1.26)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from injector.golang.strconv import format_float
from injector.gotemplate.budget import check_size
from injector.gotemplate.text import is_printable, quote

_MAX_RUNE: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_BASES: Final = {"v": 10, "d": 10, "b": 2, "o": 8, "O": 8, "x": 16, "X": 16}
_DIGITS: Final = {10: "d", 2: "b", 8: "o", 16: "x"}
_PREFIXES: Final = {2: "0b", 16: "0x"}
FLOAT_VERBS: Final = "vbgGxXfFeE"


@dataclass(slots=True)
class Spec:
    """One directive of a format: flags, width, precision. ``plus_v`` and ``sharp_v`` are those flags of ``%v``."""

    plus: bool = False
    minus: bool = False
    sharp: bool = False
    space: bool = False
    zero: bool = False
    width: int | None = None
    precision: int | None = None
    plus_v: bool = False
    sharp_v: bool = False

    def pad(self, text: str, *, zeros: bool = True) -> str:
        """Return text padded to the width: spaces, or zeros where the flag asks and ``zeros`` permits."""
        if self.width is None or len(text) >= self.width:
            return text
        check_size(self.width, "width")
        if self.minus:
            return text.ljust(self.width)
        return text.rjust(self.width, "0" if zeros and self.zero else " ")

    def cut(self, text: str) -> str:
        """Return no more characters of a text than the precision."""
        return text if self.precision is None else text[: self.precision]


def format_bool(value: object, verb: str, spec: Spec) -> str | None:
    """Return a boolean by a verb; None for a verb that it has not."""
    return spec.pad("true" if value else "false") if verb in "tv" else None


def format_string(text: str, verb: str, spec: Spec) -> str | None:
    """Return a string by a verb; None for a verb that it has not."""
    if verb == "s" or (verb == "v" and not spec.sharp_v):
        return spec.pad(spec.cut(text))
    if verb in "qv":
        return spec.pad(_quoted(spec.cut(text), spec))
    return format_bytes(text.encode("utf-8", "surrogateescape"), verb, spec) if verb in "xX" else None


def _quoted(text: str, spec: Spec) -> str:
    return f"`{text}`" if spec.sharp and _can_backquote(text) else quote(text, ascii_only=spec.plus)


def _can_backquote(text: str) -> bool:
    """Return whether a raw string literal can hold a text (strconv.CanBackquote)."""
    return not any((char < " " and char != "\t") or char in "`\x7f\ufeff" or ord(char) in _SURROGATES for char in text)


def format_bytes(raw: bytes, verb: str, spec: Spec) -> str:
    """Return bytes in hexadecimal; the precision is a number of bytes."""
    raw = raw if spec.precision is None else raw[: spec.precision]
    check_size(5 * len(raw))
    digits = raw.hex(" ") if spec.space else raw.hex()
    if spec.sharp and raw:
        digits = " ".join(f"0x{part}" for part in digits.split(" "))
    return spec.pad(digits.upper() if verb == "X" else digits)


def format_integer(number: int, verb: str, spec: Spec, *, unsigned: bool = False) -> str | None:
    """Return an integer by a verb; None for a verb that it has not."""
    if verb == "v" and spec.sharp_v and unsigned:
        return hexadecimal(number, spec)
    if verb in _BASES:
        return _digits(number, verb, spec)
    if verb == "c":
        return spec.pad(_rune(number))
    if verb == "q":
        return spec.pad(quote(_rune(number), "'", ascii_only=spec.plus))
    return _code_point(number, spec) if verb == "U" else None


def hexadecimal(number: int, spec: Spec, *, prefix: bool = True) -> str:
    """Return an unsigned number in hexadecimal, as ``%#v`` and pointers show it."""
    sharp, spec.sharp = spec.sharp, prefix
    text = _digits(number, "x", spec)
    spec.sharp = sharp
    return text


def _digits(number: int, verb: str, spec: Spec) -> str:
    base = _BASES[verb]
    sign = "-" if number < 0 else "+" if spec.plus else " " if spec.space else ""
    text = format(abs(number), _DIGITS[base])
    if spec.precision is not None:
        if spec.precision == 0 and number == 0:
            return spec.pad("", zeros=False)
        check_size(spec.precision, "precision")
        text = text.rjust(spec.precision, "0")
    elif spec.zero and not spec.minus and spec.width is not None:
        check_size(spec.width, "width")
        text = text.rjust(spec.width - len(sign), "0")
    if spec.sharp and base == _BASES["o"]:
        text = text if text.startswith("0") else f"0{text}"
    elif spec.sharp:
        text = _PREFIXES.get(base, "") + text
    text = f"0o{text}" if verb == "O" else text
    return spec.pad(sign + (text.upper() if verb == "X" else text), zeros=False)


def _rune(number: int) -> str:
    return chr(number) if 0 <= number <= _MAX_RUNE and number not in _SURROGATES else "\ufffd"


def _code_point(number: int, spec: Spec) -> str:
    digits = max(spec.precision or 0, 4)
    check_size(digits, "precision")
    text = f"U+{number & 0xFFFFFFFFFFFFFFFF:0{digits}X}"
    if spec.sharp and 0 <= number <= _MAX_RUNE and number not in _SURROGATES and is_printable(chr(number)):
        text += f" '{chr(number)}'"
    return spec.pad(text, zeros=False)


def format_real(value: float, verb: str, spec: Spec, size: int = 64) -> str | None:
    """Return a float by a verb; None for a verb that it has not."""
    if verb not in FLOAT_VERBS:
        return None
    check_size(spec.precision or 0, "precision")
    text = format_float(value, verb, spec.precision, size, sharp=spec.sharp)
    sign, text = ("-", text[1:]) if text.startswith("-") else ("+", text)
    if spec.space and sign == "+" and not spec.plus:
        sign = " "
    if not math.isfinite(value):
        hidden = math.isnan(value) and not spec.space and not spec.plus
        return spec.pad(text if hidden else sign + text, zeros=False)
    if sign == "+" and not spec.plus:
        return spec.pad(text)
    if spec.zero and not spec.minus and spec.width is not None and spec.width > len(text) + 1:
        check_size(spec.width, "width")
        return sign + text.rjust(spec.width - 1, "0")
    return spec.pad(sign + text)


def format_complex(value: complex, verb: str, spec: Spec) -> str | None:
    """Return a complex number by a verb: both parts, the imaginary one with its sign; None for a verb that it has not."""
    if verb not in FLOAT_VERBS:
        return None
    real = format_real(value.real, verb, spec)
    plus, spec.plus = spec.plus, True
    imaginary = format_real(value.imag, verb, spec)
    spec.plus = plus
    return f"({real}{imaginary}i)"
