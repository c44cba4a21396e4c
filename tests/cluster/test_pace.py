from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

from injector.cluster.client import GAP, ApiThrottle
from tests.cluster.fakes import in_fake_time

if TYPE_CHECKING:
    from collections.abc import Callable

WATCHES = 7
DOWN = 60.0


def asked(answers: Callable[[float], bool], *, seconds: float, every: float) -> list[float]:
    """When so many watches ask, each again after so many seconds, by a clock that costs no time."""
    times: list[float] = []

    async def watch(pace: ApiThrottle) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await pace.turn()
            times.append(loop.time())
            if answers(loop.time()):
                pace.answered()
                await asyncio.sleep(seconds)
            pace.failed()
            await asyncio.sleep(every)

    async def run() -> None:
        pace = ApiThrottle()
        tasks = [asyncio.create_task(watch(pace)) for _ in range(WATCHES)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    in_fake_time(run())
    return times


def test_while_nothing_is_answered_all_watches_together_ask_once_a_second() -> None:
    times = asked(lambda _: False, seconds=DOWN, every=1.0)

    # The first request has not failed yet.
    assert len(times) > DOWN / 2
    later = [each for each in times if each > 0]
    assert all(after - before >= GAP for before, after in pairwise(later))


def test_once_one_is_answered_all_others_go_at_once() -> None:
    times = asked(lambda now: now >= DOWN, seconds=DOWN + 10.0, every=4.5)

    back = sorted(each for each in times if each >= DOWN)
    assert len(back) == WATCHES
    assert back[-1] - DOWN < 5.0


def test_requests_do_not_wait_while_the_api_server_answers() -> None:
    assert asked(lambda _: True, seconds=1.0, every=1.0) == [0.0] * WATCHES


def test_a_turn_is_waited_for_by_one_after_the_other() -> None:
    async def run() -> list[float]:
        pace, loop = ApiThrottle(), asyncio.get_running_loop()
        pace.failed()

        async def one() -> float:
            await pace.turn()
            return loop.time()

        return sorted(await asyncio.gather(one(), one(), one()))

    assert in_fake_time(run()) == [1.0, 2.0, 3.0]
