"""The queue of injections: turns and threads, fairness between tenants, and early rejection."""

from __future__ import annotations

import asyncio
import math

import pytest

from injector.webhook.queue import DEADLINE, OVERLOAD, AdmissionQueue, Rejected, Tenant
from tests.webhook.conftest import Clock


def of(namespace: str, revision: str = "1-24") -> Tenant:
    return Tenant(revision, namespace)


class Work:
    """Requests that take turns, each ``seconds`` long. Notes their order."""

    def __init__(self, seconds: float = 0.01, *, threads: int = 1, **bounds: int) -> None:
        self.clock = Clock()
        self.queue = AdmissionQueue(**bounds, threads=threads, clock=self.clock)
        self.seconds = seconds
        self.order: list[str] = []

    async def one(self, namespace: str = "a", *, size: int = 1, remaining: float = math.inf) -> None:
        async with self.queue.turn(of(namespace), size, self.clock.now + remaining):
            await asyncio.sleep(0)
            self.clock.now += self.seconds
            self.order.append(namespace)

    def start(self, *namespaces: str, size: int = 1) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.one(namespace, size=size)) for namespace in namespaces]

    async def held(self, *namespaces: str, size: int = 1) -> tuple[asyncio.Event, list[asyncio.Task[None]]]:
        """Let requests wait behind one that has its turn until the event is set."""
        go = asyncio.Event()

        async def hold() -> None:
            async with self.queue.turn(of("held"), 1):
                await go.wait()

        tasks = [asyncio.create_task(hold()), *self.start(*namespaces, size=size)]
        await asyncio.sleep(0)
        assert self.queue.waiting() == len(namespaces)
        return go, tasks

    async def run(self, tasks: list[asyncio.Task[None]]) -> None:
        async with asyncio.timeout(20.0):
            await asyncio.gather(*tasks)


async def test_a_single_request_does_not_wait() -> None:
    turn = AdmissionQueue().turn(of("a"), 1).__aenter__()

    with pytest.raises(StopIteration):
        turn.send(None)


async def test_namespaces_take_turns_however_many_requests_one_of_them_has() -> None:
    work = Work()

    await work.run(work.start(*"aaaaaabbc"))

    assert "".join(work.order) == "abcabaaaa"


async def test_within_a_namespace_the_first_request_goes_first() -> None:
    work = Work()
    done: list[int] = []

    async def numbered(number: int) -> None:
        async with work.queue.turn(of("a"), 1):
            await asyncio.sleep(0)
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
        await work.one("a", remaining=1.5)
    # Another namespace is served after one more request of the first.
    tasks.append(asyncio.create_task(work.one("b", remaining=0.7)))
    tasks.append(asyncio.create_task(work.one("a", remaining=2.2)))
    await asyncio.sleep(0)
    go.set()

    await work.run(tasks)
    assert caught.value.reason == DEADLINE


async def test_a_request_whose_deadline_passed_while_it_waited_is_rejected() -> None:
    work = Work()
    go, tasks = await work.held()
    late = asyncio.create_task(work.one(remaining=5.0))
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
    async with work.queue.turn(of("held"), 1):
        tasks = work.start("a", "b")
        await asyncio.sleep(0)
        tasks[0].cancel()

    async with asyncio.timeout(20.0):
        await asyncio.wait(tasks)
    assert (work.order, work.queue.waiting()) == (["b"], 0)


async def test_an_error_within_a_turn_ends_it() -> None:
    queue = AdmissionQueue(threads=1)

    with pytest.raises(ValueError, match="x"):
        async with queue.turn(of("a"), 1):
            raise ValueError("x")

    async with asyncio.timeout(20.0), queue.turn(of("a"), 1):
        pass


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


class Threads:
    """Requests of a queue with several threads, each of which has its turn until ``end``."""

    def __init__(self, threads: int = 3) -> None:
        self.clock = Clock()
        self.queue = AdmissionQueue(threads=threads, clock=self.clock)
        self.running: dict[Tenant, asyncio.Event] = {}
        self.order: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def add(self, *tenants: Tenant) -> None:
        self._tasks += [asyncio.create_task(self._one(tenant)) for tenant in tenants]
        await asyncio.sleep(0)

    async def _one(self, tenant: Tenant) -> None:
        async with self.queue.turn(tenant, 1):
            self.order.append(tenant.namespace)
            end = self.running[tenant] = asyncio.Event()
            await end.wait()
            del self.running[tenant]

    async def end(self, tenant: Tenant, seconds: float = 0.0) -> None:
        """End a turn, after so many seconds of the clock."""
        self.clock.now += seconds
        self.running[tenant].set()
        for _ in range(3):
            await asyncio.sleep(0)

    async def drain(self) -> None:
        async with asyncio.timeout(20.0):
            while self.running:
                await self.end(next(iter(self.running)))
            await asyncio.gather(*self._tasks)


async def test_a_tenant_has_one_thread_and_leaves_the_others_to_other_tenants() -> None:
    threads = Threads()

    await threads.add(of("slow"), of("slow"), of("slow"), of("quick"))

    assert list(threads.running) == [of("slow"), of("quick")]
    await threads.drain()
    assert threads.order == ["slow", "quick", "slow", "slow"]


async def test_a_revision_leaves_a_thread_to_other_revisions() -> None:
    threads = Threads()

    await threads.add(of("a"), of("b"), of("c"), of("d"))
    assert list(threads.running) == [of("a"), of("b")]
    await threads.add(of("a", "1-30"))

    assert list(threads.running) == [of("a"), of("b"), of("a", "1-30")]
    await threads.drain()
    assert threads.order == ["a", "b", "a", "c", "d"]


async def test_the_tenant_that_used_least_time_goes_next() -> None:
    threads = Threads(threads=1)
    await threads.add(of("slow"), *[of("slow")] * 3, *[of("quick")] * 3)

    await threads.end(of("slow"), 1.0)
    for _ in range(3):
        await threads.end(of("quick"), 0.01)

    await threads.drain()
    assert threads.order == ["slow", "quick", "quick", "quick", "slow", "slow", "slow"]


async def test_a_tenant_that_comes_later_has_no_time_saved_up() -> None:
    threads = Threads(threads=1)
    await threads.add(*[of("first")] * 4)
    await threads.end(of("first"), 1.0)
    await threads.end(of("first"), 1.0)
    await threads.add(*[of("later")] * 3)

    for name in ("first", "later", "first"):
        await threads.end(of(name), 1.0)
    await threads.drain()

    assert threads.order == ["first", "first", "first", "later", "first", "later", "later"]


async def test_the_time_of_a_tenant_is_forgotten_once_the_queue_is_empty() -> None:
    threads = Threads(threads=1)
    await threads.add(of("slow"))
    await threads.end(of("slow"), 60.0)

    await threads.add(of("held"), of("slow"), of("quick"))
    await threads.drain()

    assert threads.order == ["slow", "held", "slow", "quick"]
