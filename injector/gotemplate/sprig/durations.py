"""Durations as Go's time package reads and prints them, in nanoseconds."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

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
_PART = re.compile(r"(?P<number>[0-9]++\.?+[0-9]*+|\.[0-9]++)(?P<unit>ns|us|µs|μs|ms|s|m|h)")
_UNKNOWN_UNIT = re.compile(r"(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?P<unit>[^0-9.]++)")
_SECOND: Final = 1_000_000_000
_LIMIT: Final = 2**63
_DIGITS: Final = 19
"""Of the largest duration, in nanoseconds; a fraction has no more that count."""


def parse_duration(text: str) -> int:
    """Return the nanoseconds of ``1m30s`` or ``45s`` (time.ParseDuration).

    Raises:
        ValueError: it is no duration; with Go's words.
    """
    body = text.lstrip("+-") if text[:1] in ("+", "-") and text[1:2] not in ("+", "-") else text
    if body == "0":
        return 0
    position, total = 0, Decimal(0)
    while position < len(body):
        match = _PART.match(body, position)
        if match is None:
            break
        whole, _, fraction = match["number"].partition(".")
        whole = whole.lstrip("0")
        if len(whole) > _DIGITS or total >= _LIMIT:
            raise ValueError(f'time: invalid duration "{text}"')
        total += Decimal(f"{whole or '0'}.{fraction[:_DIGITS] or '0'}") * _UNITS[match["unit"]]
        position = match.end()
    unknown = _UNKNOWN_UNIT.match(body, position) if position < len(body) else None
    if unknown is not None:
        raise ValueError(f'time: unknown unit "{unknown["unit"]}" in duration "{text}"')
    if not body or position != len(body) or total >= _LIMIT:
        raise ValueError(f'time: invalid duration "{text}"')
    return -int(total) if text.startswith("-") else int(total)


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
