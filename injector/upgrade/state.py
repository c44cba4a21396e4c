"""The state of an upgrade, which the status of its resource stores after each decision."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec

from injector.errors import ConfigError
from injector.golang.time import utc_text
from injector.hints import first_of
from injector.istio.labels import REVISION_LABEL
from injector.kube.escaping import escape_line
from injector.upgrade.document import read_time

if TYPE_CHECKING:
    from injector.upgrade.document import Upgrade, Wave

RUNNING: Final = "Running"
PAUSED: Final = "Paused"
ROLLING_BACK: Final = "RollingBack"
COMPLETED: Final = "Completed"
ROLLED_BACK: Final = "RolledBack"
INCOMPLETE: Final = "Incomplete"
"""The upgrade, or its rollback, has done everything that it can, and work is left for people."""
ABORTED: Final = "Aborted"
FINAL_PHASES: Final = (COMPLETED, ROLLED_BACK, INCOMPLETE, ABORTED)
PHASES: Final = (RUNNING, PAUSED, ROLLING_BACK, *FINAL_PHASES)

PREFLIGHT: Final = "Preflight"
MOVING: Final = "Moving"
RESTARTING: Final = "Restarting"
SOAKING: Final = "Soaking"
GATEWAYS: Final = "MovingGateways"
CHECKING: Final = "Checking"
STEPS: Final = (PREFLIGHT, MOVING, RESTARTING, SOAKING, GATEWAYS, CHECKING)

BY_USER: Final = "ByUser"
"""The cause of a state that a command brought about."""
BACK_BY_USER: Final = "rolled back by a user"
"""The reason of a rollback that a command brought about."""
TAG_CHANGED: Final = "TagChanged"
"""The cause of a pause because another writer changed the tag. An upgrade that is resumed has it until it has written the tag again."""
WAITING_FOR_APPROVAL: Final = "WaitingForApproval"
"""The cause of a wait for ``promote`` before a wave."""
PREFLIGHT_FAILED: Final = "PreflightFailed"
"""The cause of a wait or a pause because of the faults that a preflight found."""
NAMED: Final = 3
"""The workloads that a reason names."""
MAX_REMAINING: Final = 200
"""The workloads that are named at the end. The API server refuses an object of more than 1.5 MB."""


class TagBefore(TypedDict, total=False):
    """The label and the annotations of a tag before the upgrade; neither if the upgrade has no tag."""

    revision: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlannedRestart:
    """The decision to restart a workload: the token of its mark, and its time."""

    token: float
    since: float


@dataclass(frozen=True, slots=True)
class PinnedGateway:
    """A Gateway whose label ``istio.io/rev`` an upgrade has changed, or is about to.

    Attributes:
        label: the value before; None if it had no such label.
        pin: the revision that it is pinned to.
        since: the time of the decision to pin it, or to give it back its label.
        moving: whether it gets back its label.
        in_service: whether it was in service before the upgrade changed it.
        ready: the time since which it has its label, and is in service if it was before; 0 if not.
    """

    label: str | None
    pin: str
    since: float
    moving: bool = False
    in_service: bool = True
    ready: float = 0.0

    def to_remaining(self, name: str) -> Remaining:
        """Return what is left of the pin of a Gateway after an upgrade has ended."""
        namespace, _, own = name.partition("/")
        value = "-" if self.label is None else f"={self.label} --overwrite"
        command = f"kubectl label gateways.gateway.networking.k8s.io {own} -n {namespace} {REVISION_LABEL}{value}"
        return Remaining(f"Gateway {name}", self.reason, f"`{command}` lets it follow its tag")

    @property
    def progress(self) -> str:
        """The progress of its release: pinned, moving to its next owner, or soaking, since it is in service there."""
        if not self.moving:
            return "pinned"
        return "soaking" if self.ready else "moving"

    @property
    def reason(self) -> str:
        """Why it is left if the upgrade ends now. The label of one that is being released may be written already."""
        return f"it {'was being released, and may still be' if self.moving else 'is'} pinned to revision {self.pin}"


@dataclass(frozen=True, slots=True)
class Remaining:
    """A workload that an upgrade leaves behind at its end: its name, the reason, and the remedy."""

    workload: str
    reason: str
    remedy: str


RESTART_OPEN: Final = "its restart was decided, and was not complete"
"""Why a workload is left whose restart an abort has ended. The API server may have refused it, or its rollout may never end."""


def remedy_of_restart(wrong: str, remedy: str) -> str:
    """Return the remedy for such a workload. ``wrong`` is the revision of its pods; ``remedy`` restarts it."""
    return f"if it has a rollout, wait for it; if pods with revision {wrong} remain, {remedy}"


@dataclass(frozen=True, slots=True)
class State:
    """The state of an upgrade. Times are whole seconds since 1970.

    Attributes:
        run: the number of the run, ``spec.run``; each has its own state.
        phase: running, paused, rolling back, or one of ``FINAL_PHASES``.
        step: the step of the wave, or of the rollback; ``upgrade.step`` has the table.
        tag_before: the tag before the upgrade, which a rollback writes.
        wave: the index of the wave.
        back: whether the upgrade goes back; it stays if a rollback is paused or ends.
        rest: whether all waves are restarted that have workloads left, after an upgrade was ``INCOMPLETE``.
        started: the start of the run.
        pace_since: the start of the restarts forward or back, for a forecast.
        deadline: the time at which it fails.
        since: the start of the step.
        token: the time that marks the restarts of the wave or of the rollback. It is stored before the first of them, so that no runner
            restarts a workload again.
        progressed: the time of the last progress.
        approved: whether the wave has the approval that it waits for.
        skipped: the workloads that a user leaves out.
        retries: the tokens of the marks of workloads that a user tries again, by workload; that of the wave does not count for them.
        restarting: the workloads that are being restarted. A workload is added before its restart, and removed when its pods are complete,
            so that every runner counts it for the limits, in the next wave and in a rollback too.
        unavailable_before: those of them of which no pod was available before this run restarted them.
        injected_gateways: whether the last wave has workloads; else the wave before it is the last one.
        gateways: the Gateways that the upgrade has pinned, by namespace and name.
        sidecars: the names that the old and the new revision write into pods. A rollback needs no more of the new revision.
        pins: the revisions to which workloads of the tag were pinned when the run began: the tag keeps them, with weight 0.
        fingerprint: that of the new revision's configuration when the run began.
        namespaces: the namespaces that had workloads of the upgrade.
        cause: the kind of the reason, in one word.
        reason: why it waits, or is paused; empty if it does not. After a rollback, why the upgrade went back.
        rollback_reason: the same while it goes back and has reasons to wait.
        counts: the workloads of the wave, or of a rollback, by progress.
        total: the workloads that were to be restarted when the upgrade, or its rollback, began.
        left: those that are still to be restarted.
        gates: the last result of each gate.
        remaining: the first workloads that are left at the end; ``remaining_total`` counts all.
    """

    run: int = 1
    phase: str = RUNNING
    step: str = PREFLIGHT
    wave: int = 0
    back: bool = False
    rest: bool = False
    started: float = 0.0
    pace_since: float = 0.0
    deadline: float = 0.0
    since: float = 0.0
    token: float = 0.0
    progressed: float = 0.0
    approved: bool = False
    skipped: tuple[str, ...] = ()
    retries: Mapping[str, float] = field(default_factory=dict)
    restarting: Mapping[str, PlannedRestart] = field(default_factory=dict)
    unavailable_before: tuple[str, ...] = ()
    injected_gateways: bool = False
    gateways: Mapping[str, PinnedGateway] = field(default_factory=dict)
    tag_before: TagBefore = field(default_factory=TagBefore)
    sidecars: tuple[str, str] = ("", "")
    pins: tuple[str, ...] = ()
    fingerprint: str = ""
    namespaces: tuple[str, ...] = ()
    cause: str = ""
    reason: str = ""
    rollback_reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    left: int = 0
    gates: Mapping[str, str] = field(default_factory=dict)
    remaining: tuple[Remaining, ...] = ()
    remaining_total: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether no runner has anything left to do."""
        return self.phase in FINAL_PHASES

    @property
    def gateway_counts(self) -> dict[str, int]:
        """The pinned Gateways by progress, see ``PinnedGateway.progress``."""
        return dict(sorted(Counter(gateway.progress for gateway in self.gateways.values()).items()))

    @property
    def progress_counts(self) -> Mapping[str, int]:
        """The workloads of the wave, or of a rollback, by progress; in the step of the Gateways, these."""
        return self.gateway_counts if self.step == GATEWAYS else self.counts

    @property
    def waits_for_approval(self) -> bool:
        """Whether the upgrade waits for ``promote`` before a wave."""
        return self.phase == RUNNING and self.cause == WAITING_FOR_APPROVAL

    @property
    def last_token(self) -> float:
        """The latest mark of restarts."""
        return max((self.token, *self.retries.values()))

    def token_of(self, workload: str) -> float:
        """Return the token of the mark that the restart of a workload writes."""
        return self.retries.get(workload, self.token)

    def at(self, step: str, now: float, **changed: Any) -> State:
        """Return the state at the start of a step."""
        values: dict[str, Any] = {"step": step, "since": now, "progressed": now, "cause": "", "reason": "", **changed}
        return replace(self, **values)

    def next_token(self, now: float) -> float:
        """Return the mark of further restarts: whole seconds, not before the start by another clock, and later than every mark before."""
        return max(float(int(now)), float(int(self.started)), self.last_token + 1)

    def rolling_back(self, upgrade: Upgrade, now: float, cause: str, why: str) -> State:
        """Return the state at the start of a rollback, which brings back skipped workloads too. A user needs no reason.

        The restarts that are under way stay, since they give pods the new revision.
        """
        state = self.at(
            MOVING,
            now,
            phase=ROLLING_BACK,
            back=True,
            rest=False,
            cause=cause,
            reason=f"rolling back: {why}" if why else BACK_BY_USER,
            rollback_reason=f"rolled back: {why}" if why else BACK_BY_USER,
            counts={},
            token=self.last_token,
            skipped=(),
            retries={},
            unavailable_before=(),
            pace_since=now,
            deadline=now + upgrade.deadline,
            total=0,
            left=0,
        )
        return state.with_remaining(())

    def postpone(self, now: float, seconds: float = math.inf) -> State:
        """Return the state with later timeouts of the restarts and Gateways: by so many seconds, or as if they had been decided now."""
        restarting = {
            name: replace(restart, since=min(now, restart.since + seconds)) for name, restart in self.restarting.items()
        }
        gateways = {
            name: replace(gateway, since=min(now, gateway.since + seconds)) for name, gateway in self.gateways.items()
        }
        return replace(self, restarting=restarting, gateways=gateways)

    def with_remaining(self, remaining: tuple[Remaining, ...]) -> State:
        """Return the state with the workloads that are left."""
        return replace(self, remaining=remaining[:MAX_REMAINING], remaining_total=len(remaining))

    def abort(self, remaining: tuple[Remaining, ...]) -> State:
        """Return the state after a user has ended the upgrade, with the work that is left."""
        names = first_of([item.workload for item in remaining], NAMED)
        left = f"; left: {names}" if remaining else ""
        reason = f"aborted by a user: the tag and the pods stay as they are{left}"
        return replace(self.with_remaining(remaining), phase=ABORTED, cause=BY_USER, reason=reason)

    def command_after_abort(self, upgrade: Upgrade) -> str:
        """Return the command that goes on after a user has ended the upgrade, or its rollback."""
        name = upgrade.name
        return f"injector upgrade rollback {name}" if self.back else f"injector upgrade run {name} --again"

    def under_way(self, upgrade: Upgrade) -> tuple[Remaining, ...]:
        """Return what the state knows of the work that is left if the upgrade ends now: restarts and pins."""
        wrong = upgrade.target if self.back else upgrade.source
        remedy = remedy_of_restart(wrong, f"`{self.command_after_abort(upgrade)}` restarts it")
        restarts = (Remaining(name, RESTART_OPEN, remedy) for name in sorted(self.restarting))
        return *(gateway.to_remaining(name) for name, gateway in sorted(self.gateways.items())), *restarts

    def to_status(self) -> dict[str, Any]:
        """Return the fields of the status that store the state."""
        data = asdict(self)
        for name in _TIMES:
            data[name] = utc_text(data[name])
        data["restarting"] = {
            name: {"token": utc_text(restart.token), "since": utc_text(restart.since)}
            for name, restart in self.restarting.items()
        }
        data["retries"] = {name: utc_text(token) for name, token in self.retries.items()}
        data["gateways"] = {
            name: {**asdict(gateway), "since": utc_text(gateway.since), "ready": utc_text(gateway.ready)}
            for name, gateway in self.gateways.items()
        }
        data["sidecars"] = dict(zip(("from", "to"), self.sidecars, strict=True))
        return {_KEYS.get(name, name): value for name, value in data.items()}


_TIMES: Final = ("started", "pace_since", "deadline", "since", "token", "progressed")
_KEYS: Final = {
    "started": "startTime",
    "pace_since": "paceTime",
    "since": "stepTime",
    "token": "restartTime",
    "progressed": "progressTime",
    "injected_gateways": "injectedGateways",
    "tag_before": "tagBefore",
    "rollback_reason": "rollbackReason",
    "unavailable_before": "unavailableBefore",
    "remaining_total": "remainingTotal",
}
"""The fields of the status whose name differs from the attribute."""


def new_state(
    upgrade: Upgrade,
    now: float,
    tag_before: TagBefore,
    sidecars: tuple[str, str] = ("", ""),
    before: State | None = None,
    pins: tuple[str, ...] = (),
) -> State:
    """Return the state of an upgrade that starts.

    ``before`` is that of its run before: the marks, the restarts under way and the pins go on, and the timeouts of the pins begin again.
    """
    state = State(
        run=upgrade.run,
        started=now,
        pace_since=now,
        deadline=upgrade.deadline_from(now),
        since=now,
        progressed=now,
        tag_before=tag_before,
        sidecars=sidecars,
        pins=pins,
    )
    if before is None:
        return state
    return replace(state, token=before.last_token, restarting=before.restarting, gateways=before.postpone(now).gateways)


START_AGAIN: Final = "another version of the injector or a person wrote it: delete the Upgrade and create it again"
"""The hint for a stored upgrade that cannot be read."""


def read_state(status: Any, upgrade: Upgrade, *, where: str) -> State:
    """Read the state that ``State.to_status`` returned; other fields are ignored. Raises ConfigError if it is not one."""
    fault = ""
    try:
        names = {_KEYS.get(name, name): name for name in State.__dataclass_fields__}
        raw = {names[key]: value for key, value in dict(status).items() if key in names}
        for name in raw.keys() & {*_TIMES}:
            raw[name] = _time(raw[name])
        if "restarting" in raw:
            raw["restarting"] = {
                name: {key: _time(text) for key, text in times.items()}
                for name, times in dict(raw["restarting"]).items()
            }
        if "retries" in raw:
            raw["retries"] = {name: _time(text) for name, text in dict(raw["retries"]).items()}
        if "gateways" in raw:
            raw["gateways"] = {
                name: {
                    "label": None,
                    **{key: _time(value) if key in ("since", "ready") else value for key, value in gateway.items()},
                }
                for name, gateway in dict(raw["gateways"]).items()
            }
        if "sidecars" in raw:
            raw["sidecars"] = [raw["sidecars"].get(key, "") for key in ("from", "to")]
        state = msgspec.convert(raw, State)
    except (msgspec.ValidationError, TypeError, ValueError, AttributeError) as error:
        fault = str(error)
    else:
        if state.phase not in PHASES or state.step not in STEPS or not 0 <= state.wave < len(upgrade.waves):
            fault = "there is no such phase, step or wave"
    if fault:
        raise ConfigError(f"the state of the upgrade cannot be read: {fault}", where=where, hint=START_AGAIN)
    return state


def _time(text: Any) -> float:
    """Return the seconds of a time. Raises ValueError if it is not one."""
    seconds = read_time(text)
    if seconds is None:
        raise ValueError(f"{text!r} is not a time")
    return seconds


def needs_approval(upgrade: Upgrade, state: State) -> bool:
    """Return whether the next wave may not begin before ``promote``."""
    return not state.back and state.step == PREFLIGHT and upgrade.waves[state.wave].approval and not state.approved


def last_wave(upgrade: Upgrade, state: State) -> int:
    """Return the index of the last wave: that of the injected gateways only if there are any, or if it has begun."""
    return (
        upgrade.injected_gateway_wave if state.injected_gateways else max(upgrade.injected_gateway_wave - 1, state.wave)
    )


def waves_of(upgrade: Upgrade, state: State) -> Sequence[Wave]:
    """Return the waves that an upgrade has."""
    return upgrade.waves[: last_wave(upgrade, state) + 1]


def promote(state: State, upgrade: Upgrade, now: float) -> State:
    """Return the state after a wave: at the start of the next one, or of the check at the end.

    Before the tag has moved, only a preflight is skipped.
    """
    if state.step in (PREFLIGHT, MOVING):
        return state.at(MOVING, now)
    if state.step == GATEWAYS or (state.wave >= last_wave(upgrade, state) and not state.gateways):
        return state.at(CHECKING, now)
    if state.wave >= last_wave(upgrade, state):
        return state.at(GATEWAYS, now)
    return begin_wave(state, state.wave + 1, now)


def begin_wave(state: State, wave: int, now: float) -> State:
    """Return the state at the beginning of a wave."""
    return state.at(PREFLIGHT, now, wave=wave, approved=False, counts={}, gates={})


def counts_text(state: State) -> str:
    """Return the workloads, or the Gateways, by their progress."""
    return ", ".join(f"{count} {name}" for name, count in state.progress_counts.items()) or "no workload"


def progress_text(upgrade: Upgrade, state: State) -> str:
    """Return the wave, its step and its workloads in one line; empty after the end."""
    if state.has_ended:
        return ""
    if state.back:
        return f"{state.step}: {counts_text(state)}"
    counts = f": {counts_text(state)}" if state.progress_counts else ""
    return f"wave {upgrade.waves[state.wave].name}, {state.step}{counts}"


def state_line(document: Upgrade, state: State) -> str:
    """Return the state of an upgrade in one line."""
    progress = progress_text(document, state)
    reason = f"; {state.reason}" if state.reason else ""
    return escape_line(f"{document.name}: {state.phase}{', ' if progress else ''}{progress}{reason}")


def seconds_left(state: State, now: float) -> float | None:
    """Forecast how long an upgrade still takes at its pace so far, with its soak times; None before the first workload is done."""
    done = state.total - state.left
    return None if state.has_ended or done <= 0 else state.left * (now - state.pace_since) / done
