"""Slow injections: a thread, predictions and pauses."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from functools import partial

import pytest

from injector.errors import PausedError, TemplateBudgetError, TemplateRenderError
from injector.istio.revision import Revision
from injector.webhook.queue import DEADLINE, OVERLOAD, AdmissionQueue, Rejected
from injector.webhook.slow import (
    FAILURES_TO_PAUSE,
    FIRST_PAUSE,
    LARGE,
    MAX_PAUSE,
    MAX_RECORDS,
    MAX_WAITING,
    REST_PER_SECOND,
    SLOW,
    WEIGHT,
    SlowPool,
)
from tests.revisions.fakes import fake_revision
from tests.webhook.conftest import Clock

REVISION = fake_revision("1-24")
OTHER = fake_revision("1-30")


TOO_LONG = 1.1 * SLOW / WEIGHT


CPU = Clock()
"""The CPU time of every thread: only ``spend`` uses any, so that no test depends on the machine."""


def spend(seconds: float) -> None:
    """Use CPU time."""
    CPU.now += seconds


def taking(seconds: float) -> str:
    spend(seconds)
    return "done"


def quick() -> str:
    return "done"


def slow() -> str:
    return taking(TOO_LONG)


def bomb() -> str:
    spend(TOO_LONG)
    raise TemplateBudgetError("the budget is spent")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def others(clock: Clock) -> AdmissionQueue:
    """The queue of the event loop."""
    return AdmissionQueue(clock=clock)


@pytest.fixture
def pool(others: AdmissionQueue) -> SlowPool:
    return SlowPool(others, cpu_clock=CPU)


async def in_thread(
    pool: SlowPool,
    work: Callable[[], str],
    namespace: str = "shop",
    *,
    revision: Revision = REVISION,
    deadline: float = math.inf,
    size: int = 1,
) -> str:
    async with asyncio.timeout(60.0):
        async with pool.turn(revision, namespace, size, deadline):
            return await pool.run_in_thread(revision, namespace, work)


def offloaded(pool: SlowPool, namespace: str = "shop", revision: Revision = REVISION) -> bool:
    return pool.should_offload(revision, namespace, 1)


def test_a_namespace_is_offloaded_after_a_slow_injection_and_no_other_one_is(pool: SlowPool) -> None:
    pool.run_inline(REVISION, "blog", quick)
    assert not offloaded(pool)

    assert pool.run_inline(REVISION, "shop", slow) == "done"

    assert offloaded(pool)
    assert not offloaded(pool, "blog")
    assert not offloaded(pool, "never-seen")
    assert not offloaded(pool, revision=OTHER)
    assert not offloaded(pool, revision=fake_revision("1-24", fingerprint="another"))


def test_injections_that_take_a_little_longer_are_slow_on_average(pool: SlowPool) -> None:
    found = []
    for _ in range(3):
        pool.run_inline(REVISION, "shop", partial(taking, 1.5 * SLOW))
        found.append(offloaded(pool))

    assert found == [False, True, True]


def test_a_large_review_is_offloaded_whatever_its_namespace(pool: SlowPool) -> None:
    assert [pool.should_offload(REVISION, "shop", size) for size in (LARGE, LARGE + 1)] == [False, True]


def test_after_two_slow_namespaces_an_unknown_one_is_offloaded_once(pool: SlowPool) -> None:
    pool.run_inline(REVISION, "quick", quick)
    for namespace in ("one", "two"):
        pool.run_inline(REVISION, namespace, slow)

    assert [offloaded(pool, each) for each in ("quick", "unknown")] == [False, True]
    assert not offloaded(pool, "unknown", OTHER)
    asyncio.run(in_thread(pool, quick, "unknown"))
    assert not offloaded(pool, "unknown")


async def test_a_namespace_whose_pods_are_quick_again_comes_back(pool: SlowPool) -> None:
    pool.run_inline(REVISION, "shop", slow)
    injected = 0
    while offloaded(pool):
        await in_thread(pool, quick)
        injected += 1

    assert 1 <= injected <= 10


async def test_one_slow_pod_among_ten_keeps_a_namespace_in_the_thread(pool: SlowPool) -> None:
    def works(number: int) -> str:
        return taking(5 * SLOW if number % 10 == 0 else 0.0)

    pool.run_inline(REVISION, "shop", partial(works, 0))
    for number in range(100):
        assert offloaded(pool)
        await in_thread(pool, partial(works, number))


async def test_one_thread_runs_the_requests_of_all_namespaces_in_turn(pool: SlowPool) -> None:
    threads: set[int] = set()
    order: list[str] = []

    def noted(namespace: str) -> Callable[[], str]:
        def work() -> str:
            threads.add(threading.get_ident())
            order.append(namespace)
            return namespace

        return work

    results = await asyncio.gather(*(in_thread(pool, noted(each), each) for each in "aaaab"))

    assert results == list("aaaab")
    assert "".join(order) == "aabaa"
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    assert pool.waiting() == 0


async def test_revisions_take_turns_in_the_thread(pool: SlowPool) -> None:
    order: list[str] = []

    def work(revision: Revision) -> str:
        order.append(revision.name)
        return "done"

    asked = [REVISION] * 4 + [OTHER]
    await asyncio.gather(*(in_thread(pool, partial(work, each), revision=each) for each in asked))

    assert order == ["1-24", "1-24", "1-30", "1-24", "1-24"]


async def test_another_namespace_waits_for_the_next_slow_pod_and_not_for_all(pool: SlowPool, clock: Clock) -> None:
    def takes_long() -> str:
        clock.now += 5.0
        return slow()

    before = [asyncio.create_task(in_thread(pool, takes_long)) for _ in range(4)]
    await asyncio.sleep(0)

    assert await in_thread(pool, quick, "other", deadline=11.0) == "done"
    assert clock.now == 10.0
    assert await asyncio.gather(*before) == ["done"] * 4


async def test_an_error_is_raised_on_either_thread(pool: SlowPool) -> None:
    def faulty() -> str:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        pool.run_inline(REVISION, "shop", faulty)
    with pytest.raises(ValueError, match="x"):
        await in_thread(pool, faulty)


async def test_a_template_that_often_spends_its_budget_is_paused_for_one_namespace(
    pool: SlowPool, clock: Clock
) -> None:
    for _ in range(FAILURES_TO_PAUSE):
        with pytest.raises(TemplateBudgetError):
            await in_thread(pool, bomb)

    with pytest.raises(PausedError) as caught:
        await in_thread(pool, quick)
    with pytest.raises(PausedError):
        pool.run_inline(REVISION, "shop", quick)

    assert str(caught.value).startswith("revision 1-24: its templates took too long 3 times in a row")
    assert "the next try is in 1 s; correct the template" in str(caught.value)
    assert "shop" not in str(caught.value)
    assert await in_thread(pool, quick, "another") == "done"
    clock.now += FIRST_PAUSE
    assert await in_thread(pool, quick) == "done"


async def test_a_success_between_failures_starts_the_count_again(pool: SlowPool) -> None:
    for _ in range(FAILURES_TO_PAUSE):
        with pytest.raises(TemplateBudgetError):
            await in_thread(pool, bomb)
        await in_thread(pool, quick)


async def test_pods_that_a_template_refuses_do_not_pause_it_however_slow_the_machine_is(pool: SlowPool) -> None:
    def refused() -> str:
        spend(TOO_LONG)
        raise TemplateRenderError("a text of the template's fail")

    for _ in range(2 * FAILURES_TO_PAUSE):
        with pytest.raises(TemplateRenderError):
            await in_thread(pool, refused)

    assert await in_thread(pool, quick) == "done"


async def test_each_pause_is_twice_as_long_up_to_a_bound(pool: SlowPool, clock: Clock) -> None:
    pauses = [0.0]
    failures = 0
    while failures < FAILURES_TO_PAUSE + 8:
        try:
            await in_thread(pool, bomb)
        except PausedError:
            clock.now += FIRST_PAUSE
            pauses[-1] += FIRST_PAUSE
        except TemplateBudgetError:
            failures += 1
            if failures > FAILURES_TO_PAUSE:
                pauses.append(0.0)

    assert pauses == [1, 2, 4, 8, 16, 32, MAX_PAUSE, MAX_PAUSE, 0]


async def test_requests_that_wait_when_a_pause_begins_are_not_tried(pool: SlowPool) -> None:
    tasks = [asyncio.create_task(in_thread(pool, bomb)) for _ in range(FAILURES_TO_PAUSE + 3)]
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(each) for each in results] == [TemplateBudgetError] * FAILURES_TO_PAUSE + [PausedError] * 3


async def test_one_namespace_cannot_fill_the_queue_of_the_thread(pool: SlowPool) -> None:
    go = threading.Event()

    def waits() -> str:
        assert go.wait(60.0)
        return "done"

    tasks = [asyncio.create_task(in_thread(pool, waits)) for _ in range(1 + MAX_WAITING // 2)]
    await asyncio.sleep(0)
    with pytest.raises(Rejected) as caught:
        await in_thread(pool, quick)
    other = asyncio.create_task(in_thread(pool, quick, "other"))
    await asyncio.sleep(0)
    assert pool.waiting() == len(tasks) + 1
    go.set()

    assert caught.value.reason == OVERLOAD
    assert await other == "done"
    assert await asyncio.gather(*tasks) == ["done"] * len(tasks)


async def test_a_request_whose_deadline_passed_while_it_waited_is_not_injected(pool: SlowPool, clock: Clock) -> None:
    ran: list[str] = []

    def first() -> str:
        clock.now += 10.0
        return "done"

    def late() -> str:
        ran.append("late")
        return "done"

    results = await asyncio.gather(in_thread(pool, first), in_thread(pool, late, deadline=5.0), return_exceptions=True)

    assert results[0] == "done"
    assert isinstance(results[1], Rejected)
    assert results[1].reason == DEADLINE
    assert ran == []


async def test_the_thread_rests_while_requests_wait_for_the_event_loop(pool: SlowPool, others: AdmissionQueue) -> None:
    ran: list[str] = []

    def noted() -> str:
        ran.append("noted")
        return "done"

    await in_thread(pool, partial(taking, 60.0))
    async with others.turn("blog", 1):
        resting = asyncio.create_task(in_thread(pool, noted))
        await asyncio.sleep(0.05)
        assert ran == []
    assert await resting == "done"


async def test_a_rest_has_an_end(pool: SlowPool, others: AdmissionQueue) -> None:
    await in_thread(pool, partial(taking, 0.05 / REST_PER_SECOND))
    async with others.turn("blog", 1):
        assert await in_thread(pool, quick) == "done"


async def test_without_other_requests_the_thread_does_not_rest(pool: SlowPool) -> None:
    await in_thread(pool, partial(taking, 1e9))

    assert await in_thread(pool, quick) == "done"


async def test_a_request_whose_deadline_passes_during_a_rest_is_not_injected(
    pool: SlowPool, others: AdmissionQueue, clock: Clock
) -> None:
    await in_thread(pool, partial(taking, 60.0))
    async with others.turn("blog", 1):
        late = asyncio.create_task(in_thread(pool, quick, deadline=5.0))
        await asyncio.sleep(0)
        clock.now = 5.0

    with pytest.raises(Rejected) as caught:
        await late
    assert caught.value.reason == DEADLINE


def test_records_are_bounded(pool: SlowPool) -> None:
    pool.run_inline(REVISION, "first", slow)
    for number in range(MAX_RECORDS - 1):
        pool.run_inline(REVISION, f"n{number}", quick)
    assert pool.should_offload(REVISION, "first", 0)

    pool.run_inline(REVISION, "one-more", quick)

    assert not pool.should_offload(REVISION, "first", 0)
