"""Templates that call sprig's date and duration functions on dates that do not depend on the clock.

Layouts are Go's own, put together from Go's parts, or texts of the letters that these begin with. Most texts that are read were written by
the same layout before. Most dates are supported; the rest is excused.
"""

from __future__ import annotations

import json

from tests.differential.dice import Dice
from tests.differential.golang import Question


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


def by_semicolon(text: str) -> list[str]:
    """The parts of a text, which lines and semicolons end."""
    return text.strip("\n").replace("\n", ";").split(";")


LAYOUTS = by_semicolon("""
01/02 03:04:05PM '06 -0700;Mon Jan _2 15:04:05 2006;Mon Jan _2 15:04:05 MST 2006;Mon Jan 02 15:04:05 -0700 2006;02 Jan 06 15:04 MST
02 Jan 06 15:04 -0700;Monday, 02-Jan-06 15:04:05 MST;Mon, 02 Jan 2006 15:04:05 MST;Mon, 02 Jan 2006 15:04:05 -0700
2006-01-02T15:04:05Z07:00;2006-01-02T15:04:05.999999999Z07:00;2006-01-02 15:04:05;2006-01-02;20060102150405;January 2, 2006
Jan 01 2006;01 Jan 2006;2006 January 1;060102;2006-01-02 15:04:05.999999999 -0700 MST;06 Jan _2 15:04:05.000000
""")
READ_PARTS = words("""
January Jan 1 01 Monday Mon 2 _2 02 15 3 03 4 04 5 05 2006 06 PM pm MST Z0700 Z070000 Z07 Z07:00 Z07:00:00
-0700 -070000 -07 -07:00 -07:00:00 .0 .000 ,000000 .9 .999 ,999999999 .99999999999
""")
SHOWN_PARTS = (*READ_PARTS, "002", "__2", ".000000000", ".0000000000")
BETWEEN = ("", " ", " ", "-", ":", "/", "T", ", ", "  ", "é", "_", ".", "h", "0", "at ", "\\")
LETTERS = "JanMonuryday_0123456789.,-+Z:PpMmST é"
ZONES = words("""
UTC Local Europe/Berlin America/New_York Asia/Kolkata Asia/Kathmandu Australia/Lord_Howe America/Sao_Paulo Africa/Monrovia
Pacific/Apia Etc/GMT+5 Nowhere/None ../UTC /etc/localtime
""")
"""Zones whose rules have long been the same in every edition of the database."""
SECONDS = words("""
0 1 -1 59 86399 951782400 1600000000 1709164800 1711846799 1711846800 1730610000 8589934592 -8589934592 -62000000000 253402200000
""")
TEXTS = by_semicolon("""
2024-02-29;2023-02-29;2024-13-01;24:00:00;2024-01-02T03:04:05Z;2024-01-02T03:04:05.678901+05:30;Thu, 29 Feb 2024 23:59:59 GMT
29 Feb 24 12:00 PST;12:60AM;0001-01-02;9999-12-30;10000-01-01;1999-12-31 23:59:60;Feb 30 2024;feb 03 2024;MARCH 7, 2021
2024-01-02 03:04:05,5;+069-01-02;é;; ;20240102030405;02 Jan 06 15:04 +2500;02 Jan 06 15:04 -0061;2024-1-2;00
""")
ZONE_TEXTS = words("""
UTC GMT GMT+ PST CEST WITA ChST AB ABCD ABCDT ABCDE ABCDEF Z +0000 -0000 +01:00 +000000 -00:30:00 +0530 utc
""")
WHOLE_DURATIONS = words("""
1h 90s -1h30m 1.5h 0.1s 1h1m1s1ms1us 3us 3\u00b5s 3\u03bcs 0 +0 -0 +5m 8760h 8761h 720h 721h 24h 25h 60m 61s 1s 1001ms 999ms -8761h
--1s - . .s 1 1. 1.s .5m 1d 1hour h 1e3s é 9223372036854775808ns 9223372036854775809ns 2562048h 106751d 99999999999999999999s 1é2 "1h" 1\\h
""")
DURATIONS = (
    *WHOLE_DURATIONS,
    *("", "1h 2m", "1\n", "1h1m1s1ms1us1ns", "9223372036854775807ns", "-9223372036854775808ns"),
    *("2562047h47m16.854775807s", "0.3333333333333333333h", "0.00000000000000000001h", "0.9223372036854775807h"),
    *("0.9223372036854775808m", "1.00000000000000000000000000000000000001s", "0.12345678901234567890s"),
)
NUMBERS = words("""
0 1 59 90 3661 -1 -90 +7 1.5 x 0x10 1_0 9223372036 9223372037 -9223372037 18446744073709551616 9223372036854775807
-9223372036854775808 9223372036854775808 007
""")
METHODS = ("Unix", "UnixNano", "Year", "Day", "Hour", "Minute", "Second", "YearDay", "UTC", "String", "Format")
PRINTERS = (
    "toString",
    "quote",
    "toJson",
    "mustToJson",
    "toYaml",
    "typeOf",
    "kindOf",
    "unixEpoch",
    "print",
    'printf "%s|%v"',
)
RFC3339 = '"2006-01-02T15:04:05.999999999Z07:00"'


class Dates:
    """Makes templates of dates."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def question(self) -> Question:
        """One template."""
        call = self.dice.call(
            (self.formatted, self.formatted, self.read, self.read, self.moved, self.lasting, self.printed)
        )
        return {"text": f"{{{{ {call} }}}}", "data": {}}

    def formatted(self) -> str:
        """A date in a layout, or as HTML has it."""
        date, layout, zone = self.date(), text(self.layout(SHOWN_PARTS)), text(self.dice.one_of(ZONES))
        calls = (
            f"date {layout} {date}",
            f"dateInZone {layout} {date} {zone}",
            f"date_in_zone {layout} {date} {zone}",
            f"htmlDate {date}",
            f"htmlDateInZone {date} {zone}",
        )
        return self.dice.one_of(calls)

    def read(self) -> str:
        """A text read as a date: one that the layout wrote, one with a letter changed, or any."""
        layout = self.layout(READ_PARTS)
        if "06" not in layout:
            layout = f"2006 {layout}"
        if self.dice.happens(0.3):
            source = text(self.dice.one_of(TEXTS))
        else:
            source = f"(dateInZone {text(layout)} {self.seconds()} {text(self.dice.one_of(ZONES[:6]))})"
            if self.dice.happens(0.5):
                old = self.dice.one_of("0123456789:- aMJT+Z")
                new = self.dice.one_of((*"01369 :.,ZxMP", "", "  ", "é"))
                source = f"(replace {text(old)} {text(new)} {source})"
        if self.dice.happens(0.2):
            layout = f"{layout}{self.dice.one_of(('MST', ' MST', ' -0700', 'Z07:00', '-07', '-07:00:00', 'Z070000'))}"
            source = f"(print {source} {text(self.dice.one_of(('', ' ')) + self.dice.one_of(ZONE_TEXTS))})"
        function = "toDate" if self.dice.happens(0.3) else "mustToDate"
        return f"{function} {text(layout)} {source}"

    def moved(self) -> str:
        """A date some time later."""
        name = self.dice.one_of(("dateModify", "date_modify", "mustDateModify", "must_date_modify"))
        end = self.dice.one_of(("", "", " | unixEpoch", ' | date "2006-01-02 15:04:05.999"'))
        return f"{name} {text(self.dice.one_of(WHOLE_DURATIONS))} {self.time()}{end}"

    def lasting(self) -> str:
        """A duration: of a number of seconds, rounded, or since a time so far away that the clock does not matter."""
        number = text(self.dice.one_of(NUMBERS))
        calls = (
            f"duration {number}",
            f"duration (int64 {number})",
            f"duration {self.dice.one_of(('1.5', 'nil', 'true', '90', '(list 1)'))}",
            f"durationRound {text(self.dice.one_of(DURATIONS))}",
            f"durationRound (int64 {number})",
            f"durationRound {self.dice.one_of(('nil', '90', '1.5', '(toDate `2006` `1066`)', '(toDate `` `x`)'))}",
            f"ago {self.dice.one_of(('(toDate `2006` `1066`)', '(toDate `2006` `9000`)', '(int64 -62000000000)'))}",
        )
        return self.dice.one_of(calls)

    def printed(self) -> str:
        """A date in other functions, or the result of one of its methods."""
        if self.dice.happens(0.6):
            return f"{self.dice.one_of(PRINTERS)} {self.time()}"
        name = self.dice.one_of(METHODS)
        return f"{self.time()}.{name}{f' {text(self.layout(SHOWN_PARTS))}' if name == 'Format' else ''}"

    def date(self) -> str:
        """A date as the functions take it: seconds or a time."""
        if self.dice.happens(0.5):
            return self.time()
        return self.seconds() if self.dice.happens(0.5) else self.dice.one_of(SECONDS)

    def time(self) -> str:
        """A time that does not depend on the clock."""
        time = f'(toDate "2006-01-02T15:04:05Z07:00" (dateInZone {RFC3339} {self.seconds()} "UTC"))'
        if self.dice.happens(0.3):
            time = f"(toDate {text(self.dice.one_of(LAYOUTS))} {text(self.dice.one_of(TEXTS))})"
        if self.dice.happens(0.3):
            return f"(dateModify {text(self.dice.one_of(WHOLE_DURATIONS))} {time})"
        return time

    def seconds(self) -> str:
        """Seconds after 1970."""
        return f"(int64 {self.dice.one_of(SECONDS)})"

    def layout(self, parts: tuple[str, ...] | list[str]) -> str:
        """A layout: Go's own, one of Go's parts, or letters."""
        if self.dice.happens(0.4):
            return self.dice.one_of(LAYOUTS)
        if self.dice.happens(0.1):
            return "".join(self.dice.one_of(LETTERS) for _ in range(self.dice.below(12)))
        return "".join(self.dice.one_of(parts) + self.dice.one_of(BETWEEN) for _ in range(1 + self.dice.below(5)))


def text(value: str) -> str:
    """A string as Go writes it; JSON's escapes are Go's."""
    return json.dumps(value, ensure_ascii=False)
