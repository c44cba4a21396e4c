"""A clock that a test moves; sleeping tasks wake when the test says so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tests.tasks import until


@dataclass
class FakeClock:
    """Sleeps as long as a test wants; the lengths in ``instant`` are over at once."""

    instant: set[float] = field(default_factory=set)
    slept: list[float] = field(default_factory=list)
    sleepers: list[tuple[float, asyncio.Future[None]]] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if seconds in self.instant:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleepers.append((seconds, woken))
        await woken

    async def asleep(self, seconds: float) -> None:
        """Wait until a task sleeps that long."""
        await until(lambda: any(length == seconds for length, _ in self.sleepers), every=0)

    async def wake(self, seconds: float) -> None:
        """End every sleep of that length, once there is one."""
        await self.asleep(seconds)
        woken = [sleeper for sleeper in self.sleepers if sleeper[0] == seconds]
        self.sleepers = [sleeper for sleeper in self.sleepers if sleeper[0] != seconds]
        for _, future in woken:
            if not future.done():
                future.set_result(None)
