"""The pure core of a run: steps, limits and failures, and several runners that die at any moment."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from injector.errors import ConfigError, UsageError
from injector.revisions.tags import Tag
from injector.upgrade.document import Upgrade
from injector.upgrade.plan import Key, prepare_tag, tag_in_wave
from injector.upgrade.state import (
    ABORTED,
    COMPLETED,
    MOVING,
    PAUSED,
    PREFLIGHT,
    RESTARTING,
    ROLLED_BACK,
    ROLLING_BACK,
    RUNNING,
    SOAKING,
    State,
    apply_command,
    new_state,
    read_state,
)
from injector.upgrade.step import (
    GateResult,
    Observation,
    ObservedWorkload,
    Transition,
    mark_of,
    step,
    wants_gates,
    wants_preflight,
)
from tests.upgrade.fleets import NEW, OLD, PROD, upgrade

NOW = 1000.0
ONE = upgrade(soak="1m")
MOVED = tag_in_wave(ONE, PROD, 0)


def key(name: str, place: str = "shop") -> Key:
    return Key(place, "Deployment", name)


def seen(name: str, place: str = "shop", **fields: Any) -> ObservedWorkload:
    known: dict[str, Any] = {"action": "restart", "wave": 0, "old": 2}
    return ObservedWorkload(key(name, place), **known | fields)


def observed(*workloads: ObservedWorkload, **fields: Any) -> Observation:
    known: dict[str, Any] = {"now": NOW, "tag": MOVED, "tag_before": PROD}
    return Observation(workloads=workloads, **known | fields)


def restarting(*names: str, **fields: Any) -> State:
    begun = new_state(ONE, NOW, {}).at(RESTARTING, NOW, token=NOW)
    return replace(begun, restarting={str(key(name)): NOW for name in names}, **fields)


MARK = mark_of(ONE, restarting())


def names(decision: Transition) -> list[str]:
    return [each.name for each in decision.restarts]


def test_a_wave_begins_with_a_tag_that_names_the_new_revision_and_moves_nothing() -> None:
    begun = new_state(ONE, NOW, {})

    found = step(ONE, begun, observed(tag=PROD))
    assert (found.tag, found.state, wants_preflight(found.state)) == (prepare_tag(ONE, PROD), begun, True)
    waiting = step(ONE, begun, observed(tag=found.tag))
    assert waiting == Transition(begun)
    assert step(ONE, begun, observed(tag=found.tag, preflight=())).state.step == MOVING


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

    assert step(ONE, moving, observed(seen("a"), tag=prepare_tag(ONE, PROD))) == Transition(moving, tag=MOVED)
    found = step(ONE, moving, observed(seen("a")))
    assert (found.state.step, found.state.token, found.restarts) == (RESTARTING, NOW, ())


def test_a_tag_that_another_writer_changes_before_a_wave_keeps_the_change() -> None:
    document = upgrade(
        {"weight": 10}, {"weight": 100}, onFailure="Rollback", windows=[{"notBefore": "2030-01-01T00:00:00Z"}]
    )
    before = replace(PROD, namespaces={"pay": ((OLD, 1),)})
    first = tag_in_wave(document, before, 0)
    begun = new_state(document, NOW, {})
    states = begun, begun.at(MOVING, NOW), replace(begun, wave=1), replace(begun.at(MOVING, NOW), wave=1)
    for state in states:
        own = [before, prepare_tag(document, before), first] if state.wave else [before, prepare_tag(document, before)]
        for tag in own:
            assert step(document, state, observed(tag=tag, tag_before=before)).state.phase == RUNNING
        for tag in (PROD, replace(first, namespaces={"pay": ((NEW, 1),)})):
            found = step(document, state, observed(tag=tag, tag_before=before))
            assert (found.tag, found.state.phase) == (None, PAUSED)
            assert found.state.reason == "tag prod was changed by another writer"


def test_a_restart_is_stored_before_it_is_made_and_repeated_until_it_is_seen() -> None:
    first = step(ONE, restarting(), observed(seen("a")))
    assert (names(first), dict(first.state.restarting)) == (["a"], {"Deployment shop/a": NOW})

    again = step(ONE, first.state, observed(seen("a")))
    assert (names(again), again.state) == (["a"], first.state)
    rolling = step(ONE, first.state, observed(seen("a", mark=MARK, complete=False, new=1, old=1)))
    assert (names(rolling), rolling.state.restarting) == ([], first.state.restarting)
    done = step(ONE, first.state, observed(seen("a", mark=MARK, new=2, old=0)))
    assert (done.state.step, dict(done.state.restarting)) == (SOAKING, {})


@pytest.mark.parametrize(
    "each",
    [
        seen("a", new=2, old=0),
        seen("a", mark=MARK),
        seen("a", action="blocked"),
        seen("a", action="done", old=0),
        seen("a", wave=1),
    ],
    ids=["restarted by itself", "restarted in this wave", "blocked", "done", "another wave"],
)
def test_a_workload_that_is_not_due_is_not_restarted(each: ObservedWorkload) -> None:
    assert step(ONE, restarting(), observed(each)).state.step == SOAKING


def test_the_time_of_a_restart_that_no_runner_made_begins_again() -> None:
    late = NOW + ONE.timeout + 1
    found = step(ONE, restarting("a"), observed(seen("a"), now=late))

    assert (names(found), found.state.phase, dict(found.state.restarting)) == (
        ["a"],
        RUNNING,
        {"Deployment shop/a": late},
    )


def test_at_most_limits_workloads_are_restarted_at_once() -> None:
    document = upgrade(limits={"workloads": 2})
    found = step(document, restarting("c"), observed(*(seen(each) for each in "abcd")))

    assert names(found) == ["c", "a"]
    assert found.state.reason == "waiting for one of 2 restarts (limits.workloads)"


def test_a_step_decides_on_few_restarts_so_that_a_pause_has_an_effect_soon() -> None:
    document = upgrade(limits={"workloads": 99})
    found = step(document, restarting(), observed(*(seen(f"{each:02}") for each in range(30))))

    assert (len(found.restarts), len(found.state.restarting)) == (10, 10)


def test_the_pods_that_are_away_or_may_be_are_limited_in_all_and_in_each_namespace() -> None:
    document = upgrade(limits={"workloads": 9, "unavailablePods": 4, "unavailablePodsPerNamespace": 2})

    found = step(
        document, restarting(), observed(seen("a", disrupts=2), seen("b", disrupts=1), seen("c", "pay", disrupts=1))
    )
    assert names(found) == ["c", "a"]  # sorted by namespace; b would be the third pod of shop
    assert found.state.reason == "waiting for unavailable pods of namespace shop (limits.unavailablePodsPerNamespace)"
    broken = seen("x", "ops", unavailable=4, old=0, wave=7)
    held = step(document, restarting(), observed(broken, seen("a", disrupts=1)))
    assert (names(held), held.state.reason) == ([], "waiting for 4 unavailable pods (limits.unavailablePods)")


def test_workloads_whose_pods_are_not_available_already_are_restarted_last() -> None:
    broken = seen("a", unavailable=1, complete=False)
    found = step(upgrade(limits={"workloads": 1}), restarting(), observed(broken, seen("b")))

    assert names(found) == ["b"]


def test_a_budget_that_allows_nothing_is_waited_for_and_its_workloads_take_turns() -> None:
    budgets = frozenset({"shop/pdb"})

    waits = step(ONE, restarting(), observed(seen("a", budgets=budgets), exhausted=budgets))
    assert (names(waits), waits.state.reason) == ([], "waiting for PodDisruptionBudget shop/pdb")
    turns = step(ONE, restarting(), observed(seen("a", budgets=budgets), seen("b", budgets=budgets), seen("c")))
    assert names(turns) == ["a", "c"]


def test_nothing_is_restarted_outside_a_window_or_while_the_control_plane_is_down() -> None:
    window = {"windows": [{"notBefore": "2026-01-01T00:00:00Z"}]}

    outside = step(upgrade(**window), restarting(), observed(seen("a")))
    assert (names(outside), outside.state.reason) == ([], "waiting for a window")
    held = step(ONE, restarting(), observed(seen("a"), hold="istiod"))
    assert (names(held), held.state.reason) == ([], "waiting for istiod")
    before = step(upgrade(**window), new_state(ONE, NOW, {}), observed(seen("a"), tag=PROD, preflight=()))
    assert (before.state.step, before.tag, before.state.reason) == (PREFLIGHT, None, "waiting for a window")


@pytest.mark.parametrize(
    ("each", "fields", "reason"),
    [
        (seen("a", mark=MARK, complete=False, new=1, fault="crashes"), {}, "Deployment shop/a: crashes"),
        (
            seen("a", mark=MARK, complete=False, new=1, unavailable=1),
            {"now": NOW + 601},
            "not complete after 600 s: pods left: 2, not available: 1",
        ),
        (seen("a", mark=MARK, quiet=30.0), {}, "its new pods do not have revision 1-30"),
        (seen("a", mark=MARK, quiet=30.0, old=0, desired=2), {}, "its new pods do not have revision 1-30"),
        (seen("a"), {"refused": {"Deployment shop/a": "no"}}, "Deployment shop/a: the restart is refused: no"),
        (seen("a"), {"tag": PROD}, "tag prod was changed by another writer"),
        (seen("a"), {"now": NOW + 86401}, "the deadline has passed"),
    ],
)
@pytest.mark.parametrize("back", [False, True])
def test_a_failure_pauses_or_rolls_back_and_says_why(
    each: ObservedWorkload, fields: dict[str, Any], reason: str, back: bool
) -> None:
    document = upgrade(onFailure="Rollback") if back else ONE
    found = step(document, restarting("a"), observed(each, **fields))

    assert found.state.phase == (ROLLING_BACK if back else PAUSED)
    assert reason in found.state.reason
    assert found.restarts == ()
    if back:
        assert (found.state.token, dict(found.state.restarting)) == (max(float(fields.get("now", 0)), NOW + 1), {})


def test_a_complete_rollout_whose_pods_are_not_seen_yet_is_waited_for() -> None:
    found = step(ONE, restarting("a"), observed(seen("a", mark=MARK)))

    assert (found.state.phase, found.restarts) == (RUNNING, ())


@pytest.mark.parametrize(
    ("gates", "waited", "phase", "reason"),
    [
        ((), 0, RUNNING, "soaking"),
        ((), 60, COMPLETED, ""),
        (None, 60, RUNNING, ""),
        ((GateResult("x", "fail", "0.5 < 0.9"),), 0, PAUSED, "gate x: 0.5 < 0.9"),
        ((GateResult("x", "no data", "down"),), 0, RUNNING, "soaking"),
        ((GateResult("x", "no data", "down"),), 60, PAUSED, "gate x: no data: down"),
        ((GateResult("y", "no data", "down"),), 60, COMPLETED, ""),
        ((GateResult("x", "pass"),), 60, COMPLETED, ""),
    ],
)
def test_gates_decide_at_the_end_of_the_soak_time_and_no_data_is_not_a_pass(
    gates: tuple[GateResult, ...] | None, waited: float, phase: str, reason: str
) -> None:
    metrics = [{"name": "x", "query": "a", "min": 1}, {"name": "y", "query": "a", "min": 1, "noData": "Pass"}]
    document = upgrade(soak="1m", gates={"prometheus": "http://p", "metrics": metrics})
    soaking = restarting().at(SOAKING, NOW)

    assert wants_gates(soaking)
    found = step(document, soaking, observed(seen("a", new=2, old=0), gates=gates, now=NOW + waited)).state
    assert (found.phase, found.reason) == (phase, reason)


def test_new_pods_that_crash_while_soaking_fail_and_late_workloads_are_restarted() -> None:
    soaking = restarting().at(SOAKING, NOW)

    crash = step(ONE, soaking, observed(seen("a", new=2, old=0, fault="crashes"))).state
    assert (crash.phase, crash.reason) == (PAUSED, "Deployment shop/a: crashes")
    late = step(ONE, soaking, observed(seen("a"))).state
    assert (late.step, late.token) == (RESTARTING, soaking.token)


def test_a_wave_without_available_pods_does_not_end_and_fails_after_the_timeout() -> None:
    soaking = restarting().at(SOAKING, NOW)

    def after(seconds: float, away: float, **fields: Any) -> tuple[str, str]:
        each = seen("a", **{"new": 2, "old": 0, "unavailable": 1, "incomplete": away} | fields)
        found = step(ONE, soaking, observed(each, gates=(), now=NOW + seconds)).state
        return found.phase, found.reason

    assert after(60, 29.0) == (COMPLETED, "")
    assert after(60, 30.0) == (RUNNING, "waiting for the pods of Deployment shop/a")
    assert after(60, 30.0, new=0, mark=MARK) == (RUNNING, "waiting for the pods of Deployment shop/a")
    assert after(60, 30.0, new=0) == (COMPLETED, ""), "it has no pod of the new revision"
    assert after(900, 601) == (PAUSED, "Deployment shop/a: pods not available for 600 s: 1")


def test_a_workload_that_is_larger_than_the_limits_fails_after_the_others() -> None:
    large, other = seen("large", disrupts=11), seen("other", disrupts=1)

    first = step(ONE, restarting(), observed(large, other))
    assert names(first) == ["other"]
    assert step(ONE, first.state, observed(large, other)).state.phase == RUNNING
    done = replace(other, mark=MARK, new=2, old=0)
    last = step(ONE, first.state, observed(large, done)).state
    assert last.phase == PAUSED
    assert (
        "Deployment shop/large: a restart takes away 11 pods at once, and limits.unavailablePods is 10" in last.reason
    )
    back = restarting().rolling_back(NOW, "why")
    stays = step(ONE, back, observed(seen("large", new=11, old=0, disrupts=11), tag=PROD)).state
    assert (stays.phase, stays.reason) == (PAUSED, last.reason)


def test_after_a_wave_comes_the_next_one_with_a_later_mark() -> None:
    document = upgrade({"weight": 10}, {"weight": 100}, soak="0s")
    soaking = restarting().at(SOAKING, NOW)
    tag = tag_in_wave(document, PROD, 0)

    second = step(document, soaking, observed(gates=(), tag=tag)).state
    assert (second.wave, second.step, second.phase) == (1, PREFLIGHT, RUNNING)
    moving = second.at(MOVING, NOW)
    assert step(document, moving, observed(tag=tag_in_wave(document, PROD, 1))).state.token == soaking.token + 1


def test_a_rollback_moves_the_tag_and_then_restarts_the_last_wave_first() -> None:
    back = restarting().rolling_back(NOW, "why")

    assert step(ONE, back, observed(seen("a", new=2, old=0))).tag == PROD
    workloads = seen("a", new=2, old=0), seen("b", wave=1, new=1), seen("c", wave=1), seen("d", new=1)
    found = step(upgrade(limits={"workloads": 2}), back, observed(*workloads, tag=PROD))
    assert names(found) == ["b", "a"]
    assert step(ONE, back, observed(seen("c"), tag=PROD)).state.phase == ROLLED_BACK


def test_a_rollback_ignores_windows_and_pauses_if_it_fails() -> None:
    document = upgrade(windows=[{"notBefore": "2026-01-01T00:00:00Z"}], onFailure="Rollback")
    back = restarting().rolling_back(NOW, "why")

    found = step(document, back, observed(seen("a", new=2, old=0), tag=PROD, hold="istiod"))
    assert names(found) == ["a"]
    rolling = seen("a", new=2, old=0, mark=mark_of(document, found.state), complete=False)
    late = step(document, found.state, observed(rolling, tag=PROD, now=NOW + 700)).state
    assert (late.phase, late.back) == (PAUSED, True)
    assert apply_command(late, "resume", document, NOW).phase == ROLLING_BACK


def test_a_rollback_begins_with_broken_workloads_and_waits_for_none() -> None:
    document = upgrade(limits={"unavailablePods": 9, "unavailablePodsPerNamespace": 1})
    back = restarting().rolling_back(NOW, "why")
    stuck = seen("stuck", disrupts=1, new=1, old=1, unavailable=2, complete=False)
    other = seen("a", disrupts=1, new=2, old=0)

    first = step(document, back, observed(other, stuck, tag=PROD))
    assert (names(first), first.state.reason) == (
        ["stuck"], "waiting for unavailable pods of namespace shop (limits.unavailablePodsPerNamespace)",
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
    found = apply_command(state, verb, document, NOW)

    assert (found.phase, found.wave, bool(found.restarting)) == {
        "pause": (PAUSED, 0, True),
        "resume": (RUNNING, 0, True),
        "promote": (RUNNING, 1, False),
        "abort": (ABORTED, 0, False),
        "rollback": (ROLLING_BACK, 0, False),
    }[verb]
    assert (found.deadline > NOW) == (verb in ("resume", "promote", "rollback"))


def test_a_command_that_does_not_fit_the_state_is_refused() -> None:
    done = replace(restarting(), phase=COMPLETED)
    back = restarting().rolling_back(NOW, "")
    for state, verb, says in (
        (done, "pause", "has ended: it is Completed"),
        (back, "promote", "a rollback has no gates"),
        (back, "rollback", "goes back already"),
    ):
        with pytest.raises(UsageError, match=says):
            apply_command(state, verb, ONE, NOW)
    assert apply_command(done, "rollback", ONE, NOW).phase == ROLLING_BACK
    with pytest.raises(UsageError, match="without a tag cannot go back"):
        apply_command(done, "rollback", upgrade(tag=None), NOW)
    assert apply_command(restarting(), "promote", ONE, NOW).phase == COMPLETED


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
    state = restarting("a", reason="why")

    document = upgrade()
    assert read_state(state.to_dict(), document, where="x") == state
    last = len(document.waves) - 1
    assert read_state({"wave": last}, document, where="x").wave == last
    broken: tuple[Any, ...] = (
        None,
        {"phase": 1},
        {"colour": "blue"},
        {"restarting": []},
        {"restarting": {"Deployment shop/a": "now"}},
        {"gates": {"latency": 1}},
        {"tag_before": {"annotations": [1]}},
        {"phase": "running"},
        {"step": "Soak"},
        {"wave": True},
        {"wave": -1},
        {"wave": last + 1},
    )
    for raw in broken:
        with pytest.raises(ConfigError, match="cannot be read"):
            read_state(raw, document, where="x")


@dataclass
class Fleet:
    """A simulated cluster: what restarts do, and what the limits are about."""

    document: Upgrade
    sizes: list[tuple[str, int, int]]
    """Namespace, disrupted pods and duration of the rollout of each workload."""
    tag: Tag = PROD
    now: float = NOW
    state: State = field(default_factory=lambda: new_state(ONE, NOW, {}))
    version: int = 0
    workloads: list[ObservedWorkload] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    restarts: list[list[str]] = field(default_factory=list)
    history: list[tuple[list[ObservedWorkload], list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workloads = [
            seen(str(index), place, disrupts=away, wave=index % len(self.document.waves))
            for index, (place, away, _) in enumerate(self.sizes)
        ]
        self.versions, self.left = [0] * len(self.sizes), [0] * len(self.sizes)
        self.restarts = [[] for _ in self.sizes]
        self.history = [self.snapshot()]

    def snapshot(self) -> tuple[list[ObservedWorkload], list[int]]:
        return list(self.workloads), list(self.versions)

    def restart(self, index: int, mark: str, version: int) -> None:
        """A restart that the API server accepts only for the version that was observed."""
        if self.versions[index] != version or self.workloads[index].mark == mark:
            return
        each = self.workloads[index]
        self.restarts[index].append(mark)
        self.left[index] = self.sizes[index][2]
        self._set(index, replace(each, mark=mark, complete=False, unavailable=each.disrupts))
        self.check()

    def tick(self) -> None:
        self.now += 10
        for index, each in enumerate(self.workloads):
            if self.left[index]:
                self.left[index] -= 1
                if not self.left[index]:
                    moved = self.tag.revision == NEW
                    new, old = (2, 0) if moved else (0, 2)
                    self._set(index, replace(each, complete=True, unavailable=0, new=new, old=old))
        self.history = [*self.history, self.snapshot()][-4:]

    def _set(self, index: int, each: ObservedWorkload) -> None:
        self.workloads[index] = each
        self.versions[index] += 1

    def check(self) -> None:
        """The limits hold, and each workload is restarted once for each mark."""
        limits, rolling = self.document.limits, [each for each in self.workloads if not each.complete]
        assert len(rolling) <= limits.workloads
        assert sum(each.unavailable for each in rolling) <= limits.unavailable_pods
        for place in {each.key.namespace for each in rolling}:
            away = sum(each.unavailable for each in rolling if each.key.namespace == place)
            assert away <= limits.unavailable_pods_per_namespace
        assert all(len(set(marks)) == len(marks) for marks in self.restarts)

    def runner(self, lag: int) -> Generator[None, None, None]:
        """One runner, which can be ended at each yield. Its observations are up to three ticks old."""
        while True:
            state, version = self.state, self.version
            yield
            tag = self.tag
            workloads, versions = self.history[-1 - min(lag, len(self.history) - 1)] if lag else self.snapshot()
            yield
            ready: tuple[Any, ...] = ()
            found = Observation(self.now, workloads, tag, PROD, preflight=ready, gates=ready)
            decision = step(self.document, state, found)
            yield
            if self.version != version:
                continue
            if decision.state != state:
                self.state, self.version = decision.state, version + 1
            yield
            if decision.tag is not None and self.tag == tag:
                self.tag = decision.tag
            for each in decision.restarts:
                yield
                index = int(each.name)
                self.restart(index, mark_of(self.document, decision.state), versions[index])
            yield

    def finish(self) -> None:
        """Let a last runner complete the upgrade."""
        last = self.runner(0)
        for turn in range(20_000):
            next(last)
            if self.state.has_ended:
                return
            if turn % 10 == 0:
                self.tick()
        raise AssertionError(self.state)


FLEETS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=8)
LIMITS = st.fixed_dictionaries(
    {
        "workloads": st.integers(1, 4),
        "unavailablePods": st.integers(2, 5),
        "unavailablePodsPerNamespace": st.integers(2, 4),
    }
)
MOVES = st.lists(
    st.one_of(*[st.integers(0, 2)] * 6, st.sampled_from(["tick", "tick", "kill 0", "kill 1", "kill 2"])),
    min_size=150,
    max_size=300,
)


@settings(max_examples=150, deadline=None)
@given(
    sizes=FLEETS,
    limits=LIMITS,
    moves=MOVES,
    lags=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    back=st.booleans(),
)
def test_whatever_moment_runners_die_limits_hold_and_no_workload_is_restarted_twice(
    sizes: list[tuple[str, int, int]], limits: dict[str, int], moves: list[Any], lags: list[int], back: bool
) -> None:
    waves = {"name": "one", "importance": "low"}, {"name": "two"}
    document = upgrade(*waves, soak="20s", limits=limits, timeout="10h")  # some runners are slow
    fleet = Fleet(document, sizes)
    runners = [fleet.runner(lag) for lag in lags]
    for move in moves:
        if move == "tick":
            fleet.tick()
        elif isinstance(move, str):
            index = int(move[-1])
            runners[index] = fleet.runner(lags[index])
        else:
            next(runners[move])
    if back and not fleet.state.has_ended:
        fleet.state, fleet.version = apply_command(fleet.state, "rollback", document, fleet.now), fleet.version + 1
        for move in moves:
            if move == 0:
                next(runners[0])  # the others are late
            fleet.tick()
    fleet.finish()
    for late in runners:  # what they decided long ago must have no effect
        for _ in range(30):
            next(late)

    went_back = fleet.state.phase == ROLLED_BACK
    assert fleet.state.phase == (ROLLED_BACK if back and went_back else COMPLETED)
    assert fleet.tag.revision == (OLD if went_back else NEW)
    assert all((each.new, each.old) == ((0, 2) if went_back else (2, 0)) for each in fleet.workloads)
    if not back:
        assert [len(each) for each in fleet.restarts] == [1] * len(sizes)
    assert all(len(each) <= 2 for each in fleet.restarts)


def test_a_restart_that_arrives_after_a_rollback_has_no_effect() -> None:
    document = upgrade(soak="0s")
    fleet = Fleet(document, [("a", 1, 1)])
    late = fleet.runner(0)
    while not fleet.state.restarting:
        next(late)
    fleet.finish()
    fleet.state, fleet.version = apply_command(fleet.state, "rollback", document, fleet.now), fleet.version + 1
    fleet.finish()
    assert (fleet.state.phase, len(fleet.restarts[0])) == (ROLLED_BACK, 2)

    for _ in range(5):
        next(late)
    assert len(fleet.restarts[0]) == 2
