from __future__ import annotations

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


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []


def test_now_is_what_the_clock_says() -> None:
    clock = dates.Dates(lambda: datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC))
    assert clock.now().go_string() == "2024-05-06 07:08:09 +0000 UTC"
    assert clock.ago(dates.to_date("2006-01-02", "2024-05-06")) == "7h8m9s"


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("layout", "text", "expected"),
    [
        ("2006-2 2", "2024-3 4", "2024-01-04 00:00:00 +0000 UTC"),
        ("2006 15 15", "2024 13 04", "2024-01-01 04:00:00 +0000 UTC"),
        ("2006 05 5", "2024 05.5 7", "2024-01-01 00:00:07.5 +0000 UTC"),
    ],
)
def test_of_a_field_that_a_layout_has_twice_the_last_counts(layout: str, text: str, expected: str) -> None:
    assert dates.must_to_date(layout, text).go_string() == expected


@pytest.mark.parametrize("seconds", [2**62, -(2**40)])
def test_a_time_whose_year_no_calendar_here_has_is_an_error(seconds: int) -> None:
    with pytest.raises(FuncError, match="beyond 1 to 9999"):
        dates.Dates(lambda: datetime(2024, 5, 6, tzinfo=UTC)).date("2006", seconds)


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
