from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from injector.istio.behaviours import Behaviours
from tests.conformance import corpus
from tests.conformance.page import TEXTS, Tally, complete, counted, page
from tests.conformance.run import DOORS, PAGE, checks

AGAIN = "run tests/conformance/run.py --write"
TALLY = Tally("1.30", kube_inject=(2, 2), webhook=(1, 3), text=(2, 2), back=(0, 0))


@pytest.mark.needs("corpus")
def test_the_page_counts_the_cases_that_the_tests_try() -> None:
    tallies = []
    for minor in corpus.MINORS:
        cases = Counter(door.removesuffix(".json") for door, _, _ in checks(minor))
        tallies.append(Tally(minor, *((cases[door], cases[door]) for door in DOORS)))

    assert PAGE.read_text() == page(tallies), "run tests/conformance/run.py --write"


def test_the_page_tells_of_every_behaviour() -> None:
    assert sorted(TEXTS["tells"]) == sorted(field.name for field in fields(Behaviours))


def test_a_row_counts_what_passed_and_of_how_many_where_some_did_not() -> None:
    assert "| 1.30 | 2 | 1 of 3 | 2 | 0 |" in page([TALLY]).splitlines()


def test_behaviours_are_told_by_the_minors_that_have_them() -> None:
    lines = page([]).splitlines()

    assert "| gRPC probes are rewritten | from 1.13 |" in lines
    assert "| YAML wraps long lines | to 1.6, from 1.10 |" in lines
    assert "| Default of `ENABLE_NATIVE_SIDECARS` | to 1.26: `false`<br>from 1.27: `auto` |" in lines


def test_a_minor_is_complete_where_all_of_every_door_passed() -> None:
    assert not complete(TALLY)
    assert complete(Tally("1.30", (2, 2), (3, 3), (2, 2), (0, 0)))


def test_passes_are_counted_by_door() -> None:
    assert counted([("a", True), ("b", False), ("a", False)]) == {"a": (1, 2), "b": (0, 1)}


def test_the_page_has_the_minors_of_each_behaviour() -> None:
    text = PAGE.read_text()

    assert [line for line in page([]).splitlines() if line.startswith("| ") and line not in text] == [], AGAIN
