"""The pure core of a run: steps, limits, failures and commands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from injector.errors import ConfigError, UsageError
from injector.revisions.tags import Tag
from injector.upgrade.commands import apply_command, retry_workload, skip_workload
from injector.upgrade.document import Upgrade
from injector.upgrade.gatewaywave import ObservedGateway
from injector.upgrade.observation import GateResult, Observation, ObservedWorkload
from injector.upgrade.plan import Key, prepare_tag, tag_in_wave
from injector.upgrade.state import (
    ABORTED,
    CHECKING,
    COMPLETED,
    GATEWAYS,
    INCOMPLETE,
    MOVING,
    PAUSED,
    PREFLIGHT,
    RESTARTING,
    ROLLED_BACK,
    ROLLING_BACK,
    RUNNING,
    SOAKING,
    PinnedGateway,
    PlannedRestart,
    Remaining,
    State,
    new_state,
    read_state,
)
from injector.upgrade.step import Transition, mark_of, step, wants_gates, wants_preflight
from tests.upgrade.fleets import NEW, OLD, PROD, upgrade

NOW = 1000.0
MISSING = object()
ONE = upgrade(soak="1m")
MOVED = tag_in_wave(ONE, PROD, 0, ())


def key(name: str, place: str = "shop") -> Key:
    return Key(place, "Deployment", name)


def observation(name: str, place: str = "shop", **fields: Any) -> ObservedWorkload:
    known: dict[str, Any] = {"action": "restart", "wave": 0, "old": 2}
    return ObservedWorkload(key(name, place), **known | fields)


def observed(*workloads: ObservedWorkload, **fields: Any) -> Observation:
    known: dict[str, Any] = {"now": NOW, "tag": MOVED, "tag_before": PROD}
    return Observation(workloads=workloads, **known | fields)


def restarting(*names: str, **fields: Any) -> State:
    begun = new_state(ONE, NOW, {}).at(RESTARTING, NOW, token=NOW)
    return replace(begun, restarting={str(key(name)): PlannedRestart(NOW, NOW) for name in names}, **fields)


MARK = mark_of(ONE, restarting())


def going_back(*names: str, document: Upgrade = ONE) -> State:
    """The state of a rollback that has moved the tag, with these restarts of the way forward under way."""
    moving = restarting(*names).rolling_back(document, NOW, "PodsFailed", "why")
    return step(document, moving, observed(tag=PROD)).state


def names(decision: Transition) -> list[str]:
    return [restart.name for restart in decision.restarts]


def test_a_wave_begins_with_a_tag_that_names_the_new_revision_and_moves_nothing() -> None:
    begun = new_state(ONE, NOW, {})

    decision = step(ONE, begun, observed(tag=PROD))
    assert (decision.tag, decision.state, wants_preflight(decision.state)) == (prepare_tag(ONE, PROD), begun, True)
    waiting = step(ONE, begun, observed(tag=decision.tag))
    assert waiting == Transition(begun)
    assert step(ONE, begun, observed(tag=decision.tag, preflight=())).state.step == MOVING


def test_a_preflight_that_fails_is_repeated_and_then_pauses() -> None:
    begun = new_state(ONE, NOW, {})
    prepared = prepare_tag(ONE, PROD)

    again = step(ONE, begun, observed(tag=prepared, preflight=("b", "a"))).state
    assert (again.phase, again.step, again.reason) == (RUNNING, PREFLIGHT, "preflight: a (and 1 more)")
    late = observed(tag=prepared, preflight=("b",), now=NOW + 31)
    assert (step(ONE, again, late).state.phase, step(ONE, again, late).state.reason) == (PAUSED, "preflight: b")
    assert step(ONE, begun, late).state.phase == RUNNING, "a preflight may take longer than its grace"


def test_the_tag_moves_before_the_first_restart() -> None:
    moving = new_state(ONE, NOW, {}).at(MOVING, NOW)

    assert step(ONE, moving, observed(observation("a"), tag=prepare_tag(ONE, PROD))) == Transition(moving, tag=MOVED)
    decision = step(ONE, moving, observed(observation("a")))
    assert (decision.state.step, decision.state.token, decision.restarts) == (RESTARTING, NOW, ())


def test_a_tag_that_another_writer_changes_before_a_wave_keeps_the_change() -> None:
    document = upgrade(
        {"weight": 10}, {"weight": 100}, onFailure="Rollback", windows=[{"notBefore": "2030-01-01T00:00:00Z"}]
    )
    before = replace(PROD, namespaces={"pay": ((OLD, 1),)})
    first = tag_in_wave(document, before, 0, ())
    begun = new_state(document, NOW, {})
    states = begun, begun.at(MOVING, NOW), replace(begun, wave=1), replace(begun.at(MOVING, NOW), wave=1)
    for state in states:
        own = [before, prepare_tag(document, before), first] if state.wave else [before, prepare_tag(document, before)]
        for tag in own:
            assert step(document, state, observed(tag=tag, tag_before=before)).state.phase == RUNNING
        for tag in (PROD, replace(first, namespaces={"pay": ((NEW, 1),)})):
            decision = step(document, state, observed(tag=tag, tag_before=before))
            assert (decision.tag, decision.state.phase) == (None, PAUSED)
            assert decision.state.reason.startswith("tag prod was changed by another writer: it leads to ")


def test_a_restart_is_stored_before_it_is_made_and_repeated_until_it_is_seen() -> None:
    first = step(ONE, restarting(), observed(observation("a")))
    assert (names(first), dict(first.state.restarting)) == (["a"], {"Deployment shop/a": PlannedRestart(NOW, NOW)})

    again = step(ONE, first.state, observed(observation("a")))
    assert (names(again), again.state) == (["a"], first.state)
    rolling = step(ONE, first.state, observed(observation("a", mark=MARK, complete=False, new=1, old=1)))
    assert (names(rolling), rolling.state.restarting) == ([], first.state.restarting)
    done = step(ONE, first.state, observed(observation("a", mark=MARK, new=2, old=0)))
    assert (done.state.step, dict(done.state.restarting)) == (SOAKING, {})


@pytest.mark.parametrize(
    "workload",
    [
        observation("a", new=2, old=0),
        observation("a", mark=MARK),
        observation("a", action="blocked"),
        observation("a", action="done", old=0),
        observation("a", wave=1),
    ],
    ids=["restarted by itself", "restarted in this wave", "blocked", "done", "another wave"],
)
def test_a_workload_that_is_not_due_is_not_restarted(workload: ObservedWorkload) -> None:
    assert step(ONE, restarting(), observed(workload)).state.step == SOAKING


def test_the_time_of_a_restart_that_no_runner_made_begins_again() -> None:
    late = NOW + ONE.timeout + 1
    decision = step(ONE, restarting("a"), observed(observation("a"), now=late))

    assert (names(decision), decision.state.phase, dict(decision.state.restarting)) == (
        ["a"],
        RUNNING,
        {"Deployment shop/a": PlannedRestart(NOW, late)},
    )


def test_the_reason_names_a_new_pod_that_does_not_start_although_it_may_recover() -> None:
    starting = observation("a", mark=MARK, complete=False, new=1, starting="a new pod does not start: ErrImagePull")

    cause = "Deployment shop/a: a new pod does not start: ErrImagePull"
    assert step(ONE, restarting("a"), observed(starting)).state.reason == f"waiting for {cause}"
    waiting = step(upgrade(limits={"workloads": 1}), restarting("a"), observed(starting, observation("b"))).state
    assert waiting.reason == f"waiting for one of 1 restarts (limits.workloads): {cause}"
    assert step(ONE, restarting("a"), observed(replace(starting, starting=""))).state.reason == ""


def test_at_most_limits_workloads_are_restarted_at_once() -> None:
    document = upgrade(limits={"workloads": 2})
    decision = step(document, restarting("c"), observed(*(observation(name) for name in "abcd")))

    assert names(decision) == ["c", "a"]
    assert decision.state.reason == "waiting for one of 2 restarts (limits.workloads)"


def test_a_step_decides_on_few_restarts_so_that_a_pause_has_an_effect_soon() -> None:
    document = upgrade(limits={"workloads": 99})
    decision = step(document, restarting(), observed(*(observation(f"{number:02}") for number in range(30))))

    assert (len(decision.restarts), len(decision.state.restarting)) == (10, 10)


def test_the_pods_that_are_away_or_may_be_are_limited_in_all_and_in_each_namespace() -> None:
    document = upgrade(limits={"workloads": 9, "unavailablePods": 4, "unavailablePodsPerNamespace": 2})

    decision = step(
        document,
        restarting(),
        observed(observation("a", disrupts=2), observation("b", disrupts=1), observation("c", "pay", disrupts=1)),
    )
    assert names(decision) == ["c", "a"]  # sorted by namespace; b would be the third pod of shop
    assert (
        decision.state.reason == "waiting for unavailable pods of namespace shop (limits.unavailablePodsPerNamespace)"
    )
    broken = observation("x", "ops", unavailable=4, old=0, wave=7, mark="up/1000", trouble="Unschedulable")
    held = step(document, restarting(), observed(broken, observation("a", disrupts=1)))
    assert (names(held), held.state.reason) == (
        [],
        "waiting for 4 unavailable pods (limits.unavailablePods): Deployment ops/x has 4 (Unschedulable)",
    )


def test_pods_that_were_not_available_before_the_upgrade_hold_up_nothing() -> None:
    broken = observation("old", unavailable=12, disrupts=3, complete=False)
    first = step(ONE, restarting(), observed(broken, observation("a", disrupts=1), observation("b", disrupts=1)))

    assert (names(first), first.state.reason) == (["a", "b", "old"], "")


@pytest.mark.parametrize("mark", ["", "up/900", "other/1000", "up/x"])
def test_pods_that_a_run_before_or_another_upgrade_restarted_hold_up_nothing(mark: str) -> None:
    broken = observation("old", unavailable=12, complete=False, old=0, new=3, action="done", mark=mark)
    first = step(ONE, restarting(), observed(broken, observation("a", disrupts=1)))

    assert (names(first), first.state.reason) == (["a"], "")


def test_a_mark_is_not_before_the_start_although_the_clock_of_a_runner_is_late() -> None:
    begun = new_state(ONE, NOW, {}).at(MOVING, NOW)

    assert step(ONE, begun, observed(observation("a"), now=NOW - 300)).state.token == NOW


@pytest.mark.parametrize("place", [RESTARTING, SOAKING])
def test_a_broken_workload_that_had_the_new_revision_before_holds_up_nothing(place: str) -> None:
    state = restarting().at(place, NOW - 60)
    broken = observation("a", new=2, old=0, action="done", unavailable=1, complete=False, incomplete=5000)
    for view in (
        replace(broken, fault="a new pod restarted 50 times"),
        replace(broken, rollout_fault="it was given up"),
    ):
        following = step(ONE, state, observed(view, gates=())).state
        assert (following.phase, following.step) == (RUNNING, SOAKING if place == RESTARTING else CHECKING)
        own = step(ONE, state, observed(replace(view, mark=MARK), gates=())).state
        assert (own.phase, own.cause) == (PAUSED, "PodsFailed"), "this run has restarted it"


def test_a_rollout_that_was_given_up_before_the_restart_is_no_fault() -> None:
    before = observation("a", new=1, old=1, complete=False, rollout_fault="its progress deadline is exceeded")

    assert step(ONE, restarting("a"), observed(before)).state.phase == RUNNING
    after = step(ONE, restarting("a"), observed(replace(before, mark=MARK))).state
    assert (after.phase, after.reason) == (PAUSED, "Deployment shop/a: its progress deadline is exceeded")


def test_workloads_whose_pods_are_not_available_already_are_restarted_last() -> None:
    broken = observation("a", unavailable=1, complete=False)
    decision = step(upgrade(limits={"workloads": 1}), restarting(), observed(broken, observation("b")))

    assert names(decision) == ["b"]


def test_a_budget_that_allows_nothing_is_waited_for_and_its_workloads_take_turns() -> None:
    budgets = frozenset({"shop/pdb"})

    waits = step(ONE, restarting(), observed(observation("a", budgets=budgets), exhausted=budgets))
    assert (names(waits), waits.state.reason) == ([], "waiting for PodDisruptionBudget shop/pdb")
    turns = step(
        ONE,
        restarting(),
        observed(observation("a", budgets=budgets), observation("b", budgets=budgets), observation("c")),
    )
    assert names(turns) == ["a", "c"]


def test_nothing_is_restarted_outside_a_window_or_while_the_control_plane_is_down() -> None:
    window = {"windows": [{"notBefore": "2026-01-01T00:00:00Z"}]}

    outside = step(upgrade(**window), restarting(), observed(observation("a")))
    opens = "waiting for a window: the next one opens at 2026-01-01T00:00:00Z"
    assert (names(outside), outside.state.reason) == ([], opens)
    held = step(ONE, restarting(), observed(observation("a"), hold="istiod"))
    assert (names(held), held.state.reason) == ([], "waiting for istiod")
    before = step(upgrade(**window), new_state(ONE, NOW, {}), observed(observation("a"), tag=PROD, preflight=()))
    assert (before.state.step, before.tag, before.state.reason) == (PREFLIGHT, None, opens)
    over = upgrade(windows=[{"notAfter": "1970-01-01T00:00:01Z"}])
    late = step(over, restarting(), observed(observation("a"))).state
    assert late.reason == "waiting for a window: no further one opens, change `windows`"


@pytest.mark.parametrize(
    ("workload", "fields", "reason"),
    [
        (observation("a", mark=MARK, complete=False, new=1, fault="crashes"), {}, "Deployment shop/a: crashes"),
        (
            observation("a", mark=MARK, complete=False, new=1, unavailable=1),
            {"now": NOW + 601},
            "not complete after 600 s: pods left: 2, not available: 1",
        ),
        (observation("a", mark=MARK, quiet=30.0), {}, "its new pods do not have revision 1-30"),
        (observation("a", mark=MARK, quiet=30.0, old=0, desired=2), {}, "its new pods do not have revision 1-30"),
        (observation("a"), {"refused": {"Deployment shop/a": "no"}}, "Deployment shop/a: the restart is refused: no"),
        (observation("a"), {"tag": PROD}, "tag prod was changed by another writer"),
        (observation("a"), {"now": NOW + 86401}, "the deadline has passed"),
    ],
)
@pytest.mark.parametrize("back", [False, True])
def test_a_failure_pauses_or_rolls_back_and_says_why(
    workload: ObservedWorkload, fields: dict[str, Any], reason: str, back: bool
) -> None:
    document = upgrade(onFailure="Rollback") if back else ONE
    decision = step(document, restarting("a"), observed(workload, **fields))

    assert decision.state.phase == (ROLLING_BACK if back else PAUSED)
    assert reason in decision.state.reason
    assert decision.restarts == ()
    if back:
        assert decision.state.step == MOVING
        assert dict(decision.state.restarting) == dict(restarting("a").restarting), "it gives pods the new revision"


BACK = upgrade(onFailure="Rollback")
BROKEN = observation("a", desired=2, unavailable=2, complete=False)


@pytest.mark.parametrize(
    ("fields", "later", "reason"),
    [
        ({"new": 1, "fault": "crashes"}, 0, "Deployment shop/a: crashes"),
        ({"new": 1, "rollout_fault": "it was given up"}, 0, "Deployment shop/a: it was given up"),
        ({"new": 1}, 601, "Deployment shop/a: not complete after 600 s: pods left: 2, not available: 2"),
    ],
)
def test_a_workload_that_was_not_available_before_pauses_and_takes_nothing_back(
    fields: dict[str, Any], later: float, reason: str
) -> None:
    begun = step(BACK, restarting(), observed(BROKEN, observation("b", mark=MARK, old=0, new=2))).state
    view = replace(BROKEN, mark=MARK, **fields)

    after = step(BACK, begun, observed(view, now=NOW + later)).state
    why = "none of its pods was available before the upgrade either: to go on without it, run"
    commands = "`injector upgrade skip up shop/Deployment/a` and `injector upgrade resume up`"
    assert (after.phase, after.reason) == (PAUSED, f"{reason}; {why} {commands}")
    tried = retry_workload(after, view.name, BACK, NOW + later, has_begun=True)
    again = replace(view, mark=mark_of(BACK, tried, view.name))
    assert step(BACK, tried, observed(again, now=NOW + later + 700)).state.phase == PAUSED
    both = step(BACK, begun, observed(view, observation("b", mark=MARK, new=2, fault="crashes"), now=NOW + later)).state
    assert (both.phase, both.reason) == (ROLLING_BACK, "rolling back: Deployment shop/b: crashes")
    assert (both.unavailable_before, begun.unavailable_before) == ((), (view.name,))


def test_a_workload_that_had_an_available_pod_rolls_back() -> None:
    begun = step(BACK, restarting(), observed(replace(BROKEN, desired=20, unavailable=19))).state
    crash = observation("a", mark=MARK, old=0, new=20, desired=20, unavailable=20, complete=False, fault="crashes")
    assert step(BACK, begun, observed(crash)).state.phase == ROLLING_BACK


def test_a_workload_that_has_been_available_since_its_restart_rolls_back() -> None:
    begun = step(BACK, restarting(), observed(BROKEN)).state
    new = observation("a", mark=MARK, old=0, new=2)
    soaking = step(BACK, begun, observed(new)).state
    assert (soaking.step, soaking.unavailable_before) == (SOAKING, ())

    crash = replace(new, fault="crashes", unavailable=1, complete=False)
    assert step(BACK, soaking, observed(crash)).state.phase == ROLLING_BACK
    tried = retry_workload(restarting(), new.name, BACK, NOW, has_begun=True)
    assert step(BACK, tried, observed(crash, now=NOW + 60)).state.unavailable_before == (), "this run has broken it"


def test_a_timeout_says_how_to_see_why_pods_are_missing_if_no_condition_does() -> None:
    rolling = observation("a", mark=MARK, complete=False, new=1, old=0, desired=3, unavailable=2)

    for trouble, end in (
        ("", "2 (pods with a sidecar that do not exist: 2; see `kubectl describe deployment a -n shop`)"),
        ("exceeded quota", "2 (exceeded quota)"),
    ):
        late = observed(replace(rolling, trouble=trouble), now=NOW + 601)
        assert step(ONE, restarting("a"), late).state.reason.endswith(f"not available: {end}")


def test_a_complete_rollout_whose_pods_are_not_seen_yet_is_waited_for() -> None:
    decision = step(ONE, restarting("a"), observed(observation("a", mark=MARK)))

    assert (decision.state.phase, decision.restarts) == (RUNNING, ())


@pytest.mark.parametrize(
    ("gates", "waited", "phase", "reason"),
    [
        ((), 0, RUNNING, "soaking"),
        ((), 60, CHECKING, ""),
        (None, 60, RUNNING, ""),
        ((GateResult("x", "fail", "0.5 < 0.9"),), 0, PAUSED, "gate x: 0.5 < 0.9"),
        ((GateResult("x", "no data", "down"),), 0, RUNNING, "soaking"),
        ((GateResult("x", "no data", "down"),), 60, PAUSED, "gate x: no data: down"),
        ((GateResult("y", "no data", "down"),), 60, CHECKING, ""),
        ((GateResult("x", "pass"),), 60, CHECKING, ""),
    ],
)
def test_gates_decide_at_the_end_of_the_soak_time_and_no_data_is_not_a_pass(
    gates: tuple[GateResult, ...] | None, waited: float, phase: str, reason: str
) -> None:
    metrics = [{"name": "x", "query": "a", "min": 1}, {"name": "y", "query": "a", "min": 1, "noData": "Pass"}]
    document = upgrade(soak="1m", gates={"prometheus": "http://p", "metrics": metrics})
    soaking = restarting().at(SOAKING, NOW)

    assert wants_gates(soaking)
    after = step(document, soaking, observed(observation("a", new=2, old=0), gates=gates, now=NOW + waited)).state
    assert (after.step if after.step == CHECKING else after.phase, after.reason) == (phase, reason)


def test_new_pods_that_crash_while_soaking_fail_and_late_workloads_are_restarted() -> None:
    soaking = restarting().at(SOAKING, NOW)

    crash = step(ONE, soaking, observed(observation("a", new=2, old=0, fault="crashes"))).state
    assert (crash.phase, crash.reason) == (PAUSED, "Deployment shop/a: crashes")
    late = step(ONE, soaking, observed(observation("a"))).state
    assert (late.step, late.token) == (RESTARTING, soaking.token)


def test_a_wave_without_available_pods_does_not_end_and_fails_after_the_timeout() -> None:
    soaking = restarting().at(SOAKING, NOW)

    def after(seconds: float, away: float, **fields: Any) -> tuple[str, str]:
        workload = observation("a", **{"new": 2, "old": 0, "unavailable": 1, "incomplete": away} | fields)
        state = step(ONE, soaking, observed(workload, gates=(), now=NOW + seconds)).state
        return state.step if state.step == CHECKING else state.phase, state.reason

    assert after(60, 29.0) == (CHECKING, "")
    assert after(60, 30.0) == (RUNNING, "waiting for the pods of Deployment shop/a")
    assert after(60, 30.0, new=0, mark=MARK) == (RUNNING, "waiting for the pods of Deployment shop/a")
    assert after(60, 30.0, new=0) == (CHECKING, ""), "it has no pod of the new revision"
    assert after(900, 601) == (PAUSED, "Deployment shop/a: pods not available for 600 s: 1")


def test_a_workload_that_is_larger_than_the_limits_fails_after_the_others() -> None:
    large, other = observation("large", disrupts=11), observation("other", disrupts=1)

    first = step(ONE, restarting(), observed(large, other))
    assert names(first) == ["other"]
    assert step(ONE, first.state, observed(large, other)).state.phase == RUNNING
    done = replace(other, mark=MARK, new=2, old=0)
    last = step(ONE, first.state, observed(large, done)).state
    assert last.phase == PAUSED
    assert (
        "Deployment shop/large: a restart takes away 11 pods at once, and limits.unavailablePods is 10" in last.reason
    )
    back = going_back()
    stays = step(ONE, back, observed(observation("large", new=11, old=0, disrupts=11), tag=PROD)).state
    assert (stays.phase, stays.reason) == (PAUSED, last.reason)


def test_after_a_wave_comes_the_next_one_with_a_later_mark() -> None:
    document = upgrade({"weight": 10}, {"weight": 100}, soak="0s")
    soaking = restarting().at(SOAKING, NOW)
    tag = tag_in_wave(document, PROD, 0, ())

    second = step(document, soaking, observed(gates=(), tag=tag)).state
    assert (second.wave, second.step, second.phase) == (1, PREFLIGHT, RUNNING)
    moving = second.at(MOVING, NOW)
    assert step(document, moving, observed(tag=tag_in_wave(document, PROD, 1, ()))).state.token == soaking.token + 1


def test_a_rollback_moves_the_tag_and_then_restarts_the_last_wave_first() -> None:
    back = going_back()

    moving = restarting().rolling_back(ONE, NOW, "PodsFailed", "why")
    assert step(ONE, moving, observed(observation("a", new=2, old=0))).tag == PROD
    assert step(ONE, back, observed(observation("a", new=2, old=0))).tag == PROD, "another writer moved it again"
    workloads = (
        observation("a", new=2, old=0),
        observation("b", wave=1, new=1),
        observation("c", wave=1),
        observation("d", new=1),
    )
    document = upgrade({"importance": "low"}, {"name": "rest"}, limits={"workloads": 2})
    decision = step(document, back, observed(*workloads, tag=PROD))
    assert names(decision) == ["b", "a"]
    assert step(ONE, back, observed(observation("c"), tag=PROD)).state.step == CHECKING


def test_a_rollback_ignores_windows_and_pauses_if_it_fails() -> None:
    document = upgrade(windows=[{"notBefore": "2026-01-01T00:00:00Z"}], onFailure="Rollback")
    back = going_back()

    decision = step(document, back, observed(observation("a", new=2, old=0), tag=PROD, hold="istiod"))
    assert names(decision) == ["a"]
    rolling = observation("a", new=2, old=0, mark=mark_of(document, decision.state), complete=False)
    late = step(document, decision.state, observed(rolling, tag=PROD, now=NOW + 700)).state
    assert (late.phase, late.back) == (PAUSED, True)
    assert apply_command(late, "resume", document, NOW).phase == ROLLING_BACK


def test_a_rollback_begins_with_broken_workloads_and_waits_for_none() -> None:
    document = upgrade(limits={"unavailablePods": 9, "unavailablePodsPerNamespace": 1})
    back = going_back()
    stuck = observation("stuck", disrupts=1, new=1, old=1, unavailable=2, complete=False)
    other = observation("a", disrupts=1, new=2, old=0)

    first = step(document, back, observed(other, stuck, tag=PROD))
    assert (names(first), first.state.reason) == (
        ["stuck"], "waiting for unavailable pods of namespace shop (limits.unavailablePodsPerNamespace): Deployment shop/stuck has 2",
    )  # fmt: skip
    refused = observed(other, stuck, tag=PROD, refused={"Deployment shop/stuck": "no"})
    assert names(step(document, first.state, refused)) == ["a"], "what is refused is not tried again"
    late = NOW + document.timeout + 1
    rolling = replace(stuck, mark=mark_of(document, back), new=0)
    second = step(document, first.state, observed(other, rolling, tag=PROD, now=late))
    assert (names(second), second.state.phase) == (["a"], ROLLING_BACK)
    done = replace(other, mark=mark_of(document, back), new=0, old=2)
    last = step(document, second.state, observed(done, rolling, tag=PROD, now=late)).state
    assert (last.phase, last.reason) == (
        PAUSED, "Deployment shop/stuck: not complete after 600 s: pods left: 0, not available: 2",
    )  # fmt: skip


@pytest.mark.parametrize("verb", ["pause", "resume", "promote", "abort", "rollback"])
def test_a_command_changes_the_state(verb: str) -> None:
    document = upgrade({"weight": 10}, {"weight": 100})
    state = replace(restarting("a"), phase=PAUSED, reason="why", deadline=1.0)
    after = apply_command(state, verb, document, NOW)

    assert (after.phase, after.wave, bool(after.restarting)) == {
        "pause": (PAUSED, 0, True),
        "resume": (RUNNING, 0, True),
        "promote": (RUNNING, 1, True),
        "abort": (ABORTED, 0, True),
        "rollback": (ROLLING_BACK, 0, True),
    }[verb]
    assert (after.deadline > NOW) == (verb in ("resume", "promote", "rollback"))


def test_a_command_that_does_not_fit_the_state_is_refused() -> None:
    done = replace(restarting(), phase=COMPLETED)
    back = going_back()
    for state, verb, says in (
        (done, "pause", "has ended: it is Completed"),
        (back, "promote", "a rollback has no gates"),
        (back, "rollback", "goes back already"),
    ):
        with pytest.raises(UsageError, match=says):
            apply_command(state, verb, ONE, NOW)
    for state, hint in (
        (done, "start it again with `injector upgrade run up --again`"),
        (replace(done, phase=INCOMPLETE), "upgrade accept up` or `injector upgrade rollback up`"),
        (replace(back, phase=INCOMPLETE), "`injector upgrade resume up` or `injector upgrade accept up`"),
    ):
        with pytest.raises(UsageError) as caught:
            apply_command(state, "abort", ONE, NOW)
        assert caught.value.hint.endswith(hint)
    with pytest.raises(UsageError, match="is Running"):
        apply_command(restarting(), "accept", ONE, NOW)
    assert apply_command(done, "rollback", ONE, NOW).phase == ROLLING_BACK
    with pytest.raises(UsageError, match="without a tag cannot go back"):
        apply_command(done, "rollback", upgrade(tag=None), NOW)
    promoted = apply_command(restarting("a"), "promote", ONE, NOW)
    assert (promoted.phase, promoted.step) == (RUNNING, CHECKING), "the survey decides whether it is complete"


def test_a_pause_of_a_paused_upgrade_keeps_its_reason() -> None:
    failed = step(ONE, restarting("a"), observed(tag=PROD)).state

    assert failed.cause == "TagChanged"
    assert apply_command(failed, "pause", ONE, NOW) == failed


def test_a_wave_that_is_promoted_twice_still_moves_the_tag() -> None:
    failed = replace(new_state(ONE, NOW, {}), phase=PAUSED, reason="preflight: a")

    twice = apply_command(apply_command(failed, "promote", ONE, NOW), "promote", ONE, NOW)

    assert (twice.phase, twice.step) == (RUNNING, MOVING)


@pytest.mark.parametrize(
    ("windows", "opens"),
    [
        ([], 0),
        ([{"notAfter": "2026-01-01T00:00:00Z"}], 0),
        ([{"notBefore": "1970-01-03T00:00:00Z"}, {"notBefore": "1970-01-02T00:00:00Z"}], 86400),
        ([{"notAfter": "1970-01-01T00:00:01Z"}, {"notBefore": "1970-01-02T00:00:00Z"}], 86400),
        ([{"notBefore": "1970-01-02T00:00:00Z"}, {"notAfter": "1970-01-01T00:00:01Z"}], 86400),
        ([{"notBefore": "1970-01-01T00:00:01Z"}], 0),
    ],
)
def test_a_deadline_begins_with_the_first_window(windows: list[dict[str, str]], opens: float) -> None:
    document = upgrade(windows=windows, deadline="1h")
    begins = max(NOW, opens)

    begun = new_state(document, NOW, {})
    assert begun.deadline == begins + 3600
    paused = replace(begun, phase=PAUSED, deadline=1.0)
    assert apply_command(paused, "resume", document, NOW).deadline == begins + 3600


def test_a_state_is_read_as_it_was_written_and_anything_else_is_refused() -> None:
    remaining = (Remaining("Deployment shop/a", "blocked", "resume it"),)
    state = restarting("a", reason="why", sidecars=(OLD, NEW), namespaces=("shop",)).with_remaining(remaining)
    state = replace(state, unavailable_before=("Deployment shop/a",))

    document = upgrade()
    status = state.to_status()
    assert read_state({**status, "progress": "for people", "conditions": []}, document, where="x") == state
    assert (status["startTime"], status["restarting"]["Deployment shop/a"]["since"]) == ("1970-01-01T00:16:40Z",) * 2
    last = len(document.waves) - 1
    assert read_state({"wave": last}, document, where="x").wave == last
    broken: tuple[Any, ...] = (
        None,
        {"phase": 1},
        {"restarting": ["a"]},
        {"restarting": {"Deployment shop/a": "now"}},
        {"restarting": {"Deployment shop/a": {"since": 3, "token": 4}}},
        {"startTime": 1000.0},
        {"gates": {"latency": 1}},
        {"tagBefore": {"annotations": [1]}},
        {"phase": "running"},
        {"step": "Soak"},
        {"wave": True},
        {"wave": -1},
        {"wave": last + 1},
        {"remaining": [{"workload": 1}]},
    )
    for raw in broken:
        with pytest.raises(ConfigError, match="cannot be read"):
            read_state(raw, document, where="x")


def test_a_state_of_which_any_value_is_missing_or_wrong_is_read_or_refused() -> None:
    gateways = {"edge/a": PinnedGateway(None, OLD, NOW)}
    state = restarting("a", retries={"Deployment shop/a": NOW}, gateways=gateways, tag_before={"revision": OLD})
    state = state.with_remaining((Remaining("Deployment shop/a", "blocked", "resume it"),))
    status, refused = state.to_status(), 0
    places = [(status, key) for key in status]
    places += [(value, key) for value in status.values() if isinstance(value, dict) for key in value]
    places += [
        (part, key)
        for part in (status["gateways"]["edge/a"], status["restarting"]["Deployment shop/a"])
        for key in part
    ]
    for part, key in places:
        before = part[key]
        for value in (None, 1, -1.5, "x", [], {}, [{}], True, MISSING):
            if value is MISSING:
                del part[key]
            else:
                part[key] = value
            try:
                read_state(status, ONE, where="x")
            except ConfigError:
                refused += 1
            part[key] = before
    assert refused > len(places)

    for key in ("since", "ready", "label"):
        item = {name: value for name, value in status["gateways"]["edge/a"].items() if name != key}
        raw = {"gateways": {"edge/a": item}}
        if key == "since":
            with pytest.raises(ConfigError, match="cannot be read"):
                read_state(raw, ONE, where="x")
        else:
            assert read_state(raw, ONE, where="x").gateways == gateways


def test_a_gateway_that_is_pinned_or_released_is_progress() -> None:
    view = ObservedGateway("edge/a", OLD, "1", (OLD,), (NEW,))
    pins = {"edge/a": PinnedGateway(None, OLD, NOW)}
    waiting = replace(new_state(ONE, NOW, {}).at(GATEWAYS, NOW), gateways=pins)
    released = step(ONE, waiting, observed(now=NOW + 9, gateways=[view])).state
    broken = replace(view, label=None, owners=(NEW,), fault="it is not Programmed")
    late = step(ONE, released, observed(now=NOW + 20, gateways=[broken])).state

    assert (released.gateways["edge/a"].moving, released.progressed, late.progressed) == (True, NOW + 9, NOW + 9)
    moving = new_state(ONE, NOW, {}).at(MOVING, NOW)
    unpinned = observed(now=NOW + 5, tag=prepare_tag(ONE, PROD), gateways=[replace(view, label=None)])
    assert step(ONE, moving, unpinned).state.progressed == NOW + 5


def test_the_deadline_counts_although_the_cluster_cannot_be_observed() -> None:
    blind = observed(blind="pods: cannot be reached")

    waits = step(ONE, restarting("a"), blind)
    assert (waits.state.phase, waits.state.reason, waits.restarts) == (RUNNING, "pods: cannot be reached", ())
    late = step(ONE, waits.state, replace(blind, now=NOW + 86401)).state
    assert (late.phase, late.reason) == (PAUSED, "the deadline has passed: pods: cannot be reached")


def test_a_rollback_writes_the_tag_although_the_cluster_cannot_be_observed() -> None:
    blind = observed(blind="pods: cannot be reached")
    moving = restarting("a").rolling_back(ONE, NOW, "PodsFailed", "why")

    decision = step(ONE, moving, blind)
    assert (decision.tag, decision.restarts) == (PROD, ())
    moved = step(ONE, moving, replace(blind, tag=PROD)).state
    waits = step(ONE, moved, replace(blind, tag=PROD)).state
    assert (moved.step, waits.phase, waits.reason) == (RESTARTING, ROLLING_BACK, "pods: cannot be reached")


def test_the_time_in_which_nothing_is_observed_does_not_count_for_the_timeout() -> None:
    late, rolling = NOW + ONE.timeout + 60, observation("a", mark=MARK, complete=False, new=1, old=1)
    assert step(ONE, restarting("a"), observed(rolling, tag=MOVED, now=late)).state.phase == PAUSED

    blind = step(ONE, restarting("a"), observed(tag=MOVED, now=late, blind="pods: cannot be reached")).state
    after = step(ONE, blind, observed(rolling, tag=MOVED, now=late + 2)).state
    assert (after.phase, after.reason) == (RUNNING, "")


def test_a_second_upgrade_of_a_tag_pauses_before_it_changes_anything() -> None:
    decision = step(ONE, new_state(ONE, NOW, {}), observed(tag=PROD, rival="first", preflight=()))

    assert (decision.state.phase, decision.tag) == (PAUSED, None)
    assert decision.state.reason.startswith("upgrade first of tag prod is under way")


def test_a_second_upgrade_of_the_same_workloads_without_a_tag_pauses_too() -> None:
    document = upgrade(tag=None)
    decision = step(document, new_state(document, NOW, {}), observed(tag=None, tag_before=None, rival="first"))

    assert (decision.state.phase, decision.state.cause) == (PAUSED, "AnotherUpgrade")
    assert decision.state.reason.startswith("upgrade first of revision 1-30 is under way")


def test_a_tag_that_cannot_be_read_fails_the_upgrade_with_the_writer() -> None:
    fault = observed(tag=None, tag_fault="the weights are ignored", tag_writer="kubectl-label")

    after = step(ONE, restarting("a"), fault).state
    assert (after.phase, after.cause) == (PAUSED, "TagChanged")
    assert after.reason == (
        "tag prod was changed by another writer (kubectl-label): the weights are ignored; "
        "`injector upgrade resume up` writes it as the wave needs it"
    )
    assert step(upgrade(onFailure="Rollback"), restarting("a"), fault).state.phase == ROLLING_BACK


@pytest.mark.parametrize(
    ("state", "pause", "wanted"),
    [
        (new_state(ONE, NOW, {}), observed(tag=replace(MOVED, weights=(("x", 1),)), preflight=()), PROD),
        (restarting("a"), observed(tag=PROD), MOVED),
        (restarting("a"), observed(tag=None, tag_fault="the weights are ignored"), MOVED),
        (replace(restarting(), step=SOAKING), observed(tag=PROD), MOVED),
        (replace(restarting(), step=CHECKING), observed(tag=PROD), MOVED),
    ],
)
@pytest.mark.parametrize("verb", ["resume", "promote"])
def test_a_tag_that_was_changed_is_written_again_after_a_user_has_resumed(
    state: State, pause: Observation, wanted: Tag, verb: str
) -> None:
    paused = step(ONE, state, pause).state
    assert (paused.phase, paused.cause) == (PAUSED, "TagChanged")
    resumed = apply_command(paused, verb, ONE, NOW + 5)

    written = step(ONE, resumed, replace(pause, now=NOW + 6, blind="pods: late"))
    assert (written.tag, written.state) == (wanted, resumed)
    done = step(ONE, resumed, observed(tag=wanted, now=NOW + 8))
    assert (done.tag, done.state.phase, done.state.cause) == (None, RUNNING, "")
    assert step(ONE, done.state, replace(pause, now=NOW + 10)).state.phase == PAUSED, "one command, one write"


def test_a_rollout_is_complete_before_the_workload_is_restarted_again() -> None:
    """Pods that were created while another writer had moved the tag have the old revision."""
    paused = step(ONE, restarting("a"), observed(tag=PROD)).state
    state = replace(apply_command(paused, "resume", ONE, NOW), cause="", reason="")
    assert state.token > restarting("a").token

    rolling = observation("a", mark=MARK, complete=False, new=1, old=1)
    assert names(step(ONE, state, observed(rolling, tag=MOVED))) == []
    complete = step(ONE, state, observed(replace(rolling, complete=True), tag=MOVED, now=NOW + 40))
    assert names(complete) == ["a"]


def test_the_reason_of_a_rollback_is_that_of_its_end_although_it_waited() -> None:
    by_user = apply_command(restarting(), "rollback", ONE, NOW)
    failed = step(upgrade(onFailure="Rollback"), replace(restarting(), deadline=1.0), observed(tag=MOVED)).state
    assert (by_user.reason, failed.reason) == ("rolled back by a user", "rolling back: the deadline has passed")

    for state, reason in ((by_user, "rolled back by a user"), (failed, "rolled back: the deadline has passed")):
        waiting = replace(state, step=CHECKING, reason="checking what is left", deadline=1e10)
        stored = read_state(waiting.to_status(), ONE, where="up")
        assert step(ONE, stored, observed(tag=PROD, remaining=())).state.reason == reason


@pytest.mark.parametrize("back", [False, True])
def test_an_upgrade_ends_with_the_names_of_what_is_left(back: bool) -> None:
    state = replace(going_back() if back else restarting(), step=CHECKING)
    tag, remaining = PROD if back else MOVED, (Remaining("Pod shop/a", "bare", "delete it"),)

    assert step(ONE, state, observed(tag=tag)).state.phase == state.phase, "it waits for the survey"
    done = step(ONE, state, observed(tag=tag, remaining=())).state
    assert (done.phase, done.reason) == ((ROLLED_BACK, "rolled back: why") if back else (COMPLETED, ""))
    soon = step(ONE, state, observed(tag=tag, remaining=remaining)).state
    reason = f"1 item is left: Pod shop/a{'; rolled back: why' if back else ''}"
    assert (soon.phase, soon.reason) == (state.phase, reason), "a rollout may be under way"
    late = step(ONE, soon, observed(tag=tag, remaining=remaining, now=NOW + 31)).state
    assert (late.phase, late.remaining, late.remaining_total) == (INCOMPLETE, remaining, 1)
    accepted = apply_command(late, "accept", ONE, NOW)
    assert (accepted.phase, accepted.cause, accepted.remaining) == (done.phase, "Accepted", remaining)


def test_workloads_that_an_upgrade_left_are_tried_again_with_a_new_mark() -> None:
    document = upgrade({"weight": 10}, {"weight": 100})
    tag = tag_in_wave(document, PROD, 1, ())
    incomplete = replace(restarting(), phase=INCOMPLETE, step=CHECKING, wave=1)

    again = step(document, apply_command(incomplete, "resume", document, NOW), observed(tag=tag)).state
    assert (again.phase, again.step, again.token > incomplete.token) == (RUNNING, RESTARTING, True)
    decision = step(
        document,
        again,
        observed(observation("a", mark=MARK), observation("b", wave=1), observation("c", action="blocked"), tag=tag),
    )
    assert names(decision) == ["a", "b"]


def test_a_promoted_wave_still_counts_for_the_limits_of_the_next_one() -> None:
    document = upgrade({"weight": 10}, {"weight": 100}, limits={"workloads": 2})
    tag = tag_in_wave(document, PROD, 1, ())
    promoted = apply_command(restarting("a", "b"), "promote", document, NOW)
    second = replace(promoted, step=RESTARTING, token=NOW + 60, since=NOW + 60)
    rolling = [observation(name, mark=MARK, complete=False, new=1, old=1) for name in "ab"]

    late = NOW + 91
    full = step(document, second, observed(*rolling, observation("c", wave=1), tag=tag, now=late))
    assert names(full) == []
    done = [replace(rolling[0], complete=True, new=2, old=0), rolling[1]]
    assert names(step(document, full.state, observed(*done, observation("c", wave=1), tag=tag, now=late))) == ["c"]


def test_a_rollback_restarts_a_workload_whose_new_pods_are_not_observed() -> None:
    back = going_back("a")
    rolling = observation("a", mark=MARK, complete=False)

    decision = step(ONE, back, observed(rolling, tag=PROD, now=NOW + 2))
    assert names(decision) == ["a"]


def test_a_rollback_waits_until_a_restart_that_was_only_decided_would_be_observed() -> None:
    back = going_back("a")

    early = step(ONE, back, observed(observation("a"), tag=PROD, now=NOW + 2))
    assert (early.state.step, names(early)) == (RESTARTING, [])
    late = step(ONE, early.state, observed(observation("a"), tag=PROD, now=NOW + 31))
    assert (late.state.step, dict(late.state.restarting)) == (CHECKING, {})


def test_a_rollback_keeps_the_limit_of_workloads_with_those_of_the_way_forward() -> None:
    document = upgrade(limits={"workloads": 2})
    back = going_back("a", "b", document=document)
    rolling = [observation(name, mark=MARK, complete=False, new=1, old=1) for name in "ab"]

    decision = step(document, back, observed(*rolling, observation("c", new=2, old=0), tag=PROD, now=NOW + 2))
    assert names(decision) == ["a", "b"]


def test_a_restart_that_was_refused_once_and_then_made_is_not_refused() -> None:
    back = going_back()
    decided = step(ONE, back, observed(observation("a", new=1, old=1), tag=PROD)).state
    restarted = observation("a", new=1, old=1, mark=mark_of(ONE, decided), complete=False)

    refused = {"Deployment shop/a": "exceeded quota"}
    after = step(ONE, decided, observed(restarted, tag=PROD, refused=refused, now=NOW + 2)).state
    assert (after.phase, after.reason) == (ROLLING_BACK, "")


def test_a_workload_that_only_the_survey_finds_is_restarted_before_a_rollback_ends() -> None:
    checking = replace(going_back(), step=CHECKING)
    remaining = (Remaining("Deployment shop/a", "it was not restarted", "resume"),)

    waits = step(ONE, checking, observed(observation("a"), tag=PROD, remaining=remaining)).state
    assert (waits.phase, waits.step) == (ROLLING_BACK, CHECKING)
    assert step(ONE, waits, observed(observation("a", new=2, old=0), tag=PROD)).state.step == RESTARTING


def test_a_workload_that_was_moved_away_from_the_tag_does_not_hold_up_the_others() -> None:
    moved = observation("a", action="stays", mark=MARK, quiet=600.0)

    early = step(ONE, restarting("a"), observed(moved, now=NOW + 2))
    assert (early.state.phase, list(early.state.restarting)) == (RUNNING, ["Deployment shop/a"]), (
        "it counts for the limits"
    )
    assert step(ONE, early.state, observed(moved, now=NOW + 31)).state.step == SOAKING


A = "Deployment shop/a"


def retried(state: State, **fields: Any) -> State:
    return retry_workload(state, A, ONE, NOW + 5, **{"has_begun": True} | fields)


def test_a_workload_that_is_tried_again_has_a_mark_of_its_own() -> None:
    paused = restarting("a", "b", phase=PAUSED, cause="RestartFailed", reason="why")
    state = retried(paused)
    assert (state.phase, state.cause, state.token_of(A), state.token_of("Deployment shop/b")) == (
        RUNNING,
        "",
        NOW + 5,
        NOW,
    )

    rolling = [observation(name, mark=MARK, new=1, old=1, complete=False) for name in "ab"]
    decision = step(ONE, state, observed(*rolling, now=NOW + 6))
    assert names(decision) == ["a"]
    again = replace(rolling[0], mark=mark_of(ONE, decision.state, A))
    assert names(step(ONE, decision.state, observed(again, rolling[1], now=NOW + 8))) == []


def test_broken_pods_of_a_retried_workload_count_once_they_can_be_new() -> None:
    state = retried(restarting("a", phase=PAUSED, cause="PodsFailed"))
    broken = observation(
        "a", new=2, old=0, complete=False, fault="a new pod does not start: CrashLoopBackOff", action="done"
    )

    first = step(ONE, state, observed(broken, now=NOW + 6))
    assert (names(first), first.state.phase) == (["a"], RUNNING)
    tried = replace(broken, mark=mark_of(ONE, first.state, A))
    assert step(ONE, first.state, observed(tried, now=NOW + 20)).state.phase == RUNNING
    assert step(ONE, first.state, observed(tried, now=NOW + 40)).state.cause == "PodsFailed"


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (restarting(phase=PAUSED, cause="ByUser"), PAUSED),
        (restarting(phase=PAUSED, cause="TagChanged"), PAUSED),
        (restarting(phase=PAUSED, cause="PodsFailed"), RUNNING),
        (replace(going_back(), phase=PAUSED, cause="RestartFailed"), ROLLING_BACK),
        (restarting(phase=INCOMPLETE), RUNNING),
        (replace(going_back(), phase=INCOMPLETE, step=CHECKING), ROLLING_BACK),
        (restarting(), RUNNING),
    ],
)
def test_a_retry_goes_on_if_a_workload_was_to_blame(state: State, phase: str) -> None:
    assert retried(state).phase == phase


@pytest.mark.parametrize("command", [retried, lambda state: skip_workload(state, A, ONE)])
def test_a_workload_of_an_upgrade_that_has_ended_is_refused_with_the_result(command: Any) -> None:
    for phase in (COMPLETED, ROLLED_BACK, ABORTED):
        with pytest.raises(UsageError, match=f"has ended: it is {phase}"):
            command(State(phase=phase))


def test_a_workload_of_an_earlier_wave_is_tried_again_alone() -> None:
    document = upgrade({"name": "one", "namespaces": ["shop"]}, {"name": "rest", "approval": True}, soak="1m")
    tag = tag_in_wave(document, PROD, 0, ())
    waiting = replace(new_state(document, NOW, {}), wave=1, token=NOW)
    late = observation("a"), observation("b")
    for state, leads in (
        (waiting, tag),
        (replace(waiting, step=CHECKING, phase=INCOMPLETE), tag_in_wave(document, PROD, 1, ())),
    ):
        decision = step(document, retried(state), observed(*late, tag=leads))
        assert names(decision) == ["a"], "the others of the wave are not tried again"
        done = observation("a", mark=mark_of(document, decision.state, A), new=2, old=0)
        after = step(document, decision.state, observed(done, late[1], tag=leads, now=NOW + 60)).state
        assert (after.step, dict(after.restarting)) == (decision.state.step, {})


def test_a_retry_takes_a_skipped_workload_back_and_waits_for_its_wave() -> None:
    skipped = skip_workload(skip_workload(State(), A, ONE), A, ONE)
    assert skipped.skipped == (A,)

    again = retried(skipped, has_begun=False)
    assert (again.skipped, dict(again.retries)) == ((), {})


def test_a_rollback_includes_skipped_workloads_with_a_later_mark() -> None:
    state = retried(skip_workload(restarting(), "Deployment shop/b", ONE)).rolling_back(ONE, NOW, "ByUser", "why")
    assert (state.skipped, dict(state.retries)) == ((), {})

    begun = step(ONE, state, observed(tag=PROD)).state
    assert begun.token > NOW + 5


def test_a_workload_that_does_not_recover_is_tried_again_in_a_rollback() -> None:
    back = replace(going_back("a"), phase=PAUSED, cause="RestartFailed")
    state = retried(back)

    decision = step(
        ONE, state, observed(observation("a", mark=mark_of(ONE, back), complete=False, unavailable=1), tag=PROD)
    )
    assert names(decision) == ["a"]


APPROVED = upgrade({"name": "one", "namespaces": ["shop"], "approval": True}, {"name": "rest", "approval": True})


def test_a_wave_waits_for_its_approval_first_and_without_a_deadline() -> None:
    begun = new_state(APPROVED, NOW, {})
    decision = step(APPROVED, begun, observed(tag=PROD, preflight=()))
    assert (decision.tag, decision.state.step, decision.state.waits_for_approval) == (None, PREFLIGHT, True)
    assert decision.state.reason == "wave one waits for its approval: run `injector upgrade promote up`"
    for blind in ("", "the API server cannot be reached"):
        late = step(APPROVED, decision.state, observed(tag=PROD, now=begun.deadline + 9, blind=blind)).state
        assert step(APPROVED, late, observed(tag=PROD, now=begun.deadline + 19)).state.phase == RUNNING


def test_a_promote_approves_one_wave_and_keeps_its_preflight() -> None:
    late = new_state(APPROVED, NOW, {}).deadline + 9
    waiting = step(APPROVED, new_state(APPROVED, NOW, {}), observed(tag=PROD)).state

    for state in (waiting, apply_command(waiting, "pause", APPROVED, late)):
        approved = apply_command(state, "promote", APPROVED, late)
        assert (approved.phase, approved.step, approved.wave, approved.cause) == (RUNNING, PREFLIGHT, 0, "")
        assert approved.deadline > late
        prepared = step(APPROVED, approved, observed(tag=PROD, now=late)).tag
        assert prepared == prepare_tag(APPROVED, PROD)
    with pytest.raises(UsageError, match="wave one is approved already"):
        apply_command(approved, "promote", APPROVED, late)
    failed = replace(approved, phase=PAUSED, cause="PreflightFailed")
    assert apply_command(failed, "promote", APPROVED, late).step == MOVING
    following = apply_command(approved.at(SOAKING, late), "promote", APPROVED, late)
    tag = tag_in_wave(APPROVED, PROD, 0, ())
    assert step(APPROVED, following, observed(tag=tag, now=late)).state.waits_for_approval
    resumed = apply_command(apply_command(waiting, "pause", APPROVED, late), "resume", APPROVED, late)
    assert step(APPROVED, resumed, observed(tag=PROD, now=late)).state.waits_for_approval


def test_a_rollback_waits_for_no_approval() -> None:
    waiting = step(APPROVED, new_state(APPROVED, NOW, {}), observed(tag=PROD)).state
    back = apply_command(waiting, "rollback", APPROVED, NOW)

    assert step(APPROVED, back, observed(tag=PROD)).state.step == RESTARTING


def test_a_broken_pod_of_a_stateful_set_is_named_with_the_command_that_replaces_it() -> None:
    fault = "a new pod does not start: CrashLoopBackOff"
    broken = observation("db", new=1, old=1, complete=False, fault=fault, mark=MARK, broken=("db-1",))
    paused = step(ONE, restarting("db"), observed(broken)).state
    assert paused.reason == (
        f"Deployment shop/db: {fault}; once the cause is repaired, or after a rollback, run `kubectl delete pod db-1 -n shop`, "
        "since a StatefulSet does not replace a pod that is not ready"
    )

    back = step(ONE, going_back("db"), observed(replace(broken, unavailable=1), tag=PROD)).state
    view = replace(broken, mark=mark_of(ONE, back), unavailable=2, broken=("db-1", "db-2"), stuck=("db-1", "db-2"))
    waits = step(ONE, back, observed(view, tag=PROD, now=NOW + 4)).state
    assert (
        waits.phase,
        "waiting for Deployment shop/db; run `kubectl delete pod db-1 db-2 -n shop`" in waits.reason,
    ) == (
        ROLLING_BACK,
        True,
    )
    late = step(ONE, waits, observed(view, tag=PROD, now=NOW + 900)).state
    assert (late.phase, "run `kubectl delete pod db-1 db-2 -n shop`" in late.reason) == (PAUSED, True)
    starting = replace(view, stuck=())
    assert "kubectl" not in step(ONE, back, observed(starting, tag=PROD, now=NOW + 4)).state.reason
