"""The commands of users: how each one changes the state of an upgrade."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from injector.errors import UsageError
from injector.hints import count_of
from injector.upgrade.state import (
    ABORTED,
    BY_USER,
    CHECKING,
    COMPLETED,
    INCOMPLETE,
    MOVING,
    PAUSED,
    PREFLIGHT,
    PREFLIGHT_FAILED,
    RESTARTING,
    ROLLED_BACK,
    ROLLING_BACK,
    RUNNING,
    TAG_CHANGED,
    PlannedRestart,
    Remaining,
    State,
    begin_wave,
    needs_approval,
    promote,
)

if TYPE_CHECKING:
    from injector.upgrade.document import Upgrade

SKIP: Final = "skip"
RETRY: Final = "retry"
_CAUSES_OF_WORKLOADS: Final = (PREFLIGHT_FAILED, "RestartFailed", "PodsFailed")
"""The causes of a pause for which single workloads are to blame, so that trying one again goes on."""


def apply_command(state: State, verb: str, upgrade: Upgrade, now: float) -> State:
    """Return the state after a command of a user. Raises UsageError if the command does not fit the state."""
    check_end(state, verb, upgrade)
    match verb:
        case "pause" if state.phase == PAUSED:
            return state  # its cause decides how it goes on
        case "pause":
            return replace(state, phase=PAUSED, cause=BY_USER, reason="paused by a user")
        case "resume":
            return _resume(state, upgrade, now)
        case "promote":
            return _approve_or_promote(state, upgrade, now)
        case "abort":
            return state.abort(state.under_way(upgrade))
        case "accept":
            return _accept(state, upgrade)
        case _:
            if not upgrade.tag:
                hint = "change the labels of the namespaces back, and write an upgrade in the other direction"
                if upgrade.in_place:
                    hint = f"restore the configuration of revision {upgrade.target}, and run the upgrade again"
                raise UsageError("an upgrade without a tag cannot go back", hint=hint)
            if state.back and state.phase != ABORTED:
                raise UsageError("the upgrade goes back already", hint="resume it if it is paused or incomplete")
            return state.rolling_back(upgrade, now, BY_USER, "")


def _approve_or_promote(state: State, upgrade: Upgrade, now: float) -> State:
    """Return the state after the approval of a wave, or after the rest of a wave was skipped. A second approval skips no preflight."""
    if state.back:
        raise UsageError("a rollback has no gates", hint="resume it, or abort it")
    resumed = _resume(state, upgrade, now)
    if needs_approval(upgrade, state):
        return replace(resumed, approved=True)
    if (state.phase, state.step) == (RUNNING, PREFLIGHT) and state.approved and state.cause != PREFLIGHT_FAILED:
        hint = f"`injector upgrade status {upgrade.name}` shows what it waits for"
        raise UsageError(f"wave {upgrade.waves[state.wave].name} is approved already", hint=hint)
    return replace(promote(resumed, upgrade, now), cause=resumed.cause, reason=resumed.reason)


def _accept(state: State, upgrade: Upgrade) -> State:
    """Return the state of an upgrade that a user closes although work is left."""
    if state.phase != INCOMPLETE:
        hint = "wait until it is Incomplete, or abort it"
        raise UsageError(f"the upgrade {upgrade.name} is {state.phase}", hint=hint)
    pins = {f"Gateway {name}": gateway.to_remaining(f"{name}") for name, gateway in state.gateways.items()}
    remaining = tuple(pins.get(item.workload) or _without_command(item) for item in state.remaining)
    reason = f"accepted by a user with {count_of(state.remaining_total, 'item')} left"
    phase = ROLLED_BACK if state.back else COMPLETED
    return replace(state, phase=phase, cause="Accepted", reason=reason, remaining=remaining)


def _without_command(item: Remaining) -> Remaining:
    """Return a workload that is left with a remedy that is possible after the end."""
    return replace(item, remedy="accepted by a user") if "`injector upgrade " in item.remedy else item


_AFTER_END: Final = {
    COMPLETED: ("rollback",),
    ABORTED: ("rollback",),
    INCOMPLETE: ("rollback", "resume", "accept", RETRY),
}
"""The commands that an upgrade accepts after its end."""


def check_end(state: State, verb: str, upgrade: Upgrade) -> None:
    """Check that a command is possible if an upgrade has ended. Raises UsageError, with its result, if not."""
    if state.has_ended and verb not in _AFTER_END.get(state.phase, ()):
        verbs = ("resume", "accept") if state.back else ("resume", "accept", "rollback")
        commands = " or ".join(f"`injector upgrade {verb} {upgrade.name}`" for verb in verbs)
        hint = (
            commands
            if state.phase == INCOMPLETE
            else f"start it again with `injector upgrade run {upgrade.name} --again`"
        )
        raise UsageError(f"the upgrade {upgrade.name} has ended: it is {state.phase}", hint=hint)


def skip_workload(state: State, workload: str, upgrade: Upgrade) -> State:
    """Return the state of an upgrade that leaves out a workload. Raises UsageError if the upgrade has ended."""
    check_end(state, SKIP, upgrade)
    return replace(state, skipped=tuple(sorted({*state.skipped, workload})))


def retry_workload(state: State, workload: str, upgrade: Upgrade, now: float, *, has_begun: bool) -> State:
    """Return the state of an upgrade that restarts a workload with a mark of its own, if the wave of the workload has begun.

    It goes on if it was paused for a workload, or if it was incomplete: with the last wave, if the workload is in it and it never began,
    since all its workloads were skipped. Raises UsageError if it has ended.
    """
    check_end(state, RETRY, upgrade)
    state = replace(state, skipped=tuple(name for name in state.skipped if name != workload))
    if not has_begun:
        if state.phase != INCOMPLETE:
            return state
        begun = begin_wave(state, upgrade.injected_gateway_wave, now)
        return replace(begun.with_remaining(()), phase=RUNNING, deadline=upgrade.deadline_from(now))
    token, restarting = state.next_token(now), dict(state.restarting)
    if workload in restarting:
        restarting[workload] = PlannedRestart(token, now)
    state = replace(state, retries={**state.retries, workload: token}, restarting=restarting)
    if state.phase == INCOMPLETE:
        phase, step = (ROLLING_BACK, RESTARTING) if state.back else (RUNNING, CHECKING)
        state = state.at(step, now, phase=phase, deadline=upgrade.deadline_from(now))
        return state.with_remaining(())
    is_paused = state.phase == PAUSED and state.cause in _CAUSES_OF_WORKLOADS
    return _resume(state, upgrade, now) if is_paused else state


def _resume(state: State, upgrade: Upgrade, now: float) -> State:
    """Return the state of an upgrade that goes on. One that was incomplete tries everything that is left again, with a new mark.

    If another writer had changed the tag, it is written again, and the pods that were created meanwhile are restarted with a new mark.
    """
    phase, is_again = ROLLING_BACK if state.back else RUNNING, state.phase == INCOMPLETE
    resumed = state.postpone(now).at(MOVING if is_again else state.step, now, phase=phase)
    resumed = replace(resumed, deadline=upgrade.deadline_from(now))
    if is_again:
        # A last wave that has not begun follows: it has a preflight, and perhaps waits for its approval.
        return replace(resumed.with_remaining(()), rest=True, token=state.last_token, retries={})
    if state.cause == TAG_CHANGED and not state.back:
        reason = f"writing tag {upgrade.tag} again"
        return replace(resumed, cause=TAG_CHANGED, reason=reason, token=state.next_token(now), retries={})
    return resumed
