"""``docs/compatibility.md`` counts the cases that the tests try."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from injector.istio.behaviours import Behaviours
from tests.conformance import corpus
from tests.conformance.page import TEXTS, Tally, page
from tests.conformance.run import DOORS, PAGE, checks

AGAIN = "run tests/conformance/run.py --write"


@pytest.mark.needs("corpus")
@pytest.mark.needs("corpus-new")
def test_the_page_counts_the_cases_that_the_tests_try() -> None:
    tallies = []
    for minor in corpus.TESTED:
        cases = Counter(door.removesuffix(".json") for door, _, _ in checks(minor))
        tallies.append(Tally(minor, *((cases[door], cases[door]) for door in DOORS)))

    assert PAGE.read_text() == page(tallies), "run tests/conformance/run.py --write"


def test_the_page_tells_of_every_behaviour() -> None:
    assert sorted(TEXTS["tells"]) == sorted(field.name for field in fields(Behaviours))


def test_the_page_has_the_minors_of_each_behaviour() -> None:
    text = PAGE.read_text()

    assert [line for line in page([]).splitlines() if line.startswith("| ") and line not in text] == [], AGAIN
