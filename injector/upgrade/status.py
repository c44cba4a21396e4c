"""The status of an Upgrade: the stored state, the heartbeat of its runner, and the conditions that kubectl, Flux and Argo CD read.

The conditions follow kstatus (sigs.k8s.io/cli-utils, pkg/kstatus)::

    phase                              Ready  Reconciling  Stalled  Completed  RolledBack   kstatus
    not started, Running, RollingBack  False  True         False    False      False        InProgress
    Paused by a user                   False  False        False    False      False        InProgress
    Running, waits for an approval     False  False        False    False      False        InProgress
    Paused                             False  False        True     False      False        Failed
    Completed                          True   False        False    True       False        Current
    Incomplete, Aborted                False  False        True     False      False        Failed
    RolledBack                         False  False        True     False      True         Failed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.golang.time import utc_text
from injector.upgrade.document import read_time
from injector.upgrade.state import (
    ABORTED,
    BY_USER,
    COMPLETED,
    INCOMPLETE,
    PAUSED,
    ROLLED_BACK,
    State,
    progress_text,
    state_line,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.upgrade.document import Upgrade

HEARTBEAT: Final = 10.0
"""Seconds between two heartbeats of a runner that has nothing else to store."""
RUNNER_TIMEOUT: Final = 90.0
"""Seconds without a heartbeat after which a runner counts as dead. The gates take up to 60 s, and a plan of 5,000 workloads 21 s."""
READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
CONDITIONS: Final = (READY, RECONCILING, STALLED, COMPLETED, ROLLED_BACK)
MAX_MESSAGE: Final = 32768
"""The API server accepts no longer message of a condition (metav1.Condition)."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last sign of life of a runner: its name, the time, and why it could not do its last step; empty if it could."""

    runner: str = ""
    time: float = 0.0
    error: str = ""

    def is_late(self, now: float) -> bool:
        """Tell whether the runner counts as dead."""
        return now - self.time > RUNNER_TIMEOUT


def read_heartbeat(status: Mapping[str, Any]) -> Heartbeat:
    """Return the heartbeat that a status has."""
    runner = status.get("runner") or {}
    name, error = str(runner.get("name") or ""), str(runner.get("lastError") or "")
    return Heartbeat(name, read_time(runner.get("lastSeen")) or 0.0, error)


def status_of(
    upgrade: Upgrade, state: State, heartbeat: Heartbeat, before: Mapping[str, Any], *, now: float, generation: int
) -> dict[str, Any]:
    """Return the status of a resource. ``before`` is its present status."""
    status: dict[str, Any] = {**state.to_status(), "progress": progress_text(upgrade, state)}
    status["conditions"] = _conditions(upgrade, state, before, now, generation)
    return with_heartbeat({**status, "observedGeneration": generation}, heartbeat)


def with_heartbeat(status: Mapping[str, Any], heartbeat: Heartbeat) -> dict[str, Any]:
    """Return a status with another heartbeat."""
    runner = {"name": heartbeat.runner, "lastSeen": utc_text(heartbeat.time), "lastError": heartbeat.error}
    return {**status, "runner": runner}


def status_before_start(
    reason: str, before: Mapping[str, Any], heartbeat: Heartbeat, *, generation: int
) -> dict[str, Any]:
    """Return the status of an upgrade that cannot start."""
    values = {READY: ("False", "CannotStart"), RECONCILING: ("True", "CannotStart")}
    conditions = [
        _condition(
            kind,
            *values.get(kind, ("False", "NotStarted")),
            message=reason,
            before=before,
            now=heartbeat.time,
            generation=generation,
        )
        for kind in CONDITIONS
    ]
    status = {**before, "reason": reason, "conditions": conditions, "observedGeneration": generation}
    return with_heartbeat(status, heartbeat)


def _conditions(
    upgrade: Upgrade, state: State, before: Mapping[str, Any], now: float, generation: int
) -> list[dict[str, Any]]:
    is_stalled = state.phase in (INCOMPLETE, ABORTED, ROLLED_BACK) or (state.phase == PAUSED and state.cause != BY_USER)
    is_working = not state.has_ended and state.phase != PAUSED and not state.waits_for_approval
    holds = {
        READY: state.phase == COMPLETED,
        RECONCILING: is_working,
        STALLED: is_stalled,
        COMPLETED: state.phase == COMPLETED,
        ROLLED_BACK: state.phase == ROLLED_BACK,
    }
    reason = state.phase if is_working or not state.cause else state.cause
    message = state_line(upgrade, state)
    return [
        _condition(kind, str(holds[kind]), reason, message=message, before=before, now=now, generation=generation)
        for kind in CONDITIONS
    ]


def _condition(  # noqa: PLR0913 -- one argument for each field
    kind: str, status: str, reason: str, *, message: str, before: Mapping[str, Any], now: float, generation: int
) -> dict[str, Any]:
    """Return a condition. The time of the last transition stays if the status does."""
    earlier: Mapping[str, Any] = next(
        (entry for entry in before.get("conditions") or () if entry.get("type") == kind), {}
    )
    since = earlier.get("lastTransitionTime") if earlier.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "lastTransitionTime": since or utc_text(now),
        "observedGeneration": generation,
    }
