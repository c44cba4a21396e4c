"""Floats as Go prints them: the shortest digits that read back as the same number (strconv, precision -1)."""

from __future__ import annotations

import math
import struct
from typing import Final, Literal

from injector.errors import DataError

# strconv ftoa.go: 'g' takes an exponent outside these, where the digits are the shortest possible.
_G_SMALLEST: Final = -4
_G_LARGEST: Final = 6
# encoding/json encode.go, floatEncoder: the limits are those of JavaScript.
_JSON_SMALLEST: Final = 1e-6
_JSON_LARGEST: Final = 1e21


def shortest_float(value: float, *, bits: Literal[32, 64] = 64) -> str:
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
