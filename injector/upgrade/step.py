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
from injector.upgrade.plan import BLOCKED, RESTART, moved_tag, over_limit, prepared_tag
from injector.upgrade.state import MOVING, PAUSED, PREFLIGHT, RESTARTING, ROLLED_BACK, RUNNING, SOAKING, State, promoted

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
SETTLING: Final = 30.0
"""Seconds without a change after which a complete rollout has the pods that it will have. Pods are watched apart from workloads."""
WINDOW: Final = "waiting for a window"
_PREFLIGHT_FAULT: Final = "preflight: "
FAILED: Final = "fail"
PASSED: Final = "pass"
NO_DATA: Final = "no data"


@dataclass(frozen=True, slots=True)
class Seen:
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
    workloads: Sequence[Seen]
    tag: Tag | None = None
    tag_before: Tag | None = None
    exhausted: frozenset[str] = frozenset()
    hold: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    preflight: tuple[str, ...] | None = None
    gates: tuple[GateResult, ...] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
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


def step(upgrade: Upgrade, state: State, seen: Observation) -> Decision:
    """Return the next state and actions."""
    if state.has_ended or state.phase == PAUSED:
        return Decision(state)
    if seen.now > state.deadline:
        return _failed(upgrade, state, seen.now, "the deadline has passed")
    if state.back:
        return _back(upgrade, state, seen)
    changed = f"tag {upgrade.tag} was changed by another writer"
    if state.step in (PREFLIGHT, MOVING) and seen.tag not in _tags_until(upgrade, seen.tag_before, state.wave):
        return Decision(replace(state, phase=PAUSED, reason=changed))  # a rollback would overwrite the change
    if state.step == PREFLIGHT:
        return _preflight(upgrade, state, seen)
    wanted = None if seen.tag_before is None else moved_tag(upgrade, seen.tag_before, state.wave)
    if state.step == MOVING:
        if seen.tag != wanted:
            return Decision(state, tag=wanted)
        return Decision(state.at(RESTARTING, seen.now, token=state.next_token(seen.now)))
    if seen.tag != wanted:
        return _failed(upgrade, state, seen.now, changed)
    wave = [each for each in seen.workloads if each.wave == state.wave]
    faults = [f"{each.key}: {each.fault}" for each in wave if each.fault and each.new]
    due = [each for each in wave if each.action == RESTART and each.old and each.mark != mark_of(upgrade, state)]
    if state.step == SOAKING and due:
        return Decision(state.at(RESTARTING, seen.now))  # a workload that appeared later
    if state.step == SOAKING:
        return _soaking(upgrade, state, seen, wave, faults)
    if faults:
        return _failed(upgrade, state, seen.now, _first(faults))
    # A workload that is broken already would probably fail the wave, so that the others come first.
    return _restarted(upgrade, state, seen, wave, sorted(due, key=lambda each: (each.unavailable > 0, each.key)))


def _tags_until(upgrade: Upgrade, before: Tag | None, wave: int) -> list[Tag | None]:
    """Return the tag before the upgrade, and each form of it that the upgrade itself writes until it has moved it for a wave."""
    if before is None:
        return [None]
    moved = [before, *(moved_tag(upgrade, before, index) for index in range(wave + 1))]
    return [*moved, *(prepared_tag(upgrade, each) for each in moved)]


def _preflight(upgrade: Upgrade, state: State, seen: Observation) -> Decision:
    prepared = None if seen.tag is None else prepared_tag(upgrade, seen.tag)
    if not upgrade.in_window(seen.now):
        return Decision(replace(state, reason=WINDOW))
    if prepared != seen.tag:
        return Decision(state, tag=prepared)
    if seen.preflight is None:
        return Decision(state)
    if not seen.preflight:
        return Decision(state.at(MOVING, seen.now))
    reason = f"{_PREFLIGHT_FAULT}{_first(seen.preflight)}"
    if not state.reason.startswith(_PREFLIGHT_FAULT):
        return Decision(replace(state, since=seen.now, reason=reason))  # the grace starts with the first fault
    if seen.now - state.since <= PREFLIGHT_GRACE:
        return Decision(replace(state, reason=reason))
    return _failed(upgrade, state, seen.now, reason)


def _back(upgrade: Upgrade, state: State, seen: Observation) -> Decision:
    """Move the tag back, and then restart the workloads that have the new revision, those with unavailable pods first.

    The others follow in the reverse order of the waves. A workload that does not recover holds up no other one.
    """
    if seen.tag != seen.tag_before:
        return Decision(state, tag=seen.tag_before)
    mark = mark_of(upgrade, state)
    due = [each for each in seen.workloads if each.new and each.action != BLOCKED and each.mark != mark]
    ordered = sorted(due, key=lambda each: (not each.unavailable, -each.wave, each.key))
    return _restarted(upgrade, state, seen, seen.workloads, ordered)


def _restarted(
    upgrade: Upgrade, state: State, seen: Observation, concerned: Iterable[Seen], due: Sequence[Seen]
) -> Decision:
    """Restart what is due within the limits. The step ends when nothing is due and nothing is being restarted."""
    by_name = {str(each.key): each for each in concerned}
    mark = mark_of(upgrade, state)
    under_way = {name: since for name, since in state.restarting.items() if _is_under_way(state, by_name.get(name))}
    for name, since in under_way.items():
        if by_name[name].mark != mark and seen.now - since > upgrade.timeout:
            under_way[name] = seen.now  # no runner has made it: the time begins again
    faults = _faults_of(upgrade, state, seen, by_name, under_way)
    left = {str(each.key): each for each in due if str(each.key) not in under_way}
    # It has become larger since the plan was made, or another writer has moved it.
    too_large = {name: fault for name, each in left.items() if (fault := over_limit(upgrade, _further_pods(each)))}
    rest = [each for name, each in left.items() if name not in too_large]
    can_go_on = (rest or under_way.keys() - faults) and (state.back or not faults)
    if (faults or too_large) and not can_go_on:
        reasons = [*faults.values(), *(f"{name}: {fault}" for name, fault in too_large.items())]
        return _failed(upgrade, replace(state, restarting=under_way), seen.now, _first(reasons))
    hold = "" if state.back else seen.hold and f"waiting for {seen.hold}"
    if not state.back and not upgrade.in_window(seen.now):
        hold = hold or WINDOW
    if hold and rest:
        chosen, waiting = list[Seen](), hold
    else:
        working = {name: since for name, since in under_way.items() if name not in faults}
        concerned_pods = [each for each in seen.workloads if str(each.key) not in faults]
        chosen, waiting = _chosen(upgrade, replace(seen, workloads=concerned_pods), working, rest, back=state.back)
    restarting = {**under_way, **{str(each.key): seen.now for each in chosen}}
    progressed = state.progressed if restarting.keys() == state.restarting.keys() else seen.now
    now_state = replace(state, restarting=restarting, progressed=progressed, reason=waiting)
    if not restarting and not due:
        ended = state.at(SOAKING, seen.now) if not state.back else state.at(state.step, seen.now, phase=ROLLED_BACK)
        return Decision(replace(ended, restarting={}))
    made = [by_name[name] for name in restarting if name not in faults]
    return Decision(now_state, restarts=tuple(each.key for each in made if each.mark != mark))


def _is_under_way(state: State, each: Seen | None) -> bool:
    """Return whether a restart is not complete; a workload that was deleted, or that restarted by itself, is complete."""
    if each is None:
        return False
    right, wrong = (each.old, each.new) if state.back else (each.new, each.old)
    return not each.complete or wrong > 0 or right < each.desired  # a pod that has no sidecar is neither


def _further_pods(each: Seen) -> int:
    """Return the pods that a restart takes away besides those that are not available already."""
    return max(each.disrupts - each.unavailable, 0)


def _faults_of(
    upgrade: Upgrade, state: State, seen: Observation, by_name: Mapping[str, Seen], under_way: Mapping[str, float]
) -> dict[str, str]:
    faults = {}
    for name, since in under_way.items():
        each = by_name[name]
        if name in seen.refused:
            faults[name] = f"{name}: the restart is refused: {seen.refused[name]}"
        elif each.complete and each.mark == mark_of(upgrade, state) and each.quiet >= SETTLING:
            wanted = upgrade.source if state.back else upgrade.target
            faults[name] = f"{name}: its new pods do not have revision {wanted}"
        elif seen.now - since > upgrade.timeout:
            left = each.new if state.back else each.old
            what = f"pods left: {left}, not available: {each.unavailable}"
            faults[name] = f"{name}: not complete after {int(upgrade.timeout)} s: {what}"
    return faults


def _chosen(
    upgrade: Upgrade, seen: Observation, under_way: Mapping[str, float], due: Sequence[Seen], *, back: bool
) -> tuple[list[Seen], str]:
    """Return the workloads that the limits allow to restart now, and the reason why the others wait.

    In a rollback, a workload whose pods are away already does not wait for itself.
    """
    limits = upgrade.limits
    away, places, budgets = 0, dict[str, int](), set[str]()
    for each in seen.workloads:
        is_restarting = str(each.key) in under_way
        taken = max(each.unavailable, each.disrupts if is_restarting else 0)
        away += taken
        places[each.key.namespace] = places.get(each.key.namespace, 0) + taken
        budgets |= each.budgets if is_restarting else frozenset()
    chosen: list[Seen] = []
    waiting = ""
    for each in due:
        more = _further_pods(each)
        place = each.key.namespace
        exhausted = each.budgets & (seen.exhausted | budgets)
        is_broken = back and each.unavailable > 0 and not more
        if len(under_way) + len(chosen) >= limits.workloads:
            waiting = waiting or f"waiting for one of {limits.workloads} restarts (limits.workloads)"
            break
        if len(chosen) == BATCH:
            break  # the others follow in the next steps
        if is_broken:
            chosen.append(each)
        elif away + more > limits.unavailable_pods:
            waiting = waiting or f"waiting for {away} unavailable pods (limits.unavailablePods)"
        elif places.get(place, 0) + more > limits.unavailable_pods_per_namespace:
            waiting = (
                waiting or f"waiting for unavailable pods of namespace {place} (limits.unavailablePodsPerNamespace)"
            )
        elif exhausted:
            waiting = waiting or f"waiting for PodDisruptionBudget {min(exhausted)}"
        else:
            chosen.append(each)
            away += more
            places[place] = places.get(place, 0) + more
            budgets |= each.budgets
    return chosen, waiting


def _soaking(
    upgrade: Upgrade, state: State, seen: Observation, wave: Sequence[Seen], faults: Sequence[str]
) -> Decision:
    """Wait for the soak time, and for pods that are not available. A gate without data fails only at the end."""
    gates, mark = seen.gates or (), mark_of(upgrade, state)
    unready = [each for each in wave if (each.new or each.mark == mark) and each.incomplete >= SETTLING]
    stuck = [
        f"{each.key}: pods not available for {int(upgrade.timeout)} s: {each.unavailable}"
        for each in unready
        if each.incomplete > upgrade.timeout
    ]
    failed = [*faults, *stuck, *(f"gate {each.name}: {each.detail}" for each in gates if each.result == FAILED)]
    if failed:
        return _failed(upgrade, state, seen.now, _first(failed))
    if seen.now - state.since < upgrade.soak:
        return Decision(replace(state, reason="soaking"))
    if unready:
        return Decision(replace(state, reason=f"waiting for the pods of {unready[0].key}"))
    if seen.gates is None:
        return Decision(state)
    passes = {each.name for each in upgrade.gates.metrics if each.no_data == PASS}
    missing = [
        f"gate {each.name}: no data: {each.detail}"
        for each in gates
        if each.result == NO_DATA and each.name not in passes
    ]
    if missing:
        return _failed(upgrade, state, seen.now, _first(missing))
    return Decision(promoted(state, upgrade, seen.now))


def _failed(upgrade: Upgrade, state: State, now: float, reason: str) -> Decision:
    if upgrade.on_failure == ROLLBACK and not state.back:
        return Decision(replace(state.rolling_back(now, f"rolling back: {reason}"), deadline=now + upgrade.deadline))
    return Decision(replace(state, phase=PAUSED, reason=reason))


def _first(reasons: Sequence[str]) -> str:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{min(reasons)}{more}" if reasons else ""
