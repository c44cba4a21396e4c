"""Dates and durations (sprig's date.go), by a clock that the caller gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, wraps
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from injector.golang import time as gotime
from injector.golang.time import SECOND, UnsupportedDateError, go_duration, parse_duration
from injector.gotemplate import costs
from injector.gotemplate.budget import check_size, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.sprig.numeric import atoi, wrap_int64
from injector.gotemplate.values import Func, Int64, OpaqueStruct, type_of

Clock: TypeAlias = "Callable[[], datetime]"

FUNCTIONS: Final = FuncMap()
CLOCKED: Final = FuncMap()
"""Functions whose first argument is a clock."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
_INT64: Final = 1 << 63
_STEPS: Final = 8
"""Steps for each character of a layout, or of a text to read."""
_ZERO: Final = datetime(1, 1, 1, tzinfo=UTC)


def _go_errors(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function whose errors are those of a template function."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except (ValueError, UnsupportedDateError) as error:
            raise FuncError(str(error)) from error

    return call


@dataclass(frozen=True, slots=True)
class TimeStruct(OpaqueStruct):
    """Go's time.Time as templates see it."""

    time: datetime

    go_type = "time.Time"

    def go_string(self) -> str:
        """Return it as Time.String prints it."""
        return self.format("2006-01-02 15:04:05.999999999 -0700 MST")

    def json_value(self) -> str:
        """Return it as MarshalJSON prints it."""
        return self.format("2006-01-02T15:04:05.999999999Z07:00")

    def format(self, layout: str) -> str:
        """Return it in Go's layout."""
        spend(_STEPS * len(layout))
        text = gotime.format_time(self.time, layout)
        check_size(len(text), "date")
        return text

    @_go_errors
    def utc(self) -> TimeStruct:
        """Return the same time in UTC."""
        return TimeStruct(gotime.in_zone(self.time, "UTC"))

    def method(self, name: str) -> Func | None:
        """Return a method that templates use: the parts, Unix, UnixNano, UTC, String and Format."""
        if name in ("Year", "Day", "Hour", "Minute", "Second"):
            return Func(name, "func() int", lambda: getattr(self.time, name.lower()))
        nanoseconds = gotime.unix_nanoseconds(self.time)
        methods: dict[str, tuple[str, Callable[..., Any]]] = {
            "YearDay": ("func() int", lambda: self.time.timetuple().tm_yday),
            "Unix": ("func() int64", lambda: Int64(nanoseconds // SECOND)),
            "UnixNano": ("func() int64", lambda: wrap_int64(nanoseconds)),
            "Format": ("func(string) string", self.format),
            "UTC": ("func() time.Time", self.utc),
            "String": ("func() string", self.go_string),
        }
        return Func(name, *methods[name]) if name in methods else None


@CLOCKED.define("func() time.Time", "now", cost=costs.SCAN)
def now(clock: Clock) -> TimeStruct:
    """Return the current time."""
    return TimeStruct(clock().astimezone(UTC))


def _time(clock: Clock, value: Any) -> datetime:
    """Return the time of an argument: a date, a number of seconds since 1970, or the current time."""
    if isinstance(value, TimeStruct):
        return value.time
    if type_of(value) in ("int", "int64", "int32"):
        return gotime.from_unix(value)
    return now(clock).time


@CLOCKED.define("func(string, interface {}, string) string", "date_in_zone", "dateInZone", cost=costs.DATES)
@_go_errors
def date_in_zone(clock: Clock, layout: str, value: Any, zone: str) -> str:
    """Return a date in a layout and a zone; an unknown zone is UTC."""
    return TimeStruct(gotime.in_zone(_time(clock, value), zone)).format(layout)


# The local zone is always UTC, whatever the machine's is.
for _name, _signature, _call in (
    (
        "date",
        "func(string, interface {}) string",
        lambda clock, layout, value: date_in_zone(clock, layout, value, "UTC"),
    ),
    ("htmlDate", "func(interface {}) string", lambda clock, value: date_in_zone(clock, "2006-01-02", value, "UTC")),
    (
        "htmlDateInZone",
        "func(interface {}, string) string",
        lambda clock, value, zone: date_in_zone(clock, "2006-01-02", value, zone),
    ),
):
    CLOCKED.add(_name, _signature, _call, costs.DATES)


def _since(clock: Clock, time: datetime) -> int:
    """Return the nanoseconds since a time, limited to those of a duration (Time.Sub)."""
    passed = gotime.unix_nanoseconds(now(clock).time) - gotime.unix_nanoseconds(time)
    return max(-_INT64, min(_INT64 - 1, passed))


@CLOCKED.define("func(interface {}) string", "ago", cost=costs.DATES)
@_go_errors
def ago(clock: Clock, value: Any) -> str:
    """Return the time since a date, to the second."""
    return go_duration(_round(_since(clock, _time(clock, value))))


@CLOCKED.define("func(interface {}) string", "durationRound", cost=costs.DURATIONS)
def duration_round(clock: Clock, value: Any) -> str:
    """Return a duration in its largest unit."""
    nanoseconds = 0
    if isinstance(value, str):
        nanoseconds = _duration_or_zero(value)
    elif isinstance(value, TimeStruct):
        nanoseconds = _since(clock, value.time)
    elif type_of(value) == "int64":
        nanoseconds = int(value)
    for unit, seconds in _UNITS:
        if abs(nanoseconds) > seconds * SECOND:
            return f"{abs(nanoseconds) // (seconds * SECOND)}{unit}"
    return "0s"


_UNITS: Final = (("y", 365 * 86400), ("mo", 30 * 86400), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def _round(nanoseconds: int) -> int:
    """Return a duration to the second, halves away from zero (Duration.Round); unchanged if the result overflows."""
    whole = (abs(nanoseconds) + SECOND // 2) // SECOND * SECOND
    rounded = -whole if nanoseconds < 0 else whole
    return rounded if -_INT64 <= rounded < _INT64 else nanoseconds


def _duration_or_zero(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError:
        return 0


def _modify(read: Callable[[str], int], text: str, value: TimeStruct) -> TimeStruct:
    """Return a date moved by a duration."""
    return TimeStruct(gotime.add_duration(value.time, read(text)))


for _names, _result, _read_duration in (
    (("date_modify", "dateModify"), "time.Time", _duration_or_zero),
    (("must_date_modify", "mustDateModify"), "(time.Time, error)", parse_duration),
):
    FUNCTIONS.define(f"func(string, time.Time) {_result}", *_names, cost=costs.DURATIONS)(
        _go_errors(partial(_modify, _read_duration))
    )


@FUNCTIONS.define("func(interface {}) string", "duration", cost=costs.DURATIONS)
def duration(value: Any) -> str:
    """Return a number of seconds as a duration."""
    seconds = 0
    if isinstance(value, str):
        seconds = atoi(value)
    elif type_of(value) == "int64":
        seconds = int(value)
    return go_duration(wrap_int64(seconds * SECOND))


def _read(layout: str, text: str) -> TimeStruct:
    spend(_STEPS * (len(layout) + len(text)))
    return TimeStruct(gotime.parse_time(layout, text))


FUNCTIONS.add("mustToDate", "func(string, string) (time.Time, error)", _go_errors(_read), costs.DATES)


@FUNCTIONS.define("func(string, string) time.Time", "toDate", cost=costs.DATES)
@_go_errors
def to_date(layout: str, text: str) -> TimeStruct:
    """Return the date that a text gives in a layout; the zero time if it is not a date."""
    try:
        return _read(layout, text)
    except ValueError:
        return TimeStruct(_ZERO)


@FUNCTIONS.define("func(time.Time) string", "unixEpoch", cost=costs.SCAN)
def unix_epoch(value: TimeStruct) -> str:
    """Return a date in seconds since 1970."""
    return str(gotime.unix_nanoseconds(value.time) // SECOND)
