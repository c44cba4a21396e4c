"""Package time. The expected texts are Go 1.26's; tests/differential compares many more dates with Go."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from injector.errors import ManifestError
from injector.golang.time import (
    UnsupportedDateError,
    add_duration,
    canonical_time,
    format_time,
    from_unix,
    in_zone,
    is_calendar,
    parse_duration,
    parse_time,
)

TIME = datetime(2024, 3, 7, 15, 4, 5, 120_045, tzinfo=UTC)
STRING = "2006-01-02 15:04:05.999999999 -0700 MST"
LONG = 250_000


# The time to read digits must not grow with the square of their number: an annotation may have that many.
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'invalid duration ""'),
        ("-", 'invalid duration "-"'),
        (".s", 'invalid duration ".s"'),
        ("--1s", 'invalid duration "--1s"'),
        ("1", 'missing unit in duration "1"'),
        ("1h9", 'missing unit in duration "1h9"'),
        ("1d", 'unknown unit "d" in duration "1d"'),
        ("1h 2m", 'unknown unit "h " in duration "1h 2m"'),
        ("é\x01", 'invalid duration "\\xc3\\xa9\\x01"'),
        ("\udcff", 'invalid duration "\\xff"'),
        ("\x7f\n", 'invalid duration "\x7f\\x0a"'),
        ('"1h\\', 'invalid duration "\\"1h\\\\"'),
        ("2562048h", 'invalid duration "2562048h"'),
        ("9223372036854775808ns", 'invalid duration "9223372036854775808ns"'),
        pytest.param("9" * LONG, "invalid duration", id="whole number"),
        pytest.param("." + "9" * LONG, "missing unit in duration", id="fraction"),
        pytest.param("9" * LONG + "." + "9" * LONG, "invalid duration", id="number"),
        pytest.param("1m" * LONG + "9", "missing unit in duration", id="parts"),
    ],
)
def test_an_invalid_duration_is_refused_with_gos_text(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"time: {fault}")):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("-9223372036854775808ns", -(2**63)),
        ("0.3333333333333333333h", 1_200_000_000_000),
        ("1.00000000000000000000000000000000000001s", 1_000_000_000),
        ("0." + "0" * 400 + "1h", 0),
        ("0.9223372036854775807h", 3_320_413_933_267),
        ("1.s", 1_000_000_000),
        (".5m", 30_000_000_000),
        ("+0", 0),
    ],
)
def test_a_duration_is_read_with_gos_float64_fractions(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("Jan 01 2006", "Mar 03 2024"),
        ("January Janet Jan_2", "March Janet Mar 7"),
        ("Monday Mon Month", "Thursday Thu Month"),
        ("_2006 __2006", "_2024  67024"),
        ("1 2 3 4 5 01 02 03 04 05 06", "3 7 3 4 5 03 07 03 04 05 24"),
        ("15:04PM 3pm", "15:04PM 3pm"),
        ("002 __2 _2", "067  67  7"),
        (".0 .000 ,000000000 .0000000000", ".1 .120 ,120045000 .120045000"),
        (".9 .99 .999999 ,999999999999 .99x .991", ".1 .12 .120045 ,120045 .12x .993"),
        ("20060102150405", "20240307150405"),
        ("-07 -0700 -07:00 -070000 -07:00:00 -07:0", "+00 +0000 +00:00 +000000 +00:00:00 +00:0"),
        ("Z07 Z0700 Z07:00 Z070000 Z07:00:00 MST", "Z Z Z Z Z UTC"),
        ("é", "é"),
        ("", ""),
    ],
)
def test_a_time_is_formatted_as_in_go(layout: str, expected: str) -> None:
    assert format_time(TIME, layout) == expected


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (TIME.astimezone(timezone(timedelta(minutes=345), "")), "+0545 +05 +0545 +05:45 +054500 +05:45:00"),
        (TIME.astimezone(timezone(timedelta(0), "PST")), "PST Z Z Z Z Z"),
        (TIME.astimezone(timezone(timedelta(seconds=-90), "")), "-0001 -00 -0001 -00:01 -000130 -00:01:30"),
        (in_zone(TIME, "America/Sao_Paulo"), "-03 -03 -0300 -03:00 -030000 -03:00:00"),
    ],
)
def test_a_zone_is_formatted_by_its_name_and_offset(time: datetime, expected: str) -> None:
    assert format_time(time, "MST Z07 Z0700 Z07:00 Z070000 Z07:00:00") == expected


def test_a_zone_of_the_database_has_summer_time() -> None:
    shown = [
        format_time(in_zone(from_unix(seconds), "Europe/Berlin"), "15:04:05 MST")
        for seconds in (1_711_846_799, 1_711_846_800)
    ]

    assert shown == ["01:59:59 CET", "03:00:00 CEST"]


@pytest.mark.parametrize("name", ["", "UTC", "Local", "Nowhere/None", "../UTC", "/etc/localtime", "Europe", "a\0b"])
def test_an_unknown_zone_is_utc(name: str) -> None:
    assert format_time(in_zone(TIME, name), STRING) == "2024-03-07 15:04:05.120045 +0000 UTC"


@pytest.mark.parametrize(
    ("layout", "text", "expected"),
    [
        ("Jan 01 2006", "feb 03 2024", "2024-03-01 00:00:00 +0000 UTC"),
        ("January 2, 2006", "MARCH 07, 2021", "2021-03-07 00:00:00 +0000 UTC"),
        ("Mon Jan _2 2006", "Fri Feb  3 2024", "2024-02-03 00:00:00 +0000 UTC"),
        ("2006-2 2", "2024-3 4", "2024-01-04 00:00:00 +0000 UTC"),
        ("2006 15 15", "2024 13 04", "2024-01-01 04:00:00 +0000 UTC"),
        ("2006 05 5", "2024 05.5 7", "2024-01-01 00:00:07.5 +0000 UTC"),
        ("2006 3:04PM", "2024 12:00AM", "2024-01-01 00:00:00 +0000 UTC"),
        ("2006 3:04pm", "2024 0:00pm", "2024-01-01 12:00:00 +0000 UTC"),
        ("2006 15:04:05", "2024 1:02:03,4567890004", "2024-01-01 01:02:03.456789 +0000 UTC"),
        ("2006 05.000", "2024 07.125", "2024-01-01 00:00:07.125 +0000 UTC"),
        ("2006 05 .9", "2024 07 .25", "2024-01-01 00:00:07.25 +0000 UTC"),
        ("2006 05.9", "2024 07", "2024-01-01 00:00:07 +0000 UTC"),
        ("06", "69", "1969-01-01 00:00:00 +0000 UTC"),
        ("06", "68", "2068-01-01 00:00:00 +0000 UTC"),
        ("2006a  b", "2024a b", "2024-01-01 00:00:00 +0000 UTC"),
        ("2006 ", "2024", "2024-01-01 00:00:00 +0000 UTC"),
        ("2006 Z07:00", "2024 Z", "2024-01-01 00:00:00 +0000 UTC"),
        ("2006 Z07:00", "2024 +05:45", "2024-01-01 00:00:00 +0545 +0545"),
        ("2006-0700", "2024+0000", "2024-01-01 00:00:00 +0000 UTC"),
        ("2006 Z070000", "2024 -235930", "2024-01-01 00:00:00 -2359 -2359"),
        ("2006 MST", "2024 WITA", "2024-01-01 00:00:00 +0000 WITA"),
        ("2006 MST", "2024 ABCDT", "2024-01-01 00:00:00 +0000 ABCDT"),
        ("2006 MST -0700", "2024 PST -0800", "2024-01-01 00:00:00 -0800 PST"),
        ("2006 MST -0700", "2024 UTC -0800", "2024-01-01 00:00:00 +0000 UTC"),
    ],
)
def test_a_time_is_read_as_in_go(layout: str, text: str, expected: str) -> None:
    assert format_time(parse_time(layout, text), STRING) == expected


@pytest.mark.parametrize(
    ("layout", "text", "fault"),
    [
        ("2006-01-02", "2024-13-01", ": month out of range"),
        ("2006-01-02", "2023-02-29", ": day out of range"),
        ("15:04", "24:00", ": hour out of range"),
        ("3:04", "13:00", ": hour out of range"),
        ("04", "60", ": minute out of range"),
        ("05", "60", ": second out of range"),
        ("-07:00", "+25:00", ": time zone offset hour out of range"),
        ("-07:00", "+23:61", ": time zone offset minute out of range"),
        ("2006", "2024-01", ': extra text: "-01"'),
        ("2006-01", "2024/01", ' as "2006-01": cannot parse "/01" as "-"'),
        ("2006 at 15", "2024 am 15", ' as "2006 at 15": cannot parse "m 15" as " at "'),
        ("Jan 2", "Foo 2", ' as "Jan 2": cannot parse "Foo 2" as "Jan"'),
        ("02", "2", ' as "02": cannot parse "2" as "02"'),
        ("PM", "pm", ' as "PM": cannot parse "pm" as "PM"'),
        ("MST", "ABCD", ' as "MST": cannot parse "ABCD" as "MST"'),
        ("MST", "ABCDEF", ' as "MST": cannot parse "ABCDEF" as "MST"'),
        ("2006", "é", ' as "2006": cannot parse "\\xc3\\xa9" as "2006"'),
        ("Jan", "\u017fep", ' as "Jan": cannot parse "\\xc5\\xbfep" as "Jan"'),
    ],
)
def test_a_text_that_is_not_a_date_is_refused_with_gos_text(layout: str, text: str, fault: str) -> None:
    shown = text.replace("é", "\\xc3\\xa9").replace("\u017f", "\\xc5\\xbf")

    expected = re.escape(f'parsing time "{shown}"{fault}')
    with pytest.raises(ValueError, match=f"^{expected}$"):
        parse_time(layout, text)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("x " * 60_000, "x " * 60_000 + "y"),
        ("05", "07." + "1" * LONG + "x"),
        ("Jan" * 60_000, "Jan" * 60_000 + "x"),
    ],
)
def test_a_long_layout_or_text_is_read_in_linear_time(layout: str, text: str) -> None:
    with pytest.raises((ValueError, UnsupportedDateError)):
        parse_time(layout, text)


@pytest.mark.parametrize(
    ("layout", "text", "fault"),
    [
        ("15:04", "10:00", "a layout without a year is not supported"),
        ("2006-002", "2024-366", "002 is not supported in the layout of a date to read"),
        ("__2 2006", " 60 2024", "__2 is not supported in the layout of a date to read"),
        ("2006", "0000", "only dates in the years 1 to 9999"),
        ("2006 -07:00", "2024 -24:00", "zones less than 24 hours from UTC are supported"),
        ("2006 MST", "2024 GMT+3", "hours as the name of a zone, as in GMT+3, are not supported"),
        ("2006 MST", "2024 +03", "hours as the name of a zone, as in GMT+3, are not supported"),
        ("2006 05", "2024 07.1234567", "fractions of a microsecond are not supported in dates"),
    ],
)
def test_a_date_that_python_does_not_have_is_refused(layout: str, text: str, fault: str) -> None:
    with pytest.raises(UnsupportedDateError, match=re.escape(fault)):
        parse_time(layout, text)


def test_a_date_cannot_leave_the_years_of_python() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

    with pytest.raises(UnsupportedDateError, match="only dates in the years 1 to 9999"):
        from_unix(2**62)
    with pytest.raises(UnsupportedDateError, match="only dates in the years 1 to 9999"):
        add_duration(last, 10**9)
    with pytest.raises(UnsupportedDateError, match="only dates in the years 1 to 9999"):
        in_zone(last, "Europe/Berlin")
    with pytest.raises(UnsupportedDateError, match="fractions of a microsecond"):
        add_duration(TIME, 1)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("2024-03-01T00:30:00.999+01:00", "2024-02-29T23:30:00Z"),
        ("9999-12-31T23:59:59-01:00", "10000-01-01T00:59:59Z"),
        ("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_a_metav1_time_is_written_in_utc_and_whole_seconds(text: str, written: str | None) -> None:
    assert canonical_time(text) == written


@pytest.mark.parametrize("text", ["", "2024-01-02", "2023-02-29T00:00:00Z", "2024-01-02T03:04:05"])
def test_a_text_that_is_not_a_metav1_time_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="parsing time"):
        canonical_time(text)


def test_a_calendar_has_leap_years() -> None:
    assert is_calendar({"year": 2000, "month": 2, "day": 29})
    assert not is_calendar({"year": 1900, "month": 2, "day": 29})
    assert not is_calendar({"year": 2024, "month": 0, "day": 1})
