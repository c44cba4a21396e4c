"""The pods that a cluster would make of a manifest's workloads, as an admission webhook gets them.

A controller copies a template's labels and annotations, generates the name and owns the pod. Here the workload itself is the
owner, where a Deployment has a ReplicaSet between and a CronJob a Job: the pod's workload comes out the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ManifestError
from injector.kube.escaping import escape_line
from injector.kube.pods import pod_template_path, template_at
from injector.kube.schema import kind_type
from injector.kube.typed import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COPIED: Final = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class Created:
    """A workload of a manifest, and the pod that would be created of it."""

    kind: str
    namespace: str
    name: str
    pod: dict[str, Any]

    def __str__(self) -> str:
        return escape_line(f"{self.kind} {self.namespace}/{self.name}")


def created_pods(obj: dict[str, Any], namespace: str) -> Iterator[Created]:
    """Yield the pod of a workload, or of each workload in a List; nothing for kinds that have no pods.

    ``namespace`` is that of workloads that name none.

    Raises:
        ManifestError: the workload cannot be read, or has no pod template.
    """
    type_name = kind_type(str(obj.get("kind")))
    if type_name is None:
        return
    if obj.get("kind") == "List":
        for item in obj.get("items") or []:
            if not isinstance(item, dict):
                raise ManifestError("an item of the List is not an object", where="items", hint="give each item a kind")
            yield from created_pods(item, namespace)
        return
    obj = normalise(obj, type_name, coerce=True)
    path = pod_template_path(obj)
    if path is not None:
        yield _created(obj, path, namespace)


def _created(obj: dict[str, Any], path: tuple[str, ...], namespace: str) -> Created:
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
    return Created(obj["kind"], place, name, normalise(pod, "v1.Pod", coerce=True))


def _of_template(obj: Mapping[str, Any], name: str, template_meta: Mapping[str, Any]) -> dict[str, Any]:
    owner = {
        "apiVersion": obj.get("apiVersion") or "",
        "kind": obj["kind"],
        "name": name,
        "uid": "",
        "controller": True,
    }
    copied = {key: template_meta[key] for key in _COPIED if template_meta.get(key)}
    return {**copied, "generateName": f"{name}-", "ownerReferences": [owner]}
