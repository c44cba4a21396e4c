"""The admission queue: order, fairness and early refusals."""

from __future__ import annotations

import asyncio
import math

import pytest

from injector.webhook.queue import DEADLINE, OVERLOAD, AdmissionQueue, Rejected
from tests.webhook.conftest import Clock


class Work:
    """Requests that take turns, each ``seconds`` long. Notes their order and the pass of the loop in which each had its turn."""

    def __init__(self, seconds: float = 0.01, **bounds: int) -> None:
        self.clock = Clock()
        self.queue = AdmissionQueue(**bounds, clock=self.clock)
        self.seconds = seconds
        self.order: list[str] = []
        self.passes: list[int] = []
        self._pass = 0

    async def one(self, namespace: str = "a", *, size: int = 1, left: float = math.inf) -> None:
        async with self.queue.turn(namespace, size, self.clock.now + left):
            self.clock.now += self.seconds
            self.order.append(namespace)
            self.passes.append(self._pass)

    def start(self, *namespaces: str, size: int = 1) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.one(each, size=size)) for each in namespaces]

    async def held(self, *namespaces: str, size: int = 1) -> tuple[asyncio.Event, list[asyncio.Task[None]]]:
        """Let requests wait behind one that has its turn until the event is set."""
        go = asyncio.Event()

        async def hold() -> None:
            async with self.queue.turn("held", 1):
                await go.wait()

        tasks = [asyncio.create_task(hold()), *self.start(*namespaces, size=size)]
        await asyncio.sleep(0)
        assert self.queue.waiting() == len(namespaces)
        return go, tasks

    async def run(self, tasks: list[asyncio.Task[None]]) -> None:
        async with asyncio.timeout(20.0):
            while not all(task.done() for task in tasks):
                self._pass += 1
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)


async def test_a_single_request_does_not_wait() -> None:
    turn = AdmissionQueue().turn("a", 1).__aenter__()

    with pytest.raises(StopIteration):
        turn.send(None)


async def test_the_event_loop_runs_between_two_turns() -> None:
    work = Work()

    await work.run(work.start(*"aaaaa"))

    assert len(set(work.passes)) == 5


async def test_namespaces_take_turns_however_many_requests_one_of_them_has() -> None:
    work = Work()

    await work.run(work.start(*"aaaaaabbc"))

    assert "".join(work.order) == "aabcabaaa"


async def test_within_a_namespace_the_first_request_goes_first() -> None:
    work = Work()
    done: list[int] = []

    async def numbered(number: int) -> None:
        async with work.queue.turn("a", 1):
            done.append(number)

    await work.run([asyncio.create_task(numbered(number)) for number in range(6)])

    assert done == list(range(6))


async def test_one_namespace_takes_half_of_the_places_and_leaves_room_for_others() -> None:
    work = Work(max_waiting=8)
    go, tasks = await work.held(*"aaaa")

    with pytest.raises(Rejected) as caught:
        await work.one("a")
    tasks += work.start(*"bb")
    await asyncio.sleep(0)
    with pytest.raises(Rejected):
        await work.one("b")
    tasks += work.start("c")
    await asyncio.sleep(0)
    go.set()

    await work.run(tasks)
    assert caught.value.reason == OVERLOAD
    assert "".join(work.order) == "abcabaa"


async def test_one_namespace_cannot_fill_the_queue_with_large_reviews() -> None:
    work = Work(max_bytes=100)
    go, tasks = await work.held("a", size=50)

    with pytest.raises(Rejected) as caught:
        await work.one("a", size=10)
    tasks += work.start("b", size=40)
    await asyncio.sleep(0)
    go.set()

    await work.run(tasks)
    assert caught.value.reason == OVERLOAD
    assert work.order == ["a", "b"]


async def test_a_review_larger_than_the_bound_waits_if_nothing_else_does() -> None:
    work = Work(max_bytes=10)
    go, tasks = await work.held("a", size=50)
    go.set()

    await work.run(tasks)

    assert work.order == ["a"]


async def test_a_request_that_cannot_meet_its_deadline_is_rejected_at_once() -> None:
    work = Work(seconds=0.2)
    for _ in range(200):
        await work.run(work.start("a"))
    go, tasks = await work.held(*"aaaaa")

    with pytest.raises(Rejected) as caught:
        await work.one("a", left=1.5)
    # Another namespace is served after one more request of the first.
    tasks.append(asyncio.create_task(work.one("b", left=0.7)))
    tasks.append(asyncio.create_task(work.one("a", left=2.2)))
    await asyncio.sleep(0)
    go.set()

    await work.run(tasks)
    assert caught.value.reason == DEADLINE


async def test_a_request_whose_deadline_passed_while_it_waited_is_rejected() -> None:
    work = Work()
    go, tasks = await work.held()
    late = asyncio.create_task(work.one(left=5.0))
    await asyncio.sleep(0)
    work.clock.now = 5.0
    go.set()

    with pytest.raises(Rejected) as caught:
        await work.run([*tasks, late])
    assert (caught.value.reason, work.order) == (DEADLINE, [])


async def test_a_cancelled_request_loses_its_place() -> None:
    work = Work()
    go, tasks = await work.held(*"aab")
    tasks[1].cancel()
    tasks[3].cancel()
    await asyncio.sleep(0)
    assert work.queue.waiting() == 1
    go.set()

    await asyncio.wait(tasks)
    assert work.order == ["a"]


async def test_a_request_that_was_cancelled_a_moment_ago_gets_no_turn() -> None:
    work = Work()
    async with work.queue.turn("held", 1):
        tasks = work.start("a", "b")
        await asyncio.sleep(0)
        tasks[0].cancel()

    async with asyncio.timeout(20.0):
        await asyncio.wait(tasks)
    assert (work.order, work.queue.waiting()) == (["b"], 0)


async def test_an_error_within_a_turn_ends_it() -> None:
    queue = AdmissionQueue()

    with pytest.raises(ValueError, match="x"):
        async with queue.turn("a", 1):
            raise ValueError("x")

    async with asyncio.timeout(20.0), queue.turn("a", 1):
        pass


def test_bodies_share_the_memory_and_give_it_back() -> None:
    queue = AdmissionQueue(max_bytes=10)

    assert [queue.reserve(6), queue.reserve(6)] == [True, False]
    queue.release(6)
    assert not queue.reserve(6)
    queue.release(6)
    queue.release(6)
    assert queue.reserve(10)


def test_a_large_body_leaves_room_for_small_ones() -> None:
    queue = AdmissionQueue(max_bytes=100)

    assert queue.reserve(40)
    assert not queue.reserve(30, body=40)
    queue.release(30)
    assert queue.reserve(20)


@pytest.mark.parametrize("passes", range(4))
async def test_a_request_that_is_cancelled_about_when_its_turn_comes_passes_it_on(passes: int) -> None:
    work = Work()
    go, (holder, first, second) = await work.held("a", "b")
    asyncio.get_running_loop().call_soon(go.set)

    for _ in range(passes):
        await asyncio.sleep(0)
    first.cancel()
    async with asyncio.timeout(20.0):
        await asyncio.gather(holder, first, second, return_exceptions=True)
        await work.one("c")

    assert work.order == [*([] if first.cancelled() else ["a"]), "b", "c"]
    assert work.queue.waiting() == 0
