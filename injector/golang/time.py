"""Package time (Go 1.26): durations, dates in Go's layouts, and RFC 3339 as metav1.Time reads and writes it.

Dates are Python's ``datetime``: the years 1 to 9999, to the microsecond. Go has more. ``UnsupportedDateError`` is raised for a date, a
layout or a text that Go accepts and this module does not.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import zip_longest
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from injector.errors import ManifestError
from injector.golang.strconv import to_bytes

SECOND: Final = 1_000_000_000
_MICROSECOND: Final = 1_000
_INT64_MAX: Final = 2**63 - 1

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_NUMBER_AND_UNIT: Final = re.compile(r"(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?(?P<unit>[^0-9.]*+)")
_MAX_DIGITS: Final = 20
"""Numbers with more digits do not fit into 64 bits."""
_TO_ESCAPE: Final = re.compile(r'["\\]|[^\x20-\x7f]')


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration such as ``1m30s`` or ``45s`` (time.ParseDuration). Raises ValueError with Go's text."""
    body = text[1:] if text[:1] in ("+", "-") else text
    negative = text.startswith("-")
    if body == "0":
        return 0
    position, total = 0, 0
    while position < len(body) or not body:
        match = _NUMBER_AND_UNIT.match(body, position)
        if match is None or not (match["whole"] or match["fraction"]):
            raise _invalid_duration("invalid", text)
        total += _nanoseconds(match, text)
        if total > _INT64_MAX + 1:
            raise _invalid_duration("invalid", text)
        position = match.end()
    if total > _INT64_MAX + negative:
        raise _invalid_duration("invalid", text)
    return -total if negative else total


def _invalid_duration(fault: str, text: str) -> ValueError:
    return ValueError(f"time: {fault} duration {_quote(text)}")


def _nanoseconds(match: re.Match[str], text: str) -> int:
    whole = int(match["whole"].lstrip("0")[:_MAX_DIGITS] or "0")
    unit = match["unit"]
    if whole > _INT64_MAX + 1:
        raise _invalid_duration("invalid", text)
    if not unit:
        raise _invalid_duration("missing unit in", text)
    if unit not in _UNITS:
        raise _invalid_duration(f"unknown unit {_quote(unit)} in", text)
    digits, scale = 0, 1.0
    for digit in match["fraction"] or "":
        longer = digits * 10 + int(digit)
        if digits > _INT64_MAX // 10 or longer > _INT64_MAX + 1:
            break
        digits, scale = longer, scale * 10
    # Go computes the fraction with float64.
    return whole * _UNITS[unit] + (int(digits * (_UNITS[unit] / scale)) if digits else 0)


def _quote(text: str) -> str:
    """Return a text in quotes, with escapes for the bytes that are not printable ASCII (package time's own quote)."""
    characters = to_bytes(text).decode("latin-1")
    return f'"{_TO_ESCAPE.sub(_escape, characters)}"'


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}" if match[0] in '"\\' else f"\\x{ord(match[0]):02x}"


def go_duration(nanoseconds: int) -> str:
    """Return a duration as time.Duration.String prints it: ``1m0s``, ``1.5s``, ``100ms``."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < SECOND:
        unit = next((unit for unit in ("ms", "µs", "ns") if rest >= _UNITS[unit]), "")
        return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}" if unit else "0s"
    minutes, rest = divmod(rest, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    digits = str(fraction).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


class UnsupportedDateError(Exception):
    """A date, layout or text that Go accepts and this module does not."""


_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def from_unix(seconds: int) -> datetime:
    """Return the time in UTC at a number of seconds after 1970 (time.Unix). Raises UnsupportedDateError."""
    with _python_calendar():
        return _UNIX_EPOCH + timedelta(seconds=seconds)


def unix_nanoseconds(time: datetime) -> int:
    """Return the nanoseconds after 1970."""
    return (time - _UNIX_EPOCH) // timedelta(microseconds=1) * _MICROSECOND


def add_duration(time: datetime, nanoseconds: int) -> datetime:
    """Return the time a duration later, or earlier (Time.Add). Raises UnsupportedDateError, also for parts of a microsecond."""
    with _python_calendar():
        return time + timedelta(microseconds=_microseconds(nanoseconds))


def in_zone(time: datetime, name: str) -> datetime:
    """Return the same time in a zone (Time.In); in UTC if its name is unknown (time.LoadLocation). Raises UnsupportedDateError."""
    zone: tzinfo = UTC
    if name not in ("", "UTC", "Local"):
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            zone = UTC
    with _python_calendar():
        return time.astimezone(zone)


@contextmanager
def _python_calendar() -> Iterator[None]:
    try:
        yield
    except (OverflowError, ValueError) as error:
        raise UnsupportedDateError(
            "only dates in the years 1 to 9999 and zones less than 24 hours from UTC are supported"
        ) from error


def _microseconds(nanoseconds: int) -> int:
    if nanoseconds % _MICROSECOND:
        raise UnsupportedDateError("fractions of a microsecond are not supported in dates")
    return nanoseconds // _MICROSECOND


_MONTHS: Final = tuple(calendar.month_name)[1:]
_DAYS: Final = tuple(calendar.day_name)
_SHORT_MONTHS: Final = tuple(name[:3] for name in _MONTHS)
_SHORT_DAYS: Final = tuple(name[:3] for name in _DAYS)
_LAYOUT_PART: Final = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|0[1-6]|002|15|1|2006|_2(?!006)|__2|[2345]|PM|pm"
    r"|[-Z]07(?:0000|:00:00|00|:00)?|[.,](?:0++|9++)(?![0-9])"
)
_NOON: Final = 12
# Two digits of a year below this are of the 2000s.
_PIVOT_YEAR: Final = 69
_NANOSECOND_DIGITS: Final = 9


def _any_of(names: Iterable[str]) -> str:
    return f"(?ai:{'|'.join(names)})"


def _number_of(text: str) -> int:
    """Return the number of a month or a day of the week by its name."""
    short = text[:3].title()
    return (_SHORT_MONTHS if short in _SHORT_MONTHS else _SHORT_DAYS).index(short) + 1


def _full_year(text: str) -> int:
    return int(text) + (1900 if int(text) >= _PIVOT_YEAR else 2000)


class _Part(NamedTuple):
    """A part of a layout: the format by which it is printed (``format_time``), and the ``field`` that it sets when it is read.

    ``pattern`` matches the texts that it reads; empty if it cannot be read. ``number`` returns the number that a text stands for, ``most``
    is the largest one.
    """

    template: str
    field: str = ""
    pattern: str = ""
    most: int = 9999
    number: Callable[[str], int] = int


_ONE_OR_TWO: Final = "[0-9]{1,2}"
_TWO: Final = "[0-9]{2}"
_PARTS: Final[Mapping[str, _Part]] = {
    "2006": _Part("{time.year:04d}", "year", "[0-9]{4}"),
    "06": _Part("{short_year:02d}", "year", "[-+0-9][0-9]", number=_full_year),
    "January": _Part("{month_name}", "month", _any_of(_MONTHS), 12, _number_of),
    "Jan": _Part("{month_name:.3}", "month", _any_of(_SHORT_MONTHS), 12, _number_of),
    "01": _Part("{time.month:02d}", "month", _TWO, 12),
    "1": _Part("{time.month}", "month", _ONE_OR_TWO, 12),
    "Monday": _Part("{weekday}", "weekday", _any_of(_DAYS), 7, _number_of),
    "Mon": _Part("{weekday:.3}", "weekday", _any_of(_SHORT_DAYS), 7, _number_of),
    "02": _Part("{time.day:02d}", "day", _TWO),
    "_2": _Part("{time.day:2d}", "day", " ?" + _ONE_OR_TWO),
    "2": _Part("{time.day}", "day", _ONE_OR_TWO),
    "002": _Part("{yearday:03d}"),
    "__2": _Part("{yearday:3d}"),
    "15": _Part("{time.hour:02d}", "hour", _ONE_OR_TWO, 23),
    "03": _Part("{short_hour:02d}", "hour", _TWO, 12),
    "3": _Part("{short_hour}", "hour", _ONE_OR_TWO, 12),
    "04": _Part("{time.minute:02d}", "minute", _TWO, 59),
    "4": _Part("{time.minute}", "minute", _ONE_OR_TWO, 59),
    "05": _Part("{time.second:02d}", "second", _TWO, 59),
    "5": _Part("{time.second}", "second", _ONE_OR_TWO, 59),
}


def format_time(time: datetime, layout: str) -> str:
    """Return a time in Go's layout (Time.Format)."""
    values = {
        "time": time,
        "short_year": time.year % 100,
        "short_hour": time.hour % 12 or 12,
        "month_name": _MONTHS[time.month - 1],
        "weekday": _DAYS[time.weekday()],
        "yearday": time.timetuple().tm_yday,
    }
    return _LAYOUT_PART.sub(lambda match: _show(match[0], time, values), layout)


def _show(part: str, time: datetime, values: Mapping[str, Any]) -> str:
    if part in _PARTS:
        return _PARTS[part].template.format(**values)
    if part == "MST":
        return time.tzname() or _show_offset(time, "-0700")
    if part in ("PM", "pm"):
        meridiem = "PM" if time.hour >= _NOON else "AM"
        return meridiem if part == "PM" else meridiem.lower()
    if part[0] in "-Z":
        return _show_offset(time, part)
    digits = f"{time.microsecond:06d}000"[: len(part) - 1]
    if part[1] == "9":
        digits = digits.rstrip("0")
        return part[0] + digits if digits else ""
    return part[0] + digits


def _show_offset(time: datetime, part: str) -> str:
    offset = time.utcoffset() or timedelta()
    if part[0] == "Z" and not offset:
        return "Z"
    minutes, seconds = divmod(abs(offset) // timedelta(seconds=1), 60)
    numbers = [f"{number:02d}" for number in (*divmod(minutes, 60), seconds)]
    digits = numbers[: len(part.replace(":", "")) // 2]
    return ("-" if offset < timedelta() else "+") + (":" if ":" in part else "").join(digits)


def parse_time(layout: str, text: str) -> datetime:
    """Return the time that a text gives in Go's layout (time.Parse); in UTC if the text names no zone.

    Raises ValueError with Go's text if the text does not fit the layout or is not a date, and UnsupportedDateError.
    """
    reader = _TimeReader(layout, text)
    parts = list(_LAYOUT_PART.finditer(layout))
    end = 0
    for match, following in zip_longest(parts, parts[1:]):
        reader.skip(layout[end : match.start()])
        reader.read(match[0], fraction_follows=following is not None and following[0][0] in ".,")
        end = match.end()
    reader.skip(layout[end:])
    return reader.time()


_FRACTION: Final = "(?:[.,][0-9]+)?"
_ABBREVIATION: Final = "UTC|ChST|MeST|(?:[A-Z]{3,4}T|WITA|[A-Z]{3})(?![A-Z])"
_HOURS_AS_ZONE: Final = re.compile("(?:GMT)?[-+][0-9]")
_MAX_OFFSET: Final = {"hour": 24, "minute": 60, "second": 60}


class _TimeReader:
    """Reads a text by the parts of a layout."""

    def __init__(self, layout: str, text: str) -> None:
        self.layout = layout
        self.text = text
        self.position = 0
        self.fields = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0}
        self.noon = ""
        self.is_utc = False
        self.zone_name = ""
        self.offset = timedelta()

    def error(self, fault: str) -> ValueError:
        return ValueError(f"parsing time {_quote(self.text)}{fault}")

    def take(self, pattern: str, part: str) -> re.Match[str]:
        match = re.compile(pattern).match(self.text, self.position)
        if match is None:
            raise self.misfit(part, self.position)
        self.position = match.end()
        return match

    def misfit(self, part: str, position: int) -> ValueError:
        rest = _quote(self.text[position:])
        return self.error(f" as {_quote(self.layout)}: cannot parse {rest} as {_quote(part)}")

    def skip(self, literal: str) -> None:
        for piece in re.findall(" +|[^ ]", literal):
            self.take(r" +|\Z" if piece[0] == " " else re.escape(piece), literal)

    def read(self, part: str, *, fraction_follows: bool) -> None:
        if part in ("PM", "pm"):
            self.noon = self.take("[AP]M" if part == "PM" else "[ap]m", part)[0].upper()
        elif part == "MST":
            if _HOURS_AS_ZONE.match(self.text, self.position):
                raise UnsupportedDateError("hours as the name of a zone, as in GMT+3, are not supported")
            name = self.take(_ABBREVIATION, part)[0]
            if name == "UTC":
                self.is_utc = True
            else:
                self.zone_name = name
        elif part[0] in "-Z":
            self.read_offset(part)
        elif part[0] in ".,":
            self.set_fraction(self.take(f"[.,][0-9]{{{len(part) - 1}}}" if part[1] == "0" else _FRACTION, part)[0])
        else:
            self.read_number(part)
            if part in ("05", "5") and not fraction_follows:
                self.set_fraction(self.take(_FRACTION, part)[0])

    def read_number(self, part: str) -> None:
        known = _PARTS[part]
        if not known.pattern:
            raise UnsupportedDateError(f"{part} is not supported in the layout of a date to read")
        number = known.number(self.take(known.pattern, part)[0])
        if number > known.most or (number == 0 and known.field == "month"):
            raise self.error(f": {known.field} out of range")
        self.fields[known.field] = number

    def set_fraction(self, text: str) -> None:
        if text:
            nanoseconds = int(text[1 : 1 + _NANOSECOND_DIGITS].ljust(_NANOSECOND_DIGITS, "0"))
            self.fields["microsecond"] = _microseconds(nanoseconds)

    def read_offset(self, part: str) -> None:
        numbers = "." + re.sub("[0-9]{2}", "([0-9]{2})", part[1:])
        match = self.take(f"Z|{numbers}" if part[0] == "Z" else numbers, part)
        if match[0] == "Z":
            self.is_utc = True
            return
        values = dict(zip(_MAX_OFFSET, map(int, filter(None, match.groups())), strict=False))
        for name, value in reversed(values.items()):
            if value > _MAX_OFFSET[name]:
                raise self.error(f": time zone offset {name} out of range")
        if match[0][0] not in "-+":
            raise self.misfit(part, match.start())
        offset = timedelta(**{f"{name}s": value for name, value in values.items()})
        self.offset = -offset if match[0][0] == "-" else offset

    def time(self) -> datetime:
        if self.position < len(self.text):
            raise self.error(f": extra text: {_quote(self.text[self.position :])}")
        fields = self.fields
        if self.noon == "PM" and fields["hour"] < _NOON:
            fields["hour"] += _NOON
        elif self.noon == "AM" and fields["hour"] == _NOON:
            fields["hour"] = 0
        if not 1 <= fields["day"] <= calendar.monthrange(fields.get("year", 0), fields["month"])[1]:
            raise self.error(": day out of range")
        if "year" not in fields:
            raise UnsupportedDateError("a layout without a year is not supported")
        fields.pop("weekday", None)
        with _python_calendar():
            return datetime(**fields, tzinfo=self.zone())

    def zone(self) -> tzinfo:
        if self.is_utc or not (self.zone_name or self.offset):
            return UTC
        return timezone(self.offset, self.zone_name)


_RFC3339 = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"T(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})([.,][0-9]+)?"
    r"(Z|(?P<sign>[-+])(?P<zone_hour>[0-9]{2}):(?P<zone_minute>[0-9]{2}))",
    re.ASCII,
)
_LIMITS: Final = {"hour": 23, "minute": 59, "second": 59, "zone_hour": 24, "zone_minute": 60}
_ZERO: Final = "0001-01-01T00:00:00Z"
# Gregorian years repeat, which takes the years that Python has no dates for into those that it has.
_CYCLE: Final = 400
_CYCLE_START: Final = 2000


def is_calendar(parts: dict[str, int]) -> bool:
    """Return whether Go accepts the parts of a date and time: ``year``, ``month``, ``day`` and more."""
    return (
        1 <= parts["month"] <= len(_MONTHS)
        and 1 <= parts["day"] <= calendar.monthrange(parts["year"], parts["month"])[1]
        and all(parts.get(name, 0) <= limit for name, limit in _LIMITS.items())
    )


def utc_text(seconds: float) -> str:
    """Return a time, in seconds since 1970, as RFC 3339 writes it in UTC: ``2026-01-31T12:00:00Z``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def canonical_time(text: str) -> str | None:
    """Return a time as metav1.Time writes it: in UTC, whole seconds; None for the zero time. Raises ManifestError if it is not a time."""
    match = _RFC3339.fullmatch(text)
    named = match.groupdict() if match else {}
    parts = {name: int(digits) for name, digits in named.items() if digits and name != "sign"}
    if not parts or not is_calendar(parts):
        what = f'parsing time "{text[:40]}" as "2006-01-02T15:04:05Z07:00": cannot parse it'
        raise ManifestError(what, hint="write a time such as 2026-01-02T15:04:05Z")
    year = parts["year"] % _CYCLE + _CYCLE_START
    offset = timedelta(hours=parts.get("zone_hour", 0), minutes=parts.get("zone_minute", 0))
    local = datetime(year, parts["month"], parts["day"], parts["hour"], parts["minute"], parts["second"], tzinfo=UTC)
    utc = local + offset if named["sign"] == "-" else local - offset
    true_year = utc.year + parts["year"] - year
    written = f"{'-' if true_year < 0 else ''}{abs(true_year):04d}{utc:-%m-%dT%H:%M:%SZ}"
    return None if written == _ZERO else written
