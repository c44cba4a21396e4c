"""Pods of workloads: names, owners, templates and kinds."""

from __future__ import annotations

from typing import Any

from injector.istio.behaviours import Minor
from injector.kube.pods import OwnerRules, WorkloadMeta, controller_of, workload_of
from tests.cases import cases

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


def test_the_controller_is_the_owner_that_says_so() -> None:
    owners = [{"kind": "Node", "name": "a"}, {"kind": "ReplicaSet", "name": "b", "controller": True}]

    assert controller_of({"ownerReferences": owners}) == owners[1]
    assert controller_of({"ownerReferences": owners[:1]}) is None
    assert controller_of({}) is None
