"""The life of the server: its phases, its background tasks, and two tasks about its health: the lag of the event loop and a health file.

::

    STARTING -> SERVING -> DRAINING -> CLOSING

A draining server still answers, but is unready and closes each connection after its response, so that clients connect to another one. It
closes once no request is left, or after a timeout, and answers 503 from then on.

A background task that fails is logged, counted in ``injector_background_failures_total`` and restarted, with increasing delays. While one
that injection needs is down the server is not ready, and ``/readyz`` names it. A task that returns is done.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from injector.backoff import backoff
from injector.errors import InjectorError, whereabouts

if TYPE_CHECKING:
    from pathlib import Path

    from injector.metrics import Metrics

Work: TypeAlias = Callable[[], Awaitable[None]]
"""Works until it is cancelled, or returns when it is done."""
Follow: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]
"""Follows the cluster until it is cancelled. Sets the event when it has the initial state."""

_log = logging.getLogger(__name__)


class Phase(Enum):
    """A phase of the server."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    CLOSING = "closing"


@dataclass
class Lifecycle:
    """The current phase of the server."""

    phase: Phase = Phase.STARTING


MAX_RESTART_WAIT: Final = 60.0
"""Maximum seconds until a task that fails again and again is restarted."""
STABLE: Final = 60.0
"""A task that runs for so many seconds has recovered."""


NEEDED: Final = frozenset({"configuration", "cluster", "certificate", "ca-secret", "cabundle"})
"""The tasks without which new pods would get no sidecar, or an outdated one. A fault of a task that only observes, such as the watch for
drift, mostly has the same cause in every replica, and must not take all of them away at once."""


class Supervisor:
    """The background tasks of one server. ``metrics`` counts their failures."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()
        self._down: set[str] = set()

    def fault(self) -> str:
        """Return the tasks in ``NEEDED`` that are down; empty if all run."""
        down = sorted(self._down & NEEDED)
        return f"background task down: {', '.join(down)}" if down else ""

    def start(self, name: str, work: Work) -> None:
        """Run ``work`` until ``stop``."""
        self._tasks.add(asyncio.create_task(self._run(name, work, None), name=name))

    async def wait_until_ready(self, works: Mapping[str, Follow]) -> None:
        """Run ``works`` until ``stop``; return when each has set its event, or raise the error of one that fails before."""
        waits = []
        for name, work in works.items():
            ready = asyncio.Event()
            task = asyncio.create_task(self._run(name, partial(work, ready), ready), name=name)
            self._tasks.add(task)
            waits.append(_until(ready, task))
        await asyncio.gather(*waits)

    async def stop(self) -> None:
        """Cancel every task, and wait until all have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _run(self, name: str, work: Work, ready: asyncio.Event | None) -> None:
        """Run ``work`` and restart it after errors. An error before it has set ``ready``, or after ``stop``, is raised."""
        task, clock, failures = asyncio.current_task(), asyncio.get_running_loop().time, 0
        while True:
            began = clock()
            try:
                await work()
            except Exception as error:
                if (ready is not None and not ready.is_set()) or (task is not None and task.cancelling()):
                    raise
                if clock() - began >= STABLE:
                    failures = 0
                await self._fail(name, error, failures)
                failures += 1
            else:
                return

    async def _fail(self, name: str, error: Exception, failures: int) -> None:
        wait = backoff(failures, MAX_RESTART_WAIT)
        cause = error if isinstance(error, InjectorError) else whereabouts(error)
        _log.error("background task %s failed, restarting in %g s: %s", name, wait, cause)
        self._metrics.background_failures.labels(name).inc()
        self._down.add(name)
        await asyncio.sleep(wait)
        self._down.discard(name)


async def _until(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Wait until a task sets its event; raise the error if it fails before."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if not event.is_set():
        await task


LAG_INTERVAL: Final = 5.0
"""Seconds between two measurements of the lag. Each one wakes an idle server."""
LAGS: Final = 12
"""Measurements of which the maximum is shown: those of a minute, the usual scrape interval of Prometheus."""
MAX_LAG: Final = 10.0
"""API servers wait for 10 s by default (admissionregistration/v1, timeoutSeconds), so a longer lag loses requests."""


class LoopLag:
    """Measures the lag of the event loop that runs ``follow``."""

    def __init__(self) -> None:
        self._expected_at = math.inf
        self._last = deque([0.0], maxlen=LAGS)

    async def follow(self, metrics: Metrics) -> None:
        """Measure until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            self._expected_at = clock() + LAG_INTERVAL
            await asyncio.sleep(LAG_INTERVAL)
            self._last.append(max(0.0, clock() - self._expected_at))
            metrics.loop_lag.set(max(self._last))

    def fault(self) -> str:
        """Return how long the loop is, or just was, stuck; empty if it is not."""
        lag = max(asyncio.get_running_loop().time() - self._expected_at, self._last[-1])
        return f"the event loop is stuck: {lag:.1f} s late" if lag > MAX_LAG else ""


@dataclass(frozen=True, slots=True)
class HealthFile:
    """The file that sidecar-injector (Istio 1.0 to 1.4) writes while it is healthy, and the seconds between two writes."""

    path: Path
    interval: float

    async def follow(self, fault: Callable[[], str]) -> None:
        """Write the file until cancelled, except while ``fault`` returns a text. An error is logged once."""
        last_error = ""
        while True:
            if not fault():
                error = await asyncio.to_thread(self._write)
                if error and error != last_error:
                    _log.error("cannot write --healthCheckFile %s: %s", self.path, error)
                last_error = error
            await asyncio.sleep(self.interval)

    def _write(self) -> str:
        try:
            self.path.write_text("ok", encoding="utf-8")
        except OSError as error:
            return error.strerror or str(error)
        return ""
