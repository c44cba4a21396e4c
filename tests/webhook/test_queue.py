"""The queue of injections: turns and threads, fairness between tenants, and early rejection."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, Final

import pytest

from injector.webhook.queue import DEADLINE, OVERLOAD, AdmissionQueue, Rejected, Tenant
from tests.webhook.conftest import Clock

LIMIT: Final = 20.0
SLOW: Final = 0.01
"""Seconds of a request after which no other one begins in the same turn."""
PASSES: Final = 4
"""Passes of the event loop after which a queue has seen the end of a turn."""


def of(namespace: str, revision: str = "1-24") -> Tenant:
    return Tenant(revision, namespace)


class Pool(Executor):
    """A pool whose threads do nothing until a test lets them. ``turns`` are the turns in progress, each with a call that makes it."""

    def __init__(self) -> None:
        self.turns: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.error: Exception | None = None
        """Why it has no thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.error is not None:
            raise self.error
        turn = Future[Any]()
        self.turns.append((turn, partial(fn, *args, **kwargs)))
        return turn

    async def end(self, index: int = 0) -> None:
        """Make a turn, and let the queue see its end."""
        turn, call = self.turns.pop(index)
        turn.set_result(call())
        for _ in range(PASSES):
            await asyncio.sleep(0)


class Work:
    """Requests that take ``seconds`` of the clock each. Notes their order."""

    def __init__(self, seconds: float = SLOW, *, threads: int = 1, **bounds: int) -> None:
        self.clock, self.pool = Clock(), Pool()
        self.queue = AdmissionQueue(**bounds, threads=threads, pool=self.pool, clock=self.clock)
        self.seconds = seconds
        self.order: list[str] = []
        self.turns: list[int] = []
        """The number of requests that each turn reached."""

    async def one(self, namespace: str = "a", *, size: int = 1, remaining: float = math.inf, note: str = "") -> None:
        def inject() -> None:
            self.clock.now += self.seconds
            self.order.append(note or namespace)

        await self.queue.run(of(namespace), size, lambda: inject, self.clock.now + remaining)

    def start(self, *namespaces: str, size: int = 1) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.one(namespace, size=size)) for namespace in namespaces]

    async def held(self, *namespaces: str, size: int = 1) -> list[asyncio.Task[None]]:
        """Let requests wait behind one that has its turn until the pool ends it."""
        holder = asyncio.create_task(self.queue.run(of("held"), 1, lambda: lambda: None))
        tasks = [holder, *self.start(*namespaces, size=size)]
        await asyncio.sleep(0)
        assert self.queue.waiting() == len(namespaces)
        return tasks

    async def run(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Let the pool work until all tasks have ended."""
        await asyncio.sleep(0)
        while self.pool.turns:
            before = len(self.order)
            await self.pool.end()
            self.turns.append(len(self.order) - before)
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*tasks)


async def test_a_single_request_does_not_wait() -> None:
    work = Work()
    task = asyncio.create_task(work.one())

    await asyncio.sleep(0)

    assert (len(work.pool.turns), work.queue.waiting()) == (1, 0)
    await work.run([task])


async def test_the_thread_that_had_the_last_turn_has_the_next_one() -> None:
    queue, both = AdmissionQueue(), threading.Barrier(2)
    await asyncio.gather(*(queue.run(of(namespace), 1, lambda: partial(both.wait, LIMIT)) for namespace in "ab"))

    results = [await queue.run(of("a"), 1, lambda: threading.get_ident) for _ in range(10)]

    assert threading.get_ident() not in results
    assert len(set(results)) == 1


async def test_namespaces_take_turns_however_many_requests_one_of_them_has() -> None:
    work = Work()

    await work.run(work.start(*"aaaaaabbc"))

    assert "".join(work.order) == "abcabaaaa"


async def test_within_a_namespace_the_first_request_goes_first() -> None:
    work = Work()

    await work.run([asyncio.create_task(work.one(note=str(number))) for number in range(6)])

    assert "".join(work.order) == "012345"


async def test_one_namespace_takes_half_of_the_places_and_leaves_room_for_others() -> None:
    work = Work(max_waiting=8)
    tasks = await work.held(*"aaaa")

    with pytest.raises(Rejected) as caught:
        await work.one("a")
    tasks += work.start(*"bb")
    await asyncio.sleep(0)
    with pytest.raises(Rejected):
        await work.one("b")
    tasks += work.start("c")
    await work.run(tasks)
    assert caught.value.reason == OVERLOAD
    assert "".join(work.order) == "abcabaa"


async def test_one_namespace_cannot_fill_the_queue_with_large_reviews() -> None:
    work = Work(max_bytes=100)
    tasks = await work.held("a", size=50)

    with pytest.raises(Rejected) as caught:
        await work.one("a", size=10)
    tasks += work.start("b", size=40)
    await work.run(tasks)
    assert caught.value.reason == OVERLOAD
    assert work.order == ["a", "b"]


async def test_a_review_larger_than_the_bound_waits_if_nothing_else_does() -> None:
    work = Work(max_bytes=10)
    tasks = await work.held("a", size=50)

    await work.run(tasks)

    assert work.order == ["a"]


async def test_a_request_that_cannot_meet_its_deadline_is_rejected_at_once() -> None:
    work = Work(seconds=0.2)
    for _ in range(200):
        await work.run(work.start("a"))
    tasks = await work.held(*"aaaaa")

    with pytest.raises(Rejected) as caught:
        await work.one("a", remaining=1.5)
    # Another namespace is served after one more request of the first.
    tasks.append(asyncio.create_task(work.one("b", remaining=0.7)))
    tasks.append(asyncio.create_task(work.one("a", remaining=2.2)))
    await work.run(tasks)
    assert caught.value.reason == DEADLINE


async def test_a_request_whose_deadline_passed_while_it_waited_is_rejected() -> None:
    work = Work()
    tasks = await work.held()
    late = asyncio.create_task(work.one(remaining=5.0))
    await asyncio.sleep(0)
    work.clock.now = 5.0

    with pytest.raises(Rejected) as caught:
        await work.run([*tasks, late])
    assert (caught.value.reason, work.order) == (DEADLINE, [])


async def test_a_cancelled_request_loses_its_place() -> None:
    work = Work()
    tasks = await work.held(*"aab")
    tasks[1].cancel()
    tasks[3].cancel()
    await asyncio.sleep(0)
    assert work.queue.waiting() == 1

    await work.run([tasks[0], tasks[2]])
    assert work.order == ["a"]


class Panic(BaseException):
    """What a library may raise in place of an Exception."""


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("kind", [ValueError, Panic])
async def test_an_error_is_that_of_its_request_alone(kind: type[BaseException], is_begun: bool) -> None:
    def fail() -> Any:
        raise kind

    work = Work(0.0)
    (holder,) = await work.held()
    failing = asyncio.create_task(work.queue.run(of("a"), 1, (lambda: fail) if is_begun else fail))

    with pytest.raises(kind):
        await work.run([holder, *work.start("a"), failing])

    assert (work.order, work.queue.waiting()) == (["a"], 0)


async def test_requests_for_which_the_system_has_no_thread_fail_and_the_next_do_not() -> None:
    work = Work()
    holder, *failing = await work.held("a", "a", "b")
    work.pool.error = RuntimeError("can't start new thread")
    await work.pool.end()
    work.pool.error = None

    await work.run([holder, *work.start("a", "b")])

    errors = await asyncio.gather(*failing, return_exceptions=True)
    assert [type(error) for error in errors] == [RuntimeError] * 3
    assert (work.order, work.queue.waiting()) == (["a", "b"], 0)


class Review:
    """Stands in for the objects of a request."""


@pytest.mark.parametrize("seconds", [0.0, 1.0])
async def test_a_request_that_fails_leaves_no_objects_to_the_garbage_collector(seconds: float) -> None:
    def fail(review: Review) -> None:
        raise ValueError(review)

    work, review = Work(), Review()
    (holder,) = await work.held()
    failing = asyncio.create_task(work.queue.run(of("a"), 1, partial(partial, fail, review), 0.5))
    reference = weakref.ref(review)
    del review
    await asyncio.sleep(0)
    gc.disable()
    try:
        work.clock.now = seconds  # in the second case its deadline has passed
        while work.pool.turns:
            await work.pool.end()
        assert isinstance(failing.exception(), Rejected if seconds else ValueError)
        del failing

        assert reference() is None
    finally:
        gc.enable()
    await holder


async def test_the_turn_of_a_cancelled_request_ends_with_its_thread() -> None:
    work = Work()
    holder, first = await work.held("held")

    holder.cancel()
    await asyncio.sleep(0)
    assert work.queue.waiting() == 1

    await work.run([first])
    assert holder.cancelled()


async def test_a_request_that_needs_no_thread_any_more_has_no_result() -> None:
    work = Work()
    (holder,) = await work.held()
    waiting = asyncio.create_task(work.queue.run(of("a"), 1, lambda: None))

    await work.run([holder, waiting])

    assert (waiting.result(), work.turns) == (None, [0])


async def test_quick_requests_of_a_tenant_share_turns_and_slow_ones_do_not() -> None:
    quick, slow = Work(0.0), Work(SLOW)
    for work in (quick, slow):
        await work.run(await work.held(*"a" * 10))

    assert quick.order == slow.order == ["a"] * 10
    assert (max(quick.turns) > 1, max(slow.turns)) == (True, 1)


async def test_the_requests_of_a_turn_wait_until_it_reaches_them() -> None:
    work = Work(max_waiting=8)
    tasks = await work.held(*"aaaa")
    await work.pool.end()
    late = asyncio.create_task(work.one("a", remaining=0.02))
    tasks += work.start("a")
    excess = asyncio.create_task(work.one("a"))

    await work.run(tasks)

    errors = await asyncio.gather(late, excess, return_exceptions=True)
    assert [error.reason for error in errors if isinstance(error, Rejected)] == [DEADLINE, OVERLOAD]


async def test_requests_that_a_turn_did_not_reach_keep_their_places() -> None:
    work = Work(SLOW)
    tasks = [asyncio.create_task(work.one(note=str(number))) for number in range(9)]
    await asyncio.sleep(0)
    await work.pool.end()
    await work.pool.end()
    assert work.queue.waiting() == 6
    tasks[5].cancel()
    await work.pool.end()
    tasks += work.start("b")

    await work.run(task for task in tasks if not task.cancelling())

    assert "".join(work.order) == "0123b4678"


@pytest.mark.parametrize(("passes", "order"), [(0, "bc"), (1, "bc"), (2, "bc"), (3, "bc"), (PASSES, "abc")])
async def test_a_request_that_is_cancelled_about_when_its_turn_comes_passes_it_on(passes: int, order: str) -> None:
    work = Work()
    holder, first, second = await work.held("a", "b")
    ending = asyncio.create_task(work.pool.end())

    for _ in range(passes):
        await asyncio.sleep(0)
    first.cancel()
    await ending
    await work.run([holder, second, *work.start("c")])

    assert first.cancelled()
    assert "".join(work.order) == order  # a turn that has begun goes on
    assert work.queue.waiting() == 0


class Threads:
    """Requests of a queue with several threads, each of which has its turn until ``end``."""

    def __init__(self, threads: int = 3) -> None:
        self.work = Work(threads=threads)
        self.running: list[Tenant] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def add(self, *tenants: Tenant) -> None:
        self._tasks += [asyncio.create_task(self._one(tenant)) for tenant in tenants]
        await asyncio.sleep(0)

    async def _one(self, tenant: Tenant) -> None:
        def inject() -> None:
            self.work.clock.now += self.work.seconds
            self.work.order.append(tenant.namespace)

        def begin() -> Callable[[], None]:
            if tenant not in self.running:
                self.running.append(tenant)
            return inject

        await self.work.queue.run(tenant, 1, begin)

    async def end(self, tenant: Tenant, seconds: float = SLOW) -> None:
        """End a turn, in which one request took so many seconds."""
        self.work.seconds = seconds
        index = self.running.index(tenant)
        del self.running[index]
        await self.work.pool.end(index)

    async def drain(self) -> None:
        while self.running:
            await self.end(self.running[0])
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*self._tasks)


async def test_a_tenant_has_one_thread_and_leaves_the_others_to_other_tenants() -> None:
    threads = Threads()

    await threads.add(of("slow"), of("slow"), of("slow"), of("quick"))

    assert threads.running == [of("slow"), of("quick")]
    await threads.drain()
    assert threads.work.order == ["slow", "quick", "slow", "slow"]


async def test_a_revision_leaves_a_thread_to_other_revisions() -> None:
    threads = Threads()

    await threads.add(of("a"), of("b"), of("c"), of("d"))
    assert threads.running == [of("a"), of("b")]
    await threads.add(of("a", "1-30"))

    assert threads.running == [of("a"), of("b"), of("a", "1-30")]
    await threads.drain()
    assert threads.work.order == ["a", "b", "a", "c", "d"]


async def test_the_tenant_that_used_least_time_goes_next() -> None:
    threads = Threads(threads=1)
    await threads.add(of("slow"), *[of("slow")] * 3, *[of("quick")] * 3)

    await threads.end(of("slow"), 1.0)
    for _ in range(3):
        await threads.end(of("quick"), 0.01)

    await threads.drain()
    assert threads.work.order == ["slow", "quick", "quick", "quick", "slow", "slow", "slow"]


async def test_a_tenant_that_comes_later_has_no_time_saved_up() -> None:
    threads = Threads(threads=1)
    await threads.add(*[of("first")] * 4)
    await threads.end(of("first"), 1.0)
    await threads.end(of("first"), 1.0)
    await threads.add(*[of("later")] * 3)

    for name in ("first", "later", "first"):
        await threads.end(of(name), 1.0)
    await threads.drain()

    assert threads.work.order == ["first", "first", "first", "later", "first", "later", "later"]


async def test_the_time_of_a_tenant_is_forgotten_once_the_queue_is_empty() -> None:
    threads = Threads(threads=1)
    await threads.add(of("slow"))
    await threads.end(of("slow"), 60.0)

    await threads.add(of("held"), of("slow"), of("quick"))
    await threads.drain()

    assert threads.work.order == ["slow", "held", "slow", "quick"]
