"""Follows a source while it is served: what wakes it, how long it waits, and what comes of it.

::

    a change on disk ----> wait until it is quiet --.
    the poll interval ---> read: did it change? ----+--> read, build, verify (a thread) --> swap, show
    SIGHUP -----------------------------------------+
    a recent pod kept a revision out, RETRY ago ----'

One change is processed at a time. If a reload fails, what is served stays; the failure is counted, logged and shown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from injector.errors import InternalError, RecentPodError, whereabouts
from injector.revisions.reload import changes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from injector.metrics import Metrics
    from injector.revisions.reload import Loader, LoadReport, Prepared
    from injector.revisions.verify import RecentPods

_log = logging.getLogger(__name__)

Watch: TypeAlias = "Callable[[], AsyncIterator[None]]"
"""Yields whenever the source may have changed; what it raises ends that watch, and another one begins."""

SETTLE: Final = 0.1
MAX_SETTLES: Final = 4
"""A source that is never quiet is read all the same, after this many times the settle time."""

REWATCH: Final = 0.5
"""Seconds between a watch that failed and the next."""


RETRY: Final = 600.0
"""Seconds until a revision that fails on a recent pod is tried again: the pod may be forgotten by then."""


class Trigger(Enum):
    """What a reload is made for."""

    CHANGE = "change"
    POLL = "poll"
    ASKED = "asked"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Tempo:
    """How long to wait for what; ``interval`` 0 neither polls nor watches."""

    interval: float
    settle: float = SETTLE
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.time


class Follower:
    """Keeps what is served at what the source holds.

    Args:
        loader: what loads it; nobody else uses it meanwhile.
        watch: what tells of changes; None where nothing does.
        tempo: how long to wait.
        recent: the pods that a new build is tried on.
        metrics: where reloads are counted.
        shown: what shows a report, called on the event loop.
    """

    def __init__(
        self,
        loader: Loader,
        watch: Watch | None,
        tempo: Tempo,
        *,
        recent: RecentPods,
        metrics: Metrics,
        shown: Callable[[LoadReport], None],
    ) -> None:
        self._loader = loader
        self._watch = watch
        self._tempo = tempo
        self._recent = recent
        self._metrics = metrics
        self._shown = shown
        self._triggers: set[Trigger] = set()
        self._woken = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self.running = False

    def reload(self) -> None:
        """Reload at once, and try again what was refused; returns before it is done."""
        self._wake(Trigger.ASKED)

    def changed(self) -> None:
        """Look at the source once it is quiet; returns before it is done."""
        self._wake(Trigger.CHANGE)

    async def run(self) -> None:
        """Follow until cancelled."""
        self.running = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._reloads())
                if self._watch is not None and self._tempo.interval > 0:
                    tasks.create_task(self._polls())
                    tasks.create_task(self._watches(self._watch))
        finally:
            self._stop_retry()

    def _wake(self, trigger: Trigger) -> None:
        self._triggers.add(trigger)
        self._woken.set()

    async def _polls(self) -> None:
        while True:
            await self._tempo.sleep(self._tempo.interval)
            self._wake(Trigger.POLL)

    async def _watches(self, watch: Watch) -> None:
        known = ""
        while True:
            try:
                async for _ in watch():
                    known = ""
                    self._wake(Trigger.CHANGE)
            except Exception as error:  # noqa: BLE001 -- a task loop: the poll goes on, and so does this
                if str(error) != known:
                    known = str(error)
                    _log.warning("changes are only polled for, every %g s: %s", self._tempo.interval, error)
                    self._wake(Trigger.CHANGE)
            await self._tempo.sleep(REWATCH)

    async def _reloads(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            triggers, self._triggers = self._triggers, set()
            try:
                await self._reload(triggers)
            except Exception as error:  # noqa: BLE001 -- a task loop: counted and logged, and the next change is followed
                self._fault(error)

    async def _reload(self, triggers: set[Trigger]) -> None:
        if not triggers:
            return
        prepared = await self._prepared(triggers)
        if prepared is not None:
            self._adopt(prepared)
        elif Trigger.ASKED in triggers:
            _log.info("asked to reload: nothing changed")

    async def _prepared(self, triggers: set[Trigger]) -> Prepared | None:
        """Return what to adopt: the new state of the source, or why it cannot be used; None if nothing changed."""
        try:
            if triggers == {Trigger.POLL} and not await asyncio.to_thread(self._loader.changed):
                return None
            if Trigger.ASKED not in triggers:
                triggers |= await self._settled()
            again = not triggers.isdisjoint((Trigger.ASKED, Trigger.RETRY))
            pods = self._recent.snapshot()
            return await asyncio.to_thread(self._loader.prepare, self._tempo.now(), pods, again=again)
        except Exception as error:  # noqa: BLE001 -- what is served is shown as out of date, whatever it was
            _log.error("failed to reload: %s", whereabouts(error))
            kind = type(error).__name__
            failure = InternalError(f"internal error ({kind}) while reloading", hint="see the log")
            return self._loader.failed(failure, self._tempo.now())

    async def _settled(self) -> set[Trigger]:
        """Wait until nothing changes any more, or somebody asks for a reload; return what came meanwhile."""
        came: set[Trigger] = set()
        for _ in range(MAX_SETTLES):
            await self._tempo.sleep(self._tempo.settle)
            triggers, self._triggers = self._triggers, set()
            came |= triggers
            if Trigger.ASKED in triggers or Trigger.CHANGE not in triggers:
                break
        return came

    def _adopt(self, prepared: Prepared) -> None:
        before = self._loader.report
        after = self._loader.adopt(prepared)
        self._recent.forget_others(prepared.snapshot.revisions)
        for level, text in changes(before, after):
            _log.log(level, "%s", text)
        self._shown(after)
        self._metrics.reloaded(failure_of(after))
        self._stop_retry()
        if any(isinstance(state.error, RecentPodError) for state in after.revisions.values()):
            self._retry = asyncio.get_running_loop().call_later(RETRY, self._wake, Trigger.RETRY)

    def _stop_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _fault(self, error: Exception) -> None:
        self._metrics.reloaded("internal")
        _log.error("failed to show a reload: %s", whereabouts(error))


def failure_of(report: LoadReport) -> str:
    """Return the reason that a reload counts as failed for, one of ``metrics.RELOAD_FAILURES``; empty where it did not."""
    if any(isinstance(error, InternalError) for error in report.errors):
        return "internal"
    if report.source_error is not None:
        return "source"
    if any(state.error for state in report.revisions.values()):
        return "revision"
    return "tags" if report.tag_errors else ""
