"""Workloads and their pods: where a workload describes its pods, which pods it creates, and which workload a pod belongs to.

A pod names its owner, but not the owner's owner, which Kubernetes' naming conventions tell. Follows ``GetDeployMetaFromPod`` in
Istio's pkg/kube/util.go (1.8 to 1.30.3) and, before, the webhook's own code (pkg/kube/inject/webhook.go, 1.3 to 1.7).

``created_pods`` does what a controller does: it copies a template's labels and annotations, generates the name and owns the pod. Here
the workload itself is the owner, although a Deployment has a ReplicaSet and a CronJob a Job in between: the pod's workload is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from injector.errors import DataError, ManifestError, for_each
from injector.kube.escaping import escape_line
from injector.kube.lists import is_list, items_of
from injector.kube.typed import kind_type, normalise

T = TypeVar("T")

_TEMPLATE: Final = ("spec", "template")
# kube-inject registers its types by kind alone, so any API version of a known kind is taken.
_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "Pod": (),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "DaemonSet": _TEMPLATE,
    "Deployment": _TEMPLATE,
    "DeploymentConfig": _TEMPLATE,
    "Job": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
}
OtherKinds: TypeAlias = "Mapping[tuple[str, str], tuple[str, ...]]"
"""The keys that lead to the pod template, by kind and group, for kinds that Istio does not know."""

_KUBERNETES_GROUPS: Final = frozenset({"", "apps", "batch", "extensions"})
_NODE: Final = "Node"
_SPARK_APPLICATION: Final = "sparkoperator.k8s.io/app-name"
"""The label that the Spark operator gives to drivers and executors."""
_SPARK_VERSION: Final = "sparkoperator.k8s.io/v1beta2"
_CRON_JOB_TIME: Final = re.compile(r"-(?:(?:2[6-9]|[3-9][0-9])[0-9]{6}|1[0-9]{9})\Z", re.ASCII)
"""The time at the end of the name of a CronJob's Job: in minutes, from 2019 on, or in seconds. As minutes, a date is before 2019."""
_LONGEST_TRIAL_NAME: Final = 50
"""Characters of the name for a pod that is only tried, so that a suffix still makes a DNS label of 63."""
KNATIVE: Final = "serving.knative.dev"
OTHER_KINDS: Final[OtherKinds] = {
    ("Rollout", "argoproj.io"): _TEMPLATE,
    ("Service", KNATIVE): _TEMPLATE,
    ("CloneSet", "apps.kruise.io"): _TEMPLATE,
}


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


def pod_template_path(obj: Mapping[str, Any], others: OtherKinds = OTHER_KINDS) -> tuple[str, ...] | None:
    """Return the keys that lead to an object's pod template, none for a Pod; None for kinds without pods."""
    kind, spec = obj.get("kind"), obj.get("spec")
    if not isinstance(kind, str):
        return None
    if kind in _PATHS:
        return _PATHS[kind]
    if kind == "Rollout" and isinstance(spec, dict) and spec.get("workloadRef"):
        return None  # it takes its pod template from a Deployment, which is a workload of its own
    return others.get((kind, _group_of(obj)))


def _group_of(obj: Mapping[str, Any]) -> str:
    return str(obj.get("apiVersion")).rpartition("/")[0]


def read_workload(
    obj: dict[str, Any], others: OtherKinds = OTHER_KINDS
) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Return a workload as Go reads it, and the keys that lead to its pod template; None for kinds without pods.

    Raises ManifestError if a value does not fit its field, or if another kind of workload has no pod template.
    """
    path = pod_template_path(obj, others)
    if path is None:
        return None
    type_name = kind_type(obj["kind"])
    if type_name is not None:
        return normalise(obj, type_name, coerce=True), path
    template = normalise(template_at(obj, path), "v1.PodTemplateSpec", coerce=True)
    if _group_of(obj) == KNATIVE:
        template = _with_container_names(template)
    obj = {**obj, "metadata": normalise(obj.get("metadata"), "v1.ObjectMeta", coerce=True)}
    return change_at(obj, path, lambda _: template), path


def _with_container_names(template: dict[str, Any]) -> dict[str, Any]:
    """Return a pod template of Knative with its default names of containers (serving, revision_defaults.go)."""
    spec = template.get("spec") or {}
    items = spec.get("containers") or []
    names = ["user-container"] if len(items) == 1 else [f"user-container-{index}" for index in range(len(items))]
    named = [item if item.get("name") else {**item, "name": name} for item, name in zip(items, names, strict=True)]
    return {**template, "spec": {**spec, "containers": named}}


def unread_templates(obj: Mapping[str, Any], others: OtherKinds = OTHER_KINDS) -> Iterator[str]:
    """Yield a message for each pod template in an object, or in the items of a List, of a kind that is not known.

    Raises ManifestError if an item of a List is not an object.
    """
    kind, group = obj.get("kind"), _group_of(obj)
    if is_list(obj):
        for item in items_of(obj):
            yield from unread_templates(item, others)
    elif isinstance(kind, str) and kind not in _PATHS and (kind, group) not in others:
        meta = obj.get("metadata")
        name = f" {meta['name']}" if isinstance(meta, dict) and meta.get("name") else ""
        for path in _template_paths(obj, ""):
            what = f"{kind}{name}: the kind is not known, and its pod template at {path} is not used"
            rule = f"{kind}.{group}".removesuffix(".")
            yield escape_line(what if "[" in path else f"{what}; give --pod-template-path {rule}={path}")


def _template_paths(node: Any, path: str) -> Iterator[str]:
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _template_paths(item, f"{path}[{index}]")
    elif isinstance(node, dict):
        spec = node.get("spec")
        containers = spec.get("containers") if isinstance(spec, dict) else None
        if path and isinstance(containers, list) and any(isinstance(container, dict) for container in containers):
            yield path
            return
        for key, value in node.items():
            yield from _template_paths(value, f"{path}.{key}" if path else str(key))


def template_at(obj: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return the object at ``path`` in a workload, such as its pod template. Raises ManifestError if there is none."""
    node: Any = obj
    for key in path:
        node = node.get(key)
        if not isinstance(node, dict):
            raise ManifestError(f"{'.'.join(path)} is required value", hint="give the workload its pod template")
    target: dict[str, Any] = node
    return target


def change_at(
    obj: dict[str, Any], path: tuple[str, ...], change: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Return a workload with the object at ``path`` changed."""
    if not path:
        return change(obj)
    return {**obj, path[0]: change_at(obj[path[0]], path[1:], change)}


def mapping_at(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path of keys; an empty one if a value on the way is missing or of another type."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def for_each_item(obj: Mapping[str, Any], function: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """Yield the result of ``function`` for each item of a List.

    The errors of all items, which name the item, are raised at the end, see ``for_each``.
    """

    def with_place(item: dict[str, Any]) -> T:
        try:
            return function(item)
        except DataError as error:
            add_place(error, item)
            raise

    return for_each(items_of(obj), with_place)


def add_place(error: DataError, obj: Mapping[str, Any], place: str = "") -> None:
    """Put a place, and the kind and the name of an object, in front of the place of an error."""
    meta = obj.get("metadata")
    name = meta.get("name") or meta.get("generateName") if isinstance(meta, dict) else None
    named = " ".join(word for word in (obj.get("kind"), name) if isinstance(word, str))
    for fault in error.errors:
        parts = (place, "" if is_list(obj) or fault.where.startswith(named) else named, fault.where)
        fault.where = ": ".join(part for part in parts if part)


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


@dataclass(frozen=True, slots=True)
class OuterMetadata:
    """Labels and annotations in a workload that its pods do not get, such as its own, and the path of the metadata."""

    path: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Created:
    """A workload of a manifest, and the pod that it would create.

    ``part`` tells the pods of one workload apart: it is the place of the pod template, if there are several, or the name of the running
    pod, if its controller named it. ``file`` and ``line`` are the place of its document, if it was read from a file.
    ``outer`` is the metadata around its pod template, and
    ``template`` the path of the template. ``has_completed`` is whether one of its pods has ended by itself.
    """

    kind: str
    namespace: str
    name: str
    pod: dict[str, Any]
    part: str = ""
    file: str = ""
    line: int = 0
    outer: tuple[OuterMetadata, ...] = ()
    template: str = ""
    has_completed: bool = False

    def __str__(self) -> str:
        return escape_line(f"{self.kind} {self.namespace}/{self.name}{f' ({self.part})' if self.part else ''}")


def created_pods(obj: dict[str, Any], namespace: str, others: OtherKinds = OTHER_KINDS) -> Iterator[Created]:
    """Yield the pod of a workload, or of each workload in a List; nothing for kinds that have no pods.

    ``namespace`` is the namespace of workloads that name none. Raises ManifestError if the workload cannot be read, or has no pod template.
    """
    if is_list(obj):
        for created in for_each_item(obj, lambda item: list(created_pods(item, namespace, others))):
            yield from created
        return
    workload = read_workload(obj, others)
    if workload is not None:
        yield replace(_create(*workload, namespace), has_completed=_has_completed(obj))


def _create(obj: dict[str, Any], path: tuple[str, ...], namespace: str) -> Created:
    meta = obj.get("metadata") or {}
    name, place = meta.get("name") or meta.get("generateName") or "", meta.get("namespace") or namespace
    template = template_at(obj, path)
    pod_meta = _of_template(obj, name, template.get("metadata") or {}) if path else meta
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**pod_meta, "namespace": place},
        "spec": template.get("spec") or {},
    }
    outer = tuple(_outer_metadata(obj, path))
    return Created(
        obj["kind"], place, name, normalise(pod, "v1.Pod", coerce=True), outer=outer, template=".".join(path)
    )


def _has_completed(obj: Mapping[str, Any]) -> bool:
    """Return whether a Pod has succeeded, or a pod of a Job or CronJob has."""
    status = mapping_at(obj, "status")
    fields = ("succeeded", "completionTime", "lastSuccessfulTime")
    return status.get("phase") == "Succeeded" or any(status.get(field) for field in fields)


def _outer_metadata(obj: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[OuterMetadata]:
    """Yield the metadata on the way to a pod template: the object's own, and that of the Jobs of a CronJob."""
    for size in range(len(path)):
        meta = mapping_at(obj, *path[:size], "metadata")
        labels, annotations = (
            {str(key): str(value) for key, value in mapping_at(meta, kind).items()}
            for kind in ("labels", "annotations")
        )
        if labels or annotations:
            yield OuterMetadata(".".join((*path[:size], "metadata")), labels, annotations)


def _of_template(obj: Mapping[str, Any], name: str, template_meta: Mapping[str, Any]) -> dict[str, Any]:
    owner = {
        "apiVersion": obj.get("apiVersion") or "",
        "kind": obj["kind"],
        "name": name,
        "uid": "",
        "controller": True,
    }
    copied = {key: template_meta[key] for key in ("labels", "annotations") if template_meta.get(key)}
    return {**copied, "generateName": f"{name}-", "ownerReferences": [owner]}


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
