"""Which workload a pod belongs to.

A pod names its owner, but not the owner's owner, which Kubernetes' naming conventions tell. Follows ``GetDeployMetaFromPod`` in
Istio's pkg/kube/util.go (1.8 to 1.30.3) and, before, the webhook's own code (pkg/kube/inject/webhook.go, 1.3 to 1.7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

_KUBERNETES_GROUPS: Final = frozenset({"", "apps", "batch", "extensions"})
_LONGEST_TRIAL_NAME: Final = 50
"""Characters of the name for a pod that is only tried, so that a suffix still makes a DNS label of 63."""
_NODE: Final = "Node"
_SPARK_APPLICATION: Final = "sparkoperator.k8s.io/app-name"
"""The label that the Spark operator gives to drivers and executors."""
_SPARK_VERSION: Final = "sparkoperator.k8s.io/v1beta2"
_CRON_JOB_TIME: Final = re.compile(r"-(?:(?:2[6-9]|[3-9][0-9])[0-9]{6}|1[0-9]{9})\Z", re.ASCII)
"""The time at the end of the name of a CronJob's Job: in minutes, from 2019 on, or in seconds. As minutes, a date is before 2019."""


@dataclass(frozen=True, slots=True)
class WorkloadMeta:
    """The workload that a pod belongs to; a pod of its own is its own workload."""

    name: str
    namespace: str
    kind: str = "Pod"
    api_version: str = "v1"


@dataclass(frozen=True, slots=True)
class OwnerRules:
    """The conventions that tell the workload of a pod; the defaults are Istio's from 1.22 on.

    Attributes:
        controllers: look at the controller of a pod at all (from 1.3 on).
        hash_required: a ReplicaSet is a Deployment's if it has the pod's hash (from 1.8 on); before, also if the pod has no hash.
        job_digits: the least and most digits at the end of the name of a CronJob's Job: 10 (from 1.6 on), 8 to 10 (from 1.10 on). If
            None, every Job is its own workload.
        cron_job_version: the API version of CronJobs: batch/v1beta1 up to 1.21.
        deployment_configs: see through OpenShift's ReplicationControllers (from 1.12 on).
        rollouts: see through the ReplicaSets of Argo's Rollouts (from 1.22 on).
    """

    controllers: bool = True
    hash_required: bool = True
    job_digits: tuple[int, int] | None = (8, 10)
    cron_job_version: str = "batch/v1"
    deployment_configs: bool = True
    rollouts: bool = True


NEWEST_RULES: Final = OwnerRules()


def workload_of(pod: Mapping[str, Any], rules: OwnerRules = NEWEST_RULES) -> WorkloadMeta:
    """Return the workload of a pod by its controller, seen through the controller's naming conventions.

    Only a pod whose name is generated belongs to a controller's workload.
    """
    meta = pod.get("metadata") or {}
    own, namespace = meta.get("name") or "", meta.get("namespace") or ""
    owner = controller_of(meta) if rules.controllers and meta.get("generateName") else None
    if owner is None:
        return WorkloadMeta(own, namespace)
    name, kind, version = _owner_of_replica(owner, meta.get("labels") or {}, rules)
    return WorkloadMeta(name or own, namespace, kind, version)


def identity_of(pod: Mapping[str, Any]) -> WorkloadMeta:
    """Return the workload that a pod belongs to, for weights, status, plans and drift.

    Istio's ``workload_of`` decides about the variables of the proxy, and passes over a controller that names its pods itself. Here every
    controller counts, but for a node, which only runs a static pod. Without a controller, the generated name stands for all pods with
    it. The naming conventions hold only for the controllers of Kubernetes itself, and a Job that ends with a date is not a CronJob's.
    """
    meta = pod.get("metadata") or {}
    owner, namespace = controller_of(meta) or {}, meta.get("namespace") or ""
    kind, name = owner.get("kind") or "", owner.get("name") or ""
    if not name or kind == _NODE:
        return WorkloadMeta(meta.get("generateName") or meta.get("name") or "", namespace)
    labels = meta.get("labels") or {}
    if kind == "Pod" and labels.get(_SPARK_APPLICATION):  # a driver, which creates the executors
        return WorkloadMeta(labels[_SPARK_APPLICATION], namespace, "SparkApplication", _SPARK_VERSION)
    version = owner.get("apiVersion") or ""
    if version.rpartition("/")[0] in _KUBERNETES_GROUPS and (kind != "Job" or _CRON_JOB_TIME.search(name)):
        name, kind, version = _owner_of_replica(owner, labels, NEWEST_RULES)
    return WorkloadMeta(name, namespace, kind, version)


def controller_of(meta: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the owner that controls an object, by the object's metadata; None if there is none."""
    return next((owner for owner in meta.get("ownerReferences") or () if owner.get("controller")), None)


def _owner_of_replica(owner: Mapping[str, Any], labels: Mapping[str, str], rules: OwnerRules) -> tuple[str, str, str]:
    """Return name, kind and API version of the creator of the pod's owner, else those of the owner."""
    name, kind, version = owner.get("name") or "", owner.get("kind") or "", owner.get("apiVersion") or ""
    if kind == "ReplicaSet":
        pod_hash, rollout_hash = labels.get("pod-template-hash") or "", labels.get("rollouts-pod-template-hash") or ""
        if name.endswith(pod_hash) and (pod_hash or not rules.hash_required):
            return name.removesuffix(f"-{pod_hash}"), "Deployment", version
        if rules.rollouts and rollout_hash and name.endswith(rollout_hash):
            return name.removesuffix(f"-{rollout_hash}"), "Rollout", "v1alpha1"
    elif kind == "ReplicationController":
        config = labels.get("deploymentconfig")
        if rules.deployment_configs and config:
            return config, "DeploymentConfig", version
    elif kind == "Job" and rules.job_digits is not None:
        match = _job_name(rules.job_digits).fullmatch(name)
        if match is not None:
            return match["cron_job"], "CronJob", rules.cron_job_version
    return name, kind, version


@cache
def _job_name(digits: tuple[int, int]) -> re.Pattern[str]:
    return re.compile(f"(?P<cron_job>.+)-[0-9]{{{digits[0]},{digits[1]}}}")


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has ended or is being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    return bool(pod["metadata"].get("deletionTimestamp")) or phase in ("Succeeded", "Failed")


def trial_pod(
    pod: Mapping[str, Any],
    namespace: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a pod for a dry run, with more labels and annotations. Its owner is left out, because it would need a uid."""
    meta = pod["metadata"]
    name = str(meta.get("generateName") or meta.get("name") or "pod").rstrip("-")[:_LONGEST_TRIAL_NAME]
    metadata = {
        "generateName": f"{name}-",
        "namespace": namespace,
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
        "annotations": {**(meta.get("annotations") or {}), **(annotations or {})},
    }
    return {**pod, "metadata": metadata}
