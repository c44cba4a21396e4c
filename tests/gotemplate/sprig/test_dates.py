from __future__ import annotations

from datetime import UTC, datetime

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
