"""The last wave of an upgrade: the workloads with the template ``gateway``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from injector.errors import DataError
from injector.injection.pipeline import inject_pod, template_names
from injector.injection.result import Injected, RequestFacts
from injector.istio.revision import Revision
from injector.revisions.tags import Tag
from injector.upgrade.commands import apply_command
from injector.upgrade.document import INJECTED_GATEWAYS, Upgrade
from injector.upgrade.observation import ObservedWorkload
from injector.upgrade.plan import Entry, Plan, Restart, Workload, make_plan, restart_of, tag_in_wave
from injector.upgrade.state import (
    CHECKING,
    COMPLETED,
    INCOMPLETE,
    MOVING,
    PREFLIGHT,
    RESTARTING,
    RUNNING,
    SOAKING,
    PlannedRestart,
    State,
    new_state,
    waves_of,
)
from injector.upgrade.step import mark_of, step
from tests.factories import make_pod
from tests.revisions.fakes import WITH_GATEWAY, revision_of
from tests.upgrade.fleets import NEW, OLD, PROD, fleet, upgrade, workload
from tests.upgrade.test_step import NOW, names, observation, observed, restarting

GATEWAY: dict[str, Any] = {"templates": "gateway"}
SURGE = "set maxSurge to 1 and maxUnavailable to 0"
REPLICAS = "give it more replicas than its maxUnavailable, which is at least 1"
EDGE = {"istio": "ingressgateway"}
OF_GATEWAYS = {name: revision_of(minor, WITH_GATEWAY, name=name) for name, minor in ((OLD, 28), (NEW, 30))}


def plan_of(document: Upgrade, *workloads: Workload, tag: Tag | None = PROD, **fields: Any) -> Plan:
    known: dict[str, Any] = {"source": OF_GATEWAYS[OLD], "target": OF_GATEWAYS[document.target]}
    return make_plan(document, tag, fleet(workloads, tag, **known | fields))


def planned(document: Upgrade, *workloads: Workload, **fields: Any) -> dict[str, Entry]:
    return {entry.key.name: entry for entry in plan_of(document, *workloads, **fields).entries}


def wave_of(document: Upgrade, entry: Entry) -> str | None:
    return None if entry.wave is None else document.waves[entry.wave].name


@pytest.mark.parametrize(
    ("waves", "labels", "wave"),
    [
        ([], {}, INJECTED_GATEWAYS),
        ([{"weight": 10}, {"weight": 100}], EDGE, INJECTED_GATEWAYS),
        ([{"name": "edge", "namespaces": ["edge"]}, {"name": "rest"}], EDGE, INJECTED_GATEWAYS),
        ([{"name": "low", "importance": "low"}, {"name": "rest"}], EDGE, INJECTED_GATEWAYS),
        (
            [{"name": "low", "importance": "low"}, {"name": "rest"}],
            {"revision-injector.dev/importance": "low"},
            "low",
        ),
        ([{"name": "own", "selector": {"matchLabels": EDGE}}, {"name": "rest"}], EDGE, "own"),
        ([{"name": "own", "selector": {"matchLabels": EDGE}}, {"name": "rest"}], {}, INJECTED_GATEWAYS),
        (
            [
                {
                    "name": "a",
                    "selector": {"matchExpressions": [{"key": "istio", "operator": "NotIn", "values": ["egress"]}]},
                },
                {"name": "rest"},
            ],
            EDGE,
            INJECTED_GATEWAYS,
        ),
        ([{"name": "web", "selector": {"matchLabels": {"tier": "web"}}}], EDGE, None),
        ([{"name": "test", "namespaces": ["test"]}], EDGE, None),
    ],
)
def test_a_gateway_is_in_the_last_wave_unless_a_wave_requires_its_label(
    waves: list[dict[str, Any]], labels: dict[str, str], wave: str | None
) -> None:
    document = upgrade(*waves)
    entries = planned(document, workload("public", "edge", labels=labels, **GATEWAY), workload("web", labels=labels))

    assert wave_of(document, entries["public"]) == wave
    assert entries["public"].action == ("restart" if wave else "stays")
    assert wave_of(document, entries["web"]) != INJECTED_GATEWAYS


def test_gateways_can_be_in_the_waves_as_other_workloads() -> None:
    document = upgrade({"namespaces": ["edge"]}, {"name": "rest"}, injectedGateways={"last": False})

    assert planned(document, workload("public", "edge", **GATEWAY))["public"].wave == 0


@pytest.mark.parametrize("spec", [{"tag": None}, {"tag": None, "to": OLD}])
def test_gateways_are_last_without_a_tag_too(spec: dict[str, Any]) -> None:
    document = upgrade(**spec)
    requested = document.target
    entries = planned(document, workload("public", requested=requested, has="1-26", **GATEWAY), tag=None)

    assert (entries["public"].action, entries["public"].wave) == ("restart", 1)


@pytest.mark.parametrize(
    ("templates", "more", "is_gateway"),
    [
        ("gateway", "", True),
        ("sidecar,gateway", "", True),
        (" custom , gateway ", "", True),
        ("sidecar", "", False),
        ("gateways", "", False),
        ("custom", "", False),
        (None, "", False),
        ("", "", False),
        ("edge", "aliases: {edge: [gateway, custom]}", True),
        ("gateway", "aliases: {gateway: [sidecar]}", False),
        (",".join(["gateway"] * 33), "", False),
    ],
)
def test_a_gateway_is_a_workload_whose_pods_get_the_template_of_this_name(
    templates: str | None, more: str, is_gateway: bool
) -> None:
    target = revision_of(30, f"{WITH_GATEWAY}{more}\n", name=NEW)
    entries = planned(upgrade(), workload("public", templates=templates), target=target)

    assert entries["public"].wave == int(is_gateway)
    check_names(target, templates)


def check_names(revision: Revision, templates: str | None) -> None:
    """Check that a pod is injected with the templates that the plan takes it to have, if it is not refused."""
    pod = make_pod(annotations={} if templates is None else {"inject.istio.io/templates": templates})
    try:
        answer = inject_pod(revision, pod, RequestFacts("shop"))
    except DataError:
        return
    assert isinstance(answer, Injected)
    assert answer.templates == template_names(revision, pod)


def test_the_templates_are_those_of_the_new_revision_or_of_the_old_one_without_it() -> None:
    source = revision_of(28, f"{WITH_GATEWAY}aliases: {{edge: [gateway]}}\n", name=OLD)
    target = revision_of(30, WITH_GATEWAY, name=NEW)
    gateway = workload("public", templates="edge", has=NEW)
    waves = [
        make_plan(upgrade(), PROD, fleet([gateway], source=source, target=known), back=True).entries[0].wave
        for known in (target, None)
    ]

    assert waves == [0, 1]


def test_injection_of_old_istio_has_no_template_for_gateways() -> None:
    old = revision_of(5, "policy: enabled\ntemplate: |\n  containers: []\n", name=OLD)

    assert template_names(old, make_pod(annotations={"inject.istio.io/templates": "gateway"})) == ("sidecar",)


def test_the_tag_stays_as_the_last_wave_of_the_document_has_it() -> None:
    for waves in ([{"weight": 10}, {"weight": 50}], [{"namespaces": ["a"]}, {"namespaces": ["b"]}], [{"name": "all"}]):
        document = upgrade(*waves)
        last = document.injected_gateway_wave
        assert tag_in_wave(document, PROD, last, ()) == tag_in_wave(document, PROD, last - 1, ())


def test_the_last_wave_has_limits_and_a_time_of_its_own_in_the_plan() -> None:
    document = upgrade(limits={"unavailablePodsPerNamespace": 9}, soak="1m")
    gateways = [workload(f"g{number}", "edge", **GATEWAY) for number in range(3)]
    entries = planned(
        upgrade(injectedGateways={"limits": {"unavailablePods": 2}}),
        workload("large", **GATEWAY, restart=Restart("", 3)),
        workload("web", restart=Restart("", 3)),
    )

    assert plan_of(document, workload("web")).expected_seconds == 60 + 60
    assert plan_of(document, *gateways).expected_seconds == 60 + 60 + 3 * 60
    own = replace(document, waves=upgrade(soak="1m", injectedGateways={"soak": "0s"}).waves)
    assert plan_of(own, *gateways).expected_seconds == 60 + 3 * 60
    assert (entries["large"].action, entries["web"].action) == ("blocked", "restart")
    assert "at once, and injectedGateways.limits.unavailablePods is 2: raise it" in entries["large"].note


@pytest.mark.parametrize(
    ("kind", "spec", "status", "remedy"),
    [
        ("Deployment", {"replicas": 1}, {}, ""),
        ("Deployment", {"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, {}, SURGE),
        ("Deployment", {"replicas": 2, "strategy": {"rollingUpdate": {"maxUnavailable": "100%"}}}, {}, SURGE),
        ("Deployment", {"strategy": {"type": "Recreate"}}, {}, "use the strategy RollingUpdate"),
        ("Deployment", {"replicas": 2, "strategy": {"rollingUpdate": {"maxUnavailable": 1}}}, {}, ""),
        ("Deployment", {"replicas": 0}, {}, ""),
        ("StatefulSet", {"replicas": 1}, {}, REPLICAS),
        ("Rollout", {"replicas": 1}, {}, REPLICAS),
        ("DaemonSet", {}, {"desiredNumberScheduled": 1, "numberAvailable": 1}, SURGE),
        ("DaemonSet", {}, {"desiredNumberScheduled": 3, "numberAvailable": 3}, ""),
        (
            "DaemonSet",
            {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
            {"desiredNumberScheduled": 1, "numberAvailable": 1},
            "",
        ),
    ],
)
@pytest.mark.parametrize("last", [True, False])
def test_the_plan_warns_of_a_restart_that_takes_away_all_pods_of_a_gateway(
    kind: str, spec: dict[str, Any], status: dict[str, Any], remedy: str, last: bool
) -> None:
    """Whatever its wave is. The remedy is one that this kind and strategy have."""
    restart = restart_of({"kind": kind, "metadata": {"name": "a"}, "spec": spec, "status": status})
    document = upgrade(injectedGateways={"last": last})
    entries = planned(document, workload("public", restart=restart, **GATEWAY), workload("web", restart=restart))

    delay = f"a restart takes away all pods of this gateway at once: {remedy}"
    assert (entries["public"].delays, entries["web"].delays) == ((delay,) if remedy else (), ())


# The steps


def gateway(name: str, place: str = "edge", **fields: Any) -> ObservedWorkload:
    return observation(name, place, **{"wave": 1, **fields})


def in_last_wave(document: Upgrade, step_name: str = RESTARTING) -> State:
    """The state of an upgrade in its last wave."""
    begun = new_state(document, NOW, {}).at(step_name, NOW, token=NOW, wave=1)
    return replace(begun, injected_gateways=True)


def test_gateways_are_restarted_one_at_a_time_in_their_order() -> None:
    document = upgrade(injectedGateways={"order": ["test", "edge/b"]})
    views = [gateway("a"), gateway("b"), gateway("c", "test"), gateway("d", "test", unavailable=1)]
    state, order = in_last_wave(document), []
    for _ in views:
        decision = step(document, state, observed(*views))
        assert decision.state.reason in ("", "waiting for one of 1 restarts (injectedGateways.limits.workloads)")
        (key,) = decision.restarts
        order.append(key.name)
        mark = mark_of(document, decision.state)
        views = [replace(view, mark=mark, old=0, new=2) if view.key == key else view for view in views]
        state = decision.state

    assert order == ["c", "b", "a", "d"]
    assert step(document, state, observed(*views)).state.step == SOAKING


def test_more_gateways_at_a_time_stay_within_their_own_limits_of_pods() -> None:
    limits = {"workloads": 9, "unavailablePods": 3, "unavailablePodsPerNamespace": 2}
    document = upgrade(injectedGateways={"limits": limits}, limits={"workloads": 1})
    views = [gateway(name, place, disrupts=1) for place in ("edge", "test") for name in "abc"]
    decision = step(document, in_last_wave(document), observed(*views))

    assert [key.path for key in decision.restarts] == [
        "edge/Deployment/a", "edge/Deployment/b", "test/Deployment/a",
    ]  # fmt: skip
    assert "(injectedGateways.limits.unavailablePods" in decision.state.reason


def test_a_restart_under_way_that_has_left_the_tag_counts_for_all_limits() -> None:
    document = upgrade(limits={"workloads": 1})
    state = replace(in_last_wave(document), restarting={"Deployment edge/a": PlannedRestart(NOW, NOW)})
    moved = gateway("a", wave=-1, action="stays", complete=False)

    for view, limit in ((gateway("b"), "workloads before"), (observation("c"), "one of 1 restarts (limits.")):
        decision = step(document, replace(state, rest=True), observed(moved, view))
        assert (decision.restarts, limit in decision.state.reason) == ((), True)


def test_gateways_are_last_among_the_workloads_that_are_tried_again() -> None:
    document = upgrade()
    state = replace(in_last_wave(document), rest=True)
    both = observation("z"), gateway("a")
    first = step(document, state, observed(*both))
    assert (names(first), first.state.reason) == (["z"], "waiting for the workloads before the injected gateways")

    mark = mark_of(document, first.state)
    rolling = replace(both[0], mark=mark, complete=False, old=1, new=1)
    second = step(document, first.state, observed(rolling, both[1]))
    assert names(second) == []
    ready = replace(both[0], mark=mark, old=0, new=2)
    assert names(step(document, second.state, observed(ready, both[1]))) == ["a"]


def test_the_reason_names_what_the_workloads_before_the_gateways_wait_for() -> None:
    document = upgrade()
    views = gateway("a"), observation("z", budgets=frozenset({"shop/z"}))
    state = replace(in_last_wave(document), rest=True)
    decision = step(document, state, observed(*views, exhausted=frozenset({"shop/z"})))

    assert (decision.restarts, decision.state.reason) == ((), "waiting for PodDisruptionBudget shop/z")


def test_a_rollback_restarts_gateways_first_and_one_at_a_time() -> None:
    document = upgrade(limits={"workloads": 2})
    back = in_last_wave(document).rolling_back(document, NOW, "PodsFailed", "why")
    back = step(document, back, observed(tag=PROD)).state
    views = [gateway(name, new=2, old=0) for name in "ab"] + [observation(name, new=2, old=0) for name in "wxyz"]
    decision = step(document, back, observed(*views, tag=PROD))

    assert names(decision) == ["a", "w", "x"]
    budget = frozenset({"edge/all"})
    shared = [replace(view, budgets=budget) for view in views]
    assert names(step(document, back, observed(*shared, tag=PROD))) == ["a"], "they share a PodDisruptionBudget"


def test_an_upgrade_without_gateways_has_no_wave_for_them() -> None:
    document = upgrade(soak="1m", injectedGateways={"approval": True})
    soaking, late = restarting().at(SOAKING, NOW), NOW + 60
    states = [
        step(document, soaking, observed(*views, now=late, gates=())).state
        for views in ([observation("a", old=0, new=2)], [observation("a", old=0, new=2), gateway("b")])
    ]

    assert [(state.step, state.wave, len(waves_of(document, state))) for state in states] == [
        (CHECKING, 0, 1), (PREFLIGHT, 1, 2),
    ]  # fmt: skip
    waits = step(document, states[1], observed(gateway("b"), now=late))
    assert (waits.state.waits_for_approval, "wave injected-gateways waits" in waits.state.reason) == (True, True)
    approved = apply_command(waits.state, "promote", document, late)
    assert step(document, approved, observed(gateway("b"), now=late, preflight=())).state.step == MOVING


def test_the_last_wave_soaks_for_its_own_time() -> None:
    document = upgrade(soak="1h", injectedGateways={"soak": "20s"})
    view = gateway("a", old=0, new=2)
    soaking = in_last_wave(document, SOAKING)

    assert step(document, soaking, observed(view, now=NOW + 19, gates=())).state.step == SOAKING
    assert step(document, soaking, observed(view, now=NOW + 20, gates=())).state.step == CHECKING


def test_a_gateway_that_appears_late_has_its_wave_when_the_upgrade_is_resumed() -> None:
    document = upgrade(soak="1m", injectedGateways={"approval": True})
    checking = restarting().at(CHECKING, NOW)
    resumed_state = step(document, checking, observed(observation("a", old=0, new=2), gateway("late"))).state
    assert (resumed_state.phase, resumed_state.wave, resumed_state.injected_gateways) == (RUNNING, 0, True)

    resumed = apply_command(replace(resumed_state, phase=INCOMPLETE), "resume", document, NOW)
    assert (resumed.step, resumed.wave) == (MOVING, 0)
    state = resumed
    for now, step_name in ((NOW, RESTARTING), (NOW, SOAKING), (NOW + 60, PREFLIGHT)):
        state = step(document, state, observed(gateway("late"), now=now, gates=())).state
        assert (state.step, names(step(document, state, observed(gateway("late"))))) == (step_name, [])
    waiting = step(document, state, observed(gateway("late"), now=NOW + 60)).state
    assert (waiting.wave, waiting.waits_for_approval) == (1, True)
    approved = apply_command(waiting, "promote", document, NOW)
    moving = step(document, approved, observed(gateway("late"), preflight=())).state
    begun = step(document, moving, observed(gateway("late"))).state
    assert names(step(document, begun, observed(gateway("late")))) == ["late"]


def test_an_incomplete_rollback_goes_on_without_the_wave_of_late_gateways() -> None:
    document = upgrade(injectedGateways={"approval": True})
    back = replace(restarting(), injected_gateways=True).rolling_back(document, NOW, "PodsFailed", "why")

    resumed = apply_command(replace(back, phase=INCOMPLETE, step=CHECKING), "resume", document, NOW)
    decision = step(document, resumed, observed(gateway("late", new=2, old=0), tag=PROD))
    assert (resumed.step, decision.state.step) == (MOVING, RESTARTING)
    assert names(step(document, decision.state, observed(gateway("late", new=2, old=0), tag=PROD))) == ["late"]


def test_gateways_that_are_gone_hold_up_nothing() -> None:
    document = upgrade(soak="0s")
    state = step(document, in_last_wave(document), observed(observation("a", old=0, new=2))).state
    assert (state.step, state.injected_gateways, len(waves_of(document, state))) == (SOAKING, False, 2)

    checking = step(document, state, observed(observation("a", old=0, new=2), gates=())).state
    assert step(document, checking, observed(observation("a", old=0, new=2), remaining=())).state.phase == COMPLETED
