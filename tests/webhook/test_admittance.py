from __future__ import annotations

import asyncio

import pytest

from injector.settings import Settings
from injector.webhook.admittance import DEADLINE, LONGEST_SLICE, MAX_WAITING, OVERLOAD, SLICE, Admittance
from tests.revisions.clock import until


class Clock:
    """Tells what a test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Work:
    """Requests that take turns, each ``seconds`` long, and the pass of the loop in which each was worked on."""

    def __init__(self, seconds: float, **bounds: int) -> None:
        self.clock = Clock()
        self.admittance = Admittance(**bounds, clock=self.clock)
        self.seconds = seconds
        self.passes: dict[int, int] = {}
        self._pass = 0

    async def one(self, number: int, *, newcomer: bool = False) -> None:
        await self.admittance.turn(newcomer=newcomer)
        self.clock.now += self.seconds
        self.admittance.took(self.seconds)
        self.passes[number] = self._pass

    async def all(self, count: int) -> list[int]:
        """How many were worked on in each pass, once all were."""
        tasks = [asyncio.create_task(self.one(number)) for number in range(count)]
        while not all(task.done() for task in tasks):
            self._pass += 1
            await asyncio.sleep(0)
        found = list(self.passes.values())
        return [found.count(number) for number in sorted(set(found))]


async def test_a_request_alone_waits_for_nobody() -> None:
    admittance = Admittance()

    turn = admittance.turn()
    with pytest.raises(StopIteration):
        turn.send(None)


async def test_slow_requests_are_worked_on_one_in_each_pass_of_the_loop_in_the_order_they_came() -> None:
    work = Work(2 * SLICE)

    assert await work.all(5) == [1, 1, 1, 1, 1]
    assert list(work.passes) == [0, 1, 2, 3, 4]


async def test_fast_requests_share_a_pass_as_far_as_they_fit() -> None:
    work = Work(SLICE / 4)
    for _ in range(200):
        work.admittance.took(SLICE / 4)

    passes = await work.all(12)

    assert sum(passes) == 12
    assert 3 <= max(passes) <= 5


async def test_injections_get_as_long_as_all_else_takes_up_to_a_bound() -> None:
    work = Work(SLICE)
    for _ in range(200):
        work.admittance.took(SLICE)
    tasks = [asyncio.create_task(work.one(number)) for number in range(60)]
    begun = []
    for elsewhere in (0.0, 0.0, 0.0, 5 * SLICE, 100 * LONGEST_SLICE):
        work.clock.now += elsewhere
        before = work.admittance.waiting()
        await asyncio.sleep(0)
        begun.append(before - work.admittance.waiting())

    await asyncio.wait(tasks)
    assert begun[-2:] == [5, int(LONGEST_SLICE / SLICE)]


async def test_who_comes_while_others_wait_waits_behind_them() -> None:
    work = Work(2 * SLICE)
    first = [asyncio.create_task(work.one(number)) for number in range(3)]
    await until(lambda: work.admittance.waiting() > 0)

    await asyncio.gather(*first, asyncio.create_task(work.one(3)))

    assert list(work.passes) == [0, 1, 2, 3]


async def test_who_was_answered_before_goes_ahead_of_newcomers_who_get_a_turn_in_each_pass_nevertheless() -> None:
    work = Work(2 * SLICE)
    tasks = [asyncio.create_task(work.one(number, newcomer=True)) for number in range(4)]
    await until(lambda: work.admittance.waiting() == 3)
    tasks += [asyncio.create_task(work.one(number)) for number in range(10, 14)]

    await asyncio.wait(tasks)

    assert list(work.passes) == [0, 10, 1, 11, 2, 12, 3, 13]


async def test_newcomers_have_less_of_a_pass_than_others() -> None:
    begun = {}
    for newcomer in (False, True):
        work = Work(SLICE / 16)
        for _ in range(200):
            work.admittance.took(SLICE / 16)
        tasks = [asyncio.create_task(work.one(number, newcomer=newcomer)) for number in range(100)]
        await until(lambda: work.admittance.waiting() > 0)  # noqa: B023 -- awaited here
        before = work.admittance.waiting()
        await asyncio.sleep(0)
        begun[newcomer] = before - work.admittance.waiting()
        await asyncio.wait(tasks)

    assert 15 <= begun[False] <= 16
    assert 3 <= begun[True] <= 4


async def test_newcomers_who_wait_leave_room_for_others() -> None:
    work = Work(2 * SLICE, most=2)
    tasks = [asyncio.create_task(work.one(number, newcomer=True)) for number in range(3)]
    await until(lambda: work.admittance.waiting() == 2)

    assert work.admittance.refusal(60.0, newcomer=True) == OVERLOAD
    assert work.admittance.refusal(60.0) == ""
    await asyncio.wait(tasks)


async def test_a_turn_of_somebody_who_is_gone_is_the_next_ones() -> None:
    work = Work(2 * SLICE)
    tasks = [asyncio.create_task(work.one(number)) for number in range(4)]
    await until(lambda: work.admittance.waiting() == 3)
    tasks[1].cancel()

    await asyncio.wait(tasks)

    assert list(work.passes) == [0, 2, 3]
    assert work.admittance.waiting() == 0


async def test_beyond_its_bound_nobody_waits() -> None:
    work = Work(2 * SLICE, most=2)
    tasks = [asyncio.create_task(work.one(number)) for number in range(3)]
    assert work.admittance.refusal(60.0) == ""
    await until(lambda: work.admittance.waiting() == 2)

    assert work.admittance.refusal(60.0) == OVERLOAD
    await asyncio.wait(tasks)
    assert work.admittance.refusal(60.0) == ""


async def test_who_would_not_be_answered_in_time_does_not_wait() -> None:
    work = Work(0.2)
    for _ in range(200):
        work.admittance.took(0.2)
    tasks = [asyncio.create_task(work.one(number)) for number in range(6)]
    await until(lambda: work.admittance.waiting() == 5)

    assert (work.admittance.refusal(0.9), work.admittance.refusal(1.1)) == (DEADLINE, "")
    await asyncio.wait(tasks)


async def test_one_slow_request_says_little_of_the_next() -> None:
    work = Work(2 * SLICE)
    work.admittance.took(30.0)
    tasks = [asyncio.create_task(work.one(number)) for number in range(20)]
    await until(lambda: work.admittance.waiting() == 19)

    assert work.admittance.refusal(1.0) == ""
    await asyncio.wait(tasks)


def test_the_setting_is_the_bound_of_the_queue() -> None:
    assert Settings().max_waiting == MAX_WAITING


def test_bodies_have_room_together_and_give_it_back() -> None:
    admittance = Admittance(room=10)

    assert [admittance.hold(6), admittance.hold(6)] == [True, False]
    admittance.release(6)
    assert not admittance.hold(6)
    admittance.release(6)
    admittance.release(6)
    assert admittance.hold(10)
