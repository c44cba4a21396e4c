"""A list/watch: keeps the objects of a scope, and reports changes.

``WatchState`` decides on the next action, and has the objects seen so far. It uses no clock, random numbers or network. ``ListWatch`` sends
the requests::

    LIST --last page--> WATCH --ended, after a while--> WATCH
    LIST --fault--> WAIT --> LIST      (with the same page token, unless that is gone, or failed for the third time)
    WATCH --cut, refused, ended at once--> WAIT --> WATCH    (from the last version seen)
    LIST, WATCH --the cluster lacks the resource--> WAIT, without objects --> LIST
    WATCH --objects were left out, and there is room again--> WAIT --> LIST
    WATCH --gone, an ERROR event, a line that cannot be read, the third fault in a row--> WAIT --> LIST

A wait follows every fault, which prevents a hot loop. Every wait is short enough that the objects are listed within 5 s after the
API server is back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.backoff import backoff
from injector.errors import ClusterError, DataError
from injector.golang.json import load_json

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient, Page
    from injector.cluster.resources import Scope
    from injector.metrics import Metrics

_log = logging.getLogger(__name__)

# Up to eight list/watches run at once: ConfigMaps, webhooks, nodes, pods, ProxyConfigs, and three of namespaces. While the API server is
# down they send at most two requests per second, and the longest wait is below the 5 s in which it must be listed once it is back.
MAX_WAIT: Final = 4.0
_JITTER: Final = 0.125
"""The random part of a wait, so that replicas do not return at the same time."""
MAX_RETRY_AFTER: Final = 30.0
ABSENT_RETRY: Final = 30.0
"""Seconds until a resource that the cluster does not have is listed again: it may have been installed."""
# A watch that lasted this long was successful, and earlier faults no longer count.
STEADY: Final = 10.0
# After etcd is restored, known versions can lie in the future, and every watch from them, and every page of such a list, fails.
RESUMES: Final = 3

_FREE_AGAIN: Final = 0.9
"""The part of the room below which the objects are listed again if some were left out: not after every deletion."""
_GONE: Final = 410
_ABSENT: Final = object()
_RELIST: Final = frozenset({"gone", "garbage", "error"})


@dataclass(frozen=True, slots=True)
class List:
    """Request a page; ``token`` is empty for the first."""

    token: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch from a version."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for a while."""

    seconds: float


Action: TypeAlias = List | Watch | Wait


class Effect(Enum):
    """The effect of a line or a page."""

    CHANGED = "changed"
    SAME = "same"
    STOP = "stop"
    """The watch can no longer be used; end it."""


class WatchState:
    """One list/watch.

    Args:
        keep: returns what to remember of an object; None leaves the object out.
        chance: returns a random number from 0 to 1.
        room: the maximum number of objects to remember; None for all. It is not defined which are left out.
    """

    def __init__(
        self, keep: Callable[[Mapping[str, Any]], Any], chance: Callable[[], float], *, room: int | None = None
    ) -> None:
        self._keep = keep
        self._chance = chance
        self._room = room
        self._version = ""
        self._token = ""
        self._pages: dict[str, Any] = {}
        self._leaves_out = False
        self._wait: float | None = None
        self._in_a_row = 0
        self._page_faults = 0
        self.objects: dict[str, Any] = {}
        self.listed = False
        self.full = False
        """Whether there may be more objects than remembered: since the last list, some were left out."""
        self.faults: Counter[str] = Counter()
        self.last_fault = ""
        self.unreadable: dict[str, str] = {}
        """Objects that are left out because ``keep`` cannot read them, each with the class of the error."""

    def next(self) -> Action:
        """Return the next action."""
        if self._wait is not None:
            wait, self._wait = self._wait, None
            return Wait(wait)
        return Watch(self._version) if self._version else List(self._token)

    def page(self, page: Page) -> Effect:
        """Process a page of the list; the last one replaces the known objects."""
        if not page.token and not page.resource_version:
            return self._stop("garbage")
        if not self._token:
            self._pages, self._leaves_out, self.unreadable = {}, False, {}
        for item in page.items:
            self._put(self._pages, item)
        self._token, self._page_faults = page.token, 0
        if page.token:
            return Effect.SAME
        before, self.objects, self.full = self.objects, self._pages, self._leaves_out
        first, self.listed = not self.listed, True
        self._version = page.resource_version
        return Effect.CHANGED if first or before != self.objects else Effect.SAME

    def line(self, line: bytes) -> Effect:
        """Process one line of a watch."""
        try:
            event = load_json(line)
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                return self._stop("gone" if item.get("code") == _GONE else "error")
            version = item["metadata"]["resourceVersion"]
            before = self._reduce(item)
            match kind:
                case "ADDED" | "MODIFIED":
                    self._put(self.objects, item)
                    self.full = self._leaves_out
                case "DELETED":
                    self.objects.pop(_key(item), None)
                    self.unreadable.pop(_key(item), None)
                case "BOOKMARK":
                    pass  # it has only a version
                case _:
                    return self._stop("garbage")
        except (DataError, KeyError, TypeError, AttributeError):
            return self._stop("garbage")
        if not isinstance(version, str) or not version:
            return self._stop("garbage")
        if self._has_room_again():
            self._version, self._wait = "", 1.0
            return Effect.STOP
        self._version = version
        return Effect.SAME if self._reduce(item) == before else Effect.CHANGED

    def note_end(self, lasted: float) -> None:
        """Note that the API server ended the watch after ``lasted`` seconds, which is a fault only if it was at once."""
        if self._wait is None:
            if lasted >= STEADY:
                self._in_a_row = 0
            else:
                self.note_failure("short")

    def note_failure(self, reason: str, *, lasted: float = 0.0, retry_after: float = 0.0) -> None:
        """Note that a request failed, or a watch after ``lasted`` seconds."""
        if lasted >= STEADY:
            self._in_a_row = 0
        self.faults[reason] += 1
        self.last_fault = reason
        wait = backoff(self._in_a_row, MAX_WAIT) * (1 + _JITTER * self._chance())
        self._in_a_row += 1
        self._page_faults += 1
        if reason in _RELIST or self._in_a_row >= RESUMES:
            self._version = ""
        if reason in _RELIST or self._page_faults >= RESUMES:
            self._token = ""
        self._wait = max(wait, min(retry_after, MAX_RETRY_AFTER))

    def absent(self) -> Effect:
        """Note that the cluster does not have the resource, and therefore no objects."""
        before, self.objects = self.objects, {}
        first, self.listed = not self.listed, True
        self._version, self._token, self._in_a_row = "", "", 0
        self._wait = ABSENT_RETRY
        return Effect.CHANGED if first or before else Effect.SAME

    def _has_room_again(self) -> bool:
        """Return whether objects that were left out fit in by now."""
        return self.full and self._room is not None and len(self.objects) < self._room * _FREE_AGAIN

    def _stop(self, reason: str) -> Effect:
        self.note_failure(reason)
        return Effect.STOP

    def _reduce(self, item: Mapping[str, Any]) -> Any:
        return self.objects.get(_key(item), _ABSENT)

    def _put(self, objects: dict[str, Any], item: Mapping[str, Any]) -> None:
        key = _key(item)
        try:
            reduced = self._keep(item)
            self.unreadable.pop(key, None)
        except Exception as error:  # noqa: BLE001 -- an object of any shape must not stop the watch of the others
            reduced, self.unreadable[key] = None, type(error).__name__
        if reduced == (known := self.objects.get(key)):
            reduced = known  # it may hold what was parsed of it
        if reduced is None:
            objects.pop(key, None)
        elif self._room is None or len(objects) < self._room or key in objects:
            objects[key] = reduced
        else:
            self._leaves_out = True


def _key(item: Mapping[str, Any]) -> str:
    """Return the name of an object, with its namespace if it has one."""
    metadata = item["metadata"]
    name, namespace = metadata.get("name") or "", metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name


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

    ``keep`` returns what to remember of an object; None leaves it out. ``changed`` is called with all remembered objects after each change,
    or once for all changes that arrive together. See ``WatchState`` for ``chance``.
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
        self._pending: asyncio.Handle | None = None
        self._error: Exception | None = None
        self._was_full = False
        self._unreadable: frozenset[str] = frozenset()
        self.state = WatchState(keep, chance, room=scope.room)
        self.synced = asyncio.Event()
        """Set once the first list is complete and reported, or an optional scope is forbidden."""
        self.fault = ""
        """The last error, with what was asked for; empty once the watch works."""

    def __str__(self) -> str:
        return str(self._scope)

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
            effect = self.state.page(page)
            if not page.token:  # the objects change with the last page
                self._update(effect)
        except Exception as error:  # noqa: BLE001 -- this task must not end; the fault is counted
            self._note_failure(error, 0.0)

    async def _watch(self, version: str) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        seconds = int(WATCH_SECONDS * (1 + self._chance()))
        try:
            async with aclosing(self._client.watch(self._scope, resource_version=version, seconds=seconds)) as lines:
                async for line in lines:
                    effect = self.state.line(line) if line else Effect.SAME
                    self._update(effect)
                    if effect is Effect.STOP:
                        break
        except Exception as error:  # noqa: BLE001 -- this task must not end; the fault is counted
            self._note_failure(error, loop.time() - started)
        else:
            self.state.note_end(loop.time() - started)

    def _update(self, effect: Effect) -> None:
        if effect is Effect.STOP or not self.state.listed:
            return
        if self.fault:
            _log.info("%s: watching again", self._scope)
        self.fault = ""
        self._metrics.watch_synced.labels(self._name).set(1)
        if self.state.full and not self._was_full:
            _log.warning("%s: only %d are remembered, and the cluster has more", self._scope, self._scope.room)
        self._was_full = self.state.full
        self._name_unreadable()
        if not self.synced.is_set():
            self._notify()
            self.synced.set()
        elif effect is Effect.CHANGED and self._pending is None:
            self._pending = asyncio.get_running_loop().call_soon(self._notify)

    def _name_unreadable(self) -> None:
        """Log and count the objects that cannot be read, each once until it can be read again."""
        for key in sorted(self.state.unreadable.keys() - self._unreadable):
            error = self.state.unreadable[key]
            _log.warning("%s: %.300r cannot be read and is left out (%s); correct it", self._scope, key, error)
            self._metrics.watch_faults.labels(self._name, "unreadable").inc()
        self._unreadable = frozenset(self.state.unreadable)

    def _notify(self) -> None:
        self._pending = None
        self._changed(dict(self.state.objects))

    def _note_failure(self, error: Exception, lasted: float) -> None:
        excused = error.reason if self._scope.optional and isinstance(error, ClusterError) else ""
        if excused == "missing":
            self._update(self.state.absent())
            return
        self._error = error
        if excused == "forbidden" and not self.synced.is_set():
            self._notify()
            self.synced.set()
        if isinstance(error, ClusterError):
            self.state.note_failure(error.reason, lasted=lasted, retry_after=error.retry_after)
        else:
            self.state.note_failure("internal", lasted=lasted)

    def _report(self) -> None:
        """Count the fault, and log the first of consecutive faults."""
        error, self._error = self._error, None
        self._metrics.watch_faults.labels(self._name, self.state.last_fault).inc()
        self._metrics.watch_synced.labels(self._name).set(0)
        is_first, self.fault = not self.fault, f"{self._scope}: {error or _FAULTS[self.state.last_fault]}"
        if is_first:
            unexpected = error if not isinstance(error, ClusterError) else None
            _log.warning("%s", self.fault, exc_info=unexpected)
