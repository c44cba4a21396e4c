"""The state of an upgrade, which is stored after each decision, and the commands of users, which change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec

from injector.errors import ConfigError, UsageError
from injector.kube.escaping import escape_line

if TYPE_CHECKING:
    from injector.upgrade.document import Upgrade

RUNNING: Final = "Running"
PAUSED: Final = "Paused"
ROLLING_BACK: Final = "RollingBack"
COMPLETED: Final = "Completed"
ROLLED_BACK: Final = "RolledBack"
ABORTED: Final = "Aborted"
FINAL_PHASES: Final = (COMPLETED, ROLLED_BACK, ABORTED)
_PHASES: Final = (RUNNING, PAUSED, ROLLING_BACK, *FINAL_PHASES)

PREFLIGHT: Final = "Preflight"
MOVING: Final = "Moving"
RESTARTING: Final = "Restarting"
SOAKING: Final = "Soaking"
_STEPS: Final = (PREFLIGHT, MOVING, RESTARTING, SOAKING)

VERBS: Final = ("pause", "resume", "promote", "abort", "rollback")
"""The commands that change a state, as those of the kubectl plugin of Argo Rollouts."""


class TagBefore(TypedDict, total=False):
    """The label and the annotations of a tag before the upgrade; neither if the upgrade has no tag."""

    revision: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class State:
    """The state of an upgrade. Times are seconds since 1970.

    Attributes:
        phase: running, paused, rolling back, or one of ``FINAL_PHASES``.
        wave: the index of the wave.
        back: whether the upgrade goes back; it stays if a rollback is paused.
        deadline: the time at which it fails.
        since: the start of the step.
        token: the time that marks the restarts of the wave or of the rollback. It is stored before the first of them, so that no runner
            restarts a workload again.
        progressed: the time of the last progress.
        restarting: the workloads that are being restarted, with the time of the decision. A workload is added before its restart, and
            removed when its pods are complete, so that every runner counts it for the limits.
        reason: why it waits, or is paused; empty if it does not.
        counts: the workloads of the wave, or of a rollback, by progress.
        total: the workloads that were to be restarted when the upgrade, or its rollback, began.
        left: those that are still to be restarted.
        gates: the last result of each gate.
    """

    phase: str = RUNNING
    step: str = PREFLIGHT
    wave: int = 0
    back: bool = False
    started: float = 0.0
    deadline: float = 0.0
    since: float = 0.0
    token: float = 0.0
    progressed: float = 0.0
    restarting: Mapping[str, float] = field(default_factory=dict)
    tag_before: TagBefore = field(default_factory=TagBefore)
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    left: int = 0
    gates: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.phase in FINAL_PHASES

    def at(self, step: str, now: float, **changed: Any) -> State:
        """Return the state at the start of a step."""
        return replace(self, step=step, since=now, progressed=now, reason="", **changed)

    def next_token(self, now: float) -> float:
        """Return the mark of further restarts: whole seconds, later than every mark before."""
        return max(float(int(now)), self.token + 1)

    def rolling_back(self, now: float, reason: str) -> State:
        """Return the state at the start of a rollback."""
        fresh = self.at(
            RESTARTING, now, phase=ROLLING_BACK, back=True, restarting={}, counts={}, token=self.next_token(now)
        )
        return replace(fresh, reason=reason, started=now, total=0, left=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        return asdict(self)


def new_state(upgrade: Upgrade, now: float, tag_before: TagBefore) -> State:
    """Return the state of an upgrade that starts."""
    return State(started=now, deadline=upgrade.deadline_from(now), since=now, progressed=now, tag_before=tag_before)


START_AGAIN: Final = "another version of the injector or a person wrote it: delete it to start again"
"""The hint for a stored upgrade that cannot be read."""


def read_state(raw: Any, upgrade: Upgrade, *, where: str) -> State:
    """Read a state of an upgrade that ``State.to_dict`` returned. Raises ConfigError if it is not one."""
    fault = ""
    try:
        state = msgspec.convert(raw, State)
    except msgspec.ValidationError as error:
        fault = str(error)
    else:
        if unknown := raw.keys() - state.to_dict().keys():
            fault = f"unknown field `{min(unknown)}`"
        elif state.phase not in _PHASES or state.step not in _STEPS or not 0 <= state.wave < len(upgrade.waves):
            fault = "there is no such phase, step or wave"
    if fault:
        raise ConfigError(f"the state of the upgrade cannot be read: {fault}", where=where, hint=START_AGAIN)
    return state


def apply_command(state: State, verb: str, upgrade: Upgrade, now: float) -> State:
    """Return the state after a command of a user. Raises UsageError if the command does not fit the state."""
    if state.has_ended and (verb, state.phase) not in (("rollback", COMPLETED), ("rollback", ABORTED)):
        raise UsageError(f"the upgrade {upgrade.name} has ended: it is {state.phase}", hint="start another upgrade")
    match verb:
        case "pause":
            return replace(state, phase=PAUSED, reason="paused by a user")
        case "resume":
            return _resume(state, upgrade, now)
        case "promote":
            if state.back:
                raise UsageError("a rollback has no gates", hint="resume it, or abort it")
            return promote(_resume(state, upgrade, now), upgrade, now)
        case "abort":
            return replace(
                state, phase=ABORTED, restarting={}, reason="aborted by a user: the tag and the pods stay as they are"
            )
        case _:
            if not upgrade.tag:
                hint = "change the labels of the namespaces back, and write an upgrade in the other direction"
                raise UsageError("an upgrade without a tag cannot go back", hint=hint)
            if state.back:
                raise UsageError("the upgrade goes back already", hint="resume it if it is paused")
            return replace(state.rolling_back(now, "rolled back by a user"), deadline=now + upgrade.deadline)


def _resume(state: State, upgrade: Upgrade, now: float) -> State:
    phase = ROLLING_BACK if state.back else RUNNING
    restarting = dict.fromkeys(state.restarting, now)
    return replace(state.at(state.step, now, phase=phase, restarting=restarting), deadline=upgrade.deadline_from(now))


def promote(state: State, upgrade: Upgrade, now: float) -> State:
    """Return the state after a wave: at the start of the next one, or at the end. Before the tag has moved, only a preflight is skipped."""
    if state.step in (PREFLIGHT, MOVING):
        return state.at(MOVING, now)
    if state.wave + 1 == len(upgrade.waves):
        return state.at(state.step, now, phase=COMPLETED, restarting={})
    return state.at(PREFLIGHT, now, wave=state.wave + 1, restarting={}, counts={}, gates={})


def counts_text(state: State) -> str:
    """Return the workloads by their progress."""
    return ", ".join(f"{count} {name}" for name, count in state.counts.items()) or "no workload"


def progress_text(upgrade: Upgrade, state: State) -> str:
    """Return the wave, its step and its workloads in one line; empty after the end."""
    if state.has_ended:
        return ""
    if state.back:
        return f"{state.step}: {counts_text(state)}"
    counts = f": {counts_text(state)}" if state.counts else ""
    return f"wave {upgrade.waves[state.wave].name}, {state.step}{counts}"


def state_line(document: Upgrade, state: State) -> str:
    """Return the state of an upgrade in one line."""
    progress = progress_text(document, state)
    reason = f"; {state.reason}" if state.reason else ""
    return escape_line(f"{document.name}: {state.phase}{', ' if progress else ''}{progress}{reason}")


def seconds_left(state: State, now: float) -> float | None:
    """Forecast how long an upgrade still takes at its pace so far, with its soak times; None before the first workload is done."""
    done = state.total - state.left
    return None if state.has_ended or done <= 0 else state.left * (now - state.started) / done
