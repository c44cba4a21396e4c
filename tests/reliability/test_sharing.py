"""Trials shared out to processes: all are counted, and whoever stops early does not pass for done."""

from __future__ import annotations

from collections import Counter
from itertools import count, repeat

from tests.reliability.long.trials import shared
from tests.trials import TrialResults

MANY = 7


def tried(part: int) -> TrialResults:
    """Two pods, of which one is wrong where the part has no number."""
    return TrialResults(2, Counter(even=1, odd=1), [] if part else ["wrong"])


def test_every_part_is_tried_and_counted() -> None:
    found = shared(tried, iter(range(1, MANY + 1)))

    assert found == TrialResults(2 * MANY, Counter(even=MANY, odd=MANY), [])


def test_endless_parts_end_once_as_many_as_wanted_were_tried() -> None:
    found = shared(tried, count(1), 2 * MANY)

    assert 2 * MANY <= found.tried <= 4 * MANY
    assert found.met(2 * MANY)
    assert found.counted(2 * MANY) == str(found.tried)


def test_who_runs_out_of_time_has_not_met_the_target_and_says_so() -> None:
    found = shared(tried, repeat(1), 1_000_000, minutes=0)

    assert 0 < found.tried < 1_000
    assert not found.met(1_000_000)
    assert found.counted(1_000_000) == f"{found.tried} of 1000000"


def test_one_wrong_pod_is_kept_whoever_tried_it() -> None:
    found = shared(tried, iter(range(MANY)))

    assert found.faults == ["wrong"]
    assert not found.met(2 * MANY)
