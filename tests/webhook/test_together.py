from __future__ import annotations

import asyncio

import pytest

from injector.errors import ConfigError
from injector.webhook.together import together


class Work:
    """Follows something: settles, or fails, when a test says so."""

    def __init__(self) -> None:
        self.settles = asyncio.Event()
        self.fails: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.runs = False

    async def follow(self, settled: asyncio.Event) -> None:
        self.runs = True
        try:
            await self.settles.wait()
            settled.set()
            await self.fails
        finally:
            self.runs = False


class Closing:
    closed = 0

    async def close(self) -> None:
        self.closed += 1


async def turned() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_it_settles_with_the_last_one_and_ends_all_of_them_before_it_closes() -> None:
    works, closing, settled = [Work(), Work()], Closing(), asyncio.Event()
    task = asyncio.create_task(together([each.follow for each in works], closing.close)(settled))
    found = []

    for work in works:
        await turned()
        found.append(settled.is_set())
        work.settles.set()
    await turned()
    found.append(settled.is_set())
    running = [each.runs for each in works]
    task.cancel()
    await asyncio.wait([task])

    assert (found, running) == ([False, False, True], [True, True])
    assert ([each.runs for each in works], closing.closed, task.cancelled()) == ([False, False], 1, True)


@pytest.mark.parametrize("failing", [0, 1])
async def test_what_fails_before_it_has_settled_ends_the_others(failing: int) -> None:
    class Fails(Work):
        async def follow(self, settled: asyncio.Event) -> None:
            del settled
            await asyncio.sleep(0)
            raise ConfigError("no permission")

    works: list[Work] = [Work(), Work()]
    works[failing] = Fails()
    closing, settled = Closing(), asyncio.Event()

    with pytest.raises(ConfigError, match="no permission"):
        await together([each.follow for each in works], closing.close)(settled)

    assert (settled.is_set(), [each.runs for each in works], closing.closed) == (False, [False, False], 1)


async def test_what_fails_later_is_told_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    works, closing, settled = [Work(), Work()], Closing(), asyncio.Event()
    for work in works:
        work.settles.set()
    task = asyncio.create_task(together([each.follow for each in works], closing.close)(settled))
    await settled.wait()

    works[0].fails.set_exception(ConfigError("gone"))
    await turned()

    assert ([each.runs for each in works], task.done()) == ([False, True], False)
    assert "no longer followed: gone" in caplog.text
    task.cancel()
    await asyncio.wait([task])
