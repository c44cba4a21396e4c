"""What a runner remembers of objects, and the workloads as a step sees them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from injector.upgrade.observe import MARK, BudgetFacts, Observer, PodFacts, budget_facts, pod_facts, workload_facts
from injector.upgrade.plan import Key, make_plan
from tests.cases import cases
from tests.cli.clusters import owned
from tests.upgrade.fleets import NEW, OLD, PROD, fleet, upgrade, workload

KEY = Key("shop", "Deployment", "web")
PLAN = make_plan(upgrade(), PROD, fleet([workload("web"), workload("gone")], PROD))


def deployment(**status: Any) -> dict[str, Any]:
    full = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, **status}
    meta = {"name": "web", "namespace": "shop", "generation": 2, "resourceVersion": "7", "annotations": {MARK: "up/1"}}
    template = {"metadata": {"labels": {"app": "web"}}}
    return {"metadata": meta, "spec": {"replicas": 2, "template": template}, "status": full}


def pod(revision: str | None = NEW, **fields: Any) -> dict[str, Any]:
    status = {"sidecar.istio.io/status": json.dumps({"revision": revision})} if revision else {}
    meta = fields.pop("metadata", {})
    return {**owned("web", "shop", annotations=status, **meta), **fields}


def waiting(reason: str, restarts: int = 0) -> dict[str, Any]:
    return {"containerStatuses": [{"restartCount": restarts, "state": {"waiting": {"reason": reason}}}]}


@cases("kind", "spec", "status", "complete", "unavailable")
def test_a_rollout_is_complete_as_kubectl_says(
    kind: str, spec: dict[str, Any], status: dict[str, Any], complete: bool, unavailable: int
) -> None:
    meta = {"name": "web", "namespace": "shop", "generation": 2}
    facts = workload_facts({"metadata": meta, "spec": spec, "status": status}, kind)

    assert (facts.observed.complete, facts.observed.unavailable) == (complete, unavailable)


def test_a_workload_has_its_version_its_mark_and_the_labels_of_its_pods() -> None:
    facts = workload_facts(deployment(), "Deployment")

    assert (facts.observed.key, facts.version, facts.observed.mark, facts.pod_labels) == (
        KEY,
        "7",
        "up/1",
        {"app": "web"},
    )


def test_a_pod_has_the_revision_of_its_sidecar_and_its_restarts() -> None:
    assert pod_facts(pod(status=waiting("PodInitializing", 2))) == PodFacts(KEY, NEW, 2, "")
    assert pod_facts(pod(status=waiting("CrashLoopBackOff"))) == PodFacts(KEY, NEW, 0, "CrashLoopBackOff")
    assert pod_facts(pod("x" * 10_000)) == PodFacts(KEY, "x" * 100, 0, "")


def test_pods_without_a_sidecar_or_that_end_are_left_out() -> None:
    assert pod_facts(pod(None)) is None
    assert pod_facts(pod(status={"phase": "Succeeded"})) is None
    assert pod_facts(pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})) is None


def test_a_step_sees_the_workloads_of_the_plan_with_their_pods_and_budgets() -> None:
    observer = Observer(NEW, max_restarts=3)
    facts = workload_facts(deployment(), "Deployment")
    other = workload_facts({"metadata": {"name": "other", "namespace": "shop"}}, "Deployment")
    budget = {"metadata": {"name": "b", "namespace": "shop"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    elsewhere = {**budget, "metadata": {"name": "b", "namespace": "pay"}}
    pods = [PodFacts(KEY, OLD, 9, "old pods may crash"), PodFacts(KEY, NEW, 3, ""), PodFacts(KEY, NEW, 0, "")]

    budgets = [
        budget_or_none for budget_or_none in map(budget_facts, (budget, elsewhere)) if budget_or_none is not None
    ]
    (observed,), exhausted = observer.observe(PLAN, [facts, other], pods, budgets, (), 5.0)

    assert (observed.key, observed.action, observed.wave, observed.mark, observed.new, observed.old) == (
        KEY,
        "restart",
        0,
        "up/1",
        2,
        1,
    )
    assert (observed.fault, set(observed.budgets), set(exhausted)) == ("", {"shop/b"}, {"shop/b", "pay/b"})


def test_new_pods_that_crash_restart_or_exceed_their_deadline_are_a_fault() -> None:
    exceeded = {"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}
    late = {**exceeded, "observedGeneration": 1}
    for facts_of_pod, status, fault, rollout_fault in (
        (PodFacts(KEY, NEW, 0, "InvalidImageName"), {}, "a new pod does not start: InvalidImageName", ""),
        (PodFacts(KEY, NEW, 4, ""), {}, "a new pod restarted 4 times", ""),
        (PodFacts(KEY, NEW, 3, "CrashLoopBackOff"), {}, "", ""),
        (PodFacts(KEY, NEW, 4, "CrashLoopBackOff"), {}, "a new pod does not start: CrashLoopBackOff", ""),
        (PodFacts(KEY, NEW, 0, ""), exceeded, "", "its progress deadline is exceeded"),
        (PodFacts(KEY, NEW, 0, ""), late, "", ""),
    ):
        facts = workload_facts(deployment(**status), "Deployment")
        (observed,), _ = Observer(NEW, 3).observe(PLAN, [facts], [facts_of_pod], [], (), 0.0)
        assert (observed.fault, observed.rollout_fault) == (fault, rollout_fault)


def test_an_image_that_cannot_be_pulled_is_a_cause_at_once_and_a_fault_if_it_lasts() -> None:
    observer, facts = Observer(NEW, 3), workload_facts(deployment(), "Deployment")

    def view(now: float, *pods: PodFacts) -> tuple[str, str]:
        (observed,), _ = observer.observe(PLAN, [facts], pods, list[BudgetFacts](), (), now)
        return observed.fault, observed.starting

    fails, waits = PodFacts(KEY, NEW, 0, "ErrImagePull", uid="a"), PodFacts(KEY, NEW, 0, "ImagePullBackOff", uid="a")
    other = PodFacts(KEY, NEW, 0, "ErrImagePull", uid="b")
    why = "a new pod does not start: "
    assert view(0, fails) == ("", f"{why}ErrImagePull")
    assert view(59, waits) == ("", f"{why}ImagePullBackOff")
    assert view(60, waits, other) == (f"{why}ImagePullBackOff", f"{why}ErrImagePull")
    assert view(61, other) == ("", f"{why}ErrImagePull"), "another pod has its own time"
    assert view(62, PodFacts(KEY, NEW, 0, "", uid="a"), other) == ("", f"{why}ErrImagePull")
    assert view(63, fails) == ("", f"{why}ErrImagePull"), "it was pulled in the meantime"
    assert view(64, PodFacts(KEY, NEW, 1, "CrashLoopBackOff", uid="a")) == ("", f"{why}CrashLoopBackOff")
    assert view(65, PodFacts(KEY, OLD, 0, "ErrImagePull", uid="a")) == ("", "")


def test_a_workload_is_quiet_since_it_or_its_pods_changed_last() -> None:
    observer, facts = Observer(NEW, 3), workload_facts(deployment(), "Deployment")

    def quiet(now: float, *pods: PodFacts) -> float:
        (observed,), _ = observer.observe(PLAN, [facts], pods, list[BudgetFacts](), (), now)
        return observed.quiet

    assert [quiet(10.0), quiet(25.0), quiet(30.0, PodFacts(KEY, NEW, 0, "")), quiet(31.0)] == [0, 15, 0, 0]


def test_a_budget_without_a_valid_selector_has_no_pods() -> None:
    meta = {"name": "b", "namespace": "shop"}
    invalid = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["not a label"]}]}

    assert budget_facts({"metadata": meta, "spec": {}}) is None
    assert budget_facts({"metadata": meta, "spec": {"selector": invalid}}) is None
    everything = budget_facts({"metadata": meta, "spec": {"selector": {}}})
    assert everything is not None
    assert everything.selector.matches({"app": "web"})


def test_a_workload_is_incomplete_since_its_pods_were_all_available() -> None:
    observer = Observer(NEW, 3)

    def incomplete(now: float, available: int, *pods: PodFacts) -> float:
        facts = workload_facts(deployment(availableReplicas=available), "Deployment")
        (observed,), _ = observer.observe(PLAN, [facts], pods, [], (), now)
        assert observed.desired == 2
        return observed.incomplete

    new = PodFacts(KEY, NEW, 0, "")
    assert [incomplete(1.0, 2), incomplete(5.0, 1), incomplete(9.0, 0, new), incomplete(10.0, 2)] == [0, 4, 8, 0]


def test_the_cause_of_unavailable_pods_is_that_of_the_conditions() -> None:
    unscheduled = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes: no cpu"}]}
    quota = {
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": 'pods "x" is forbidden: exceeded quota'}]
    }
    gate = {"type": "Ready", "status": "False", "message": 'the status of pod readiness gate "lb" is not "True"'}
    starts = {"type": "Initialized", "status": "False", "message": "containers with incomplete status: [istio-init]"}
    scheduled = {"type": "PodScheduled", "status": "True"}

    def known(*conditions: dict[str, str], **more: Any) -> PodFacts:
        facts = pod_facts(pod(status={"conditions": list(conditions), **more}))
        assert facts is not None
        return facts

    waits = known(*unscheduled["conditions"])
    for pods, status, trouble in (
        ([waits], {}, "0/3 nodes: no cpu"),
        ([known(gate, scheduled)], {}, 'the status of pod readiness gate "lb" is not "True"'),
        ([known(gate, scheduled, starts)], {}, "containers with incomplete status: [istio-init]"),
        ([known(gate, **waiting("ErrImagePull"))], {}, "ErrImagePull"),
        ([waits], quota, 'pods "x" is forbidden: exceeded quota'),
        ([PodFacts(KEY, NEW, 0, "ErrImagePull")], {}, "ErrImagePull"),
        ([PodFacts(KEY, NEW, 0, "")], {}, ""),
    ):
        facts = workload_facts(deployment(**status), "Deployment")
        (view,), _ = Observer(NEW, 3).observe(PLAN, [facts], pods, [], (), 0.0)
        assert view.trouble == trouble


def test_pods_that_a_stateful_set_does_not_replace_are_named() -> None:
    plan = make_plan(upgrade(), PROD, fleet([workload("db")], PROD))
    key = Key("shop", "StatefulSet", "db")
    (entry,) = plan.entries
    created = replace(entry.workload.created, kind="StatefulSet")
    plan = replace(plan, entries=(replace(entry, workload=replace(entry.workload, created=created)),))

    def db(number: int, template: str, ready: str, kind: str = "StatefulSet") -> dict[str, Any]:
        status = {"conditions": [{"type": "Ready", "status": ready, "reason": "ContainersNotReady"}]}
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "db", "uid": "u", "controller": True}
        labels = {"controller-revision-hash": template}
        meta = {"name": f"db-{number}", "namespace": "shop", "labels": labels, "ownerReferences": [owner]}
        item = pod(status=status)
        return {**item, "metadata": {**item["metadata"], **meta}}

    pods = [db(0, "new", "True"), db(1, "old", "False"), db(2, "new", "False"), db(3, "old", "False")]
    facts = [converted for converted in map(pod_facts, pods) if converted is not None]
    for policy, broken, stuck in (
        (None, ("db-1", "db-2", "db-3"), ("db-1", "db-3")),
        ("OrderedReady", ("db-1", "db-2", "db-3"), ("db-1", "db-3")),
        ("Parallel", (), ()),
    ):
        item = {
            "metadata": {"name": "db", "namespace": "shop"},
            "spec": {"replicas": 4, "podManagementPolicy": policy},
            "status": {"updateRevision": "new"},
        }
        known = workload_facts(item, "StatefulSet")
        (view,), _ = Observer(NEW, 3).observe(plan, [known], facts, [], (), 0.0)
        assert (view.key, view.broken, view.stuck) == (key, broken, stuck)
