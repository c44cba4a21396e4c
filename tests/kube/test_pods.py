"""Pods of workloads: names, owners, templates and kinds."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ManifestError
from injector.istio.behaviours import Minor
from injector.kube.pods import (
    Created,
    OwnerRules,
    WorkloadMeta,
    controller_of,
    created_pods,
    pod_template_path,
    template_at,
    workload_of,
)
from tests.cases import cases
from tests.factories import make_container, make_pod

RULES = {
    (1, 2): OwnerRules(controllers=False),
    (1, 3): OwnerRules(hash_required=False, job_digits=None, deployment_configs=False, rollouts=False),
    (1, 6): OwnerRules(
        hash_required=False,
        job_digits=(10, 10),
        cron_job_version="batch/v1beta1",
        deployment_configs=False,
        rollouts=False,
    ),
    (1, 9): OwnerRules(job_digits=(10, 10), cron_job_version="batch/v1beta1", deployment_configs=False, rollouts=False),
    (1, 21): OwnerRules(cron_job_version="batch/v1beta1", rollouts=False),
    (1, 30): OwnerRules(),
}


def owned(kind: str, name: str, version: str = "apps/v1", labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod with a generated name and a controller."""
    return {
        "metadata": {
            "name": "pod-1",
            "generateName": "pod-",
            "namespace": "shop",
            "labels": labels or {},
            "ownerReferences": [
                {"kind": "Other", "name": "other", "apiVersion": "v1"},
                {"kind": kind, "name": name, "apiVersion": version, "controller": True},
            ],
        }
    }


def workload(name: str, kind: str, version: str = "apps/v1") -> WorkloadMeta:
    return WorkloadMeta(name, "shop", kind, version)


@cases("kind", "path")
def test_a_workloads_pod_template_is_found_by_its_kind(kind: Any, path: tuple[str, ...] | None) -> None:
    assert pod_template_path({"kind": kind, "apiVersion": "any/v9"}) == path


@cases("owner", "labels", "expected")
def test_a_pod_belongs_to_the_creator_of_its_owner(
    owner: dict[str, str], labels: dict[str, str], expected: dict[str, str]
) -> None:
    assert workload_of(owned(**owner, labels=labels)) == workload(**expected)


def test_a_pod_with_a_name_of_its_own_is_its_own_workload() -> None:
    pod = owned("ReplicaSet", "shop-7d9f", labels={"pod-template-hash": "7d9f"})
    del pod["metadata"]["generateName"]

    assert workload_of(pod) == WorkloadMeta("pod-1", "shop", "Pod", "v1")


def test_a_pod_without_metadata_has_a_workload_without_a_name() -> None:
    assert workload_of({}) == WorkloadMeta("", "", "Pod", "v1")


@cases("owner", "labels", "by_minor")
def test_older_istios_know_fewer_conventions(
    owner: dict[str, str], labels: dict[str, str], by_minor: dict[Minor, list[str]]
) -> None:
    workload_metas = {minor: workload_of(owned(**owner, labels=labels), RULES[minor]) for minor in by_minor}

    assert {
        minor: [workload_meta.name, workload_meta.kind] for minor, workload_meta in workload_metas.items()
    } == by_minor


def test_a_cron_job_has_the_api_version_of_its_time() -> None:
    pod = owned("Job", "backup-1612345678", "batch/v1")

    assert [workload_of(pod, rules).api_version for rules in (RULES[1, 21], RULES[1, 30])] == [
        "batch/v1beta1",
        "batch/v1",
    ]


def test_a_part_of_a_workload_is_found_by_its_path() -> None:
    obj = {"kind": "Deployment", "spec": {"template": {"metadata": {"name": "a"}}}}

    assert template_at(obj, ("spec", "template")) == {"metadata": {"name": "a"}}
    assert template_at(obj, ()) is obj


def test_the_controller_is_the_owner_that_says_so() -> None:
    owners = [{"kind": "Node", "name": "a"}, {"kind": "ReplicaSet", "name": "b", "controller": True}]

    assert controller_of({"ownerReferences": owners}) == owners[1]
    assert controller_of({"ownerReferences": owners[:1]}) is None
    assert controller_of({}) is None


def workload_object(kind: str = "Deployment", **metadata: Any) -> dict[str, Any]:
    """A workload named web, of any kind."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [make_container()]}}
    spec: dict[str, Any] = {"template": template}
    if kind == "CronJob":
        spec = {"jobTemplate": {"metadata": {"labels": {"of": "job"}}, "spec": spec}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", **metadata}, "spec": spec}


def created(obj: dict[str, Any]) -> list[Created]:
    return list(created_pods(obj, "lent"))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"])
def test_a_pod_gets_its_templates_labels_and_belongs_to_its_workload_object(kind: str) -> None:
    (result,) = created(workload_object(kind, namespace="shop"))

    assert (result.kind, result.namespace, result.name, str(result)) == (kind, "shop", "web", f"{kind} shop/web")
    assert result.pod["metadata"]["labels"] == {"app": "web"}
    assert workload_of(result.pod) == WorkloadMeta("web", "shop", kind, "apps/v1")


def test_a_workload_without_a_namespace_is_created_in_the_one_lent() -> None:
    assert [(each.namespace, each.pod["metadata"]["namespace"]) for each in created(workload_object())] == [
        ("lent", "lent")
    ]


def test_a_bare_pod_stays_as_it_is_but_for_its_namespace() -> None:
    pod = make_pod(labels={"app": "a"}, annotations={"b": "c"})

    (result,) = created(pod)

    assert result.pod == {**pod, "metadata": {**pod["metadata"], "namespace": "lent"}}


def test_name_and_namespace_of_a_template_do_not_count() -> None:
    obj = workload_object(namespace="shop")
    obj["spec"]["template"]["metadata"] |= {"name": "other", "namespace": "other"}

    assert created(obj)[0].pod["metadata"].get("name") is None
    assert created(obj)[0].pod["metadata"]["namespace"] == "shop"


def test_a_list_gives_every_workload_in_it_and_other_kinds_give_nothing() -> None:
    items = [workload_object(), {"kind": "Service", "metadata": {"name": "s"}}, make_pod("p")]

    assert [str(each) for each in created({"kind": "List", "items": items})] == ["Deployment lent/web", "Pod lent/p"]
    assert created({"kind": "Service"}) == []
    assert created({}) == []


@cases("obj", "says")
def test_an_invalid_workload_is_refused(obj: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError) as raised:
        created(obj)

    assert says in str(raised.value)
