"""Pods out of workloads, as Kubernetes' controllers make them (Istio 1.30.3, webhook_test.go, objectToPod)."""

from __future__ import annotations

import copy
from typing import Any

TEMPLATE_KINDS = frozenset(
    {
        "DaemonSet",
        "Deployment",
        "DeploymentConfig",
        "Job",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
    }
)
INJECTABLE = TEMPLATE_KINDS | {"Pod", "CronJob"}


def injectable(documents: list[Any]) -> list[dict[str, Any]]:
    """The workloads among ``documents``, with Lists taken apart, in their order."""
    results: list[dict[str, Any]] = []
    for document in documents:
        if not isinstance(document, dict):
            continue
        if document.get("kind") == "List":
            results += injectable(document.get("items") or [])
        elif document.get("kind") in INJECTABLE:
            results.append(document)
    return results


def as_pod(workload: dict[str, Any]) -> dict[str, Any]:
    """The pod that ``workload`` leads to: a Pod is itself, any other kind's template gets an owner but no name."""
    kind, name = workload["kind"], workload.get("metadata", {}).get("name", "")
    if kind == "Pod":
        return copy.deepcopy(workload)
    spec = workload["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else workload["spec"]
    template = copy.deepcopy(spec["template"])
    metadata = dict(template.get("metadata") or {})
    if kind == "Deployment":
        name += "-fake"
        metadata["generateName"] = f"{name}-"
        metadata["labels"] = {**(metadata.get("labels") or {}), "pod-template-hash": "fake"}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    else:
        metadata["generateName"] = name
        owner = {"apiVersion": workload["apiVersion"], "kind": kind}
    metadata["ownerReferences"] = [{**owner, "name": name, "controller": True, "uid": ""}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def namespace_of(workload: dict[str, Any]) -> str:
    """The namespace that the review of the workload's pod names."""
    namespace: str = (workload.get("metadata") or {}).get("namespace", "")
    return namespace
