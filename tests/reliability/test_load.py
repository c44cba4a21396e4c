"""A replica under load: every answer is right, a mass start is admitted, nothing is left behind. Long: ``steady``, ``mass``, ``soak``."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from injector.webhook.decisions import LOGGED, Decisions
from tests.fuzz.review_target import Injector
from tests.reliability.apiserver import Load
from tests.reliability.heap import Heap
from tests.reliability.long.client import review_of
from tests.reliability.profile import Profile, questions, written
from tests.reliability.replicas import Stage
from tests.reliability.soak import SAMPLE, heap_growth, revisions_below, soaked
from tests.reliability.soak import questions as mutated_questions

SECONDS = 2.0
PODS, WAITING = 400, 50
REVIEWS = 1_000
KEPT_REVIEWS = 300
ROUNDS = 12


async def test_every_answer_to_mixed_pods_of_four_revisions_is_that_made_offline(stage: Stage, tmp_path: Path) -> None:
    folder = tmp_path / "revisions"
    folder.mkdir()
    names = written(folder)
    pods = questions(folder, names, every=5)
    replica = await stage.replica("--revisions-dir", str(folder))
    profile = Profile(replica.client(), pods)

    came = await profile.run(SECONDS)
    await profile.client.close()

    assert came.wrong == {}
    assert came.calls == len(came.seconds) == int(SECONDS * profile.rate)
    assert {one.revision for one in pods} == set(names)


@pytest.mark.parametrize("alike", [False, True])
async def test_many_pods_at_once_are_injected_or_told_to_try_again_and_then_injected(stage: Stage, alike: bool) -> None:
    replica = await stage.replica("--max-waiting", str(WAITING))
    load = Load(replica.client(), lambda uid: review_of(uid, "web" if alike else uid))
    retries: Counter[int] = Counter()

    async def admitted(uid: str) -> None:
        while (reply := await load.client.post(load.path, load.review(uid), timeout=60.0)).status in (429, 503):
            retries[reply.status] += 1
            await asyncio.sleep(int(reply.headers["retry-after"]))
        load.check(uid, reply)

    async with asyncio.timeout(60.0):
        await asyncio.gather(*(admitted(f"pod-{number}") for number in range(PODS)))
    await load.client.close()

    assert (load.failures, load.answered.total()) == ([], PODS)
    assert alike or retries[429] > 0


async def test_mutated_reviews_are_answered_and_leave_nothing_behind(stage: Stage, tmp_path: Path) -> None:
    replica = await stage.replica("--revisions-dir", str(revisions_below(tmp_path)))

    soak = await soaked(replica, REVIEWS, 1)

    assert (soak.faults, soak.errors, soak.files) == ({}, [], 0)
    assert soak.statuses.total() == REVIEWS
    # Most can be read, and some cannot.
    assert set(soak.statuses) == {200, 400}
    assert soak.statuses[200] > REVIEWS / 2
    # What is remembered of so many takes some 3 MiB; of what is decoded of each, 30 KB, it would be 30.
    assert soak.memory[-1][1] - soak.memory[0][1] < 16 * 1024


async def test_the_heap_is_measured_before_and_after(stage: Stage, tmp_path: Path) -> None:
    heap = tmp_path / "heap"
    program = ("-m", "tests.reliability.heap", str(heap))
    replica = await stage.replica("--revisions-dir", str(revisions_below(tmp_path)), program=program)

    soak = await soaked(replica, REVIEWS, 1, heap=heap)

    assert [answered for answered, _ in soak.heaps] == [SAMPLE, REVIEWS]
    assert all(in_use.kib > 1_024 and in_use.blocks > REVIEWS for _, in_use in soak.heaps)


def test_growth_is_that_between_the_first_and_the_last_measurement() -> None:
    heaps = [(1_000, Heap(100, 5_000)), (2_000, Heap(900, 9_000)), (5_000, Heap(104, 4_980))]

    assert heap_growth(heaps) == (1.0, -5.0)


@pytest.fixture
def injector() -> Iterator[Injector]:
    """The webhook in this process."""
    webhook = Injector(decisions=Decisions(LOGGED["none"]))
    yield webhook
    logging.getLogger().removeHandler(webhook.log)
    webhook.loop.close()


def growth(injector: Injector, requests: list[bytes], objects: list[object] | None = None) -> int:
    """How many more blocks of memory there are in use after these requests; ``left`` gets what one leaves behind."""
    gc.collect()
    before = sys.getallocatedblocks()
    for request in requests:
        answer = injector.answered(request, whole=True)
        assert answer
        if objects is not None:
            objects.append(object())
    gc.collect()
    return sys.getallocatedblocks() - before


def test_reviews_that_come_again_leave_no_object_behind(injector: Injector) -> None:
    head = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    requests = [head.format(path, len(body)).encode() + body for path, body in mutated_questions(KEPT_REVIEWS, 1)]
    few = len(requests) // 4

    # Plans are made when there is time, so it takes some rounds until all is remembered that will be.
    assert any(growth(injector, requests) < few for _ in range(ROUNDS))
    # An object that each leaves behind would be seen, whatever else is forgotten meanwhile.
    assert growth(injector, requests, []) > 2 * few
