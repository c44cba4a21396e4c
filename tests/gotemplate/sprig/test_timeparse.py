from __future__ import annotations

import re

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig.gotime import format_time, parse_time


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("layout", "text", "expected"),
    [
        ("Jan 01 2006", "feb 03 2024", "2024-03-01 00:00:00 +0000 UTC"),
        ("January 2, 2006", "MARCH 07, 2021", "2021-03-07 00:00:00 +0000 UTC"),
        ("Mon Jan _2 2006", "Fri Feb  3 2024", "2024-02-03 00:00:00 +0000 UTC"),
        ("2006-2 2", "2024-3 4", "2024-01-04 00:00:00 +0000 UTC"),
        ("2006 15 15", "2024 13 04", "2024-01-01 04:00:00 +0000 UTC"),
        ("2006 05 5", "2024 05.5 7", "2024-01-01 00:00:07.5 +0000 UTC"),
        ("2006-002", "2024-366", "2024-12-31 00:00:00 +0000 UTC"),
        ("__2 2006", " 60 2024", "2024-02-29 00:00:00 +0000 UTC"),
        ("3:04PM", "12:00AM", "0000-01-01 00:00:00 +0000 UTC"),
        ("3:04pm", "0:00pm", "0000-01-01 12:00:00 +0000 UTC"),
        ("15:04:05", "1:02:03,4567891234", "0000-01-01 01:02:03.456789123 +0000 UTC"),
        ("05.000", "07.125", "0000-01-01 00:00:07.125 +0000 UTC"),
        ("05 .9", "07 .25", "0000-01-01 00:00:07.25 +0000 UTC"),
        ("05.9", "07", "0000-01-01 00:00:07 +0000 UTC"),
        ("06", "69", "1969-01-01 00:00:00 +0000 UTC"),
        ("06", "68", "2068-01-01 00:00:00 +0000 UTC"),
        ("06", "-5", "1995-01-01 00:00:00 +0000 UTC"),
        ("a  b", "a b", "0000-01-01 00:00:00 +0000 UTC"),
        ("2006 ", "2024", "2024-01-01 00:00:00 +0000 UTC"),
    ],
)
def test_a_date_is_read_as_go_reads_it(layout: str, text: str, expected: str) -> None:
    assert format_time(parse_time(layout, text), "2006-01-02 15:04:05.999999999 -0700 MST") == expected


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("layout", "text", "expected"),
    [
        ("15:04Z07:00", "10:00Z", "10:00:00 +000000 UTC"),
        ("15:04Z07:00", "10:00+05:45", "10:00:00 +054500 +0545"),
        ("15:04-0700", "10:00+0000", "10:00:00 +000000 UTC"),
        ("15:04 -07:00:00", "10:00 -00:00:01", "10:00:00 +000000 UTC"),
        ("15:04 Z070000", "10:00 -245960", "10:00:00 -250000 -2500"),
        ("15:04 MST", "10:00 GMT+3", "13:00:00 +030000 GMT+3"),
        ("15:04 MST", "10:00 GMT-012", "22:00:00 -120000 GMT-012"),
        ("15:04 MST", "10:00 +03", "10:00:00 +000000 +03"),
        ("15:04 MST", "10:00 WITA", "10:00:00 +000000 WITA"),
        ("15:04 MST", "10:00 ABCDT", "10:00:00 +000000 ABCDT"),
        ("15:04 MST -0700", "10:00 PST -0800", "10:00:00 -080000 PST"),
        ("15:04 MST -0700", "10:00 UTC -0800", "10:00:00 +000000 UTC"),
    ],
)
def test_a_zone_is_read_as_go_reads_it(layout: str, text: str, expected: str) -> None:
    assert format_time(parse_time(layout, text), "15:04:05 -070000 MST") == expected


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("layout", "text", "fault"),
    [
        ("2006-01-02", "2024-13-01", ": month out of range"),
        ("2006-01-02", "2023-02-29", ": day out of range"),
        ("15:04", "24:00", ": hour out of range"),
        ("3:04", "13:00", ": hour out of range"),
        ("04", "60", ": minute out of range"),
        ("05", "60", ": second out of range"),
        (".000", ".-01", ": fractional second out of range"),
        ("-07:00", "+25:00", ": time zone offset hour out of range"),
        ("-07:00", "+25:61", ": time zone offset minute out of range"),
        ("-070000", "*250000", ": time zone offset hour out of range"),
        ("2006-002", "2023-366", ": day-of-year out of range"),
        ("01 2006-002", "03 2024-060", ": day-of-year does not match month"),
        ("02 2006-002", "28 2024-060", ": day-of-year does not match day"),
        ("2006", "2024-01", ': extra text: "-01"'),
        ("2006-01", "2024/01", ' as "2006-01": cannot parse "/01" as "-"'),
        ("2006 at 15", "2024 am 15", ' as "2006 at 15": cannot parse "m 15" as " at "'),
        ("Jan 2", "Foo 2", ' as "Jan 2": cannot parse "Foo 2" as "Jan"'),
        ("02", "2", ' as "02": cannot parse "2" as "02"'),
        ("PM", "pm", ' as "PM": cannot parse "pm" as "PM"'),
        ("MST", "+3", ' as "MST": cannot parse "+3" as "MST"'),
        ("MST", "ABCD", ' as "MST": cannot parse "ABCD" as "MST"'),
        ("MST", "ABCDEF", ' as "MST": cannot parse "ABCDEF" as "MST"'),
        ("2006", "é", ' as "2006": cannot parse "\\xc3\\xa9" as "2006"'),
    ],
)
def test_what_is_no_date_is_told_in_gos_words(layout: str, text: str, fault: str) -> None:
    shown = text.replace("é", "\\xc3\\xa9")
    words = re.escape(f'parsing time "{shown}"{fault}')

    with pytest.raises(FuncError, match=f"^{words}$"):
        parse_time(layout, text)


# In the square of their number, they would take minutes.
@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("x " * 60_000, "x " * 60_000 + "y"),
        ("MST", "GMT+" + "0" * 250_000 + "24"),
        ("05", "07." + "1" * 250_000 + "x"),
        ("Jan" * 60_000, "Jan" * 60_000 + "x"),
    ],
)
def test_a_long_layout_or_text_is_read_in_the_time_of_its_length(layout: str, text: str) -> None:
    with pytest.raises(FuncError, match="parsing time"):
        parse_time(layout, text)
