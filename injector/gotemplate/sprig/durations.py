"""Durations as Go's time package reads and prints them, in nanoseconds."""

from __future__ import annotations

import re
from typing import Final

from injector.gotemplate.sprig.timequote import quoted

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
# What was read of a number is not tried again in another way: there are as many as it has digits.
_PART: Final = re.compile(r"(?P<whole>[0-9]*+)(?P<point>\.(?P<fraction>[0-9]*+))?(?P<unit>[^0-9.]*+)")
_SECOND: Final = 1_000_000_000
_LIMIT: Final = 2**63
_DIGITS: Final = 19
"""Of the largest number of 64 bits."""
_LARGEST_POWER: Final = 309
"""Of ten, beyond what a float64 has: digits so far behind the point add nothing."""


def parse_duration(text: str) -> int:
    """Return the nanoseconds of ``1m30s`` or ``45s`` (time.ParseDuration).

    Raises:
        ValueError: it is no duration; with Go's words.
    """
    body = text[1:] if text[:1] in ("+", "-") else text
    negative = text.startswith("-")
    if body == "0":
        return 0
    if not body:
        raise _invalid("invalid duration", text)
    position, total = 0, 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None or not (match["whole"] or match["fraction"]):
            raise _invalid("invalid duration", text)
        total += _nanoseconds(match, text)
        if total > _LIMIT:
            raise _invalid("invalid duration", text)
        position = match.end()
    if total == _LIMIT and not negative:
        raise _invalid("invalid duration", text)
    return -total if negative else total


def _invalid(fault: str, text: str) -> ValueError:
    return ValueError(f"time: {fault} {quoted(text)}")


def _nanoseconds(part: re.Match[str], text: str) -> int:
    """Return what a number and its unit are, the fraction by float64 as Go has it."""
    whole = part["whole"].lstrip("0") or "0"
    if len(whole) > _DIGITS or int(whole) > _LIMIT:
        raise _invalid("invalid duration", text)
    if not part["unit"]:
        raise _invalid("missing unit in duration", text)
    unit = _UNITS.get(part["unit"])
    if unit is None:
        raise _invalid(f"unknown unit {quoted(part['unit'])} in duration", text)
    if int(whole) > _LIMIT // unit:
        raise _invalid("invalid duration", text)
    digits, power = _fraction(part["fraction"] or "")
    return int(whole) * unit + (int(float(digits) * (unit / power)) if digits else 0)


def _fraction(text: str) -> tuple[int, float]:
    """Return as many digits of a fraction as 64 bits hold, and the power of ten of their number as Go multiplies it."""
    zeros = len(text) - len(text.lstrip("0"))
    digits, power = 0, 1.0
    for digit in text[zeros : zeros + _DIGITS]:
        longer = digits * 10 + int(digit)
        if digits > (_LIMIT - 1) // 10 or longer > _LIMIT:
            break
        digits, power = longer, power * 10
    for _ in range(min(zeros, _LARGEST_POWER)):
        power *= 10
    return digits, power


def go_duration(nanoseconds: int) -> str:
    """Return a duration as time.Duration.String prints it: ``1m0s``, ``1.5s``, ``100ms``."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < _SECOND:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if rest >= size:
                return f"{sign}{_decimal(rest, size)}{unit}"
        return "0s"
    minutes, rest = divmod(rest, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, _SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    digits = str(fraction).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
