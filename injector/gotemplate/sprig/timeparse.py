"""Dates read by Go's layouts (package time, Parse), byte by byte as Go does, with its errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from injector.gotemplate.budget import spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig.instants import (
    SECOND,
    UTC_ZONE,
    FixedZone,
    Instant,
    Offset,
    days_in,
    seconds_of,
)
from injector.gotemplate.sprig.layouts import (
    DAYS,
    FORMATTED,
    MONTHS,
    SHORT,
    Chunk,
    chunks,
    fraction_length,
    is_fraction,
    is_offset,
)
from injector.gotemplate.sprig.timequote import by_bytes, quoted_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from injector.gotemplate.sprig.instants import Zone

_UNSET: Final = -1
_FRACTION_DIGITS: Final = 9
_PIVOT: Final = 69
"""Two digits of a year from here on are of the 1900s."""
_NOON: Final = 12
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
        self.hour = self.below(_NOON + 1, "hour", part)

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
        if self.noon == "PM" and self.hour < _NOON:
            self.hour += _NOON
        elif self.noon == "AM" and self.hour == _NOON:
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
