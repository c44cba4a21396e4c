"""One step of an upgrade: from its state and an observation to the next state and actions. It does no I/O and has no clock.

A runner loads the state, observes the cluster, calls ``step``, stores the state unless another writer has changed it, and only then
performs the actions. ``_rules`` is the table of phases and steps: of the rules of a phase and step, the first that applies decides.

::

    phase        step        observation                                       decision
    ended,                                                                     nothing: only a command of a user changes it
    Paused
    Running,     any         the deadline has passed                           fail
    RollingBack              the cluster cannot be observed                    wait, unless a rollback has to write the tag
    Running      any         a user has resumed it after the tag was changed   write the tag as before the change
    Running      Preflight   another upgrade of its workloads began earlier    pause
                             the tag is not one that this upgrade writes       pause: a rollback would overwrite the change
                             the wave needs an approval, and has none          wait, without a deadline
                             no window is open                                 wait
                             the tag lacks the new revision                    write the tag with it, at weight 0
                             faults, at first                                  wait
                             faults, after PREFLIGHT_GRACE                     fail
                             no faults                                         to Moving
                 Moving      the tag is not one that this upgrade writes       pause
                             the tag would change the owner of Gateways        pin them, a few at a time
                             the tag has not moved                             write the tag
                             the tag has moved                                 to Restarting, with a new mark
                 Restarting  the tag was changed                               fail
                             new pods do not work                              fail
                             workloads with old pods                           restart them within the limits
                             all are complete                                  to Soaking
                 Soaking     the tag was changed                               fail
                             a workload has old pods, and was not restarted    to Restarting
                             new pods do not work, or a gate fails             fail
                             the soak time is over, and the gates pass         to Preflight of the next wave, to Gateways, or to Checking;
                                                                               the last wave, of injected gateways, only if there are any
                 Gateways    the tag was changed, or a gate fails              fail
                             a Gateway is not in service in time               fail
                             Gateways are pinned                               release them, a few at a time
                             none is pinned                                    to Checking
                 Checking    the tag was changed                               fail
                             a workload is tried again                         restart it within the limits
                             the survey finds work that is left                Incomplete
                             the survey finds none                             Completed
    RollingBack  Moving      the tag would change the owner of Gateways        pin them
                             the tag is not that before the upgrade            write the tag, even if a user changed it
                             the tag is that before the upgrade                to Restarting, with a new mark
                 Restarting  the tag is not that before the upgrade            write the tag
                             workloads with new pods, or about to get them     restart them within the limits
                             all are complete                                  to Gateways, or to Checking
                 Gateways    as in Running
                 Checking    the tag is not that before the upgrade            write the tag
                             a workload has new pods, and was not restarted    to Restarting
                             the survey finds work that is left                Incomplete
                             the survey finds none                             RolledBack

To fail means to roll back if ``onFailure`` says so, and else to pause; a rollback pauses, and so does a failure only of workloads of which
no pod was available before.

A runner may die at any moment, several may run, and the observation of workloads and pods may be old:

- A restart is decided by storing the workload in ``State.restarting``. Every runner performs it until the workload has the wave's mark.
  The API server accepts it only for the version of the workload that was observed, so that a late runner cannot repeat it.
- The limits count ``State.restarting``, not only the observation, so that an old observation cannot exceed them.
- A rollback treats each workload that was being restarted as one that gets new pods, until an observation that is not old shows otherwise.
- The end is decided by a survey, which lists the cluster again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from injector.golang.time import utc_text
from injector.hints import count_of, first_of
from injector.upgrade.document import PASS, ROLLBACK, rank_in
from injector.upgrade.gatewaywave import GatewayDecision, LabelChange, pin, release
from injector.upgrade.observation import FAILED, NO_DATA, Observation, ObservedWorkload
from injector.upgrade.plan import BLOCKED, DONE, RESTART, STAYS, limit_fault, prepare_tag, tag_in_wave
from injector.upgrade.state import (
    CHECKING,
    COMPLETED,
    GATEWAYS,
    INCOMPLETE,
    MOVING,
    NAMED,
    PAUSED,
    PREFLIGHT,
    PREFLIGHT_FAILED,
    RESTARTING,
    ROLLED_BACK,
    ROLLING_BACK,
    RUNNING,
    SOAKING,
    TAG_CHANGED,
    WAITING_FOR_APPROVAL,
    PlannedRestart,
    State,
    needs_approval,
    promote,
)
from injector.upgrade.statefulset import delete_command

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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
"""Seconds after which an observation shows what happened before: the watches of workloads and pods are late by a few seconds at most."""
NOT_OBSERVED: Final = "NotObserved"
"""The cause of a wait because the workloads cannot be observed. That time does not count for the timeouts of restarts."""
WINDOW: Final = "waiting for a window"


@dataclass(frozen=True, slots=True)
class Transition:
    """The next state, the tag to write if it changes, the workloads to restart, and the labels of Gateways. The state is stored first."""

    state: State
    tag: Tag | None = None
    restarts: tuple[Key, ...] = ()
    labels: tuple[LabelChange, ...] = ()


@dataclass(frozen=True, slots=True)
class StepInput:
    """The input of a step, and what the rules ask of it."""

    upgrade: Upgrade
    state: State
    observation: Observation

    @property
    def now(self) -> float:
        """The time of the observation."""
        return self.observation.now

    @property
    def wave(self) -> list[ObservedWorkload]:
        """The workloads of the current wave, and those before it that are tried again: single ones, or all that are left."""
        state = self.state
        return [
            view
            for view in self.observation.workloads
            if view.wave == state.wave or (view.wave < state.wave and (state.rest or self.is_retried(view)))
        ]

    @property
    def overdue(self) -> list[ObservedWorkload]:
        """The workloads that are still to be restarted. In a wave, one with unavailable pods comes last: it would probably fail."""
        overdue = [
            view
            for view in self.wave
            if view.mark != self.mark_of(view)
            and ((view.action == RESTART and view.old) or (view.action in (RESTART, DONE) and self.is_retried(view)))
        ]
        return sorted(overdue, key=lambda view: (view.unavailable > 0, self._rank(view), view.key))

    @property
    def overdue_alone(self) -> list[ObservedWorkload]:
        """The workloads that are tried again while their wave is not restarted: those of waves before, or of all at the end."""
        state = self.state
        waves = state.wave + (state.step == CHECKING)
        return [view for view in self.overdue if self.is_retried(view) and view.wave < waves]

    @property
    def overdue_back(self) -> list[ObservedWorkload]:
        """The same in a rollback, which begins with unavailable pods and the last wave."""
        overdue = [
            view
            for view in self.observation.workloads
            if view.mark != self.mark_of(view)
            and view.action not in (BLOCKED, STAYS)
            and (view.new or self.was_restarted(view) or self.is_retried(view))
        ]
        return sorted(overdue, key=lambda view: (not view.unavailable, -view.wave, self._rank(view), view.key))

    def _rank(self, view: ObservedWorkload) -> int:
        """Return the place of a workload in the order of its wave."""
        order = self.upgrade.waves[view.wave].order if view.wave >= 0 else ()
        return rank_in(order, f"{view.key.namespace}/{view.key.name}")

    def mark_of(self, workload: ObservedWorkload) -> str:
        """Return the mark of the restart of a workload in the current wave, or in the rollback."""
        return mark_of(self.upgrade, self.state, workload.name)

    def is_retried(self, workload: ObservedWorkload) -> bool:
        """Tell whether a user tries a workload again."""
        return workload.name in self.state.retries

    def concerns(self, workload: ObservedWorkload) -> bool:
        """Tell whether this run restarts a workload. One that had the new revision before holds up nothing, also if it does not work."""
        is_restarted = is_of_run(self.upgrade, self.state, workload.mark)
        return workload.action != DONE or is_restarted or self.is_retried(workload)

    def was_restarted(self, workload: ObservedWorkload) -> bool:
        """Tell whether a restart of another wave, or of the way forward, is under way: its pods will have the new revision."""
        restart = self.state.restarting.get(workload.name)
        return restart is not None and workload.mark == _mark(self.upgrade, restart.token)


Rule: TypeAlias = Callable[[StepInput], Transition | None]


def _rules() -> Mapping[tuple[str, str], tuple[Rule, ...]]:
    """Return the rules of each phase and step, as the table above."""
    return {
        (RUNNING, PREFLIGHT): (
            *(_give_way, _keep_foreign_tag, _restart_single_workloads, _wait_for_approval),
            *(_wait_for_window, _prepare_tag, _preflight),
        ),
        (RUNNING, MOVING): (_give_way, _keep_foreign_tag, _pin_gateways, _move_tag, _begin_restarts),
        (RUNNING, RESTARTING): (_fail_on_changed_tag, _fail_on_broken_pods, _restart_wave),
        (RUNNING, SOAKING): (_fail_on_changed_tag, _restart_late_workloads, _soak),
        (RUNNING, CHECKING): (_fail_on_changed_tag, _restart_single_workloads, _end),
        (RUNNING, GATEWAYS): (_fail_on_changed_tag, _release_gateways),
        (ROLLING_BACK, MOVING): (_pin_gateways, _move_tag_back, _begin_restarts),
        (ROLLING_BACK, RESTARTING): (_pin_gateways, _move_tag_back, _restart_back),
        (ROLLING_BACK, GATEWAYS): (_pin_gateways, _move_tag_back, _release_gateways),
        (ROLLING_BACK, CHECKING): (_pin_gateways, _move_tag_back, _restart_missed_workloads, _end),
    }


def step(upgrade: Upgrade, state: State, observation: Observation) -> Transition:
    """Return the next state and actions."""
    if state.has_ended or state.phase == PAUSED:
        return Transition(state)
    if observation.workloads:
        has_injected_gateways = any(view.wave == upgrade.injected_gateway_wave for view in observation.workloads)
        state = replace(state, injected_gateways=has_injected_gateways)
    inputs = StepInput(upgrade, state, observation)
    if observation.now > state.deadline and not needs_approval(upgrade, state):
        reason = ": ".join(filter(None, ("the deadline has passed", state.reason)))
        return _fail(inputs, "DeadlineExceeded", reason)
    if state.phase == RUNNING and state.cause == TAG_CHANGED:
        return _pin_gateways(inputs) or _restore_tag(inputs)
    if observation.blind and not writes_tag_back(state):
        return Transition(replace(state, cause=NOT_OBSERVED, reason=observation.blind))
    if state.cause == NOT_OBSERVED:
        inputs = replace(inputs, state=state.postpone(observation.now))
    decisions = (rule(inputs) for rule in _rules()[state.phase, state.step])
    return next((decision for decision in decisions if decision is not None), Transition(state))


def writes_tag_back(state: State) -> bool:
    """Return whether a rollback begins: it writes the tag first, so that no further pod gets the new revision."""
    return state.back and state.step == MOVING


def wants_preflight(state: State) -> bool:
    """Return whether the next step needs a preflight."""
    return (state.phase, state.step) == (RUNNING, PREFLIGHT)


def wants_gates(state: State) -> bool:
    """Return whether the next step needs the gates."""
    return (state.phase, state.step) in ((RUNNING, SOAKING), (RUNNING, GATEWAYS))


def wants_gateways(upgrade: Upgrade, state: State, tag: Tag | None, before: Tag | None) -> bool:
    """Return whether the next step needs the Gateways: to release them, or before it writes the tag.

    Those that are pinned are released also if the document has been changed, and pins no further ones or has no tag.
    """
    if not (upgrade.gateways.pin or state.gateways):
        return False
    return state.step == GATEWAYS or tag_to_write(upgrade, state, tag, before) is not None


def wants_remaining(state: State) -> bool:
    """Return whether the next step needs a survey of the work that is left."""
    return state.phase in (RUNNING, ROLLING_BACK) and state.step == CHECKING


def mark_of(upgrade: Upgrade, state: State, workload: str = "") -> str:
    """Return the mark of the restarts of the current wave, or of the rollback, or of a workload that may be tried again."""
    return _mark(upgrade, state.token_of(workload))


def is_of_run(upgrade: Upgrade, state: State, mark: str) -> bool:
    """Return whether a mark is one of this run. A workload keeps the mark of a run before, which says nothing about this one."""
    owner, _, token = mark.rpartition("/")
    return owner == upgrade.name and token.isdecimal() and int(token) >= int(state.started)


def _mark(upgrade: Upgrade, token: float) -> str:
    return f"{upgrade.name}/{int(token)}"


# The tag


def _give_way(inputs: StepInput) -> Transition | None:
    if not inputs.observation.rival:
        return None
    reason = f"upgrade {inputs.observation.rival} of {inputs.upgrade.subject} is under way: resume this one after its end, or abort it"
    return _pause(inputs, "AnotherUpgrade", reason)


def _keep_foreign_tag(inputs: StepInput) -> Transition | None:
    """Pause if the tag is neither as before the upgrade nor as the upgrade itself writes it until it has moved it for this wave."""
    upgrade, before, wave = inputs.upgrade, inputs.observation.tag_before, inputs.state.wave
    own: list[Tag | None] = [None]
    if before is not None:
        moved = [before, *(tag_in_wave(upgrade, before, index, inputs.state.pins) for index in range(wave + 1))]
        own = [*moved, *(prepare_tag(upgrade, tag) for tag in moved)]
    is_own = inputs.observation.tag in own and not inputs.observation.tag_fault
    return None if is_own else _pause(inputs, TAG_CHANGED, _changed_text(inputs))


def _fail_on_changed_tag(inputs: StepInput) -> Transition | None:
    is_own = inputs.observation.tag == _tag_of_wave(inputs) and not inputs.observation.tag_fault
    return None if is_own else _fail(inputs, TAG_CHANGED, _changed_text(inputs))


def _tag_of_wave(inputs: StepInput) -> Tag | None:
    before, state = inputs.observation.tag_before, inputs.state
    return None if before is None else tag_in_wave(inputs.upgrade, before, state.wave, state.pins)


def _restore_tag(inputs: StepInput) -> Transition:
    """Write the tag that another writer has changed as the upgrade had it."""
    upgrade, state, observation = inputs.upgrade, inputs.state, inputs.observation
    wanted = tag_to_write(upgrade, state, observation.tag, observation.tag_before)
    if wanted is None:
        return Transition(replace(state, cause="", reason=""))
    return Transition(state, tag=wanted)


def _changed_text(inputs: StepInput) -> str:
    upgrade, observation = inputs.upgrade, inputs.observation
    writer = f" ({observation.tag_writer})" if observation.tag_writer else ""
    change = observation.tag_fault if observation.tag is None else f"it leads to {observation.tag.destination}"
    remedy = f"`injector upgrade resume {upgrade.name}` writes it as the wave needs it"
    return f"tag {upgrade.tag} was changed by another writer{writer}: {change}; {remedy}"


def _wait_for_window(inputs: StepInput) -> Transition | None:
    reason = _window_text(inputs)
    return Transition(replace(inputs.state, cause="OutsideWindow", reason=reason)) if reason else None


def _window_text(inputs: StepInput) -> str:
    """Return when the next window opens; empty if one is open."""
    upgrade, now = inputs.upgrade, inputs.now
    if upgrade.in_window(now):
        return ""
    opens = upgrade.next_window(now)
    return f"{WINDOW}: {'no further one opens, change `windows`' if opens is None else f'the next one opens at {utc_text(opens)}'}"


def _wait_for_approval(inputs: StepInput) -> Transition | None:
    upgrade, state = inputs.upgrade, inputs.state
    if not needs_approval(upgrade, state):
        return None
    reason = (
        f"wave {upgrade.waves[state.wave].name} waits for its approval: run `injector upgrade promote {upgrade.name}`"
    )
    return Transition(replace(state, cause=WAITING_FOR_APPROVAL, reason=reason))


def _prepare_tag(inputs: StepInput) -> Transition | None:
    tag = inputs.observation.tag
    prepared = None if tag is None else prepare_tag(inputs.upgrade, tag)
    return None if prepared == tag else Transition(inputs.state, tag=prepared)


def _move_tag(inputs: StepInput) -> Transition | None:
    wanted = _tag_of_wave(inputs)
    return None if inputs.observation.tag == wanted else Transition(inputs.state, tag=wanted)


def _move_tag_back(inputs: StepInput) -> Transition | None:
    observation, state = inputs.observation, inputs.state
    if observation.tag == observation.tag_before and not observation.tag_fault:
        return None
    if observation.tag_writer:
        state = replace(state, reason=f"overwriting tag {inputs.upgrade.tag}, which {observation.tag_writer} changed")
    return Transition(state, tag=observation.tag_before)


def _begin_restarts(inputs: StepInput) -> Transition:
    state = inputs.state
    # The reason of a rollback stays until it waits for something.
    cause = {"cause": state.cause, "reason": state.reason} if state.back else {}
    return Transition(state.at(RESTARTING, inputs.now, token=state.next_token(inputs.now), **cause))


# The preflight and the gates


def _preflight(inputs: StepInput) -> Transition:
    state, faults = inputs.state, inputs.observation.preflight
    if faults is None:
        return Transition(state)
    if not faults:
        return Transition(state.at(MOVING, inputs.now))
    reason, is_first = f"preflight: {_first(faults)}", state.cause != PREFLIGHT_FAILED
    if not is_first and inputs.now - state.since > PREFLIGHT_GRACE:
        return _fail(inputs, PREFLIGHT_FAILED, reason)
    since = inputs.now if is_first else state.since  # the grace starts with the first fault
    return Transition(replace(state, since=since, cause=PREFLIGHT_FAILED, reason=reason))


def _soak(inputs: StepInput) -> Transition:
    """Wait for the soak time, and for pods that are not available. A gate without data fails only at the end."""
    upgrade, state, gates = inputs.upgrade, inputs.state, inputs.observation.gates or ()
    unready = [
        view
        for view in inputs.wave
        if (view.new or view.mark == inputs.mark_of(view)) and view.incomplete >= STABLE_AFTER and inputs.concerns(view)
    ]
    stuck = {
        view.name: f"{view.key}: pods not available for {int(upgrade.timeout)} s: {view.unavailable}{_because(view) or _missing(view)}"
        for view in unready
        if view.incomplete > upgrade.timeout
    }
    broken = stuck | _broken_pods(inputs)
    if broken:
        return _fail_for_workloads(inputs, "PodsFailed", broken)
    failed = [f"gate {gate.name}: {gate.detail}" for gate in gates if gate.result == FAILED]
    if failed:
        return _fail(inputs, "GateFailed", _first(failed))
    if inputs.now - state.since < upgrade.soak_of(state.wave):
        return Transition(replace(state, reason="soaking"))
    if unready:
        return Transition(replace(state, reason=f"waiting for the pods of {unready[0].key}{_because(unready[0])}"))
    if inputs.observation.gates is None:
        return Transition(state)
    passes = {gate.name for gate in upgrade.gates.metrics if gate.no_data == PASS}
    missing = [
        f"gate {gate.name}: no data: {gate.detail}"
        for gate in gates
        if gate.result == NO_DATA and gate.name not in passes
    ]
    if missing:
        return _fail(inputs, "GateFailed", _first(missing))
    return Transition(promote(state, upgrade, inputs.now))


# The Gateways


def tag_to_write(upgrade: Upgrade, state: State, tag: Tag | None, before: Tag | None) -> Tag | None:
    """Return the tag that the next step writes so that its workloads move; None if the tag stays as it is."""
    if before is None:
        return None
    if state.back:
        wanted = before
    elif state.cause == TAG_CHANGED:
        # As this wave, or before it has moved the tag, the wave before has it.
        wave = state.wave - (state.step in (PREFLIGHT, MOVING))
        wanted = before if wave < 0 else tag_in_wave(upgrade, before, wave, state.pins)
    elif state.step == MOVING:
        wanted = tag_in_wave(upgrade, before, state.wave, state.pins)
    else:
        return None
    return None if tag == wanted else wanted


def _pin_gateways(inputs: StepInput) -> Transition | None:
    """Pin the Gateways whose owner the tag would change. A rollback does not wait for their pods."""
    upgrade, state, observation = inputs.upgrade, inputs.state, inputs.observation
    is_written = tag_to_write(upgrade, state, observation.tag, observation.tag_before) is not None
    if not is_written or not upgrade.gateways.pin:
        return None
    wave, timeout = upgrade.gateways, upgrade.timeout
    decision = pin(wave, state.gateways, observation.gateways, now=inputs.now, timeout=timeout, waits=not state.back)
    state = _with_gateways(state, decision, inputs.now)
    if decision.faults:
        return _fail(replace(inputs, state=state), "GatewaysFailed", _first(decision.faults))
    if decision.is_done:
        return None if state == inputs.state else Transition(state)
    return Transition(replace(state, reason=decision.reason or "pinning Gateways"), labels=decision.changes)


def _with_gateways(state: State, decision: GatewayDecision, now: float) -> State:
    """Return the state with the next pins. A Gateway that is pinned, is about to move, or has moved is progress."""
    before, after = (
        {name: gateway.moving for name, gateway in gateways.items()} for gateways in (state.gateways, decision.gateways)
    )
    return replace(state, gateways=decision.gateways, progressed=state.progressed if before == after else now)


def _release_gateways(inputs: StepInput) -> Transition:
    """Let the Gateways follow the tag again, a few at a time."""
    upgrade, state, observation = inputs.upgrade, inputs.state, inputs.observation
    if not state.gateways:
        return Transition(state.at(CHECKING, inputs.now))
    failed = [f"gate {gate.name}: {gate.detail}" for gate in observation.gates or () if gate.result == FAILED]
    if failed:
        return _fail(inputs, "GateFailed", _first(failed))
    hold = "" if state.back else observation.hold and f"waiting for {observation.hold}"
    if not state.back:
        hold = hold or _window_text(inputs)
    if state.back and inputs.now - state.since <= STABLE_AFTER:
        hold = "waiting for other runners"  # one may still write the tag of the way forward
    wave, timeout = upgrade.gateways, upgrade.timeout
    views, is_back = observation.gateways, state.back
    decision = release(wave, state.gateways, views, now=inputs.now, timeout=timeout, hold=hold, is_back=is_back)
    state = _with_gateways(state, decision, inputs.now)
    if decision.faults:
        return _fail(replace(inputs, state=state), "GatewaysFailed", _first(decision.faults))
    return Transition(replace(state, cause="", reason=decision.reason), labels=decision.changes)


# The restarts


def _fail_on_broken_pods(inputs: StepInput) -> Transition | None:
    broken = _broken_pods(inputs)
    return _fail_for_workloads(inputs, "PodsFailed", broken) if broken else None


def _broken_pods(inputs: StepInput) -> dict[str, str]:
    """Return why new pods do not work, by workload."""
    return {
        view.name: f"{view.key}: {fault}{_delete_command(inputs, view)}"
        for view in inputs.wave
        if (fault := _fault_of_pods(inputs, view)) and view.new and not _may_be_replaced(inputs, view)
    }


def _fault_of_pods(inputs: StepInput, view: ObservedWorkload) -> str:
    """Return why the new pods of a workload do not work. Until its restart, its controller may have given up an older rollout."""
    if not inputs.concerns(view):
        return ""
    return view.fault or (view.rollout_fault if view.mark == inputs.mark_of(view) else "")


def _may_be_replaced(inputs: StepInput, view: ObservedWorkload) -> bool:
    """Tell whether the pods of a workload that is tried again may be those before that."""
    if not inputs.is_retried(view):
        return False
    restart = inputs.state.restarting.get(view.name)
    return view.mark != inputs.mark_of(view) or (restart is not None and inputs.now - restart.since <= STABLE_AFTER)


def _restart_late_workloads(inputs: StepInput) -> Transition | None:
    return Transition(inputs.state.at(RESTARTING, inputs.now)) if inputs.overdue else None


def _restart_missed_workloads(inputs: StepInput) -> Transition | None:
    return Transition(inputs.state.at(RESTARTING, inputs.now)) if inputs.overdue_back else None


def _restart_single_workloads(inputs: StepInput) -> Transition | None:
    """Restart the workloads that are tried again although their wave is over."""
    overdue, retries = inputs.overdue_alone, inputs.state.retries
    if not overdue and not retries.keys() & inputs.state.restarting.keys():
        return None
    return _plan_restarts(inputs, overdue, inputs.state.step)


def _restart_wave(inputs: StepInput) -> Transition:
    return _plan_restarts(inputs, inputs.overdue, SOAKING)


def _restart_back(inputs: StepInput) -> Transition:
    """Restart the workloads that have the new revision. A workload that does not recover holds up no other one."""
    return _plan_restarts(inputs, inputs.overdue_back, GATEWAYS if inputs.state.gateways else CHECKING)


def _plan_restarts(inputs: StepInput, overdue: Sequence[ObservedWorkload], following: str) -> Transition:
    """Restart workloads within the limits. The step ends when none is overdue and none is being restarted."""
    upgrade, state, now = inputs.upgrade, inputs.state, inputs.now
    views = {view.name: view for view in inputs.observation.workloads}
    under_way = {
        name: restart for name, restart in state.restarting.items() if _is_under_way(inputs, views.get(name), restart)
    }
    own = {name: restart for name, restart in under_way.items() if _is_own(inputs, views[name], restart)}
    for name, restart in own.items():
        if views[name].mark != inputs.mark_of(views[name]) and now - restart.since > upgrade.timeout:
            under_way[name] = own[name] = replace(restart, since=now)  # no runner has made it: the time begins again
    faults = _restart_faults(inputs, views, own)
    # On the way forward, a rollout under way is complete before a further restart. On the way back, it gives pods the wrong revision.
    busy = own if state.back else under_way
    waiting_views = {view.name: view for view in overdue if view.name not in busy}
    # It has become larger since the plan was made, or another writer has moved it.
    too_large = {
        name: fault
        for name, view in waiting_views.items()
        if (fault := limit_fault(upgrade.limits_of(view.wave), view.further))
    }
    candidates = [view for name, view in waiting_views.items() if name not in too_large]
    can_go_on = (candidates or under_way.keys() - faults) and (state.back or not faults)
    if (faults or too_large) and not can_go_on:
        reasons = {**faults, **{name: f"{name}: {fault}" for name, fault in too_large.items()}}
        return _fail_for_workloads(
            replace(inputs, state=replace(state, restarting=under_way)), "RestartFailed", reasons
        )
    # The pods of a workload that does not recover hold up no other one.
    selected, reason = _choose(inputs, candidates, under_way.keys() - faults, faults)
    restarting = {**under_way, **{view.name: PlannedRestart(state.token_of(view.name), now) for view in selected}}
    if not restarting and not overdue:
        return Transition(state.at(following, now, restarting={}, unavailable_before=()))
    broken = {
        view.name
        for view in selected
        if 0 < view.desired <= view.unavailable and not state.back and not is_of_run(upgrade, state, view.mark)
    }
    unavailable_before = tuple(sorted((broken | {*state.unavailable_before}) & restarting.keys()))
    if not reason:
        causes = (
            (view, _delete_command(inputs, view) if state.back else view.starting and f": {view.starting}")
            for view in views.values()
            if state.back or view.name in own
        )
        reason = next((f"waiting for {view.key}{cause}" for view, cause in causes if cause), "")
    progressed = state.progressed if restarting.keys() == state.restarting.keys() else now
    next_state = replace(
        state,
        restarting=restarting,
        unavailable_before=unavailable_before,
        progressed=progressed,
        cause="",
        reason=reason,
    )
    working = [
        views[name]
        for name, restart in restarting.items()
        if _is_own(inputs, views[name], restart) and name not in faults
    ]
    return Transition(next_state, restarts=tuple(view.key for view in working if view.mark != inputs.mark_of(view)))


def _is_under_way(inputs: StepInput, view: ObservedWorkload | None, restart: PlannedRestart) -> bool:
    """Return whether a restart is not complete.

    It is complete when the rollout has ended, no pod has the wrong sidecar, and all desired pods have the right one. It is also complete if
    the workload was deleted, or restarted by itself.
    """
    if view is None:
        return False
    if _is_own(inputs, view, restart):
        if view.mark != inputs.mark_of(view) and inputs.now - restart.since <= STABLE_AFTER:
            return True  # the observation may be older than the decision
        right, wrong = (view.old, view.new) if inputs.state.back else (view.new, view.old)
        return not view.complete or wrong > 0 or right < view.desired  # a pod that has no sidecar is neither
    # It may not have been made, or not be observed yet.
    is_late = inputs.now - max(restart.since, inputs.state.since) > STABLE_AFTER
    return not is_late or (not view.complete and inputs.now - restart.since <= inputs.upgrade.timeout)


def _is_own(inputs: StepInput, view: ObservedWorkload, restart: PlannedRestart) -> bool:
    """Return whether a restart is one of this wave or rollback, of a workload that the tag still leads to the wanted revision."""
    return restart.token == inputs.state.token_of(view.name) and view.action != STAYS


def _restart_faults(
    inputs: StepInput, views: Mapping[str, ObservedWorkload], own: Mapping[str, PlannedRestart]
) -> dict[str, str]:
    """Return why restarts do not succeed, by workload."""
    upgrade, back, faults = inputs.upgrade, inputs.state.back, {}
    for name, restart in own.items():
        view = views[name]
        is_made = view.mark == inputs.mark_of(view)
        if name in inputs.observation.refused and not is_made:
            faults[name] = f"{name}: the restart is refused: {inputs.observation.refused[name]}"
        elif view.complete and is_made and view.quiet >= STABLE_AFTER:
            faults[name] = f"{name}: its new pods do not have revision {upgrade.source if back else upgrade.target}"
        elif inputs.now - restart.since > upgrade.timeout:
            remaining = f"pods left: {view.new if back else view.old}, not available: {view.unavailable}"
            text = f"{name}: not complete after {int(upgrade.timeout)} s: {remaining}{_because(view) or _missing(view)}"
            faults[name] = f"{text}{_delete_command(inputs, view)}"
    return faults


def _choose(
    inputs: StepInput, candidates: Sequence[ObservedWorkload], under_way: Collection[str], faults: Collection[str]
) -> tuple[list[ObservedWorkload], str]:
    """Return the workloads that the limits allow to restart now, and the reason why the others wait.

    Only pods that the upgrade itself took away count. In a rollback, a workload whose pods are away already does not wait for itself.
    """
    back = inputs.state.back
    hold = "" if back else inputs.observation.hold and f"waiting for {inputs.observation.hold}"
    if not back:
        hold = hold or _window_text(inputs)
    if hold and candidates:
        return [], hold
    exhausted = set(inputs.observation.exhausted)
    injected_gateway_wave = inputs.upgrade.injected_gateway_wave
    rooms = {last: _Room(inputs, under_way, exhausted, faults, of_last_wave=last) for last in (False, True)}
    # Those of all waves may be left, or tried again. In a rollback, injected gateways are restarted beside other workloads.
    is_busy = not back and (rooms[False].restarts > 0 or any(view.wave != injected_gateway_wave for view in candidates))
    selected: list[ObservedWorkload] = []
    waiting = gateways_reason = ""
    for view in candidates:
        room = rooms[view.wave == injected_gateway_wave]
        if is_busy and view.wave == injected_gateway_wave:
            gateways_reason = "waiting for the workloads before the injected gateways"
            continue
        is_new = view.name not in under_way
        is_broken = back and (not is_new or (view.unavailable > 0 and not view.further))
        if is_new and room.restarts >= room.limits.workloads:
            count = room.limits.workloads
            waiting = waiting or f"waiting for one of {count} restarts ({room.limits.path}.workloads){room.worst()}"
            continue
        if len(selected) == BATCH:
            break  # the others follow in the next steps
        fault = "" if is_broken else room.fault(view)
        if fault:
            waiting = waiting or f"waiting for {fault}"
        else:
            selected.append(view)
            room.take(view, is_new=is_new)
    return selected, waiting or gateways_reason


class _Room:
    """The use of the limits of the injected gateways, or of all other workloads: restarts, and pods that the upgrade took away.

    ``exhausted`` are the PodDisruptionBudgets that allow no disruption, for all workloads. Those of workloads under way are added.
    """

    def __init__(
        self,
        inputs: StepInput,
        under_way: Collection[str],
        exhausted: set[str],
        ignored: Collection[str],
        *,
        of_last_wave: bool,
    ) -> None:
        wave = inputs.upgrade.injected_gateway_wave
        self.limits = inputs.upgrade.limits_of(wave) if of_last_wave else inputs.upgrade.limits
        self.exhausted = exhausted
        self.restarts = self.away = 0
        self.places = dict[str, int]()
        self.views: list[ObservedWorkload] = []
        for view in inputs.observation.workloads:
            # One that is under way, and that the tag no longer leads, may be of either sort.
            if view.wave >= 0 and (view.wave == wave) != of_last_wave:
                continue
            is_under_way = view.name in under_way
            # The pods of any other workload were not available before, and no wait would help.
            is_touched = (
                is_under_way or is_of_run(inputs.upgrade, inputs.state, view.mark) or (inputs.state.back and view.new)
            )
            if is_touched and view.name not in ignored:
                self._add(view, max(view.unavailable, view.disrupts if is_under_way else 0))
            if is_under_way:
                self.restarts += 1
                self.exhausted |= view.budgets

    def _add(self, view: ObservedWorkload, pods: int) -> None:
        place = view.key.namespace
        self.away += pods
        self.places[place] = self.places.get(place, 0) + pods
        if pods or view.starting:
            self.views.append(view)

    def take(self, view: ObservedWorkload, *, is_new: bool) -> None:
        """Count the restart of a workload."""
        self.restarts += is_new
        self.exhausted |= view.budgets
        self._add(view, view.further)

    def fault(self, view: ObservedWorkload) -> str:
        """Return what the restart of a workload must wait for; empty for nothing."""
        limits, place = self.limits, view.key.namespace
        if self.away + view.further > limits.unavailable_pods:
            return f"{self.away} unavailable pods ({limits.path}.unavailablePods){self.worst()}"
        if self.places.get(place, 0) + view.further > limits.unavailable_pods_per_namespace:
            return (
                f"unavailable pods of namespace {place} ({limits.path}.unavailablePodsPerNamespace){self.worst(place)}"
            )
        blocking = view.budgets & self.exhausted
        return f"PodDisruptionBudget {min(blocking)}" if blocking else ""

    def worst(self, place: str = "") -> str:
        """Return the workload that has the most pods away, with the reason, for a message."""
        own = [view for view in self.views if (view.unavailable or view.starting) and place in ("", view.key.namespace)]
        if not own:
            return ""
        view = max(own, key=lambda view: (view.unavailable, view.key))
        return (
            f": {view.key} has {view.unavailable}{_because(view)}"
            if view.unavailable
            else f": {view.key}: {view.starting}"
        )


def _delete_command(inputs: StepInput, view: ObservedWorkload) -> str:
    """Return the command that replaces broken pods of a StatefulSet; empty if its controller does it."""
    names = view.stuck if inputs.state.back else view.broken
    if not names:
        return ""
    command = delete_command(names, view.key.namespace)
    when = "" if inputs.state.back else "once the cause is repaired, or after a rollback, "
    return f"; {when}run {command}, since a StatefulSet does not replace a pod that is not ready"


def _because(view: ObservedWorkload) -> str:
    return f" ({view.trouble})" if view.trouble else ""


def _missing(view: ObservedWorkload) -> str:
    """Return how to see why pods are missing. A StatefulSet or DaemonSet has no condition that says it, only Events."""
    place, kind, name = view.key
    count = view.desired - view.new - view.old
    return (
        f" (pods with a sidecar that do not exist: {count}; see `kubectl describe {kind.lower()} {name} -n {place}`)"
        if count > 0
        else ""
    )


# The end


def _end(inputs: StepInput) -> Transition:
    state, remaining = inputs.state, inputs.observation.remaining
    if remaining is None:
        return Transition(replace(state, reason="checking what is left"))
    if not remaining:
        phase, why = (ROLLED_BACK, state.rollback_reason) if state.back else (COMPLETED, "")
        return Transition(state.at(CHECKING, inputs.now, phase=phase, reason=why, restarting={}))
    named = state.with_remaining(remaining)
    names = first_of([item.workload for item in remaining], NAMED)
    count, verb = count_of(len(remaining), "item"), "is" if len(remaining) == 1 else "are"
    reason = "; ".join(filter(None, (f"{count} {verb} left: {names}", state.rollback_reason)))
    if inputs.now - state.since <= STABLE_AFTER:  # a rollout may still be under way
        return Transition(replace(named, reason=reason))
    return Transition(named.at(CHECKING, inputs.now, phase=INCOMPLETE, cause="WorkLeft", reason=reason))


def _fail(inputs: StepInput, cause: str, reason: str) -> Transition:
    if inputs.upgrade.on_failure == ROLLBACK and not inputs.state.back:
        return Transition(inputs.state.rolling_back(inputs.upgrade, inputs.now, cause, reason))
    return _pause(inputs, cause, reason)


def _fail_for_workloads(inputs: StepInput, cause: str, faults: Mapping[str, str]) -> Transition:
    """Fail because of workloads. To go back would repair none of which no pod was available before, so that these alone pause it."""
    name, before = inputs.upgrade.name, inputs.state.unavailable_before
    worse = [fault for workload, fault in faults.items() if workload not in before]
    if worse:
        return _fail(inputs, cause, _first(worse))
    commands = {
        view.name: f"`injector upgrade skip {name} {view.key.path}` and `injector upgrade resume {name}`"
        for view in inputs.observation.workloads
    }
    why = "none of its pods was available before the upgrade either: to go on without it, run"
    return _pause(inputs, cause, _first([f"{fault}; {why} {commands[workload]}" for workload, fault in faults.items()]))


def _pause(inputs: StepInput, cause: str, reason: str) -> Transition:
    return Transition(replace(inputs.state, phase=PAUSED, cause=cause, reason=reason))


def _first(reasons: Sequence[str]) -> str:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{min(reasons)}{more}" if reasons else ""
