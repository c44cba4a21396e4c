"""Floating-point numbers as Go prints them (strconv.FormatFloat, encoding/json and fmt's changes to them)."""

from __future__ import annotations

import math
import struct
from typing import Final

from injector.errors import DataError

# strconv ftoa.go: %g takes an exponent outside these, where the digits are the shortest possible.
_G_SMALLEST: Final = -4
_G_LARGEST: Final = 6
# encoding/json encode.go, floatEncoder: the limits are those of JavaScript.
_JSON_SMALLEST: Final = 1e-6
_JSON_LARGEST: Final = 1e21


def format_g(value: float, bits: int = 64) -> str:
    """Return a float as ``strconv.FormatFloat(value, 'g', -1, bits)`` does; 32 bits round it first."""
    if bits == 32:  # noqa: PLR2004 - Go's own bit sizes
        value = _single(value)
    if not math.isfinite(value):
        return name_of_non_finite(value)
    sign, digits, power = _digits(value, bits)
    if power < _G_SMALLEST or power >= _G_LARGEST:
        return f"{sign}{_exponential(digits, power)}"
    return sign + _positional(digits, power)


def go_float(value: float) -> str:
    """Return a float64 as encoding/json prints it: with an exponent below 1e-6 and from 1e21 on.

    Raises:
        DataError: it is infinite or no number.
    """
    if not math.isfinite(value):
        raise DataError(f"json: unsupported value: {name_of_non_finite(value)}", hint="give a finite number")
    sign, digits, power = _digits(value, 64)
    if value and not _JSON_SMALLEST <= abs(value) < _JSON_LARGEST:
        # JSON's exponents below 10 have one digit where they are negative: e-7, but e+21.
        return sign + _exponential(digits, power).replace("e-0", "e-")
    return sign + _positional(digits, power)


def name_of_non_finite(value: float) -> str:
    """Return Go's name of an infinity or of what is no number."""
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _digits(value: float, bits: int) -> tuple[str, str, int]:
    """Return sign, significant digits and decimal exponent of the first digit."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    text = _shortest_single(abs(value)) if bits == 32 else repr(abs(value))  # noqa: PLR2004 - Go's own bit sizes
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    digits = (whole + fraction).lstrip("0")
    power -= len(whole + fraction) - len(digits)
    return sign, digits.rstrip("0") or "0", power if digits else 0


def _single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _shortest_single(value: float) -> str:
    packed = struct.pack("f", value)
    texts = (f"{value:.{precision}e}" for precision in range(17))
    return next(text for text in texts if _packs_as(float(text), packed))


def _packs_as(value: float, packed: bytes) -> bool:
    try:
        return struct.pack("f", value) == packed
    except OverflowError:
        return False


def _exponential(digits: str, power: int) -> str:
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _positional(digits: str, power: int) -> str:
    if power < 0:
        return f"0.{'0' * (-power - 1)}{digits}"
    whole = digits[: power + 1].ljust(power + 1, "0")
    fraction = digits[power + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def format_float(value: float, verb: str, precision: int | None, size: int, *, sharp: bool) -> str:
    """Return a float by one of fmt's verbs, without padding; the sign only where it is negative."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    text = _by_verb(value, verb, precision, size)
    return _with_all_digits(text, verb, precision) if sharp and verb != "b" else text


def _by_verb(value: float, verb: str, precision: int | None, size: int) -> str:
    if verb in "xXb":
        return _binary(value, verb, precision, size)
    if verb in "vgG":
        text = format_g(value, size) if precision is None else _general(value, precision)
        return text.upper() if verb == "G" else text
    places = 6 if precision is None else precision
    text = f"{value:.{places}f}" if verb in "fF" else f"{value:.{places}e}"
    return text.upper() if verb == "E" else text


def _with_all_digits(text: str, verb: str, precision: int | None) -> str:
    """Return a number with the point and the zeros that the flag ``#`` keeps (fmt/format.go fmtFloat)."""
    marks = "pP" if verb in "xX" else "pPeE"
    cut = next((index for index, char in enumerate(text) if char in marks), len(text))
    head, tail = text[:cut], text[cut:]
    digits = (6 if precision is None else precision) if verb in "vgGx" else 0
    # Go counts every character from the first that is no zero, a hexadecimal prefix's x included.
    digits -= len(head.lstrip("-").replace(".", "").lstrip("0"))
    if "." not in head:
        digits -= head.lstrip("-") == "0"
        head += "."
    return head + "0" * max(digits, 0) + tail


def _general(value: float, precision: int) -> str:
    precision = precision or 1
    text = f"{value:.{precision - 1}e}"
    mantissa, _, exponent = text.partition("e")
    power = int(exponent)
    digits = mantissa.replace(".", "").replace("-", "").rstrip("0") or "0"
    sign = "-" if math.copysign(1, value) < 0 else ""
    limit = precision
    if precision > len(digits) >= power + 1:
        limit = len(digits)
    if power < -4 or power >= max(limit, 1):  # noqa: PLR2004 - strconv's own limit
        return sign + _exponential(digits, power)
    return sign + _positional(digits, power)


def _binary(value: float, verb: str, precision: int | None, size: int) -> str:
    sign = "-" if math.copysign(1, value) < 0 else ""
    if verb == "b":
        return sign + _power_of_two(abs(value), size)
    text = _hex_float(abs(value), precision)
    return sign + (text.upper() if verb == "X" else text)


def _power_of_two(value: float, size: int) -> str:
    packing, width, bias = (("I", "f"), 23, 150) if size == 32 else (("Q", "d"), 52, 1075)  # noqa: PLR2004 - float32
    bits = struct.unpack(f">{packing[0]}", struct.pack(f">{packing[1]}", value))[0]
    exponent, mantissa = bits >> width, bits & ((1 << width) - 1)
    mantissa |= (1 << width) if exponent else 0
    return f"{mantissa}p{max(exponent, 1) - bias:+d}"


def _hex_float(value: float, precision: int | None) -> str:
    if value == 0:
        digits, exponent = "0", 0
    else:
        mantissa, power = math.frexp(value)
        exponent = power - 1
        bits = int(mantissa * 2**53)
        if precision is not None and precision < 13:  # noqa: PLR2004 - hexadecimal digits of a float64's fraction
            shift = 4 * (13 - precision)
            half, rest = 1 << (shift - 1), bits & ((1 << shift) - 1)
            bits >>= shift
            bits += rest > half or (rest == half and bits & 1)
            if bits >> (4 * precision + 1):
                bits, exponent = bits >> 1, exponent + 1
            digits = f"{bits:x}"
        else:
            digits = f"{bits:x}"
    fraction = digits[1:].rstrip("0") if precision is None else digits[1:].ljust(precision, "0")
    point = f".{fraction}" if fraction else ""
    return f"0x{digits[0]}{point}p{exponent:+03d}"
