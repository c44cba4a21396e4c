"""One step of an upgrade: from its state and what was observed to the next state and actions. It does no I/O and has no clock.

A runner loads the state, observes the cluster, calls ``step``, stores the state unless another writer has changed it, and only then
performs the actions. It may die at any moment, and several may run:

- A restart is decided by storing the workload in ``State.restarting``. Every runner performs it until the workload has the wave's mark.
  The API server accepts it only for the version of the workload that was observed, so that a late runner cannot repeat it.
- The limits count ``State.restarting``, not only what is observed, so that an outdated observation cannot exceed them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from injector.upgrade.document import PASS, ROLLBACK
from injector.upgrade.plan import BLOCKED, RESTART, limit_fault, prepare_tag, tag_in_wave
from injector.upgrade.state import MOVING, PAUSED, PREFLIGHT, RESTARTING, ROLLED_BACK, RUNNING, SOAKING, State, promote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from injector.revisions.tags import Tag
    from injector.upgrade.document import Upgrade
    from injector.upgrade.plan import Key

INTERVAL: Final = 2.0
"""Seconds between two steps: each costs two small requests."""
BATCH: Final = 10
"""Restarts that one step decides on. They take a second, in which a pause has no effect."""
PREFLIGHT_GRACE: Final = 30.0
"""Seconds after the first fault of a preflight for which it is repeated: the replicas of the injector see a changed tag within a second."""
GATE_INTERVAL: Final = 30.0
"""Seconds between two evaluations of the gates while a wave soaks."""
STABLE_AFTER: Final = 30.0
"""Seconds without a change after which a complete rollout has the pods that it will have. Pods are watched apart from workloads."""
WINDOW: Final = "waiting for a window"
_PREFLIGHT_FAULT: Final = "preflight: "
FAILED: Final = "fail"
PASSED: Final = "pass"
NO_DATA: Final = "no data"


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """A workload of the plan, as it was observed.

    Attributes:
        wave: the index of its wave.
        desired: the pods that it should have.
        disrupts: the pods that a restart takes away at once.
        mark: the mark of its last restart by an upgrade; empty for none.
        new: its running pods with a sidecar of the new revision.
        old: its running pods with a sidecar of another revision.
        unavailable: the pods that it should have, and that are not available.
        fault: why its new pods do not work; empty if they do.
        quiet: the seconds since this runner saw a change of the workload or its pods.
        incomplete: the seconds since this runner saw all its pods available.
    """

    key: Key
    action: str = ""
    wave: int = 0
    desired: int = 0
    disrupts: int = 0
    mark: str = ""
    complete: bool = True
    new: int = 0
    old: int = 0
    unavailable: int = 0
    fault: str = ""
    budgets: frozenset[str] = frozenset()
    quiet: float = 0.0
    incomplete: float = 0.0


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of a gate: ``pass``, ``fail`` or ``no data``, with the value or the reason."""

    name: str
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster at one moment.

    Attributes:
        workloads: the workloads of all waves.
        tag: the tag of the upgrade; None if it has none.
        tag_before: the tag before the upgrade.
        exhausted: the PodDisruptionBudgets that allow no disruption.
        hold: why no workload may be restarted now, such as a control plane without endpoints; empty if they may.
        refused: the reasons of restarts that the API server refused, by workload.
        preflight: the faults that the preflight found; None if it was not made.
        gates: the results of the gates; None if they were not evaluated.
    """

    now: float
    workloads: Sequence[ObservedWorkload]
    tag: Tag | None = None
    tag_before: Tag | None = None
    exhausted: frozenset[str] = frozenset()
    hold: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    preflight: tuple[str, ...] | None = None
    gates: tuple[GateResult, ...] | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """The next state, the tag to write if it changes, and the workloads to restart. The state is stored first."""

    state: State
    tag: Tag | None = None
    restarts: tuple[Key, ...] = ()


def wants_preflight(state: State) -> bool:
    """Return whether the next step needs a preflight."""
    return state.phase == RUNNING and state.step == PREFLIGHT


def wants_gates(state: State) -> bool:
    """Return whether the next step needs the gates."""
    return state.phase == RUNNING and state.step == SOAKING


def mark_of(upgrade: Upgrade, state: State) -> str:
    """Return the mark of the restarts of the current wave, or of the rollback."""
    return f"{upgrade.name}/{int(state.token)}"


def step(upgrade: Upgrade, state: State, observation: Observation) -> Transition:
    """Return the next state and actions."""
    if state.has_ended or state.phase == PAUSED:
        return Transition(state)
    if observation.now > state.deadline:
        return _fail(upgrade, state, observation.now, "the deadline has passed")
    if state.back:
        return _roll_back(upgrade, state, observation)
    changed = f"tag {upgrade.tag} was changed by another writer"
    if state.step in (PREFLIGHT, MOVING) and observation.tag not in _tags_until(
        upgrade, observation.tag_before, state.wave
    ):
        return Transition(replace(state, phase=PAUSED, reason=changed))  # a rollback would overwrite the change
    if state.step == PREFLIGHT:
        return _preflight(upgrade, state, observation)
    wanted = None if observation.tag_before is None else tag_in_wave(upgrade, observation.tag_before, state.wave)
    if state.step == MOVING:
        if observation.tag != wanted:
            return Transition(state, tag=wanted)
        return Transition(state.at(RESTARTING, observation.now, token=state.next_token(observation.now)))
    if observation.tag != wanted:
        return _fail(upgrade, state, observation.now, changed)
    wave = [workload for workload in observation.workloads if workload.wave == state.wave]
    faults = [f"{workload.key}: {workload.fault}" for workload in wave if workload.fault and workload.new]
    overdue = [
        workload
        for workload in wave
        if workload.action == RESTART and workload.old and workload.mark != mark_of(upgrade, state)
    ]
    if state.step == SOAKING and overdue:
        return Transition(state.at(RESTARTING, observation.now))  # a workload that appeared later
    if state.step == SOAKING:
        return _soak(upgrade, state, observation, wave, faults)
    if faults:
        return _fail(upgrade, state, observation.now, _first_reason(faults))
    # A workload that is broken already would probably fail the wave, so that the others come first.
    return _restart(
        upgrade,
        state,
        observation,
        wave,
        sorted(overdue, key=lambda workload: (workload.unavailable > 0, workload.key)),
    )


def _tags_until(upgrade: Upgrade, before: Tag | None, wave: int) -> list[Tag | None]:
    """Return the tag before the upgrade, and each form of it that the upgrade itself writes until it has moved it for a wave."""
    if before is None:
        return [None]
    moved = [before, *(tag_in_wave(upgrade, before, index) for index in range(wave + 1))]
    return [*moved, *(prepare_tag(upgrade, tag) for tag in moved)]


def _preflight(upgrade: Upgrade, state: State, observation: Observation) -> Transition:
    prepared = None if observation.tag is None else prepare_tag(upgrade, observation.tag)
    if not upgrade.in_window(observation.now):
        return Transition(replace(state, reason=WINDOW))
    if prepared != observation.tag:
        return Transition(state, tag=prepared)
    if observation.preflight is None:
        return Transition(state)
    if not observation.preflight:
        return Transition(state.at(MOVING, observation.now))
    reason = f"{_PREFLIGHT_FAULT}{_first_reason(observation.preflight)}"
    if not state.reason.startswith(_PREFLIGHT_FAULT):
        return Transition(replace(state, since=observation.now, reason=reason))  # the grace starts with the first fault
    if observation.now - state.since <= PREFLIGHT_GRACE:
        return Transition(replace(state, reason=reason))
    return _fail(upgrade, state, observation.now, reason)


def _roll_back(upgrade: Upgrade, state: State, observation: Observation) -> Transition:
    """Move the tag back, and then restart the workloads that have the new revision, those with unavailable pods first.

    The others follow in the reverse order of the waves. A workload that does not recover holds up no other one.
    """
    if observation.tag != observation.tag_before:
        return Transition(state, tag=observation.tag_before)
    mark = mark_of(upgrade, state)
    overdue = [
        workload
        for workload in observation.workloads
        if workload.new and workload.action != BLOCKED and workload.mark != mark
    ]
    ordered = sorted(overdue, key=lambda workload: (not workload.unavailable, -workload.wave, workload.key))
    return _restart(upgrade, state, observation, observation.workloads, ordered)


def _restart(
    upgrade: Upgrade,
    state: State,
    observation: Observation,
    concerned: Iterable[ObservedWorkload],
    overdue: Sequence[ObservedWorkload],
) -> Transition:
    """Restart what is due within the limits. The step ends when nothing is due and nothing is being restarted."""
    by_name = {str(workload.key): workload for workload in concerned}
    mark = mark_of(upgrade, state)
    under_way = {name: since for name, since in state.restarting.items() if _is_under_way(state, by_name.get(name))}
    for name, since in under_way.items():
        if by_name[name].mark != mark and observation.now - since > upgrade.timeout:
            under_way[name] = observation.now  # no runner has made it: the time begins again
    faults = _faults_of(upgrade, state, observation, by_name, under_way)
    remaining = {str(workload.key): workload for workload in overdue if str(workload.key) not in under_way}
    # It has become larger since the plan was made, or another writer has moved it.
    too_large = {
        name: fault for name, workload in remaining.items() if (fault := limit_fault(upgrade, _further_pods(workload)))
    }
    rest = [workload for name, workload in remaining.items() if name not in too_large]
    can_go_on = (rest or under_way.keys() - faults) and (state.back or not faults)
    if (faults or too_large) and not can_go_on:
        reasons = [*faults.values(), *(f"{name}: {fault}" for name, fault in too_large.items())]
        return _fail(upgrade, replace(state, restarting=under_way), observation.now, _first_reason(reasons))
    hold = "" if state.back else observation.hold and f"waiting for {observation.hold}"
    if not state.back and not upgrade.in_window(observation.now):
        hold = hold or WINDOW
    if hold and rest:
        restarts, waiting = list[ObservedWorkload](), hold
    else:
        working = {name: since for name, since in under_way.items() if name not in faults}
        concerned_pods = [workload for workload in observation.workloads if str(workload.key) not in faults]
        restarts, waiting = _choose_restarts(
            upgrade, replace(observation, workloads=concerned_pods), working, rest, back=state.back
        )
    restarting = {**under_way, **{str(workload.key): observation.now for workload in restarts}}
    progressed = state.progressed if restarting.keys() == state.restarting.keys() else observation.now
    now_state = replace(state, restarting=restarting, progressed=progressed, reason=waiting)
    if not restarting and not overdue:
        complete = (
            state.at(SOAKING, observation.now)
            if not state.back
            else state.at(state.step, observation.now, phase=ROLLED_BACK)
        )
        return Transition(replace(complete, restarting={}))
    restarted = [by_name[name] for name in restarting if name not in faults]
    return Transition(now_state, restarts=tuple(workload.key for workload in restarted if workload.mark != mark))


def _is_under_way(state: State, workload: ObservedWorkload | None) -> bool:
    """Return whether a restart is not complete; a workload that was deleted, or that restarted by itself, is complete."""
    if workload is None:
        return False
    right, wrong = (workload.old, workload.new) if state.back else (workload.new, workload.old)
    return not workload.complete or wrong > 0 or right < workload.desired  # a pod that has no sidecar is neither


def _further_pods(workload: ObservedWorkload) -> int:
    """Return the pods that a restart takes away besides those that are not available already."""
    return max(workload.disrupts - workload.unavailable, 0)


def _faults_of(
    upgrade: Upgrade,
    state: State,
    observation: Observation,
    by_name: Mapping[str, ObservedWorkload],
    under_way: Mapping[str, float],
) -> dict[str, str]:
    faults = {}
    for name, since in under_way.items():
        workload = by_name[name]
        if name in observation.refused:
            faults[name] = f"{name}: the restart is refused: {observation.refused[name]}"
        elif workload.complete and workload.mark == mark_of(upgrade, state) and workload.quiet >= STABLE_AFTER:
            wanted = upgrade.source if state.back else upgrade.target
            faults[name] = f"{name}: its new pods do not have revision {wanted}"
        elif observation.now - since > upgrade.timeout:
            remaining = workload.new if state.back else workload.old
            what = f"pods left: {remaining}, not available: {workload.unavailable}"
            faults[name] = f"{name}: not complete after {int(upgrade.timeout)} s: {what}"
    return faults


def _choose_restarts(
    upgrade: Upgrade,
    observation: Observation,
    under_way: Mapping[str, float],
    overdue: Sequence[ObservedWorkload],
    *,
    back: bool,
) -> tuple[list[ObservedWorkload], str]:
    """Return the workloads that the limits allow to restart now, and the reason why the others wait.

    In a rollback, a workload whose pods are away already does not wait for itself.
    """
    limits = upgrade.limits
    away, places, budgets = 0, dict[str, int](), set[str]()
    for workload in observation.workloads:
        is_restarting = str(workload.key) in under_way
        taken = max(workload.unavailable, workload.disrupts if is_restarting else 0)
        away += taken
        places[workload.key.namespace] = places.get(workload.key.namespace, 0) + taken
        budgets |= workload.budgets if is_restarting else frozenset()
    restarts: list[ObservedWorkload] = []
    waiting = ""
    for workload in overdue:
        more = _further_pods(workload)
        place = workload.key.namespace
        exhausted = workload.budgets & (observation.exhausted | budgets)
        is_broken = back and workload.unavailable > 0 and not more
        if len(under_way) + len(restarts) >= limits.workloads:
            waiting = waiting or f"waiting for one of {limits.workloads} restarts (limits.workloads)"
            break
        if len(restarts) == BATCH:
            break  # the others follow in the next steps
        if is_broken:
            restarts.append(workload)
        elif away + more > limits.unavailable_pods:
            waiting = waiting or f"waiting for {away} unavailable pods (limits.unavailablePods)"
        elif places.get(place, 0) + more > limits.unavailable_pods_per_namespace:
            waiting = (
                waiting or f"waiting for unavailable pods of namespace {place} (limits.unavailablePodsPerNamespace)"
            )
        elif exhausted:
            waiting = waiting or f"waiting for PodDisruptionBudget {min(exhausted)}"
        else:
            restarts.append(workload)
            away += more
            places[place] = places.get(place, 0) + more
            budgets |= workload.budgets
    return restarts, waiting


def _soak(
    upgrade: Upgrade, state: State, observation: Observation, wave: Sequence[ObservedWorkload], faults: Sequence[str]
) -> Transition:
    """Wait for the soak time, and for pods that are not available. A gate without data fails only at the end."""
    gates, mark = observation.gates or (), mark_of(upgrade, state)
    unready = [
        workload for workload in wave if (workload.new or workload.mark == mark) and workload.incomplete >= STABLE_AFTER
    ]
    stuck = [
        f"{workload.key}: pods not available for {int(upgrade.timeout)} s: {workload.unavailable}"
        for workload in unready
        if workload.incomplete > upgrade.timeout
    ]
    failed = [*faults, *stuck, *(f"gate {gate.name}: {gate.detail}" for gate in gates if gate.result == FAILED)]
    if failed:
        return _fail(upgrade, state, observation.now, _first_reason(failed))
    if observation.now - state.since < upgrade.soak:
        return Transition(replace(state, reason="soaking"))
    if unready:
        return Transition(replace(state, reason=f"waiting for the pods of {unready[0].key}"))
    if observation.gates is None:
        return Transition(state)
    passes = {metric.name for metric in upgrade.gates.metrics if metric.no_data == PASS}
    missing = [
        f"gate {gate.name}: no data: {gate.detail}"
        for gate in gates
        if gate.result == NO_DATA and gate.name not in passes
    ]
    if missing:
        return _fail(upgrade, state, observation.now, _first_reason(missing))
    return Transition(promote(state, upgrade, observation.now))


def _fail(upgrade: Upgrade, state: State, now: float, reason: str) -> Transition:
    if upgrade.on_failure == ROLLBACK and not state.back:
        return Transition(replace(state.rolling_back(now, f"rolling back: {reason}"), deadline=now + upgrade.deadline))
    return Transition(replace(state, phase=PAUSED, reason=reason))


def _first_reason(reasons: Sequence[str]) -> str:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{min(reasons)}{more}" if reasons else ""
