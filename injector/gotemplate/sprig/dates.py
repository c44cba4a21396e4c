"""Dates (sprig's date.go), by a clock that the caller gives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig.gotime import (
    DAY,
    SECOND,
    UTC_ZONE,
    Instant,
    format_time,
    go_duration,
    location,
    parse_duration,
    parse_time,
    seconds_of,
)
from injector.gotemplate.sprig.numeric import atoi
from injector.gotemplate.values import Func, Int64, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_INT64: Final = 1 << 63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO: Final = Instant.at(seconds_of(1, 1, 1) * SECOND, UTC_ZONE)
_LAST_YEAR: Final = 9999
_NO_JSON: Final = "json: error calling MarshalJSON for type time.Time: Time.MarshalJSON"


class TimeStruct(Struct):
    """Go's time.Time as templates see it."""

    __slots__ = ("instant",)

    def __init__(self, instant: Instant) -> None:
        self.instant = instant

    @property
    def go_type(self) -> str:
        """The Go type."""
        return "time.Time"

    def field(self, name: str) -> Any:
        """Return a field; Go's has none that is exported."""
        raise KeyError(name)

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield nothing: Go's fields are not exported."""
        return iter(())

    def go_string(self) -> str:
        """Return it as Time.String prints it."""
        return format_time(self.instant, "2006-01-02 15:04:05.999999999 -0700 MST")

    def json_value(self) -> str:
        """Return it as MarshalJSON prints it.

        Raises:
            FuncError: RFC 3339 has no such year or offset; with Go's words.
        """
        if not 0 <= self.instant.calendar().year <= _LAST_YEAR:
            raise FuncError(f"{_NO_JSON}: year outside of range [0,{_LAST_YEAR}]")
        if abs(self.instant.offset().seconds) >= DAY:
            raise FuncError(f"{_NO_JSON}: timezone hour outside of range [0,23]")
        return format_time(self.instant, "2006-01-02T15:04:05.999999999Z07:00")

    def method(self, name: str) -> Func | None:
        """Return a method that templates use: the parts, Unix and Format."""
        moment = self.instant.calendar()
        numbers = {
            "Year": moment.year,
            "Day": moment.day,
            "Hour": moment.hour,
            "Minute": moment.minute,
            "Second": moment.second,
            "YearDay": moment.yearday,
        }
        if name in numbers:
            return Func(name, "func() int", lambda: numbers[name])
        if name == "Unix":
            return Func(name, "func() int64", lambda: Int64(self.instant.unix))
        if name == "UnixNano":
            return Func(name, "func() int64", lambda: Int64(self.instant.unix_nanoseconds))
        if name == "Format":
            return Func(name, "func(string) string", lambda layout: format_time(self.instant, layout))
        if name == "UTC":
            return Func(name, "func() time.Time", lambda: TimeStruct(self.instant.shown_in(UTC_ZONE)))
        return Func(name, "func() string", self.go_string) if name == "String" else None


@dataclass(frozen=True, slots=True)
class Dates:
    """The functions that need to know what time it is."""

    clock: Callable[[], datetime]

    def now(self) -> TimeStruct:
        """Return the current time."""
        nanoseconds = (self.clock() - _EPOCH) // timedelta(microseconds=1) * 1000
        return TimeStruct(Instant.at(nanoseconds, UTC_ZONE))

    def _instant(self, value: Any) -> Instant:
        if isinstance(value, TimeStruct):
            return value.instant
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and getattr(value, "go_type", "int") in ("int", "int64", "int32")
        ):
            return Instant.at(int(value) * SECOND, UTC_ZONE)
        return self.now().instant

    def date_in_zone(self, layout: str, value: Any, zone: str) -> str:
        """Return a date in a layout and a zone; an unknown zone is UTC."""
        return format_time(self._instant(value).shown_in(location(zone)), layout)

    def date(self, layout: str, value: Any) -> str:
        """Return a date in a layout; the local zone is UTC here, whatever the machine's."""
        return self.date_in_zone(layout, value, "UTC")

    def html_date(self, value: Any) -> str:
        """Return a date as year, month and day."""
        return self.date("2006-01-02", value)

    def html_date_in_zone(self, value: Any, zone: str) -> str:
        """Return a date as year, month and day in a zone."""
        return self.date_in_zone("2006-01-02", value, zone)

    def ago(self, value: Any) -> str:
        """Return the time since a date, to the second."""
        return go_duration(_rounded(self.now().instant.since(self._instant(value))))

    def duration_round(self, value: Any) -> str:
        """Return a duration in its largest unit."""
        nanoseconds = 0
        if isinstance(value, str):
            nanoseconds = _duration_or_zero(value)
        elif isinstance(value, TimeStruct):
            nanoseconds = self.now().instant.since(value.instant)
        elif getattr(value, "go_type", "") == "int64":
            nanoseconds = int(value)
        for unit, seconds in _UNITS:
            if abs(nanoseconds) > seconds * SECOND:
                return f"{abs(nanoseconds) // (seconds * SECOND)}{unit}"
        return "0s"


_UNITS: Final = (("y", 365 * 86400), ("mo", 30 * 86400), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def _rounded(nanoseconds: int) -> int:
    """Return a duration to the second, halves away from zero (Duration.Round); what is too long for that stays."""
    whole = (abs(nanoseconds) + SECOND // 2) // SECOND * SECOND
    rounded = -whole if nanoseconds < 0 else whole
    return rounded if -_INT64 <= rounded < _INT64 else nanoseconds


def _duration_or_zero(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError:
        return 0


def date_modify(text: str, value: TimeStruct) -> TimeStruct:
    """Return a date moved by a duration; a text that is none moves nothing."""
    return TimeStruct(value.instant.moved(_duration_or_zero(text)))


def must_date_modify(text: str, value: TimeStruct) -> TimeStruct:
    """Return a date moved by a duration."""
    try:
        return TimeStruct(value.instant.moved(parse_duration(text)))
    except ValueError as error:
        raise FuncError(str(error)) from error


def duration(value: Any) -> str:
    """Return a number of seconds as a duration."""
    seconds = 0
    if isinstance(value, str):
        seconds = atoi(value)
    elif getattr(value, "go_type", "") == "int64":
        seconds = int(value)
    return go_duration((seconds * SECOND + _INT64) % (2 * _INT64) - _INT64)


def to_date(layout: str, text: str) -> TimeStruct:
    """Return a date read in a layout; the zero time where it is none."""
    try:
        return TimeStruct(parse_time(layout, text))
    except FuncError:
        return TimeStruct(_ZERO)


def must_to_date(layout: str, text: str) -> TimeStruct:
    """Return a date read in a layout."""
    return TimeStruct(parse_time(layout, text))


def unix_epoch(value: TimeStruct) -> str:
    """Return a date in seconds since 1970."""
    return str(value.instant.unix)
