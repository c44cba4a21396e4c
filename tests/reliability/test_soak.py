from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reliability.soak import Soak, questions, revisions_below, soaked

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reliability.conftest import ReplicaFactory

REVIEWS = 2_000


async def test_mutated_reviews_are_answered_and_leave_nothing_behind(
    start_replica: ReplicaFactory, tmp_path: Path
) -> None:
    flags = ("--insecure-http", "--log-decisions", "none", "--revisions-dir", str(revisions_below(tmp_path)))
    replica = start_replica(*flags)
    await replica.until_ready()

    soak = await soaked(replica, REVIEWS, 1)

    assert (soak.faults, soak.errors, soak.files) == ({}, [], 0)
    assert soak.statuses.total() == REVIEWS
    # Most can be read, and some cannot.
    assert set(soak.statuses) == {200, 400}
    assert soak.statuses[200] > REVIEWS / 2
    # Pages that are kept grow for a while; a leak of a review each would be ten times that.
    assert soak.memory[-1][1] - soak.memory[0][1] < 64 * 1024


def test_a_seed_makes_the_same_reviews_again() -> None:
    first, again, other = (list(questions(50, seed)) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert len({body for _, body in first}) > 40


def test_the_slope_is_that_of_the_line_after_the_warm_up() -> None:
    soak = Soak(memory=[(0, 0), (1_000, 50_000), (2_000, 50_003), (3_000, 50_006), (4_000, 50_009)])

    assert soak.slope(1_000) == 3.0
