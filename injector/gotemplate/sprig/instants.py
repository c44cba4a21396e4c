"""Moments as Go's package time has them: of every year that 64 bits of seconds reach, in named zones and at fixed offsets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SECOND: Final = 1_000_000_000
DAY: Final = 86_400
_WORD: Final = 1 << 64
_INT64: Final = 1 << 63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
# Go counts from 1 January of the year 1, and shows dates from 1 March of a year far before (package time, "Computations on Times").
_FROM_YEAR_1: Final = (_EPOCH_ORDINAL - 1) * DAY
_FROM_FIRST_DAY: Final = (292_277_022_400 // 400 * 146_097 + 306) * DAY + _FROM_YEAR_1
# After 400 years dates fall on the same days of the week again.
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
# What Python's calendar has in every zone: from 2 January of the year 1 to 30 December 9999.
_EARLIEST: Final = -_FROM_YEAR_1 + DAY
_LATEST: Final = (date(9999, 12, 31).toordinal() - _EPOCH_ORDINAL) * DAY


class Offset(NamedTuple):
    """What a zone says of a moment: the abbreviation, and the seconds east of UTC."""

    name: str
    seconds: int


class Zone(Protocol):
    """A time zone."""

    def at(self, seconds: int, /) -> Offset:
        """Return what holds so many seconds after 1970."""


@dataclass(frozen=True, slots=True)
class FixedZone:
    """A zone that always says the same (time.FixedZone)."""

    offset: Offset

    def at(self, _seconds: int, /) -> Offset:
        """Return the offset."""
        return self.offset


@dataclass(frozen=True, slots=True)
class NamedZone:
    """A zone of the time zone database."""

    info: ZoneInfo

    def at(self, seconds: int, /) -> Offset:
        """Return what holds then; before and after Python's calendar, what its first day has and what its last 400 years repeat."""
        if seconds >= _LATEST:
            cycle = _CYCLE_DAYS * DAY
            seconds = _LATEST - cycle + (seconds - _LATEST) % cycle
        moment = (_EPOCH + timedelta(seconds=max(seconds, _EARLIEST))).astimezone(self.info)
        return Offset(moment.tzname() or "", int((moment.utcoffset() or timedelta()).total_seconds()))


UTC_ZONE: Final = FixedZone(Offset("UTC", 0))


def location(name: str) -> Zone:
    """Return a zone by its name (time.LoadLocation); what is none, and the machine's own, is UTC."""
    if name in ("", "UTC", "Local"):
        return UTC_ZONE
    try:
        return NamedZone(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC_ZONE


class Calendar(NamedTuple):
    """A date and the time of the day; the day of the week counts from Monday, that of the year from 1."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int
    yearday: int


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment: seconds after 1970, nanoseconds of the second, and the zone in which it is shown."""

    seconds: int
    nanoseconds: int
    zone: Zone

    @classmethod
    def at(cls, nanoseconds: int, zone: Zone) -> Instant:
        """Return the moment so many nanoseconds after 1970; its seconds overflow as in Go, which counts them from the year 1."""
        seconds, rest = divmod(nanoseconds, SECOND)
        return cls(_wrapped(seconds + _FROM_YEAR_1) - _FROM_YEAR_1, rest, zone)

    @property
    def unix(self) -> int:
        """Seconds after 1970, as an int64."""
        return _wrapped(self.seconds)

    @property
    def unix_nanoseconds(self) -> int:
        """Nanoseconds after 1970, as an int64."""
        return _wrapped(self.seconds * SECOND + self.nanoseconds)

    def offset(self) -> Offset:
        """Return what its zone says of it."""
        return self.zone.at(self.unix)

    def calendar(self) -> Calendar:
        """Return its date and time in its zone."""
        local = (self.seconds + self.offset().seconds + _FROM_FIRST_DAY) % _WORD - _FROM_FIRST_DAY
        days, rest = divmod(local, DAY)
        cycle, days = divmod(days, _CYCLE_DAYS)
        found = date.fromordinal(_EPOCH_ORDINAL + days)
        time_of_day = (rest // 3600, rest // 60 % 60, rest % 60)
        year = found.year + _CYCLE_YEARS * cycle
        return Calendar(year, found.month, found.day, *time_of_day, found.weekday(), found.timetuple().tm_yday)

    def moved(self, nanoseconds: int) -> Instant:
        """Return the moment a duration later (Time.Add)."""
        return Instant.at(self.seconds * SECOND + self.nanoseconds + nanoseconds, self.zone)

    def shown_in(self, zone: Zone) -> Instant:
        """Return the same moment in another zone (Time.In)."""
        return Instant(self.seconds, self.nanoseconds, zone)

    def since(self, other: Instant) -> int:
        """Return the nanoseconds after another moment, at most what a duration holds (Time.Sub)."""
        passed = (self.seconds - other.seconds) * SECOND + self.nanoseconds - other.nanoseconds
        return max(-_INT64, min(_INT64 - 1, passed))


def _wrapped(number: int) -> int:
    return (number + _INT64) % _WORD - _INT64


def is_leap(year: int) -> bool:
    """Return whether a year has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % _CYCLE_YEARS == 0)


def days_in(month: int, year: int) -> int:
    """Return how many days a month has."""
    return (31, 29 if is_leap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def seconds_of(year: int, month: int, day: int) -> int:
    """Return the seconds from 1970 to the beginning of a day, in UTC."""
    cycle, year = divmod(year - 1970, _CYCLE_YEARS)
    days = date(1970 + year, month, day).toordinal() - _EPOCH_ORDINAL
    return (days + cycle * _CYCLE_DAYS) * DAY
