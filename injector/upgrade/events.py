"""The Events of Kubernetes that a runner records: about an upgrade, its namespaces, and what it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import NAMESPACES, Resource
from injector.errors import ClusterError
from injector.golang.time import utc_text
from injector.upgrade.document import API_VERSION, KIND
from injector.upgrade.plan import RESTART
from injector.upgrade.preflight import PACE
from injector.upgrade.state import COMPLETED, PAUSED, RESTARTING, RUNNING, SOAKING, progress_text
from injector.upgrade.step import mark_of
from injector.upgrade.store import MANAGER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from injector.cluster.client import KubeClient
    from injector.upgrade.observation import ObservedWorkload
    from injector.upgrade.state import State
    from injector.upgrade.store import Stored

EVENTS: Final = Resource("v1", "events", "Event", namespaced=True)
_EVENT_NAMESPACE: Final = "default"
"""The namespace of Events about objects of the cluster."""
_MAX_MESSAGE: Final = 1000
"""The API server accepts 1024 bytes (pkg/apis/core/validation/events.go)."""


@dataclass(frozen=True, slots=True)
class EventWriter:
    """Records the Events of the upgrade ``name``. An Event that is not permitted, or cannot be written, is left out."""

    client: KubeClient
    name: str
    clock: Callable[[], float]
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Let ``announce`` write beside the block. The end of the block waits for it, unless the block fails."""
        try:
            yield
            await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def tell_of_dead_runner(self, stored: Stored, runner: str) -> None:
        """Record that ``runner`` goes on with an upgrade whose runner has died, if that is so."""
        heartbeat, now = stored.heartbeat, float(int(self.clock()))
        if stored.is_under_way and heartbeat.is_late(now) and heartbeat.runner != runner:
            message = f"runner {heartbeat.runner} was last seen at {utc_text(heartbeat.time)}; {runner} goes on"
            await self.record(_about(stored), "Warning", "UpgradeRunnerLost", message)

    def announce(self, stored: Stored, state: State, workloads: Sequence[ObservedWorkload]) -> None:
        """Record a new step or phase as an Event of the Upgrade, and in each namespace that it concerns: a wave may have many."""
        self._tasks.append(asyncio.create_task(self._write(stored, state, workloads)))

    async def _write(self, stored: Stored, state: State, workloads: Sequence[ObservedWorkload]) -> None:
        upgrade = stored.upgrade
        reason = f"Upgrade{state.step if state.phase == RUNNING else state.phase}"
        reason = f"Upgrade{state.cause}" if state.waits_for_approval else reason
        progress = f", {progress_text(upgrade, state)}" if not state.has_ended else ""
        what = f"upgrade {upgrade.name} to {upgrade.target}: {state.phase}{progress}"
        message = f"{what}; {state.reason}" if state.reason else what
        kind = "Normal" if state.phase in (RUNNING, COMPLETED) else "Warning"
        await self.record(_about(stored), kind, reason, message)
        if state.phase == RUNNING and state.step not in (RESTARTING, SOAKING):
            return
        # A runner that took over has planned no restart of a workload that is restarted already.
        concerned = (
            view for view in workloads if view.action == RESTART or view.mark == mark_of(upgrade, state, view.name)
        )
        if state.phase in (RUNNING, PAUSED):
            concerned = (view for view in concerned if view.wave == state.wave)
        for place in sorted({view.key.namespace for view in concerned}):
            about = {"apiVersion": "v1", "kind": NAMESPACES.kind, "name": place, "namespace": place}
            await self.record(about, kind, reason, message)

    async def record(self, about: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Create an Event about an object, if this is permitted."""
        meta = {"generateName": f"upgrade-{self.name}.", "namespace": about.get("namespace", _EVENT_NAMESPACE)}
        at = utc_text(self.clock())
        event = {
            "metadata": meta,
            "involvedObject": about,
            "type": kind,
            "reason": reason,
            "message": message[:_MAX_MESSAGE],
            "source": {"component": MANAGER},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        await asyncio.sleep(PACE)
        with suppress(ClusterError):  # the events are not needed
            await self.client.create(EVENTS, event, manager=MANAGER)


def _about(stored: Stored) -> dict[str, Any]:
    meta = stored.item["metadata"]
    return {"apiVersion": API_VERSION, "kind": KIND, "name": stored.upgrade.name, "uid": meta.get("uid", "")}
