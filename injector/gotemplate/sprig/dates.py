"""Dates and durations (sprig's date.go), by a clock that the caller gives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from injector.golang import time as gotime
from injector.golang.time import SECOND, UnsupportedDateError, go_duration, parse_duration
from injector.gotemplate import costs
from injector.gotemplate.budget import check_size, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.sprig.numeric import atoi
from injector.gotemplate.values import Func, Int64, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FUNCTIONS: Final = FuncMap()

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


class TimeStruct(Struct):
    """Go's time.Time as templates see it."""

    __slots__ = ("time",)

    def __init__(self, time: datetime) -> None:
        self.time = time

    @property
    def go_type(self) -> str:
        """The Go type."""
        return "time.Time"

    def field(self, name: str) -> Any:
        """Return a field; Go's type exports none."""
        raise KeyError(name)

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield nothing: Go's type exports no fields."""
        return iter(())

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
            "UnixNano": ("func() int64", lambda: Int64(_wrap(nanoseconds))),
            "Format": ("func(string) string", self.format),
            "UTC": ("func() time.Time", self.utc),
            "String": ("func() string", self.go_string),
        }
        return Func(name, *methods[name]) if name in methods else None


def _wrap(number: int) -> int:
    """Return a number as an int64, which overflows."""
    return (number + _INT64) % (2 * _INT64) - _INT64


@dataclass(frozen=True, slots=True)
class Dates:
    """The functions that read the clock."""

    clock: Callable[[], datetime]

    def now(self) -> TimeStruct:
        """Return the current time."""
        return TimeStruct(self.clock().astimezone(UTC))

    def _time(self, value: Any) -> datetime:
        if isinstance(value, TimeStruct):
            return value.time
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and getattr(value, "go_type", "int") in ("int", "int64", "int32")
        ):
            return gotime.from_unix(value)
        return self.now().time

    @_go_errors
    def date_in_zone(self, layout: str, value: Any, zone: str) -> str:
        """Return a date in a layout and a zone; an unknown zone is UTC."""
        return TimeStruct(gotime.in_zone(self._time(value), zone)).format(layout)

    def date(self, layout: str, value: Any) -> str:
        """Return a date in a layout. The local zone is always UTC, whatever the machine's is."""
        return self.date_in_zone(layout, value, "UTC")

    def html_date(self, value: Any) -> str:
        """Return a date as year, month and day."""
        return self.date("2006-01-02", value)

    def html_date_in_zone(self, value: Any, zone: str) -> str:
        """Return a date as year, month and day in a zone."""
        return self.date_in_zone("2006-01-02", value, zone)

    def _since(self, time: datetime) -> int:
        """Return the nanoseconds since a time, limited to those of a duration (Time.Sub)."""
        passed = gotime.unix_nanoseconds(self.now().time) - gotime.unix_nanoseconds(time)
        return max(-_INT64, min(_INT64 - 1, passed))

    @_go_errors
    def ago(self, value: Any) -> str:
        """Return the time since a date, to the second."""
        return go_duration(_rounded(self._since(self._time(value))))

    def duration_round(self, value: Any) -> str:
        """Return a duration in its largest unit."""
        nanoseconds = 0
        if isinstance(value, str):
            nanoseconds = _duration_or_zero(value)
        elif isinstance(value, TimeStruct):
            nanoseconds = self._since(value.time)
        elif getattr(value, "go_type", "") == "int64":
            nanoseconds = int(value)
        for unit, seconds in _UNITS:
            if abs(nanoseconds) > seconds * SECOND:
                return f"{abs(nanoseconds) // (seconds * SECOND)}{unit}"
        return "0s"


def date_functions(clock: Callable[[], datetime]) -> FuncMap:
    """Return the functions that read a clock."""
    dates, functions = Dates(clock), FuncMap()
    for signature, cost, call, *names in (
        ("func() time.Time", costs.SCAN, dates.now, "now"),
        ("func(interface {}) string", costs.DATES, dates.ago, "ago"),
        ("func(string, interface {}) string", costs.DATES, dates.date, "date"),
        ("func(string, interface {}, string) string", costs.DATES, dates.date_in_zone, "date_in_zone", "dateInZone"),
        ("func(interface {}) string", costs.DATES, dates.html_date, "htmlDate"),
        ("func(interface {}, string) string", costs.DATES, dates.html_date_in_zone, "htmlDateInZone"),
        ("func(interface {}) string", costs.DURATIONS, dates.duration_round, "durationRound"),
    ):
        functions.define(signature, *names, cost=cost, hermetic=False)(call)
    return functions


_UNITS: Final = (("y", 365 * 86400), ("mo", 30 * 86400), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def _rounded(nanoseconds: int) -> int:
    """Return a duration to the second, halves away from zero (Duration.Round); unchanged if the result overflows."""
    whole = (abs(nanoseconds) + SECOND // 2) // SECOND * SECOND
    rounded = -whole if nanoseconds < 0 else whole
    return rounded if -_INT64 <= rounded < _INT64 else nanoseconds


def _duration_or_zero(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError:
        return 0


@FUNCTIONS.define("func(string, time.Time) time.Time", "date_modify", "dateModify", cost=costs.DURATIONS)
@_go_errors
def date_modify(text: str, value: TimeStruct) -> TimeStruct:
    """Return a date moved by a duration; unchanged if the text is not a duration."""
    return TimeStruct(gotime.add_duration(value.time, _duration_or_zero(text)))


@FUNCTIONS.define(
    "func(string, time.Time) (time.Time, error)", "must_date_modify", "mustDateModify", cost=costs.DURATIONS
)
@_go_errors
def must_date_modify(text: str, value: TimeStruct) -> TimeStruct:
    """Return a date moved by a duration."""
    return TimeStruct(gotime.add_duration(value.time, parse_duration(text)))


@FUNCTIONS.define("func(interface {}) string", "duration", cost=costs.DURATIONS)
def duration(value: Any) -> str:
    """Return a number of seconds as a duration."""
    seconds = 0
    if isinstance(value, str):
        seconds = atoi(value)
    elif getattr(value, "go_type", "") == "int64":
        seconds = int(value)
    return go_duration(_wrap(seconds * SECOND))


@FUNCTIONS.define("func(string, string) (time.Time, error)", "mustToDate", cost=costs.DATES)
@_go_errors
def must_to_date(layout: str, text: str) -> TimeStruct:
    """Return the date that a text gives in a layout."""
    spend(_STEPS * (len(layout) + len(text)))
    return TimeStruct(gotime.parse_time(layout, text))


@FUNCTIONS.define("func(string, string) time.Time", "toDate", cost=costs.DATES)
@_go_errors
def to_date(layout: str, text: str) -> TimeStruct:
    """Return the date that a text gives in a layout; the zero time if it is not a date."""
    spend(_STEPS * (len(layout) + len(text)))
    try:
        return TimeStruct(gotime.parse_time(layout, text))
    except ValueError:
        return TimeStruct(_ZERO)


@FUNCTIONS.define("func(time.Time) string", "unixEpoch", cost=costs.SCAN)
def unix_epoch(value: TimeStruct) -> str:
    """Return a date in seconds since 1970."""
    return str(gotime.unix_nanoseconds(value.time) // SECOND)
