"""Durations as protobuf's JSON has them."""

from __future__ import annotations

from typing import Final

from injector.golang.time import go_duration, parse_duration

__all__ = ["go_duration", "json_duration", "parse_duration"]

_SECOND: Final = 1_000_000_000


def json_duration(nanoseconds: int) -> str:
    """Return a duration as protobuf's JSON has it: seconds with 0, 3, 6 or 9 decimals."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    seconds, fraction = divmod(rest, _SECOND)
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{sign}{seconds}.{digits}s" if digits else f"{sign}{seconds}s"
