"""Where a workload describes its pods, and the pods that it creates.

A kind that Istio knows has one pod template. Any other kind may have several, also in lists and maps, as the replicas of a PyTorchJob or
the worker groups of a RayCluster. Rules lead to them; ``unread_templates`` names those that no rule leads to.

``created_pods`` does what a controller does: it copies a template's labels and annotations, generates the name and owns the pod. Here
the workload itself is the owner, although a Deployment has a ReplicaSet and a CronJob a Job in between: the pod's workload is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

from injector.errors import ManifestError
from injector.kube.escaping import escape_line
from injector.kube.lists import is_list, items_of
from injector.kube.objects import for_each_item, mapping_at
from injector.kube.typed import kind_type, normalise

Path: TypeAlias = "tuple[str | int, ...]"
"""The keys and indexes that lead to a value in an object."""
Rule: TypeAlias = "tuple[str | int, ...]"
"""A path in which ``EVERY`` stands for every item of a list or map."""
OtherKinds: TypeAlias = "Mapping[tuple[str, str], tuple[Rule, ...]]"
"""The rules that lead to the pod templates, by kind and group, for kinds that Istio does not know."""
WorkloadKey: TypeAlias = "tuple[str, str, str]"
"""The namespace, kind and name of a workload."""

EVERY: Final = "*"
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
_OPENSHIFT: Final = "apps.openshift.io"
KNATIVE: Final = "serving.knative.dev"
OTHER_KINDS: Final[OtherKinds] = {
    ("Rollout", "argoproj.io"): (_TEMPLATE,),
    ("Service", KNATIVE): (_TEMPLATE,),
    ("CloneSet", "apps.kruise.io"): (_TEMPLATE,),
}
_STEP: Final = re.compile(r"([^\[\].]+)((?:\[(?:\*|[0-9]{1,9})\])*)")
_INDEX: Final = re.compile(r"\[([^\]]*)\]")
_OTHER_CONTAINERS: Final = ("containers", "steps")
_OTHER_CONTAINER: Final = ("container", "script")
"""Fields with containers outside of pod templates, as in Argo's Workflows, Tekton's tasks and KServe's predictors."""


def parse_rules(texts: Iterable[str]) -> OtherKinds:
    """Return the known kinds with those of rules, each ``KIND.GROUP=PATH``. Several rules for one kind add up.

    Raises ManifestError if a rule is not valid, or is for a kind that Istio knows.
    """
    rules: dict[tuple[str, str], tuple[Rule, ...]] = {**OTHER_KINDS}
    for text in texts:
        name, _, path = text.partition("=")
        kind, _, group = name.partition(".")
        rule = _read_path(path)
        if not kind or not rule:
            hint = "write KIND.GROUP=PATH, such as Foo.example.com=spec.template or Foo.example.com=spec.workers[*].template"
            raise ManifestError(f"{text[:80]!r} is not a pod template path", hint=hint)
        if is_istios(kind, group):
            raise ManifestError(f"the pod template of {name[:80]} is already known", hint="leave the rule out")
        rules[kind, group] = tuple(dict.fromkeys((*rules.get((kind, group), ()), rule)))
    return rules


def _read_path(text: str) -> Rule:
    """Return a path as a rule; an empty one if it is not valid."""
    rule: list[str | int] = []
    for step in text.split("."):
        match = _STEP.fullmatch(step)
        if match is None:
            return ()
        rule.append(match[1])
        rule += (index if index == EVERY else int(index) for index in _INDEX.findall(match[2]))
    return tuple(rule)


def path_text(path: Path, *, is_rule: bool = False) -> str:
    """Return a path as it is written in a rule; with ``is_rule``, an index becomes ``[*]``."""
    return "".join(
        (f"[{EVERY if is_rule else step}]" if isinstance(step, int) else f".{step}") for step in path
    ).removeprefix(".")


def is_istios(kind: str, group: str) -> bool:
    """Return whether Istio's kube-inject reads a kind, in any version of Kubernetes' own groups.

    It reads every group, and drops the fields that Kubernetes' kind of this name does not have, such as the tasks of a Job of Volcano. A
    kind of another group is one of ``OtherKinds`` here.
    """
    return kind_type(kind) is not None and ("." not in group or group == _OPENSHIFT)


def workload_type(obj: Mapping[str, Any]) -> str | None:
    """Return the Go type of a workload that Istio's kube-inject reads; None for another object."""
    kind = obj.get("kind")
    return kind_type(kind) if isinstance(kind, str) and is_istios(kind, _group_of(obj)) else None


def _group_of(obj: Mapping[str, Any]) -> str:
    return str(obj.get("apiVersion")).rpartition("/")[0]


def template_paths(obj: Mapping[str, Any], others: OtherKinds = OTHER_KINDS) -> tuple[Path, ...]:
    """Return the keys that lead to each pod template of an object, none for a Pod: ``((),)``; nothing for kinds without pods.

    Raises ManifestError if a rule leads to something else than a pod template, or all rules of a kind lead to nothing.
    """
    kind = obj.get("kind")
    if not isinstance(kind, str):
        return ()
    if kind in _PATHS and is_istios(kind, _group_of(obj)):
        return (_PATHS[kind],)
    rules = _rules(obj, others)
    paths = tuple(dict.fromkeys(path for rule in rules for path in _resolve(obj, rule)))
    for path in paths:
        if (kind, _group_of(obj)) in OTHER_KINDS:
            template_at(obj, path)
        elif not _is_template(_value_at(obj, path)):
            hint = "correct the rule; the webhook injects the pods of every kind, whatever its template"
            raise ManifestError("no pod template, because it has no spec.containers", where=path_text(path), hint=hint)
    if rules and not paths:
        names = " or ".join(map(path_text, rules))
        raise ManifestError(f"{names} is required value", hint="give the workload its pod template")
    return paths


def creates_pods(obj: Mapping[str, Any], others: OtherKinds = OTHER_KINDS) -> bool:
    """Return whether an object is of a kind that creates pods. Its pod templates may still be missing."""
    return workload_type(obj) not in (None, "v1.Pod", "v1.List") or bool(_rules(obj, others))


def _rules(obj: Mapping[str, Any], others: OtherKinds) -> tuple[Rule, ...]:
    """Return the rules for the pod templates of a kind that Istio does not know, or that has the name of one that it knows."""
    kind = str(obj.get("kind"))
    if kind == "Rollout" and mapping_at(obj, "spec").get("workloadRef"):
        return ()  # it takes its pod template from a Deployment, which is a workload of its own
    rules = others.get((kind, _group_of(obj)), ())
    own = _PATHS.get(kind)
    if rules or not own or not _is_template(_value_at(obj, own)):
        return rules
    return (own,)


def _resolve(node: Any, rule: Rule) -> Iterator[Path]:
    """Yield the paths that a rule leads to, also if there is nothing but a null or a text at the last key."""
    if not rule:
        yield ()
        return
    step, *rest = rule
    steps: Iterable[str | int] = ()
    if step == EVERY:
        steps = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    elif isinstance(step, int):
        steps = (step,) if isinstance(node, list) and step < len(node) else ()
    elif isinstance(node, dict) and step in node:
        steps = (step,)
    for key in steps:
        for path in _resolve(node[key], tuple(rest)):
            yield (key, *path)


def _value_at(node: Any, path: Path) -> Any:
    for step in path:
        if isinstance(node, dict):
            node = node.get(step)
        elif isinstance(node, list) and isinstance(step, int) and step < len(node):
            node = node[step]
        else:
            return None
    return node


def _is_template(node: Any) -> bool:
    containers = mapping_at(node, "spec").get("containers")
    return isinstance(containers, list) and any(isinstance(item, dict) for item in containers)


def read_workload(
    obj: dict[str, Any], others: OtherKinds = OTHER_KINDS
) -> tuple[dict[str, Any], tuple[Path, ...]] | None:
    """Return a workload as Go reads it, and the keys that lead to each of its pod templates; None for kinds without pods.

    Raises ManifestError if a value does not fit its field, or if another kind of workload has no pod template.
    """
    paths = template_paths(obj, others)
    if not paths:
        return None
    type_name = workload_type(obj)
    if type_name is not None:
        return normalise(obj, type_name, coerce=True), paths
    obj = {**obj, "metadata": normalise(obj.get("metadata"), "v1.ObjectMeta", coerce=True)}
    is_knative = _group_of(obj) == KNATIVE

    def read(template: dict[str, Any]) -> dict[str, Any]:
        read: dict[str, Any] = normalise(template, "v1.PodTemplateSpec", coerce=True)
        return _with_container_names(read) if is_knative else read

    return reduce(lambda changed, path: change_at(changed, path, read), paths, obj), paths


def _with_container_names(template: dict[str, Any]) -> dict[str, Any]:
    """Return a pod template of Knative with its default names of containers (serving, revision_defaults.go)."""
    spec = template.get("spec") or {}
    items = spec.get("containers") or []
    names = ["user-container"] if len(items) == 1 else [f"user-container-{index}" for index in range(len(items))]
    named = [item if item.get("name") else {**item, "name": name} for item, name in zip(items, names, strict=True)]
    return {**template, "spec": {**spec, "containers": named}}


def unread_templates(obj: Mapping[str, Any], others: OtherKinds = OTHER_KINDS) -> Iterator[str]:
    """Yield a message for the pod templates in an object, or in the items of a List, that no rule leads to, and for other containers.

    Raises ManifestError if an item of a List is not an object.
    """
    kind, group = obj.get("kind"), _group_of(obj)
    if is_list(obj):
        for item in items_of(obj):
            yield from unread_templates(item, others)
        return
    if not isinstance(kind, str) or is_istios(kind, group):
        return
    rules = _rules(obj, others)
    read = {path for rule in rules for path in _resolve(obj, rule)}
    name = " ".join(filter(None, (kind, str(mapping_at(obj, "metadata").get("name") or ""))))
    templates: dict[str, list[Path]] = {}
    containers: list[str] = []
    for path, is_template in _places(obj, ()):
        if is_template and path not in read:
            templates.setdefault(path_text(path, is_rule=True), []).append(path)
        elif not is_template and group:
            containers.append(path_text(path))
    why = "no rule leads to" if rules else "the kind is not known, and"
    for rule, paths in templates.items():
        places = ", ".join(map(path_text, paths))
        what = f"its pod template at {places} is" if len(paths) == 1 else f"its pod templates at {places} are"
        if rules:
            what = f"{what.rpartition(' ')[0]}, which {what.rpartition(' ')[2]}"
        kind_name = f"{kind}.{group}".removesuffix(".")
        yield escape_line(f"{name}: {why} {what} not used; give --pod-template-path {kind_name}={rule}")
    if containers:
        what = f"its containers at {', '.join(containers)} are in no pod template, and are not used"
        yield escape_line(f"{name}: {what}; the webhook injects the pods that its controller creates")


def _places(node: Any, path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the path of each pod template in an object, and of each other object that has containers with an image, with False."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _places(item, (*path, index))
    elif isinstance(node, dict):
        if path and _is_template(node):
            yield path, True
            return
        if any(_has_image(node.get(key)) for key in _OTHER_CONTAINER) or any(
            isinstance(node.get(key), list) and any(map(_has_image, node[key])) for key in _OTHER_CONTAINERS
        ):
            yield path, False
            return
        for key, value in node.items():
            yield from _places(value, (*path, key))


def _has_image(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(node.get("image"), str)


def template_at(obj: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the object at ``path`` in a workload, such as its pod template. Raises ManifestError if there is none."""
    node: Any = obj
    for length in range(1, len(path) + 1):
        node = _value_at(obj, path[:length])
        if not isinstance(node, dict | list):
            raise ManifestError(f"{path_text(path)} is required value", hint="give the workload its pod template")
    template: dict[str, Any] = node
    return template


def change_at(obj: dict[str, Any], path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return a workload with the object at ``path`` changed."""
    changed: dict[str, Any] = _change_at(obj, path, change)
    return changed


def _change_at(node: Any, path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if not path:
        return change(node)
    step, *rest = path
    value = _change_at(node[step], tuple(rest), change)
    if isinstance(step, int):
        return [*node[:step], value, *node[step + 1 :]]
    return {**node, step: value}


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
    pod, if its controller named it. ``file`` and ``line`` are the place of its document, if it was read from a file. ``outer`` is the
    metadata around its pod template, and ``template`` the path of the template. ``has_completed`` is whether one of its pods has ended by
    itself.
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

    @property
    def key(self) -> WorkloadKey:
        """The namespace, kind and name, which all parts of the workload have in common."""
        return self.namespace, self.kind, self.name

    def data(self) -> dict[str, Any]:
        """Return its name and its part as JSON data."""
        part = {"part": self.part} if self.part else {}
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name, **part}


def created_pods(obj: dict[str, Any], namespace: str, others: OtherKinds = OTHER_KINDS) -> Iterator[Created]:
    """Yield the pod of each pod template of a workload, or of each workload in a List; nothing for kinds that have no pods.

    ``namespace`` is the namespace of workloads that name none. Raises ManifestError if the workload cannot be read, or has no pod template.
    """
    if is_list(obj):
        for created in for_each_item(obj, lambda item: list(created_pods(item, namespace, others))):
            yield from created
        return
    workload = read_workload(obj, others)
    if workload is not None:
        obj, paths = workload
        for path in paths:
            yield _create(obj, path, namespace, is_only=len(paths) == 1)


def _create(obj: dict[str, Any], path: Path, namespace: str, *, is_only: bool) -> Created:
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
    template_path = path_text(path)
    return Created(
        obj["kind"],
        place,
        name,
        normalise(pod, "v1.Pod", coerce=True),
        part="" if is_only else template_path,
        outer=tuple(_outer_metadata(obj, path)),
        template=template_path,
        has_completed=_has_completed(obj),
    )


def _has_completed(obj: Mapping[str, Any]) -> bool:
    """Return whether a Pod has succeeded, or a pod of a Job or CronJob has."""
    status = mapping_at(obj, "status")
    fields = ("succeeded", "completionTime", "lastSuccessfulTime")
    return status.get("phase") == "Succeeded" or any(status.get(field) for field in fields)


def _outer_metadata(obj: Mapping[str, Any], path: Path) -> Iterator[OuterMetadata]:
    """Yield the metadata on the way to a pod template: the object's own, and that of the Jobs of a CronJob."""
    for size in range(len(path)):
        meta = mapping_at(_value_at(obj, path[:size]), "metadata")
        labels, annotations = (
            {str(key): str(value) for key, value in mapping_at(meta, kind).items()}
            for kind in ("labels", "annotations")
        )
        if labels or annotations:
            yield OuterMetadata(path_text((*path[:size], "metadata")), labels, annotations)


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
