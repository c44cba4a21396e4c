"""Templates that call sprig's functions of dates and durations on dates that do not depend on the clock.

Layouts are Go's own, put together of Go's parts, or texts of the letters that these begin with; what is read by them was mostly written by
them before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.differential.dice import Dice
    from tests.differential.golang import Question

LAYOUTS = (
    *("01/02 03:04:05PM '06 -0700", "Mon Jan _2 15:04:05 2006", "Mon Jan _2 15:04:05 MST 2006"),
    *("Mon Jan 02 15:04:05 -0700 2006", "02 Jan 06 15:04 MST", "02 Jan 06 15:04 -0700"),
    *("Monday, 02-Jan-06 15:04:05 MST", "Mon, 02 Jan 2006 15:04:05 MST", "Mon, 02 Jan 2006 15:04:05 -0700"),
    *("2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.999999999Z07:00", "3:04PM", "Jan _2 15:04:05.000000"),
    *("2006-01-02 15:04:05", "2006-01-02", "15:04:05", "20060102150405", "January 2, 2006", "2006-002", "__2 2006"),
    *("Jan 01 2006", "01 Jan 2006", "2006 January 1", "060102", "2006-01-02 15:04:05.999999999 -0700 MST"),
)
PARTS = (
    *(
        "January",
        "Jan",
        "1",
        "01",
        "Monday",
        "Mon",
        "2",
        "_2",
        "02",
        "__2",
        "002",
        "15",
        "3",
        "03",
        "4",
        "04",
        "5",
        "05",
    ),
    *("2006", "06", "PM", "pm", "MST", "Z0700", "Z070000", "Z07", "Z07:00", "Z07:00:00", "-0700", "-070000", "-07"),
    *(
        "-07:00",
        "-07:00:00",
        ".0",
        ".000",
        ",000000",
        ".000000000",
        ".0000000000",
        ".9",
        ".999",
        ",999999999",
        ".99999999999",
    ),
)
BETWEEN = ("", " ", " ", "-", ":", "/", "T", ", ", "  ", "é", "_", ".", "h", "0", "at ", "\\")
LETTERS = "JanMonuryday_0123456789.,-+Z:PpMmST é"
ZONES = (
    *("UTC", "", "Local", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe"),
    *("America/Sao_Paulo", "Africa/Monrovia", "Pacific/Apia", "Etc/GMT+5", "Nowhere/None", "../UTC", "/etc/localtime"),
)
"""Zones whose rules have long been the same in every edition of the database."""
SECONDS = (
    *(0, 1, -1, 59, 86_399, 951_782_400, 1_600_000_000, 1_709_164_800, 1_711_846_799, 1_711_846_800, 1_730_610_000),
    *(
        -62_135_596_800,
        -62_135_596_801,
        -62_167_219_200,
        253_402_300_799,
        253_402_300_800,
        2**33,
        -(2**33),
        2**40,
        -(2**40),
    ),
    *(2**55, -(2**55), 2**62, -(2**62), 2**63 - 1, -(2**63)),
)
TEXTS = (
    *(
        "2024-02-29",
        "2023-02-29",
        "2024-13-01",
        "24:00:00",
        "2024-01-02T03:04:05Z",
        "2024-01-02T03:04:05.678901234+05:30",
    ),
    *("Thu, 29 Feb 2024 23:59:59 GMT", "29 Feb 24 12:00 PST", "12:60AM", "0000-01-01", "9999-12-31", "10000-01-01"),
    *(
        "1999-12-31 23:59:60",
        "2024-366",
        "2023-366",
        "366 2023",
        " 60 2024",
        "Feb 30 2024",
        "feb 03 2024",
        "MARCH 7, 2021",
    ),
    *(
        "2024-01-02 03:04:05,5",
        "2024-01-02 03:04:05.1234567891",
        "12:00PM",
        "12:00am",
        "0:00PM",
        "+069-01-02",
        "é",
        "",
        " ",
    ),
    *(
        "20240102030405",
        "02 Jan 06 15:04 +2500",
        "02 Jan 06 15:04 -0061",
        "2006-01-02T15:04:05-24:00",
        "2024-1-2",
        "00",
    ),
)
ZONE_TEXTS = (
    *("UTC", "GMT", "GMT+3", "GMT-12", "GMT+24", "GMT+", "PST", "CEST", "WITA", "ChST", "AB", "ABCD", "ABCDT", "ABCDE"),
    *(
        "ABCDEF",
        "+03",
        "-03",
        "+3",
        "+99",
        "Z",
        "+0000",
        "-0000",
        "+01:00",
        "-07",
        "+000000",
        "-00:00:01",
        "+0530",
        "utc",
    ),
)
DURATIONS = (
    *(
        "1h",
        "90s",
        "-1h30m",
        "1.5h",
        "0.1s",
        "1h1m1s1ms1us1ns",
        "3us",
        "3\u00b5s",
        "3\u03bcs",
        "0",
        "+0",
        "-0",
        "+5m",
        "--1s",
    ),
    *("", "-", ".", ".s", "1", "1.", "1.s", ".5m", "1d", "1h 2m", "1hour", "h", "1e3s", "0.3333333333333333333h", "é"),
    *("9223372036854775807ns", "9223372036854775808ns", "-9223372036854775808ns", "9223372036854775809ns", "1\n"),
    *("2562047h47m16.854775807s", "2562048h", "106751d", "99999999999999999999s", "0.00000000000000000001h", "1é2"),
    *(
        "0.9223372036854775807h",
        "0.9223372036854775808m",
        "1.00000000000000000000000000000000000001s",
        "8760h",
        "8761h",
    ),
    *(
        "720h",
        "721h",
        "24h",
        "25h",
        "60m",
        "61s",
        "1s",
        "1001ms",
        "999ms",
        "-8761h",
        '"1h"',
        "1\\h",
        "0.12345678901234567890s",
    ),
)
NUMBERS = (
    *(
        "0",
        "1",
        "59",
        "90",
        "3661",
        "-1",
        "-90",
        "+7",
        "1.5",
        "x",
        "",
        "0x10",
        "1_0",
        "9223372036",
        "9223372037",
        "-9223372037",
    ),
    *("18446744073709551616", "9223372036854775807", "-9223372036854775808", "9223372036854775808", " 1", "007"),
)
METHODS = ("Unix", "UnixNano", "Year", "Day", "Hour", "Minute", "Second", "YearDay", "UTC", "String", "Format")


class Dates:
    """Makes templates of dates."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def question(self) -> Question:
        """One template."""
        made = self.dice.call((self.shown, self.shown, self.read, self.read, self.moved, self.lasting, self.printed))
        return {"text": f"{{{{ {made} }}}}", "data": {}}

    def shown(self) -> str:
        """A date in a layout, or in that of a page."""
        date = self.date()
        zone = text(self.dice.one_of(ZONES))
        return str(
            self.dice.one_of(
                (
                    f"date {text(self.layout())} {date}",
                    f"dateInZone {text(self.layout())} {date} {zone}",
                    f"date_in_zone {text(self.layout())} {date} {zone}",
                    f"htmlDate {date}",
                    f"htmlDateInZone {date} {zone}",
                )
            )
        )

    def read(self) -> str:
        """A text read as a date: one that the layout wrote, one with a letter changed, or any."""
        layout = self.layout()
        if self.dice.happens(0.3):
            source = text(self.dice.one_of(TEXTS))
        else:
            source = f"(dateInZone {text(layout)} (int64 {self.dice.one_of(SECONDS)}) {text(self.dice.one_of(ZONES))})"
            if self.dice.happens(0.5):
                old, new = (
                    self.dice.one_of("0123456789:- aMJT+Z"),
                    self.dice.one_of((*"01369 :-+.,ZxMP", "", "  ", "é")),
                )
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
        return f"{name} {text(self.dice.one_of(DURATIONS))} {self.time()}{end}"

    def lasting(self) -> str:
        """A duration: of a number of seconds, rounded, or since a time so far away that the clock does not matter."""
        number = self.dice.one_of(NUMBERS)
        return str(
            self.dice.one_of(
                (
                    f"duration {text(number)}",
                    f"duration (int64 {text(number)})",
                    f"duration {self.dice.one_of(('1.5', 'nil', 'true', '90', '(list 1)'))}",
                    f"durationRound {text(self.dice.one_of(DURATIONS))}",
                    f"durationRound (int64 {text(number)})",
                    f"durationRound {self.dice.one_of(('nil', '90', '1.5', '(toDate `2006` `1066`)', '(toDate `` `x`)'))}",
                    f"ago (int64 {self.dice.one_of((2**62, -(2**62), 2**40, -(2**40)))})",
                )
            )
        )

    def printed(self) -> str:
        """A date in other functions, or what its methods say."""
        if self.dice.happens(0.4):
            name = self.dice.one_of(METHODS)
            return f"{self.time()}.{name} {text(self.layout())}" if name == "Format" else f"{self.time()}.{name}"
        name = self.dice.one_of(
            (
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
        )
        return f"{name} {self.time()}"

    def date(self) -> str:
        """A date as the functions take it: seconds or a time."""
        seconds = self.dice.one_of(SECONDS)
        return (
            self.time() if self.dice.happens(0.5) else f"(int64 {seconds})" if self.dice.happens(0.5) else f"{seconds}"
        )

    def time(self) -> str:
        """A time that does not depend on the clock."""
        made = f'(toDate "2006-01-02T15:04:05Z07:00" (dateInZone "2006-01-02T15:04:05.999999999Z07:00" {self.seconds()} "UTC"))'
        if self.dice.happens(0.3):
            made = f"(toDate {text(self.dice.one_of(LAYOUTS))} {text(self.dice.one_of(TEXTS))})"
        return f"(dateModify {text(self.dice.one_of(DURATIONS))} {made})" if self.dice.happens(0.3) else made

    def seconds(self) -> str:
        """Seconds after 1970."""
        return f"(int64 {self.dice.one_of(SECONDS)})"

    def layout(self) -> str:
        """A layout: Go's own, one of Go's parts, or letters."""
        if self.dice.happens(0.4):
            return self.dice.one_of(LAYOUTS)
        if self.dice.happens(0.1):
            return "".join(self.dice.one_of(LETTERS) for _ in range(self.dice.below(12)))
        made = ""
        for _ in range(1 + self.dice.below(5)):
            made += self.dice.one_of(PARTS) + self.dice.one_of(BETWEEN)
        return made


def text(value: str) -> str:
    """A string as Go writes it; JSON's escapes are Go's."""
    return json.dumps(value, ensure_ascii=False)
