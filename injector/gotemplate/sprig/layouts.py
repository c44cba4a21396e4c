"""Go's layouts of dates (package time, format.go): what stands for what in them, and how a moment is shown by one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from injector.gotemplate.budget import check_size, spend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from injector.gotemplate.sprig.instants import Calendar, Instant

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
_PART: Final = re.compile(
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
    for match in _PART.finditer(layout):
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
        return _fraction(instant.nanoseconds, part)
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


def _fraction(nanoseconds: int, part: str) -> str:
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
