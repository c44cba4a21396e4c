"""Floating-point numbers as Go prints them: strconv.FormatFloat and fmt's changes to it."""

from __future__ import annotations

import math
import struct


def shortest_digits(value: float, size: int) -> tuple[str, int]:
    """Return the shortest decimal digits that read back as ``value``, and the power of ten of the first digit."""
    if value == 0:
        return "0", 0
    if size == 32:  # noqa: PLR2004 - float32
        packed = struct.pack("f", value)
        text = next(
            text
            for places in range(9)
            if struct.pack("f", float(text := f"{value:.{places}e}")) == packed or places == 8  # noqa: PLR2004 - a float32 has nine digits
        )
    else:
        text = f"{value:.{max(_significant(repr(value)) - 1, 0)}e}"
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", "").rstrip("0") or "0", int(exponent)


def _significant(text: str) -> int:
    return len(text.partition("e")[0].replace(".", "").strip("0") or "0")


def format_g(value: float, size: int = 64) -> str:
    """Return ``%v`` of a float: the shortest text, with an exponent below -4 and from 6 on."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    digits, power = shortest_digits(abs(value), size)
    if power < -4 or power >= 6:  # noqa: PLR2004 - strconv's own limits
        return sign + _with_exponent(digits, power)
    return sign + _positional(digits, power)


def _with_exponent(digits: str, power: int) -> str:
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _positional(digits: str, power: int) -> str:
    if power < 0:
        return "0." + "0" * (-power - 1) + digits
    whole = digits[: power + 1].ljust(power + 1, "0")
    return f"{whole}.{digits[power + 1 :]}" if len(digits) > power + 1 else whole


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
        return sign + _with_exponent(digits, power)
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
