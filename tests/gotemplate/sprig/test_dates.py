"""Sprig's dates and durations."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from injector.gotemplate import TemplateError, compile_template
from injector.gotemplate.sprig import dates, txt_func_map
from tests.cases import cases

LAYOUT = "2006-01-02T15:04:05Z07:00"


def stopped() -> datetime:
    """A clock that always shows the same time."""
    return datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_now_and_ago_read_the_clock() -> None:
    assert dates.now(stopped).go_string() == "2024-05-06 07:08:09 +0000 UTC"
    assert dates.ago(stopped, dates.to_date("2006-01-02", "2024-05-06")) == "7h8m9s"


def test_a_time_long_ago_is_the_longest_duration() -> None:
    assert dates.ago(stopped, dates.to_date("2006", "x")) == "2562047h47m16.854775807s"


def test_ago_rounds_half_a_second_away_from_now() -> None:
    early, late = (dates.to_date(LAYOUT, f"2024-05-06T07:08:{second}Z") for second in ("08.5", "09.5"))

    assert (dates.ago(stopped, early), dates.ago(stopped, late)) == ("1s", "-1s")


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-01:00", "2024-05-06T07:08:09.5Z"])
def test_json_has_the_time_in_its_zone(text: str) -> None:
    assert dates.to_date(LAYOUT, text).json_value() == text


@cases("template")
def test_a_date_that_is_not_supported_fails_the_template(template: str) -> None:
    with pytest.raises(TemplateError, match="supported"):
        compile_template("t", template, funcs=txt_func_map()).execute({})


@cases("seconds", "expected", also=[("9" * 5000, "-1s"), ("-" + "9" * 5000, "0s")])
def test_a_number_of_seconds_overflows_as_in_go(seconds: str, expected: str) -> None:
    assert dates.duration(seconds) == expected
