"""Dates (sprig's date.go) with Go's layouts (package time), by a clock that the caller gives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from injector.gotemplate.budget import check_size, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig.durations import go_duration, parse_duration
from injector.gotemplate.sprig.numeric import atoi
from injector.gotemplate.values import Func, Int64, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SECOND: Final = 1_000_000_000
_INT64: Final = 1 << 63
_FORMATTED: Final = 4
"""Steps of a character of a layout."""
_LONGEST_LAYOUT: Final = 128
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS: Final = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905 - a list of names
)
_DAYS: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # noqa: SIM905 - a list of names
_TOKENS = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|__2|002|_2|01|02|03|04|05|06|PM|pm|15|-07:00:00|-070000|-07:00|-0700|-07"
    r"|Z07:00:00|Z070000|Z07:00|Z0700|Z07|[.,]0+(?!\d)|[.,]9+(?!\d)|1|2|3|4|5"
)


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment to the nanosecond, shown in a time zone."""

    nanoseconds: int
    zone: Any

    def local(self) -> datetime:
        """Return it as a datetime in its zone, to the second.

        Raises:
            FuncError: its year is none from 1 to 9999, which Go alone knows.
        """
        try:
            return (_EPOCH + timedelta(seconds=self.nanoseconds // _SECOND)).astimezone(self.zone)
        except OverflowError as error:
            raise FuncError("the year of a time is beyond 1 to 9999") from error


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
        """Return it as MarshalJSON prints it."""
        return format_time(self.instant, "2006-01-02T15:04:05.999999999Z07:00")

    def method(self, name: str) -> Func | None:
        """Return a method that templates use: the parts, Unix and Format."""
        moment = self.instant.local()
        numbers = {
            "Year": moment.year,
            "Day": moment.day,
            "Hour": moment.hour,
            "Minute": moment.minute,
            "Second": moment.second,
            "YearDay": moment.timetuple().tm_yday,
        }
        if name in numbers:
            return Func(name, "func() int", lambda: numbers[name])
        if name == "Unix":
            return Func(name, "func() int64", lambda: Int64(self.instant.nanoseconds // _SECOND))
        if name == "UnixNano":
            return Func(name, "func() int64", lambda: Int64(self.instant.nanoseconds))
        if name == "Format":
            return Func(name, "func(string) string", lambda layout: format_time(self.instant, layout))
        if name == "UTC":
            return Func(name, "func() time.Time", lambda: TimeStruct(Instant(self.instant.nanoseconds, UTC)))
        return Func(name, "func() string", self.go_string) if name == "String" else None


def format_time(instant: Instant, layout: str) -> str:
    """Return a moment in Go's layout."""
    spend(_FORMATTED * len(layout))
    moment = instant.local()
    parts = _parts(moment)

    def shown(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] in ".,":
            return _fraction(instant, token)
        return _offset(moment, token) if token[0] in "-Z" else parts[token]

    text = _TOKENS.sub(shown, layout)
    check_size(len(text), "date")
    return text


def _parts(moment: datetime) -> dict[str, str]:
    """Return what a moment's tokens stand for, but for fractions and offsets."""
    hour = moment.hour % 12 or 12
    return {
        "January": _MONTHS[moment.month - 1],
        "Jan": _MONTHS[moment.month - 1][:3],
        "Monday": _DAYS[moment.weekday()],
        "Mon": _DAYS[moment.weekday()][:3],
        "MST": _zone_name(moment),
        "2006": f"{moment.year:04d}",
        "06": f"{moment.year % 100:02d}",
        "01": f"{moment.month:02d}",
        "1": str(moment.month),
        "02": f"{moment.day:02d}",
        "_2": f"{moment.day:2d}",
        "2": str(moment.day),
        "__2": f"{moment.timetuple().tm_yday:3d}",
        "002": f"{moment.timetuple().tm_yday:03d}",
        "15": f"{moment.hour:02d}",
        "03": f"{hour:02d}",
        "3": str(hour),
        "04": f"{moment.minute:02d}",
        "4": str(moment.minute),
        "05": f"{moment.second:02d}",
        "5": str(moment.second),
        "PM": "PM" if moment.hour >= 12 else "AM",  # noqa: PLR2004 - noon
        "pm": "pm" if moment.hour >= 12 else "am",  # noqa: PLR2004 - noon
    }


def _fraction(instant: Instant, token: str) -> str:
    digits = f"{instant.nanoseconds % _SECOND:09d}"[: len(token) - 1]
    if token[1] == "9":
        digits = digits.rstrip("0")
        return token[0] + digits if digits else ""
    return token[0] + digits.ljust(len(token) - 1, "0")


def _offset(moment: datetime, token: str) -> str:
    seconds = int((moment.utcoffset() or timedelta()).total_seconds())
    if token.startswith("Z"):
        if seconds == 0:
            return "Z"
        token = "-" + token[1:]
    sign, seconds = ("-", -seconds) if seconds < 0 else ("+", seconds)
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    colon = ":" if ":" in token else ""
    parts = [f"{hours:02d}", f"{minutes:02d}", f"{rest:02d}"][: len(token.replace(":", "")) // 2]
    return sign + colon.join(parts)


def _zone_name(moment: datetime) -> str:
    name = moment.tzname() or ""
    if name.startswith("UTC") and len(name) > 3:  # noqa: PLR2004 - a zone known by its offset alone
        return _offset(
            moment,
            "-07"
            if moment.utcoffset() == timedelta(hours=(moment.utcoffset() or timedelta()).total_seconds() // 3600)
            else "-0700",
        )
    return name


# As in Go, what has been read is not tried again in another way.
_PARSED: Final = {
    "2006": r"(?P<year>\d{4})",
    "06": r"(?P<year2>\d{2})",
    "01": r"(?P<month>\d{2})",
    "1": r"(?P<month>\d{1,2}+)",
    "02": r"(?P<day>\d{1,2}+)",
    "_2": r"(?P<day>\s?+\d{1,2}+)",
    "2": r"(?P<day>\d{1,2}+)",
    "15": r"(?P<hour>\d{1,2}+)",
    "03": r"(?P<hour12>\d{1,2}+)",
    "3": r"(?P<hour12>\d{1,2}+)",
    "04": r"(?P<minute>\d{2})",
    "4": r"(?P<minute>\d{1,2}+)",
    "05": r"(?P<second>\d{2})(?P<fraction>\.\d++)?+",
    "5": r"(?P<second>\d{1,2}+)(?P<fraction>\.\d++)?+",
    "PM": r"(?P<noon>AM|PM)",
    "pm": r"(?P<noon>am|pm)",
    "MST": r"(?P<zone>[A-Z]{3,4}+)",
    "Jan": r"(?P<name>[A-Za-z]{3})",
    "January": r"(?P<name>[A-Za-z]++)",
    "Mon": r"[A-Za-z]{3}",
    "Monday": r"[A-Za-z]++",
}
_GROUP = re.compile(r"\(\?P<(\w+)>")


def parse_time(layout: str, text: str) -> Instant:
    """Read a date in Go's layout.

    Raises:
        FuncError: it is none; with Go's words.
    """
    if len(layout) > _LONGEST_LAYOUT:
        raise FuncError(f"layout too long: {len(layout)} > {_LONGEST_LAYOUT}")
    pattern, position = "", 0
    for match in _TOKENS.finditer(layout):
        pattern += re.escape(layout[position : match.start()])
        token = match[0]
        default = r"(?P<offset>Z|[-+]\d{2}+:?+\d{0,2}+)" if token[0] in "-Z" else r"(?:[.,]\d++)?+"
        # A field may be there twice, a group may not.
        pattern += _GROUP.sub(rf"(?P<\1_{position}>", _PARSED.get(token, default))
        position = match.end()
    pattern += re.escape(layout[position:])
    found = re.fullmatch(pattern, text, re.ASCII)
    if found is None:
        raise FuncError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "{_first_token(layout)}"')
    # As in Go, what comes last counts.
    parts = {name.partition("_")[0]: value for name, value in found.groupdict().items() if value is not None}
    return _instant(text, parts)


def _first_token(layout: str) -> str:
    match = _TOKENS.search(layout)
    return match[0] if match is not None else layout


def _instant(text: str, parts: dict[str, str]) -> Instant:
    def number(name: str, default: int) -> int:
        return int(parts.get(name) or default)

    month = number("month", 1)
    if parts.get("name"):
        names = [known for known in _MONTHS if known.lower().startswith(str(parts["name"]).lower())]
        month = _MONTHS.index(names[0]) + 1 if names else 0
    short = number("year2", 0)
    year = number("year", (short + (1900 if short >= 69 else 2000)) if parts.get("year2") else 0)  # noqa: PLR2004 - Go's pivot
    hour = number("hour", 0)
    if parts.get("hour12"):
        hour = number("hour12", 0) % 12 + (12 if str(parts.get("noon")).upper() == "PM" else 0)
    try:
        zone = _zone_of(parts.get("offset"))
        moment = datetime(
            max(year, 1), month, number("day", 1), hour, number("minute", 0), number("second", 0), tzinfo=zone
        )
    except ValueError as error:
        field = "month" if not 1 <= month <= 12 else "day"  # noqa: PLR2004 - a year's months
        raise FuncError(f'parsing time "{text}": {field} out of range') from error
    seconds = int((moment - _EPOCH).total_seconds())
    fraction = (parts.get("fraction") or ".0")[1:10].ljust(9, "0")
    return Instant(seconds * _SECOND + int(fraction), zone)


def _zone_of(offset: str | None) -> Any:
    if offset in (None, "", "Z"):
        return UTC
    digits = str(offset)[1:].replace(":", "").ljust(4, "0")
    delta = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
    return timezone(-delta if str(offset).startswith("-") else delta)


@dataclass(frozen=True, slots=True)
class Dates:
    """The functions that need to know what time it is."""

    clock: Callable[[], datetime]

    def now(self) -> TimeStruct:
        """Return the current time."""
        moment = self.clock()
        nanoseconds = int((moment - _EPOCH) / timedelta(microseconds=1)) * 1000
        return TimeStruct(Instant(nanoseconds, UTC))

    def _instant(self, value: Any) -> Instant:
        if isinstance(value, TimeStruct):
            return value.instant
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and getattr(value, "go_type", "int") in ("int", "int64", "int32")
        ):
            return Instant(int(value) * _SECOND, UTC)
        return self.now().instant

    def date_in_zone(self, layout: str, value: Any, zone: str) -> str:
        """Return a date in a layout and a zone; an unknown zone is UTC."""
        instant = self._instant(value)
        return format_time(Instant(instant.nanoseconds, _location(zone)), layout)

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
        passed = self.now().instant.nanoseconds - self._instant(value).nanoseconds
        return go_duration((passed + _SECOND // 2) // _SECOND * _SECOND)

    def duration_round(self, value: Any) -> str:
        """Return a duration in its largest unit."""
        nanoseconds = 0
        if isinstance(value, str):
            nanoseconds = _duration_or_zero(value)
        elif isinstance(value, TimeStruct):
            nanoseconds = self.now().instant.nanoseconds - value.instant.nanoseconds
        elif getattr(value, "go_type", "") == "int64":
            nanoseconds = int(value)
        for unit, seconds in _UNITS:
            if abs(nanoseconds) > seconds * _SECOND:
                return f"{abs(nanoseconds) // (seconds * _SECOND)}{unit}"
        return "0s"


_UNITS: Final = (("y", 365 * 86400), ("mo", 30 * 86400), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def _location(zone: str) -> Any:
    if zone in ("", "UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _duration_or_zero(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError:
        return 0


def date_modify(text: str, value: TimeStruct) -> TimeStruct:
    """Return a date moved by a duration; a text that is none moves nothing."""
    return TimeStruct(Instant(value.instant.nanoseconds + _duration_or_zero(text), value.instant.zone))


def must_date_modify(text: str, value: TimeStruct) -> TimeStruct:
    """Return a date moved by a duration."""
    try:
        return TimeStruct(Instant(value.instant.nanoseconds + parse_duration(text), value.instant.zone))
    except ValueError as error:
        raise FuncError(str(error)) from error


def duration(value: Any) -> str:
    """Return a number of seconds as a duration."""
    seconds = 0
    if isinstance(value, str):
        seconds = atoi(value)
    elif getattr(value, "go_type", "") == "int64":
        seconds = int(value)
    return go_duration((seconds * _SECOND + _INT64) % (2 * _INT64) - _INT64)


def to_date(layout: str, text: str) -> TimeStruct:
    """Return a date read in a layout; the zero time where it is none."""
    try:
        return TimeStruct(parse_time(layout, text))
    except FuncError:
        return TimeStruct(Instant(int((datetime(1, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds()) * _SECOND, UTC))


def must_to_date(layout: str, text: str) -> TimeStruct:
    """Return a date read in a layout."""
    return TimeStruct(parse_time(layout, text))


def unix_epoch(value: TimeStruct) -> str:
    """Return a date in seconds since 1970."""
    return str(value.instant.nanoseconds // _SECOND)
