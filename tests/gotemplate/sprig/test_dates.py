from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig import dates
from tests.gotemplate.recorded import differences, sprig_cases

FUNCTIONS = (
    "date",
    "dateInZone",
    "date_in_zone",
    "htmlDate",
    "htmlDateInZone",
    "toDate",
    "mustToDate",
    "dateModify",
    "date_modify",
    "mustDateModify",
    "must_date_modify",
    "unixEpoch",
    "ago",
    "now",
)

LAYOUT = "2006-01-02T15:04:05Z07:00"
STOPPED = dates.Dates(lambda: datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC))


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []


def test_now_is_what_the_clock_says() -> None:
    assert STOPPED.now().go_string() == "2024-05-06 07:08:09 +0000 UTC"
    assert STOPPED.ago(dates.to_date("2006-01-02", "2024-05-06")) == "7h8m9s"


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (2**62, "146138514283-06-19"),
        (-(2**40), "-32873-11-12"),
        (-62_135_596_801, "0000-12-31"),
        (253_402_300_800, "10000-01-01"),
    ],
)
def test_years_go_as_far_as_seconds_do(seconds: int, expected: str) -> None:
    assert STOPPED.date("2006-01-02", seconds) == expected


@pytest.mark.parametrize(
    ("value", "since"),
    [(2**62, "-2562047h47m16.854775808s"), (-(2**40), "2562047h47m16.854775807s")],
)
def test_what_is_far_away_is_as_long_ago_as_a_duration_can_say(value: int, since: str) -> None:
    assert STOPPED.ago(value) == since


def test_half_a_second_is_rounded_away_from_now() -> None:
    early, late = (dates.to_date(LAYOUT, f"2024-05-06T07:08:{second}Z") for second in ("08.5", "09.5"))

    assert (STOPPED.ago(early), STOPPED.ago(late)) == ("1s", "-1s")


def test_json_has_no_offset_of_a_day() -> None:
    time = dates.to_date(LAYOUT, "2024-01-01T00:00:00-24:00")

    with pytest.raises(FuncError, match=re.escape("Time.MarshalJSON: timezone hour outside of range [0,23]")):
        time.json_value()


def test_json_has_the_last_second_of_9999_in_its_zone() -> None:
    assert dates.to_date(LAYOUT, "9999-12-31T23:59:59-01:00").json_value() == "9999-12-31T23:59:59-01:00"


def test_json_has_no_year_10000() -> None:
    late = dates.date_modify("1s", dates.to_date(LAYOUT, "9999-12-31T23:59:59Z"))

    with pytest.raises(FuncError, match=re.escape("Time.MarshalJSON: year outside of range [0,9999]")):
        late.json_value()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ("90", "1m30s"),
        ("+90", "1m30s"),
        ("x", "0s"),
        ("9" * 5000, "-1s"),
        ("-" + "9" * 5000, "0s"),
        ("12345678901234", "1335309h58m42.309968896s"),
    ],
)
def test_a_number_of_seconds_overflows_as_in_go(seconds: str, expected: str) -> None:
    assert dates.duration(seconds) == expected
