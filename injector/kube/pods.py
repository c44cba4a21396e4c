"""Where the pods of a workload are described, and which workload a pod belongs to.

Follows ``GetDeployMetaFromPod`` in Istio's pkg/kube/util.go (1.30.3), which knows Kubernetes' conventions for owners: the hash that a
Deployment puts into the name of its ReplicaSet, the number that a CronJob puts into the name of its Job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEMPLATE: Final = ("spec", "template")
# istioctl registers its types by kind alone, so any API version of a known kind is taken.
_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "Pod": (),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        (
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
            "DaemonSet",
            "Job",
            "ReplicationController",
            "DeploymentConfig",
        ),
        _TEMPLATE,
    ),
}
_CRON_JOB = re.compile(r"(.+)-\d{8,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkloadMeta:
    """The workload that a pod belongs to; a pod of its own is its own workload."""

    name: str
    namespace: str
    kind: str = "Pod"
    api_version: str = "v1"


def pod_template_path(obj: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the keys that lead to an object's pod template, empty for a Pod; None for kinds without pods."""
    kind = obj.get("kind")
    return _PATHS.get(kind) if isinstance(kind, str) else None


def workload_of(pod: Mapping[str, Any]) -> WorkloadMeta:
    """Return the workload of a pod by its controller, seen through the owner's naming conventions.

    Only a pod whose name is generated belongs to a controller's workload.
    """
    meta = pod.get("metadata") or {}
    namespace = meta.get("namespace", "")
    owner = _controller(meta)
    if owner is None or not meta.get("generateName"):
        return WorkloadMeta(meta.get("name", ""), namespace)
    found = _seen_through(owner, meta.get("labels") or {}, namespace)
    return found if found.name else WorkloadMeta(meta.get("name", ""), namespace, found.kind, found.api_version)


def _controller(meta: Mapping[str, Any]) -> Mapping[str, Any] | None:
    owners = meta.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _seen_through(owner: Mapping[str, Any], labels: Mapping[str, str], namespace: str) -> WorkloadMeta:
    name, kind, version = owner.get("name", ""), owner.get("kind", ""), owner.get("apiVersion", "")
    if kind == "ReplicaSet":
        for label, outer, outer_version in (
            ("pod-template-hash", "Deployment", version),
            ("rollouts-pod-template-hash", "Rollout", "v1alpha1"),
        ):
            suffix = f"-{labels[label]}" if labels.get(label) else ""
            if suffix and name.endswith(suffix):
                return WorkloadMeta(name.removesuffix(suffix), namespace, outer, outer_version)
    if kind == "ReplicationController" and labels.get("deploymentconfig"):
        return WorkloadMeta(labels["deploymentconfig"], namespace, "DeploymentConfig", version)
    match = _CRON_JOB.fullmatch(name) if kind == "Job" else None
    if match is not None:
        return WorkloadMeta(match[1], namespace, "CronJob", "batch/v1")
    return WorkloadMeta(name, namespace, kind, version)
