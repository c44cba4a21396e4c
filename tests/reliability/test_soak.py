from __future__ import annotations

import gc
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from injector.webhook.decisions import LOGGED, Decisions
from tests.fuzz.review_target import Injector
from tests.reliability.conftest import ReplicaFactory
from tests.reliability.soak import AGAIN, FILLED, Soak, kinds, questions, revisions_below, soaked

REVIEWS = 2_000
KEPT_REVIEWS = 300
ROUNDS = 12


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
    # What is remembered of so many takes some 5 MiB; of what is decoded of each, 30 KB, it would be 60.
    assert soak.memory[-1][1] - soak.memory[0][1] < 32 * 1024


@pytest.fixture
def injector() -> Iterator[Injector]:
    """The webhook in this process."""
    made = Injector(decisions=Decisions(LOGGED["none"]))
    yield made
    logging.getLogger().removeHandler(made.log)
    made.loop.close()


def growth(injector: Injector, requests: list[bytes], left: list[object] | None = None) -> int:
    """How many more blocks of memory there are in use after these requests; ``left`` gets what one leaves behind."""
    gc.collect()
    before = sys.getallocatedblocks()
    for request in requests:
        answer = injector.answered(request, whole=True)
        assert answer
        if left is not None:
            left.append(object())
    gc.collect()
    return sys.getallocatedblocks() - before


def test_reviews_that_come_again_leave_no_object_behind(injector: Injector) -> None:
    head = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    requests = [head.format(path, len(body)).encode() + body for path, body in questions(KEPT_REVIEWS, 1)]
    few = len(requests) // 4

    # Plans are made when there is time, so it takes some rounds until all is remembered that will be.
    assert any(growth(injector, requests) < few for _ in range(ROUNDS))
    # An object that each leaves behind would be seen, whatever else is forgotten meanwhile.
    assert growth(injector, requests, []) > 2 * few


def test_a_seed_makes_the_same_reviews_again() -> None:
    first, again, other = (list(questions(50, seed)) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert len({body for _, body in first}) > 40


def test_what_fills_the_memory_is_of_ever_new_kinds_each_of_which_comes_again() -> None:
    asked = list(kinds(20, 1))

    assert Counter(asked).most_common()[0][1] == Counter(asked).most_common()[-1][1] == AGAIN
    assert Counter(path for path, _ in asked) == dict.fromkeys(FILLED, 20 * AGAIN)


def test_the_slope_is_that_of_the_line_after_the_warm_up() -> None:
    soak = Soak(memory=[(0, 0), (1_000, 50_000), (2_000, 50_003), (3_000, 50_006), (4_000, 50_009)])

    assert soak.slope(1_000) == 3.0
