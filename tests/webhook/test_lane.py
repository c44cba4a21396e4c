from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import PausedError, TemplateRenderError
from injector.injection.result import Injected, RequestFacts
from injector.istio.workclock import worked
from injector.kube.admission import Request
from injector.webhook.idle import Loop
from injector.webhook.lane import LARGE, MAX_WAITING, MAX_WAITING_BYTES, Job, Lane
from injector.webhook.pace import SLOW, TRIES
from injector.webhook.reading import Refusal
from tests.factories import UID, make_pod
from tests.revisions.fakes import fake_revision

if TYPE_CHECKING:
    from collections.abc import Callable

DONE = Injected.of(pod={}, patch=[], templates=("sidecar",))
LATE = 1e9


class Clock:
    """Tells what a test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def job(inject: Callable[..., Any], *, revision: str = "1-24", namespace: str = "shop", body: bytes = b"{}") -> Job:
    review = Request(UID, "admission.k8s.io/v1", "Pod", namespace, "", "CREATE", False, make_pod())
    return Job(inject, fake_revision(revision), review, RequestFacts(namespace), body)


def quick(*_: object) -> Injected:
    return DONE


def work(seconds: float) -> None:
    """Use so much of the time of this thread."""
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        pass


def slow(*_: object) -> Injected:
    work(1.2 * SLOW)
    return DONE


def bomb(*_: object) -> Injected:
    work(1.2 * SLOW)
    raise TemplateRenderError("the budget is spent")


async def settled(lane: Lane) -> None:
    """Wait until the lane has done all."""
    async with asyncio.timeout(20.0):
        while any(pace.jobs for pace in lane._paces.values()):  # noqa: ASYNC110 -- what is waited for has no event
            await asyncio.sleep(0.001)


async def test_a_revision_is_injected_on_the_loop_until_it_is_known_to_be_slow() -> None:
    lane = Lane()
    before = lane.takes(fake_revision("1-24"))

    lane.here(job(slow))

    assert (before, lane.takes(fake_revision("1-24"))) == (False, True)
    assert not lane.takes(fake_revision("1-24", fingerprint="another"))


async def test_a_large_review_goes_aside_whatever_its_revision() -> None:
    assert [Lane().takes(fake_revision("1-24"), size) for size in (LARGE, LARGE + 1)] == [False, True]


async def test_a_slow_injection_puts_its_revision_aside_and_no_other() -> None:
    lane = Lane()
    assert lane.here(job(quick, revision="1-30")) is DONE

    assert lane.here(job(slow)) is DONE

    assert (lane.takes(fake_revision("1-24")), lane.takes(fake_revision("1-30"))) == (True, False)


async def test_what_is_aside_runs_in_one_other_thread_in_the_order_it_came_and_what_comes_after_too() -> None:
    threads: list[int] = []
    order: list[int] = []
    lane = Lane(after=lambda: threads.append(threading.get_ident()))

    def noted(number: int) -> Callable[..., Injected]:
        def inject(*_: object) -> Injected:
            threads.append(threading.get_ident())
            order.append(number)
            return DONE

        return inject

    assert await asyncio.gather(*(lane.aside(job(noted(number)), LATE) for number in range(5))) == [DONE] * 5
    await settled(lane)

    assert order == [0, 1, 2, 3, 4]
    assert len(threads) == 10
    assert len(set(threads)) == 1
    assert threading.get_ident() not in threads
    assert lane.waiting() == 0


async def test_a_fault_aside_is_an_ending_like_one_on_the_loop() -> None:
    lane = Lane()

    def faulty(*_: object) -> Injected:
        raise ValueError("x")

    for ended in (lane.here(job(faulty)), await lane.aside(job(faulty), LATE)):
        assert isinstance(ended, ValueError)


async def test_who_spends_the_budget_again_and_again_is_refused_at_once_in_its_namespace_and_tried_again_later() -> (
    None
):
    clock = Clock()
    lane = Lane(clock=clock)

    ends = [await lane.aside(job(bomb), LATE) for _ in range(TRIES + 2)]

    assert [type(end) for end in ends] == [TemplateRenderError] * TRIES + [PausedError] * 2
    assert await lane.aside(job(quick, namespace="another"), LATE) is DONE
    clock.now += 1.0
    assert await lane.aside(job(quick), LATE) is DONE
    assert await lane.aside(job(quick), LATE) is DONE


async def test_of_those_who_wait_when_a_pause_begins_none_is_tried() -> None:
    lane = Lane(clock=Clock())

    ends = await asyncio.gather(*(lane.aside(job(bomb), LATE) for _ in range(TRIES + 3)))

    assert [type(end) for end in ends] == [TemplateRenderError] * TRIES + [PausedError] * 3


async def test_who_would_be_late_or_beyond_the_bounds_is_told_to_come_back() -> None:
    lane = Lane(clock=Clock())
    held = threading.Event()

    def waits(*_: object) -> Injected:
        assert held.wait(20.0)
        return DONE

    tasks = [asyncio.create_task(lane.aside(job(waits), LATE)) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    assert lane.waiting() == MAX_WAITING
    with pytest.raises(Refusal) as caught:
        await lane.aside(job(quick), LATE)
    assert (caught.value.status, caught.value.again) == (429, True)
    tasks[-1].cancel()
    await asyncio.wait(tasks[-1:])
    with pytest.raises(Refusal) as caught:
        await lane.aside(job(quick), 0.001)
    assert (caught.value.status, caught.value.again) == (503, True)
    held.set()
    assert await asyncio.gather(*tasks[:-1]) == [DONE] * (MAX_WAITING - 1)
    await settled(lane)


async def test_large_reviews_do_not_wait_by_the_hundred() -> None:
    lane = Lane(clock=Clock())
    held = threading.Event()

    def waits(*_: object) -> Injected:
        assert held.wait(20.0)
        return DONE

    large = b"x" * MAX_WAITING_BYTES
    first = asyncio.create_task(lane.aside(job(waits, body=large), LATE))
    await asyncio.sleep(0)
    with pytest.raises(Refusal) as caught:
        await lane.aside(job(quick, body=large), LATE)
    held.set()

    assert caught.value.status == 429
    assert await first is DONE


async def test_whose_time_is_up_while_waiting_is_not_worked_on() -> None:
    clock = Clock()
    lane = Lane(clock=clock)
    asked: list[int] = []

    def first(*_: object) -> Injected:
        clock.now += 10.0
        return DONE

    def late(*_: object) -> Injected:
        asked.append(1)
        return DONE

    tasks = [
        asyncio.create_task(lane.aside(job(first), LATE)),
        asyncio.create_task(lane.aside(job(late), 5.0)),
    ]
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert ended[0] is DONE
    assert isinstance(ended[1], Refusal)
    assert asked == []


def test_a_rendering_aside_gives_way_while_the_loop_works_and_ends_all_the_same() -> None:
    naps: list[float] = []

    def renders(*_: object) -> Injected:
        for _number in range(50):
            worked()
        return DONE

    async def scene() -> object:
        lane = Lane()
        task = asyncio.create_task(lane.aside(job(renders), LATE))
        await asyncio.sleep(0)
        begun = time.monotonic()
        # The loop works, and never waits, while the thread looks at its clock.
        while not task.done():
            naps.append(time.monotonic() - begun)
            await asyncio.sleep(0)
        return await task

    with asyncio.Runner(loop_factory=Loop) as runner:
        assert runner.run(asyncio.wait_for(scene(), 60.0)) is DONE

    assert len(naps) > 50
