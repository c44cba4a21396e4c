"""Run a list/watch: send the requests that ``watchstate`` decides on, and report changes."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.watchstate import Effect, List, Wait, Watch, WatchState
from injector.errors import ClusterError, InjectorError

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.resources import Scope
    from injector.metrics import Metrics

_log = logging.getLogger(__name__)

# Long enough to report the ConfigMaps of one `helm upgrade` together, short enough to serve them within 1 s.
DEBOUNCE: Final = 0.2
# client-go's own: from 5 to 10 minutes, so that watches of many replicas do not end together.
WATCH_SECONDS: Final = 300

_FAULTS: Final = {
    "gone": "the API server no longer has the watched version; listing again",
    "error": "the API server ended the watch with an error; listing again",
    "garbage": "a line of the watch cannot be read; listing again",
    "short": "the API server ended the watch at once; watching again",
}


class ListWatch:
    """Keeps the objects of a scope by name, and reports all of them after each change.

    Args:
        client: the API server.
        scope: the objects to watch.
        keep: returns what to remember of an object; None leaves it out.
        changed: called with all remembered objects, shortly after a change.
        metrics: counts faults.
        chance: see ``WatchState``.
    """

    def __init__(
        self,
        client: KubeClient,
        scope: Scope,
        *,
        keep: Callable[[Mapping[str, Any]], Any],
        changed: Callable[[Mapping[str, Any]], None],
        metrics: Metrics,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._scope = scope
        self._changed = changed
        self._metrics = metrics
        self._name = scope.watch_name or scope.resource.plural
        self._chance = chance
        self._pending: asyncio.TimerHandle | None = None
        self._error: Exception | None = None
        self._current_fault = ""
        self.state = WatchState(keep, chance, room=scope.room)
        self.synced = asyncio.Event()
        """Set once the first list is complete and reported, or an optional scope is forbidden."""
        self.fault = ""
        """The last error, with what was asked for; empty once the watch works."""

    async def run(self) -> None:
        """List and watch until cancelled."""
        try:
            while True:
                await self._step()
        finally:
            if self._pending is not None:
                self._pending.cancel()

    async def _step(self) -> None:
        before = self.state.faults.total()
        match self.state.next():
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case List(token):
                await self._list(token)
            case Watch(version):
                await self._watch(version)
        if self.state.faults.total() > before:
            self._report()

    async def _list(self, token: str) -> None:
        try:
            page = await self._client.page(self._scope, token=token)
            self._update(self.state.page(page))
        except Exception as error:  # noqa: BLE001 -- this task must not end; the fault is counted
            self._failed(error, 0.0)

    async def _watch(self, version: str) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        seconds = int(WATCH_SECONDS * (1 + self._chance()))
        try:
            async with aclosing(self._client.watch(self._scope, resource_version=version, seconds=seconds)) as lines:
                async for line in lines:
                    effect = self.state.line(line)
                    self._update(effect)
                    if effect is Effect.STOP:
                        break
        except Exception as error:  # noqa: BLE001 -- this task must not end; the fault is counted
            self._failed(error, loop.time() - started)
        else:
            self.state.ended(loop.time() - started)

    def _update(self, effect: Effect) -> None:
        if effect is Effect.STOP or not self.state.listed:
            return
        if self._current_fault:
            _log.info("%s: watching again", self._scope)
        self._current_fault = self.fault = ""
        self._metrics.watch_synced.labels(self._name).set(1)
        if not self.synced.is_set():
            self._notify()
            self.synced.set()
        elif effect is Effect.CHANGED and self._pending is None:
            self._pending = asyncio.get_running_loop().call_later(DEBOUNCE, self._notify)

    def _notify(self) -> None:
        self._pending = None
        self._changed(dict(self.state.objects))

    def _failed(self, error: Exception, lasted: float) -> None:
        excused = error.reason if self._scope.optional and isinstance(error, ClusterError) else ""
        if excused == "missing":
            self._update(self.state.absent())
            return
        self._error = error
        if excused == "forbidden" and not self.synced.is_set():
            self._notify()
            self.synced.set()
        if isinstance(error, ClusterError):
            self.state.failed(error.reason, lasted=lasted, retry_after=error.retry_after)
        else:
            self.state.failed("credentials" if isinstance(error, InjectorError) else "internal", lasted=lasted)

    def _report(self) -> None:
        """Count the fault, and log the first of consecutive faults."""
        error, self._error = self._error, None
        self._metrics.watch_faults.labels(self._name, self.state.last_fault).inc()
        self._metrics.watch_synced.labels(self._name).set(0)
        self.fault = f"{self._scope}: {error or _FAULTS[self.state.last_fault]}"
        if not self._current_fault:
            unexpected = error if error is not None and not isinstance(error, InjectorError) else None
            _log.warning("%s", self.fault, exc_info=unexpected)
        self._current_fault = self.state.last_fault
