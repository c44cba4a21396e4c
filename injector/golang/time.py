"""Times as Go reads and writes them: RFC 3339 (package time; k8s.io/apimachinery pkg/apis/meta/v1 time.go, v0.35)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from injector.errors import ManifestError

_RFC3339 = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"T(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})([.,][0-9]+)?"
    r"(Z|(?P<sign>[-+])(?P<zone_hour>[0-9]{2}):(?P<zone_minute>[0-9]{2}))",
    re.ASCII,
)
_LIMITS: Final = {"hour": 23, "minute": 59, "second": 59, "zone_hour": 24, "zone_minute": 60}
_DAYS: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ZERO: Final = "0001-01-01T00:00:00Z"
# Gregorian years repeat, which takes the years that Python has no dates for into those that it has.
_CYCLE: Final = 400
_CYCLE_START: Final = 2000


def is_calendar(parts: dict[str, int]) -> bool:
    """Return whether the parts of a date and time (``year``, ``month``, ``day`` and more) are such as Go accepts."""
    return 1 <= parts["day"] <= _days(parts["year"], parts["month"]) and all(
        parts.get(name, 0) <= limit for name, limit in _LIMITS.items()
    )


def _days(year: int, month: int) -> int:
    if month == 2 and (year % 4 or (year % 100 == 0 and year % 400)):  # noqa: PLR2004 - the calendar
        return 28
    return _DAYS[month] if month < len(_DAYS) else 0


def canonical_time(text: str) -> str | None:
    """Return a time as metav1.Time writes it: in UTC, whole seconds; None for Go's zero time, which it writes as null.

    Raises:
        ManifestError: it is no time.
    """
    match = _RFC3339.fullmatch(text)
    parts = (
        {name: int(digits) for name, digits in match.groupdict().items() if digits and name != "sign"} if match else {}
    )
    if match is None or not is_calendar(parts):
        what = f'parsing time "{text[:40]}" as "2006-01-02T15:04:05Z07:00": cannot parse it'
        raise ManifestError(what, hint="write a time such as 2026-01-02T15:04:05Z")
    year = parts["year"] % _CYCLE + _CYCLE_START
    offset = timedelta(hours=parts.get("zone_hour", 0), minutes=parts.get("zone_minute", 0))
    local = datetime(year, parts["month"], parts["day"], parts["hour"], parts["minute"], parts["second"], tzinfo=UTC)
    utc = local + offset if match["sign"] == "-" else local - offset
    true_year = utc.year + parts["year"] - year
    written = f"{'-' if true_year < 0 else ''}{abs(true_year):04d}{utc:-%m-%dT%H:%M:%SZ}"
    return None if written == _ZERO else written
