"""The work that is left at the end of an upgrade or a rollback."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from injector.upgrade.plan import Restart, Workload, make_plan
from injector.upgrade.remaining import work_left
from tests.upgrade.fleets import NEW, OLD, PROD, fleet, upgrade, workload


def work(*workloads: Workload, back: bool = False) -> list[tuple[str, str, str]]:
    survey = fleet(workloads)
    plan = make_plan(upgrade(), PROD, survey, (), back=back)
    return [(item.workload, item.reason, item.remedy) for item in work_left(plan, survey.workloads, ("shop",))]


def test_nothing_is_left_if_all_pods_have_the_new_revision() -> None:
    assert work(workload("web", has=NEW), workload("idle", pods=Counter())) == []
    assert work(workload("web", has=OLD), back=True) == []


DELETE = "if it does not become ready, repair the cause and run `kubectl delete pod"
PAUSED = Restart("its rollout is paused: resume it")


@pytest.mark.parametrize(
    ("fields", "reason", "remedy"),
    [
        ({}, "pods with revision 1-28: 2: it was not restarted", "`injector upgrade resume up` restarts it"),
        ({"restart": PAUSED}, "pods with revision 1-28: 2: its rollout is paused", "resume it"),
        (
            {"unready": ("db-1", "db-2")},
            "pods with revision 1-28: 2: its rollout waits for db-1, db-2 to be ready",
            f"{DELETE} db-1 db-2 -n shop`; then `injector upgrade resume up` restarts it",
        ),
        (
            {"pods": Counter({"1-27": 2, NEW: 1})},
            "pods with revision 1-27: 2: it was not restarted",
            "`injector upgrade resume up` restarts it",
        ),
        ({"has": None}, "pods without a sidecar: 2", "`kubectl rollout restart deployment/web -n shop`"),
        ({"has": None, "restart": PAUSED}, "pods without a sidecar: 2", "resume it"),
        (
            {"pods": Counter({NEW: 1, None: 1})},
            "pods without a sidecar: 1",
            "`kubectl rollout restart deployment/web -n shop`",
        ),
        (
            {"requested": OLD},
            "pods with revision 1-28: 2: its namespace leads to 1-28 instead of prod",
            "`kubectl label namespace shop istio-injection- istio.io/rev=prod --overwrite`, and then `injector upgrade resume up`",
        ),
        (
            {"requested": None},
            "pods with revision 1-28: 2: its namespace asks for no sidecar instead of prod",
            "`kubectl label namespace shop istio-injection- istio.io/rev=prod --overwrite`, and then `injector upgrade resume up`",
        ),
    ],
)
def test_each_workload_that_is_left_has_a_reason_and_a_remedy(fields: dict[str, Any], reason: str, remedy: str) -> None:
    assert work(workload("web", **fields)) == [("Deployment shop/web", reason, remedy)]


def test_what_a_rollback_leaves_has_the_new_revision() -> None:
    vanished = workload("gone", has=NEW, requested=OLD)
    remaining = work(workload("web", has=NEW), workload("held", has=NEW, restart=PAUSED), vanished, back=True)

    assert [(name, reason.partition(":")[0]) for name, reason, _ in remaining] == [
        ("Deployment shop/gone", "pods with revision 1-30"),
        ("Deployment shop/held", "pods with revision 1-30"),
        ("Deployment shop/web", "pods with revision 1-30"),
    ]


def test_a_workload_that_is_pinned_or_has_its_own_label_or_namespace_is_not_left() -> None:
    own = workload("own", requested=OLD, has_own_label=True)
    other = workload("other", "elsewhere", requested=OLD)

    assert work(own, other) == []


def test_a_pod_that_asks_for_no_sidecar_is_not_left() -> None:
    skipped = workload("plain", has=None)
    skipped.created.pod["metadata"].setdefault("annotations", {})["sidecar.istio.io/inject"] = "false"

    assert work(skipped) == []


def test_a_skipped_workload_is_left_if_it_has_old_pods_or_does_not_work() -> None:
    broken = Restart("", 1, {}, "pods that are not available already: 1 of 2")
    stuck = workload("stuck", unready=("stuck-0",))
    workloads = workload("old"), workload("good", has=NEW), workload("broken", has=NEW, restart=broken), stuck
    plan = make_plan(upgrade(), PROD, fleet(workloads)).without([str(item.key) for item in workloads])

    items = work_left(plan, workloads, ())
    assert [(item.workload, item.reason) for item in items] == [
        ("Deployment shop/broken", "pods that are not available already: 1 of 2: skipped by a user"),
        ("Deployment shop/old", "pods with revision 1-28: 2: skipped by a user"),
        ("Deployment shop/stuck", "pods with revision 1-28: 2: skipped by a user"),
    ]
    assert "run `kubectl delete pod stuck-0 -n shop`; then `injector upgrade retry up" in items[-1].remedy
