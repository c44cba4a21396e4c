"""The controller of ``injector serve --upgrades``: every replica shows the ``Upgrade`` resources, and the one with the Lease runs them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.cluster.listwatch import ListWatch
from injector.cluster.resources import Scope
from injector.errors import InjectorError
from injector.metrics import UpgradeRow
from injector.upgrade.state import COMPLETED, SOAKING, State, new_state, progress_text, seconds_left, waves_of
from injector.upgrade.step import WINDOW
from injector.upgrade.store import UPGRADES, Store, Stored, read_stored

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.lease import Lease
    from injector.metrics import Metrics

_log = logging.getLogger(__name__)

RunUpgrade: TypeAlias = Callable[[Store], Awaitable[State]]
"""Runs an upgrade until it ends or is paused: ``Runner.run`` in a server."""
LEASE_NAME: Final = "injector-upgrades"
RETRY_INTERVAL: Final = 30.0
"""Seconds until an upgrade that cannot start or go on is tried again."""
PAUSE_BETWEEN_RUNS: Final = 2.0
"""Seconds between the end of a run and the next one of the same upgrade. In this time its last state is seen by the watch."""


_COLUMNS: Final = (
    *("name", "tag", "from", "to", "phase", "progress", "waves", "left", "total", "secondsLeft"),
    *("gates", "reason", "remaining", "runner", "lastSeen", "lastError", "progressedAt"),
)
"""The data of an upgrade in ``/status.json``; all but the name, waves, gates and reason are null before its start."""


async def _no_fingerprint(_revision: str) -> str:
    return ""


@dataclass
class Controller:
    """The upgrades of a cluster. The ``lease`` decides which replica runs them.

    ``fingerprint`` returns that of a revision's configuration, empty if it cannot be used. An upgrade that repeats starts again when the
    fingerprint differs from that of its last run and was the same in two checks: several ConfigMaps may be changed one after the other.
    """

    client: KubeClient
    lease: Lease
    run: RunUpgrade
    metrics: Metrics
    clock: Callable[[], float] = time.time
    fingerprint: Callable[[str], Awaitable[str]] = _no_fingerprint
    _changed: dict[str, str] = field(default_factory=dict)
    _worked: dict[str, float] = field(default_factory=dict)
    """The time of the last heartbeat without an error, by upgrade: a runner that lives and makes no step is worth an alert too."""
    _items: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, ready: asyncio.Event) -> None:
        """Show the upgrades, and run them while the lease is held, until cancelled. The server does not wait for it."""
        ready.set()
        watch = ListWatch(
            self.client, Scope(UPGRADES), keep=_without_managers, changed=self._on_change, metrics=self.metrics
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.run())
            tasks.create_task(self.lease.lead(self._run_all))

    def to_list(self) -> list[dict[str, Any]]:
        """Return the upgrades as JSON data, by name."""
        return [self._row(name, item) for name, item in sorted(self._items.items())]

    def _row(self, name: str, item: Mapping[str, Any]) -> dict[str, Any]:
        stored = _read(item)
        if isinstance(stored, str) or stored.state is None:
            reason = stored if isinstance(stored, str) else stored.heartbeat.error
            return {**dict.fromkeys(_COLUMNS), "name": name, "waves": [], "gates": {}, "reason": reason or None}
        document, state, heartbeat, now = stored.upgrade, stored.state, stored.heartbeat, self.clock()
        waves = [
            {"name": wave.name, "done": index < state.wave or state.phase == COMPLETED}
            for index, wave in enumerate(waves_of(document, state))
        ]
        return {
            **document.head,
            "phase": state.phase,
            "progress": progress_text(document, state),
            "waves": waves,
            "left": state.left,
            "total": state.total,
            "secondsLeft": None if stored.dead_text(now) else seconds_left(state, now),
            "gates": dict(state.gates),
            "reason": stored.trouble_text(now) or state.reason or None,
            "remaining": state.remaining_total,
            "runner": heartbeat.runner or None,
            "lastSeen": heartbeat.time or None,
            "lastError": heartbeat.error or None,
            "progressedAt": state.progressed,
        }

    def _on_change(self, items: Mapping[str, dict[str, Any]]) -> None:
        self._items = items
        self._woken.set()
        upgrades = {name: _read(item) for name, item in items.items()}
        readable = {name: stored for name, stored in upgrades.items() if not isinstance(stored, str)}
        self._worked = {
            name: self._worked.get(name, stored.heartbeat.time) if stored.heartbeat.error else stored.heartbeat.time
            for name, stored in readable.items()
        }
        rows = {name: _metrics_row(stored, self._worked[name]) for name, stored in readable.items()}
        self.metrics.upgrades({name: row for name, row in rows.items() if row is not None})

    async def _run_all(self) -> None:
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                self._woken.clear()
                tasks = {name: task for name, task in tasks.items() if not task.done()}
                for name, item in self._items.items():
                    if name not in tasks and _is_due(item):
                        tasks[name] = asyncio.create_task(self._run_one(name))
                        tasks[name].add_done_callback(lambda _: self._woken.set())
                await self._woken.wait()
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _uid(self, name: str) -> str:
        """Return the UID of an upgrade, by which one that was deleted differs from the next of its name; empty without one."""
        item = self._items.get(name)
        return "" if item is None else str(item["metadata"].get("uid", ""))

    async def _run_one(self, name: str) -> None:
        """Run an upgrade, and wait before the next try. An upgrade that fails does not affect the others."""
        store, wait, uid = Store(self.client, name, self.lease.identity), PAUSE_BETWEEN_RUNS, self._uid(name)
        try:
            stored = await store.load()
            if stored.is_due:  # the watch may be late, and a run lists all workloads
                await self.run(store)
            elif stored.may_repeat and stored.state is not None and await self._has_changed(stored, stored.state):
                await self._repeat(store, stored, stored.state)
            elif stored.may_repeat:
                wait = RETRY_INTERVAL
            elif stored.is_outdated and stored.state is not None:
                await store.save(stored, stored.state)
        except InjectorError as error:
            await asyncio.sleep(PAUSE_BETWEEN_RUNS)
            if self._uid(name) != uid:
                _log.info("upgrade %s was deleted: its tag and pods stay as they are", name)
                return
            wait = RETRY_INTERVAL
            await _note(store, str(error))
        except Exception:  # noqa: BLE001 -- logged with its traceback
            wait = RETRY_INTERVAL
            _log.exception("upgrade %s", name)
            await _note(store, "internal error; the log of the injector has it")
        await asyncio.sleep(wait)

    async def _has_changed(self, stored: Stored, state: State) -> bool:
        """Return whether the configuration of an upgrade's revision has changed since its last run, and not since the last check."""
        name, fingerprint = stored.upgrade.name, await self.fingerprint(stored.upgrade.target)
        if fingerprint in ("", state.fingerprint):
            self._changed.pop(name, None)
            return False
        is_settled = self._changed.get(name) == fingerprint
        self._changed[name] = fingerprint
        return is_settled

    async def _repeat(self, store: Store, stored: Stored, state: State) -> None:
        """Start an upgrade again, and run it. Raises UsageError, and tries later, if another one that excludes it is under way."""
        await store.check_rival(stored.upgrade)
        fingerprint, now = self._changed.pop(stored.upgrade.name), float(int(self.clock()))
        again = new_state(stored.upgrade, now, {}, state.sidecars, state)
        await store.save(stored, replace(again, fingerprint=fingerprint))
        _log.info("upgrade %s: the configuration of revision %s has changed", store.name, stored.upgrade.target)
        await self.run(store)


async def _note(store: Store, reason: str) -> None:
    """Show why an upgrade cannot start or go on, and log it once."""
    try:
        is_new = await store.note(reason)
    except InjectorError as error:
        is_new, reason = True, f"{reason}; {error}"
    if is_new:
        _log.warning("upgrade %s: %s", store.name, reason)


def _without_managers(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is remembered of a resource: all but its managed fields, which are as large as the rest."""
    return {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}


def _read(item: Mapping[str, Any]) -> Stored | str:
    """Return an upgrade with its state, or why it cannot be read."""
    try:
        return read_stored(item)
    except InjectorError as error:
        return str(error)


def _is_due(item: Mapping[str, Any]) -> bool:
    stored = _read(item)
    return isinstance(stored, str) or stored.is_due or stored.is_outdated or stored.may_repeat


def _metrics_row(stored: Stored, worked: float) -> UpgradeRow | None:
    """Return the metrics of an upgrade; None before its start. ``worked`` is the time of the last heartbeat without an error."""
    if stored.state is None:
        return None
    upgrade, state = stored.upgrade, stored.state
    total = len(waves_of(upgrade, state))
    done = total if state.phase == COMPLETED else state.wave
    progressed = 0.0
    if not state.has_ended and not state.reason.startswith(WINDOW) and not state.waits_for_approval:
        # A soak is progress until its end.
        soaks = [gateway.ready + upgrade.gateways.soak for gateway in state.gateways.values() if gateway.moving]
        if state.step == SOAKING and not state.back:
            soaks = [state.since + upgrade.soak_of(state.wave)]
        progressed = max(state.progressed, *soaks) if soaks else state.progressed
    gates = {name: text.partition(":")[0] for name, text in state.gates.items()}
    remaining = total - done
    heartbeat = worked if stored.is_due else 0.0
    waves = {"done": done, "left": remaining}
    return UpgradeRow(
        state.phase,
        waves,
        state.counts,
        state.left,
        gates,
        progressed,
        heartbeat,
        state.remaining_total,
        state.gateway_counts,
    )
