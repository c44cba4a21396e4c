"""Background tasks: whatever a server does beside answering runs here, and is restarted if it fails.

The rule is simple. A task that ends with an error is logged, counted in ``injector_background_failures_total`` and restarted, after a
second at first and a minute at last. While it is down the server is not ready, and ``/readyz`` names it. A task that returns is done.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, TypeAlias

from injector.errors import InjectorError, whereabouts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from injector.metrics import Metrics

    Work: TypeAlias = Callable[[], Awaitable[None]]
    """Does its work until it is cancelled, or returns once nothing is left to do."""
    Follow: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]
    """Follows the cluster until it is cancelled. Sets the event once what it follows is known."""

_log = logging.getLogger(__name__)

RESTARTS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Seconds until a task is restarted, by how often in a row it failed."""
STABLE: Final = 60.0
"""Seconds after which a task that runs counts as recovered."""


class Supervisor:
    """The background tasks of one server.

    Args:
        metrics: counts failures.
        clock: returns seconds from any start.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._tasks: set[asyncio.Task[None]] = set()
        self._down: set[str] = set()

    def fault(self) -> str:
        """Return which tasks are down; empty if none is."""
        return f"background task down: {', '.join(sorted(self._down))}" if self._down else ""

    def start(self, name: str, work: Work) -> None:
        """Run ``work`` until ``stop``."""
        self._tasks.add(asyncio.create_task(self._run(name, work), name=name))

    async def settle(self, works: Mapping[str, Follow]) -> None:
        """Run ``works`` until ``stop``, and return once each has set its event.

        Raises:
            InjectorError: one of them raised it before.
        """
        waits = []
        for name, work in works.items():
            settled = asyncio.Event()
            task = asyncio.create_task(self._follow(name, work, settled), name=name)
            self._tasks.add(task)
            waits.append(_until(settled, task))
        await asyncio.gather(*waits)

    async def stop(self) -> None:
        """Cancel every task, and wait until all have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _follow(self, name: str, work: Follow, settled: asyncio.Event) -> None:
        """Run ``work`` until it fails, and from then on as every other task; a failure before it has settled is raised."""
        try:
            await work(settled)
        except Exception as error:
            if not settled.is_set():
                raise
            await self._fail(name, error, 0)
            await self._run(name, lambda: work(settled), 1)

    async def _run(self, name: str, work: Work, failures: int = 0) -> None:
        while True:
            began = self._clock()
            try:
                await work()
            except Exception as error:  # noqa: BLE001 -- the task is restarted
                if self._clock() - began >= STABLE:
                    failures = 0
                await self._fail(name, error, failures)
                failures += 1
            else:
                return

    async def _fail(self, name: str, error: Exception, failures: int) -> None:
        """Report a failure and wait until the next try."""
        wait = RESTARTS[min(failures, len(RESTARTS) - 1)]
        said = error if isinstance(error, InjectorError) else whereabouts(error)
        _log.error("background task %s failed, restarting in %g s: %s", name, wait, said)
        self._metrics.background_failed(name)
        self._down.add(name)
        await self._sleep(wait)
        self._down.discard(name)


async def _until(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Wait for the event that a task sets; raise the error that the task ends with before."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if not event.is_set():
        await task
