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
from tests.cases import cases

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


@cases("text", "nanoseconds", also=[("0." + "0" * 400 + "1h", 0)])
def test_a_duration_is_read_with_gos_float64_fractions(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@cases("layout", "expected")
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
    texts = [
        format_time(in_zone(from_unix(seconds), "Europe/Berlin"), "15:04:05 MST")
        for seconds in (1_711_846_799, 1_711_846_800)
    ]

    assert texts == ["01:59:59 CET", "03:00:00 CEST"]


@pytest.mark.parametrize("name", ["", "UTC", "Local", "Nowhere/None", "../UTC", "/etc/localtime", "Europe", "a\0b"])
def test_an_unknown_zone_is_utc(name: str) -> None:
    assert format_time(in_zone(TIME, name), STRING) == "2024-03-07 15:04:05.120045 +0000 UTC"


@cases("layout", "text", "expected")
def test_a_time_is_read_as_in_go(layout: str, text: str, expected: str) -> None:
    assert format_time(parse_time(layout, text), STRING) == expected


@cases("layout", "text", "fault")
def test_a_text_that_is_not_a_date_is_refused_with_gos_text(layout: str, text: str, fault: str) -> None:
    escaped = text.replace("é", "\\xc3\\xa9").replace("\u017f", "\\xc5\\xbf")

    expected = re.escape(f'parsing time "{escaped}"{fault}')
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


@cases("layout", "text", "fault")
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


@cases("text", "written")
def test_a_metav1_time_is_written_in_utc_and_whole_seconds(text: str, written: str | None) -> None:
    assert canonical_time(text) == written


@pytest.mark.parametrize(
    "text", ["", "2024-01-02", "2023-02-29T00:00:00Z", "2024-01-02T03:04:05", "2024-01-02T24:00:00Z"]
)
def test_a_text_that_is_not_a_metav1_time_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="parsing time"):
        canonical_time(text)


def test_a_calendar_has_leap_years() -> None:
    assert is_calendar({"year": 2000, "month": 2, "day": 29})
    assert not is_calendar({"year": 1900, "month": 2, "day": 29})
    assert not is_calendar({"year": 2024, "month": 0, "day": 1})
