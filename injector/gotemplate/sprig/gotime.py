"""Package time: durations, moments, layouts and Parse, as templates see them (Go 1.26)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from injector.gotemplate.budget import check_size, spend
from injector.gotemplate.errors import FuncError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_ESCAPED: Final = re.compile(r'["\\]|[^\x20-\x7f]')


def by_bytes(text: str) -> str:
    """Return a text with a character for each of its bytes."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def quoted(text: str) -> str:
    """Return a text in quotes: what is no ASCII is escaped byte by byte."""
    return quoted_bytes(by_bytes(text))


def quoted_bytes(text: str) -> str:
    """Return bytes, one to a character, in quotes."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}" if match[0] in '"\\' else f"\\x{ord(match[0]):02x}"


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


FORMATTED: Final = 4
"""Steps of a character of a layout."""
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SHORT: Final = 3
"""Letters of a short name."""
# A longer part goes before a shorter one, a name is none before a small letter, an underline before 2006 is one, and a fraction
# ends with its digits.
_LAYOUT_PART: Final = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|0[1-6]|002|15|1|2006|_2(?!006)|__2|[2345]|PM|pm"
    r"|[-Z]07(?:0000|:00:00|00|:00)?|[.,](?:0++|9++)(?![0-9])"
)
# So many bits Go has for the length of a fraction.
_LENGTHS: Final = 0xFFF
_NANOSECOND_DIGITS: Final = 9
_NOON: Final = 12


class Chunk(NamedTuple):
    """A literal text of a layout, and the part that follows it; no part at the end."""

    literal: str
    part: str


def chunks(layout: str) -> Iterator[Chunk]:
    """Yield a layout's chunks, the last without a part."""
    position = 0
    for match in _LAYOUT_PART.finditer(layout):
        yield Chunk(layout[position : match.start()], match[0])
        position = match.end()
    yield Chunk(layout[position:], "")


def is_fraction(part: str) -> bool:
    """Return whether a part is a fraction of a second."""
    return part[:1] in (".", ",")


def is_offset(part: str) -> bool:
    """Return whether a part is a zone's offset."""
    return part[:1] in ("-", "Z")


def fraction_length(part: str) -> int:
    """Return how many digits a fraction has."""
    return len(part) - 1 & _LENGTHS


def format_time(instant: Instant, layout: str) -> str:
    """Return a moment in Go's layout (Time.Format)."""
    spend(FORMATTED * len(layout))
    calendar = instant.calendar()
    text = "".join(literal + _shown(instant, calendar, part) for literal, part in chunks(layout))
    check_size(len(text), "date")
    return text


def _shown(instant: Instant, calendar: Calendar, part: str) -> str:
    if is_fraction(part):
        return _layout_fraction(instant.nanoseconds, part)
    if is_offset(part):
        return _offset(instant.offset().seconds, part)
    if part == "MST":
        return instant.offset().name or _offset(instant.offset().seconds, "-0700")
    return _PARTS[part](calendar)


def _number(value: int, width: int) -> str:
    """Return a number with zeros before it; a sign is none of the digits."""
    return f"{'-' if value < 0 else ''}{abs(value):0{width}d}"


def _hour(calendar: Calendar) -> int:
    return calendar.hour % 12 or 12


_PARTS: Final[Mapping[str, Callable[[Calendar], str]]] = {
    "": lambda _: "",
    "January": lambda calendar: MONTHS[calendar.month - 1],
    "Jan": lambda calendar: MONTHS[calendar.month - 1][:SHORT],
    "Monday": lambda calendar: DAYS[calendar.weekday],
    "Mon": lambda calendar: DAYS[calendar.weekday][:SHORT],
    "2006": lambda calendar: _number(calendar.year, 4),
    "06": lambda calendar: f"{abs(calendar.year) % 100:02d}",
    "01": lambda calendar: f"{calendar.month:02d}",
    "1": lambda calendar: str(calendar.month),
    "02": lambda calendar: f"{calendar.day:02d}",
    "_2": lambda calendar: f"{calendar.day:2d}",
    "2": lambda calendar: str(calendar.day),
    "__2": lambda calendar: f"{calendar.yearday:3d}",
    "002": lambda calendar: f"{calendar.yearday:03d}",
    "15": lambda calendar: f"{calendar.hour:02d}",
    "03": lambda calendar: f"{_hour(calendar):02d}",
    "3": lambda calendar: str(_hour(calendar)),
    "04": lambda calendar: f"{calendar.minute:02d}",
    "4": lambda calendar: str(calendar.minute),
    "05": lambda calendar: f"{calendar.second:02d}",
    "5": lambda calendar: str(calendar.second),
    "PM": lambda calendar: "PM" if calendar.hour >= _NOON else "AM",
    "pm": lambda calendar: "pm" if calendar.hour >= _NOON else "am",
}


def _layout_fraction(nanoseconds: int, part: str) -> str:
    length, trimmed = fraction_length(part), part[1] == "9"
    if trimmed and (length == 0 or nanoseconds == 0):
        return ""
    digits = f"{nanoseconds:0{_NANOSECOND_DIGITS}d}"[:length]
    digits = digits.rstrip("0") if trimmed else digits
    return "" if trimmed and not digits else part[0] + digits


def _offset(seconds: int, part: str) -> str:
    if part.startswith("Z") and seconds == 0:
        return "Z"
    # Towards zero, so that an offset of some seconds west counts as east, and shows their sign.
    minutes = int(seconds / 60)
    sign = "-" if minutes < 0 else "+"
    minutes, seconds = abs(minutes), -seconds if minutes < 0 else seconds
    rest = seconds - minutes * 60
    parts = [f"{minutes // 60:02d}", f"{minutes % 60:02d}", _number(rest, 2)]
    return sign + (":" if ":" in part else "").join(parts[: len(part.replace(":", "")) // 2])


_UNSET: Final = -1
_FRACTION_DIGITS: Final = 9
_PIVOT: Final = 69
"""Two digits of a year from here on are of the 1900s."""
_PARSED_NOON: Final = 12
_LAST_MONTH: Final = 12
_FRACTION: Final = re.compile(r"[.,][0-9]++")
_NUMBER: Final = re.compile(r"[-+]?[0-9]*")
# GMT with hours; hours alone; three capitals; four or five of which the last is a T, and WITA; two names with a small letter.
_HOURS: Final = r"[-+]0*(?:2[0-3]|1?[0-9])(?![0-9])"
_ZONE: Final = re.compile(
    rf"ChST|MeST|GMT(?:{_HOURS})?|{_HOURS}|[A-Z]{{4}}T(?![A-Z])|(?:[A-Z]{{3}}T|WITA)(?![A-Z])|[A-Z]{{3}}(?![A-Z])"
)
_SHORTEST_ZONE: Final = 3
# More than there are: some write 24 hours, or 60 minutes.
_OFFSETS: Final = ((24, "hour"), (60, "minute"), (60, "second"))


class _UnfitError(Exception):
    """A text does not fit a part of a layout."""


class _RangeError(Exception):
    """What a text says is no month, hour, and so on: its name."""


def parse_time(layout: str, text: str) -> Instant:
    """Return the moment that a text says by a layout (time.Parse); what says no zone is in UTC.

    Raises:
        FuncError: it says none; with Go's words.
    """
    spend(FORMATTED * (len(layout) + len(text)))
    return _Reading(by_bytes(layout), by_bytes(text)).moment()


@dataclass(slots=True)
class _Reading:
    """A layout and a text, one character to a byte, how far it was read, and what was found."""

    layout: str
    text: str
    position: int = 0
    following: str = ""
    year: int = 0
    month: int = _UNSET
    day: int = _UNSET
    yearday: int = _UNSET
    hour: int = 0
    minute: int = 0
    second: int = 0
    nanoseconds: int = 0
    noon: str = ""
    zone: Zone | None = None
    # Go takes the offset of a second west for none, too.
    offset: int = _UNSET
    zone_name: str = ""

    def moment(self) -> Instant:
        """Read it all."""
        for chunk, after in pairwise(chain(chunks(self.layout), [Chunk("", "")])):
            self.following = after.part
            self.skip(chunk.literal)
            if chunk.part:
                self.read(chunk.part)
        if self.position < len(self.text):
            raise self.fault(f": extra text: {quoted_bytes(self.text[self.position :])}")
        self.settle()
        return self.placed()

    def fault(self, message: str) -> FuncError:
        """Return an error about the text."""
        return FuncError(f"parsing time {quoted_bytes(self.text)}{message}")

    def unfit(self, position: int, part: str) -> FuncError:
        """Return the error of a place that a part of the layout does not fit."""
        value = quoted_bytes(self.text[position:])
        return self.fault(f" as {quoted_bytes(self.layout)}: cannot parse {value} as {quoted_bytes(part)}")

    def ahead(self, count: int = 1) -> str:
        """Return the next so many bytes, fewer at the end."""
        return self.text[self.position : self.position + count]

    def take(self, count: int) -> str:
        """Take so many bytes."""
        if self.position + count > len(self.text):
            raise _UnfitError
        self.position += count
        return self.text[self.position - count : self.position]

    def skip(self, literal: str) -> None:
        """Take a literal text away; a run of spaces is one of any length, and none at the end."""
        before = ""
        for letter in literal:
            if letter == " ":
                if before != " " and self.ahead() not in ("", " "):
                    raise self.unfit(self.position, literal)
                while self.ahead() == " ":
                    self.position += 1
            elif self.ahead() == letter:
                self.position += 1
            else:
                raise self.unfit(self.position, literal)
            before = letter

    def read(self, part: str) -> None:
        """Read what a part of the layout stands for."""
        held = self.position
        try:
            if is_fraction(part):
                self.fraction(part)
            elif is_offset(part):
                self.numeric_zone(part)
            else:
                _READERS[part](self, part)
        except _RangeError as error:
            raise self.fault(f": {error} out of range") from error
        except _UnfitError as error:
            raise self.unfit(held, part) from error

    def digits(self, least: int, most: int) -> int:
        """Take a number of so many digits."""
        count = 0
        while count < most and self.text[self.position + count : self.position + count + 1].isdecimal():
            count += 1
        if count < least:
            raise _UnfitError
        return int(self.take(count))

    def number(self, part: str) -> int:
        """Take one digit or two; two where the part begins with zero."""
        return self.digits(2 if part.startswith("0") else 1, 2)

    def below(self, limit: int, name: str, part: str) -> int:
        """Take a number below a limit."""
        number = self.number(part)
        if number >= limit:
            raise _RangeError(name)
        return number

    def name(self, names: Sequence[str]) -> int:
        """Take one of the names, in small letters or capitals; its place."""
        for index, name in enumerate(names):
            if self.ahead(len(name)).lower() == name.lower():
                self.take(len(name))
                return index
        raise _UnfitError

    def long_year(self, _part: str) -> None:
        """Take four digits; a sign is none."""
        if not self.ahead().isdecimal():
            raise _UnfitError
        self.year = _signed(self.take(4))

    def short_year(self, _part: str) -> None:
        """Take two digits, or a sign and one."""
        year = _signed(self.take(2))
        self.year = year + (1900 if year >= _PIVOT else 2000)

    def month_number(self, part: str) -> None:
        """Take a month."""
        self.month = self.below(_LAST_MONTH + 1, "month", part)
        if self.month == 0:
            raise _RangeError("month")

    def month_name(self, part: str) -> None:
        """Take a month by its name."""
        self.month = 1 + self.name([name[: _letters(part)] for name in MONTHS])

    def weekday(self, part: str) -> None:
        """Take a day of the week, which does not count."""
        self.name([name[: _letters(part)] for name in DAYS])

    def day_of_month(self, part: str) -> None:
        """Take a day; whether the month has it is seen at the end."""
        self.padding(part)
        self.day = self.number(part)

    def day_of_year(self, part: str) -> None:
        """Take a day of the year."""
        self.padding(part)
        self.yearday = self.digits(3 if part.startswith("0") else 1, 3)

    def padding(self, part: str) -> None:
        """Take away a space for each underline of a part, where there is one."""
        for _ in range(part.count("_")):
            self.position += self.ahead() == " "

    def hour_of_24(self, _part: str) -> None:
        """Take an hour; one digit is enough."""
        self.hour = self.below(24, "hour", "")

    def hour_of_12(self, part: str) -> None:
        """Take an hour before or after noon."""
        self.hour = self.below(_PARSED_NOON + 1, "hour", part)

    def minutes(self, part: str) -> None:
        """Take a minute."""
        self.minute = self.below(60, "minute", part)

    def seconds(self, part: str) -> None:
        """Take a second, with a fraction that the layout has nowhere behind."""
        self.second = self.below(60, "second", part)
        found = _FRACTION.match(self.text, self.position)
        if found is not None and not is_fraction(self.following):
            self.take_nanoseconds(len(found[0]))

    def half_day(self, part: str) -> None:
        """Take AM or PM, in the letters of the part."""
        taken = self.take(2)
        if taken not in (part, part.translate({ord("P"): "A", ord("p"): "a"})):
            raise _UnfitError
        self.noon = taken.upper()

    def zone_abbreviation(self, _part: str) -> None:
        """Take the abbreviation of a zone."""
        if self.ahead(3) == "UTC":
            self.take(3)
            self.zone = UTC_ZONE
            return
        found = _ZONE.match(self.text, self.position)
        if found is None or len(self.ahead(_SHORTEST_ZONE)) < _SHORTEST_ZONE:
            raise _UnfitError
        self.zone_name = self.take(len(found[0]))

    def fraction(self, part: str) -> None:
        """Take a fraction of a second: of zeros as many digits as there are, of nines any or none."""
        if part[1] == "0":
            self.take_nanoseconds(1 + fraction_length(part))
        elif (found := _FRACTION.match(self.text, self.position)) is not None:
            self.take_nanoseconds(len(found[0]))

    def take_nanoseconds(self, length: int) -> None:
        """Take a fraction of so many bytes with its point; what is below a nanosecond does not count."""
        taken = self.take(length)[: 1 + _FRACTION_DIGITS]
        if taken[0] not in ".,":
            raise _UnfitError
        number = _signed(taken[1:])
        if number < 0:
            raise _RangeError("fractional second")
        self.nanoseconds = number * 10 ** (1 + _FRACTION_DIGITS - len(taken))

    def numeric_zone(self, part: str) -> None:
        """Take an offset, or the Z of UTC where the part has one."""
        if part.startswith("Z") and self.ahead() == "Z":
            self.take(1)
            self.zone = UTC_ZONE
            return
        taken = self.take(len(part))
        if any(found != ":" for found, wanted in zip(taken, part, strict=True) if wanted == ":"):
            raise _UnfitError
        step = 3 if ":" in part else 2
        self.offset = _offset_of(taken[0], [taken[index : index + 2] for index in range(1, len(part), step)])

    def settle(self) -> None:
        """Bring what was read together: the hour by noon, and the day."""
        if self.noon == "PM" and self.hour < _PARSED_NOON:
            self.hour += _PARSED_NOON
        elif self.noon == "AM" and self.hour == _PARSED_NOON:
            self.hour = 0
        if self.yearday != _UNSET:
            self.settle_yearday()
        self.month = 1 if self.month == _UNSET else self.month
        self.day = 1 if self.day == _UNSET else self.day
        if not 1 <= self.day <= days_in(self.month, self.year):
            raise self.fault(": day out of range")

    def settle_yearday(self) -> None:
        """Make month and day of the day of the year; where there are such, they have to agree."""
        month, day = 1, self.yearday
        while month < _LAST_MONTH and day > days_in(month, self.year):
            day -= days_in(month, self.year)
            month += 1
        if not 1 <= day <= days_in(month, self.year):
            raise self.fault(": day-of-year out of range")
        if self.month not in (_UNSET, month):
            raise self.fault(": day-of-year does not match month")
        if self.day not in (_UNSET, day):
            raise self.fault(": day-of-year does not match day")
        self.month, self.day = month, day

    def placed(self) -> Instant:
        """Return the moment in the zone that the text says; the machine's own is UTC here."""
        seconds = seconds_of(self.year, self.month, self.day) + (self.hour * 60 + self.minute) * 60 + self.second
        zone = self.zone
        if zone is None and self.offset != _UNSET:
            seconds -= self.offset
            if self.offset or self.zone_name:
                zone = FixedZone(Offset(self.zone_name, self.offset))
        elif zone is None and self.zone_name:
            # Of all abbreviations GMT alone has hours that count, and even they do not move the moment.
            hours = self.zone_name[len("GMT") :] if self.zone_name.startswith("GMT") else ""
            zone = FixedZone(Offset(self.zone_name, _signed(hours) * 3600))
        return Instant.at(seconds * SECOND + self.nanoseconds, zone or UTC_ZONE)


_READERS: Final[Mapping[str, Callable[[_Reading, str], None]]] = {
    "2006": _Reading.long_year,
    "06": _Reading.short_year,
    **dict.fromkeys(("January", "Jan"), _Reading.month_name),
    **dict.fromkeys(("01", "1"), _Reading.month_number),
    **dict.fromkeys(("Monday", "Mon"), _Reading.weekday),
    **dict.fromkeys(("02", "_2", "2"), _Reading.day_of_month),
    **dict.fromkeys(("__2", "002"), _Reading.day_of_year),
    "15": _Reading.hour_of_24,
    **dict.fromkeys(("03", "3"), _Reading.hour_of_12),
    **dict.fromkeys(("04", "4"), _Reading.minutes),
    **dict.fromkeys(("05", "5"), _Reading.seconds),
    **dict.fromkeys(("PM", "pm"), _Reading.half_day),
    "MST": _Reading.zone_abbreviation,
}


def _letters(part: str) -> int | None:
    """Return how many letters of a name a part stands for; None for all."""
    return SHORT if len(part) == SHORT else None


def _signed(text: str) -> int:
    """Return a number with a sign or without; of no digits it is zero."""
    if _NUMBER.fullmatch(text) is None:
        raise _UnfitError
    number = int(text.lstrip("+-0") or "0")
    return -number if text.startswith("-") else number


def _offset_of(sign: str, pairs: Sequence[str]) -> int:
    """Return hours, minutes and seconds as seconds. What is out of range comes before what is no number, and the last such first."""
    numbers = [0, 0, 0]
    beyond, fits = "", sign in ("+", "-")
    for index, pair in enumerate(pairs):
        if not pair.isdecimal():
            fits = False
            break
        most, name = _OFFSETS[index]
        numbers[index] = int(pair)
        beyond = name if numbers[index] > most else beyond
    if beyond:
        raise _RangeError(f"time zone offset {beyond}")
    if not fits:
        raise _UnfitError
    seconds = (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    return -seconds if sign == "-" else seconds
