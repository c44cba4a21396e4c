"""Follow a source while it is served.

::

    a change on disk -------.
    a change in the cluster +-> wait until quiet ---.
    the poll interval ------------------------------+--> read, build, verify (a thread) --> swap, report
    SIGHUP -----------------------------------------+
    a recent pod kept a revision out, RETRY ago ----|
    a removed revision has been served long enough -'

One change is processed at a time. If a reload fails, the last good state stays in use, and the failure is counted, logged and reported.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from injector.errors import ConfigError, InjectorError, InternalError, RecentPodError, whereabouts
from injector.istio.config import newer_istio
from injector.metrics import Metrics, RevisionRow
from injector.regularfiles import DAEMON_THREADS
from injector.revisions.reports import LoadReport, RevisionState, failure_of, report_changes

if TYPE_CHECKING:
    from injector.revisions.reload import Loader, Prepared
    from injector.revisions.verify import RecentPods

_log = logging.getLogger(__name__)

WatchSource: TypeAlias = "Callable[[], AsyncIterator[None]]"
"""Yields after each possible change of the source."""

SETTLE: Final = 0.2
"""Seconds without a change after which a source is quiet: all ConfigMaps of a ``helm upgrade`` are one reload, which is done within 1 s.

This is the only wait of a reload. Sources report each change at once.
"""
MAX_SETTLES: Final = 3
"""A source that is never quiet is read after this many settle times."""

RETRY: Final = 600.0
"""Seconds until a revision that fails on a recent pod is tried again; the pod may be forgotten by then."""


class Trigger(Enum):
    """The cause of a reload."""

    CHANGE = "change"
    SIGNAL = "signal"
    RETRY = "retry"
    EXPIRY = "expiry"


@dataclass
class Reloader:
    """Serves the current state of a source. Nothing else may use the ``loader`` meanwhile.

    ``watch`` reports changes; None for a source that reports them by ``on_change``, or has none. Every source is polled, since a reload may
    have failed. With ``interval`` 0 it is neither polled nor watched.
    """

    loader: Loader
    watch: WatchSource | None
    interval: float
    recent: RecentPods
    metrics: Metrics
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.time
    _triggers: set[Trigger] = field(default_factory=set)
    _triggered: asyncio.Event = field(default_factory=asyncio.Event)
    _timers: dict[Trigger, asyncio.TimerHandle] = field(default_factory=dict)
    _running: bool = False

    def load(self, *, required: bool = False) -> None:
        """Load the source at once and show the result, before the server is ready. If ``required``, at least one revision must be usable.

        Raises:
            InjectorError: the source cannot be read at all, and the last state stays in use; or no revision is usable.
        """
        before = self.loader.report
        after = self.loader.load(self.now())
        if required and not any(state.served for state in after.revisions.values()):
            raise (
                after.errors[0]
                if after.errors
                else ConfigError("no revision found", hint="add a folder for one to --revisions-dir")
            )
        self._show(before, after)

    def reload(self) -> None:
        """Reload at once, and retry revisions that were refused; return before it is done."""
        self._trigger(Trigger.SIGNAL)

    def on_change(self) -> None:
        """Read the source once it is quiet; return before it is done. Before ``run``, load it at once."""
        if self._running:
            self._trigger(Trigger.CHANGE)
            return
        try:
            self.load()
        except InjectorError as error:
            _log.error("loading the configuration failed: %s", error)

    async def run(self) -> None:
        """Follow until cancelled."""
        self._running = True
        self._set_timers()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._reloads())
                if self.interval > 0:
                    tasks.create_task(self._polls())
                    if self.watch is not None:
                        tasks.create_task(self._watches(self.watch))
        finally:
            for trigger in tuple(self._timers):
                self._stop_timer(trigger)

    async def _polls(self) -> None:
        while True:
            await self.sleep(self.interval)
            self._trigger(Trigger.CHANGE)

    async def _watches(self, watch: WatchSource) -> None:
        async for _ in watch():
            self._trigger(Trigger.CHANGE)

    async def _reloads(self) -> None:
        while True:
            await self._triggered.wait()
            triggers = self._take_triggers()
            try:
                prepared = await self._prepare(triggers)
                if prepared is not None:
                    self._adopt(prepared)
                elif Trigger.SIGNAL in triggers:
                    _log.info("reload requested: nothing changed")
                elif Trigger.EXPIRY in triggers:  # the clock was set back
                    self._wait_for_expiry()
            except Exception as error:  # noqa: BLE001 -- this task must not end; the fault is counted and logged
                self.metrics.count_reload("internal")
                _log.error("failed to report a reload: %s", whereabouts(error))

    def _trigger(self, trigger: Trigger) -> None:
        self._triggers.add(trigger)
        self._triggered.set()

    def _take_triggers(self) -> set[Trigger]:
        triggers, self._triggers = self._triggers, set()
        self._triggered.clear()
        return triggers

    async def _prepare(self, triggers: set[Trigger]) -> Prepared | None:
        """Return the new state of the source, or its error; None if nothing changed."""
        try:
            if Trigger.SIGNAL not in triggers:
                triggers |= await self._wait_until_quiet()
            again = not triggers.isdisjoint((Trigger.SIGNAL, Trigger.RETRY))
            pods = self.recent.snapshot()
            prepare = partial(self.loader.prepare, self.now(), pods, again=again)
            return await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, prepare)
        except Exception as error:  # noqa: BLE001 -- any fault is reported, and the last good state stays in use
            _log.error("failed to reload: %s", whereabouts(error))
            kind = type(error).__name__
            failure = InternalError(f"internal error ({kind}) while reloading", hint="see the log")
            return self.loader.fail(failure, self.now())

    async def _wait_until_quiet(self) -> set[Trigger]:
        """Wait until the source is quiet or a reload is requested; return the triggers in between."""
        collected: set[Trigger] = set()
        for _ in range(MAX_SETTLES):
            await self.sleep(SETTLE)
            triggers = self._take_triggers()
            collected |= triggers
            if Trigger.SIGNAL in triggers or Trigger.CHANGE not in triggers:
                break
        return collected

    def _adopt(self, prepared: Prepared) -> None:
        before = self.loader.report
        after = self.loader.adopt(prepared)
        self.recent.forget_others(prepared.snapshot.revisions)
        self._show(before, after)
        self.metrics.count_reload(failure_of(after))
        self._set_timers()

    def _set_timers(self) -> None:
        if not any(isinstance(state.error, RecentPodError) for state in self.loader.report.revisions.values()):
            self._stop_timer(Trigger.RETRY)
        elif Trigger.RETRY not in self._timers:  # other changes must not put it off
            self._later(RETRY, Trigger.RETRY)
        self._wait_for_expiry()

    def _wait_for_expiry(self) -> None:
        self._stop_timer(Trigger.EXPIRY)
        if self.loader.expires_at < math.inf:
            self._later(max(0.0, self.loader.expires_at - self.now()), Trigger.EXPIRY)

    def _show(self, before: LoadReport, after: LoadReport) -> None:
        for level, text in report_changes(before, after):
            _log.log(level, "%s", text)
        self.metrics.set_revisions(
            {name: _row(state) for name, state in after.revisions.items()},
            tags_valid=not after.tag_errors,
            webhook_faults=len(after.webhook_faults),
        )

    def _later(self, seconds: float, trigger: Trigger) -> None:
        self._timers[trigger] = asyncio.get_running_loop().call_later(seconds, self._fire, trigger)

    def _fire(self, trigger: Trigger) -> None:
        del self._timers[trigger]
        self._trigger(trigger)

    def _stop_timer(self, trigger: Trigger) -> None:
        if trigger in self._timers:
            self._timers.pop(trigger).cancel()


def _row(state: RevisionState) -> RevisionRow:
    if state.served is None:
        return RevisionRow(valid=False)
    return RevisionRow(
        valid=state.error is None,
        loaded_at=state.loaded_at,
        removed=bool(state.removed_until),
        istio_version=state.served.istio_version,
        fingerprint=state.served.fingerprint,
        newer_istio=state.served.values.tag if newer_istio(state.served.values) else "",
        failed=tuple(state.failed),
    )
