"""The types of Kubernetes' API objects, as k8s.io/api declares them.

``schema.json`` is written by tests/kube/recorder/schema, which reflects over the Go structs: every struct that a Pod, a Namespace or a
workload kind of kube-inject reaches, its fields in order, their Go types (``[]v1.Container``, ``*int64``) and their tags for JSON and
strategic merge. OpenShift's types are spelled ``openshiftv1.DeploymentConfig``, because two packages called v1 would clash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import orjson

# Go types that encode themselves; ``typed`` knows each.
OPAQUE: Final = frozenset({"intstr.IntOrString", "resource.Quantity", "runtime.RawExtension", "v1.FieldsV1", "v1.Time"})
# kube-inject knows workloads by kind alone, in whatever API version they come (Istio's inject/initializer.go).
_KINDS: Final = {
    "Pod": "v1.Pod",
    "ReplicationController": "v1.ReplicationController",
    "Deployment": "v1.Deployment",
    "DaemonSet": "v1.DaemonSet",
    "ReplicaSet": "v1.ReplicaSet",
    "StatefulSet": "v1.StatefulSet",
    "Job": "v1.Job",
    "CronJob": "v1.CronJob",
    "DeploymentConfig": "openshiftv1.DeploymentConfig",
    "List": "v1.List",
}


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of a struct.

    ``json`` is empty for an embedded struct whose fields stand in the outer JSON object. ``strategy`` is that of
    strategic merge, ``retainKeys`` left out: ``merge``, ``replace`` or empty.
    """

    go: str
    json: str
    type: str
    omitempty: bool = False
    omitzero: bool = False
    embedded: bool = False
    strategy: str = ""
    merge_key: str = ""

    @property
    def inline(self) -> bool:
        """Whether its own fields stand in the outer JSON object."""
        return self.embedded and not self.json


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct: its fields in Go's order, by Go name, and by JSON name with those of inline fields among them."""

    name: str
    fields: tuple[FieldType, ...]
    by_go: Mapping[str, FieldType]
    by_json: Mapping[str, FieldType]
    by_folded: Mapping[str, FieldType]

    def json_field(self, key: str) -> FieldType | None:
        """Return the field that encoding/json finds for a key: of that name, else of that name in any case."""
        return self.by_json.get(key) or self.by_folded.get(key.casefold())

    def go_path(self, name: str) -> tuple[FieldType, ...]:
        """Return the fields that lead to the Go field ``name``: itself, after the embedded structs it is promoted from.

        Empty where the struct has no such field.
        """
        if name in self.by_go:
            return (self.by_go[name],)
        for field in self.fields:
            inner = struct_type(field.type).go_path(name) if field.embedded else ()
            if inner:
                return (field, *inner)
        return ()


def is_struct(name: str) -> bool:
    """Return whether ``name`` is a struct of the table."""
    return name in _table()["structs"]


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = orjson.loads(files(__package__).joinpath("schema.json").read_bytes())
    return table


@cache
def struct_type(name: str) -> StructType:
    """Return the struct of a Go name, such as ``v1.PodSpec``; KeyError if the table has no such struct."""
    fields = tuple(_field(raw) for raw in _table()["structs"][name])
    by_json: dict[str, FieldType] = {}
    for field in fields:
        # A field of the struct itself wins over an embedded struct's of the same name; k8s.io/api has no such pair.
        by_json.update(struct_type(field.type).by_json if field.inline else {field.json: field})
    by_folded = {key.casefold(): field for key, field in reversed(by_json.items())}
    return StructType(name, fields, {field.go: field for field in fields}, by_json, by_folded)


def _field(raw: Mapping[str, Any]) -> FieldType:
    strategies = [each for each in raw.get("patchStrategy", "").split(",") if each != "retainKeys"]
    return FieldType(
        go=raw["go"],
        json=raw.get("json", ""),
        type=raw["type"],
        omitempty=raw.get("omitempty", False),
        omitzero=raw.get("omitzero", False),
        embedded=raw.get("embedded", False),
        strategy=strategies[0] if strategies else "",
        merge_key=raw.get("patchMergeKey", ""),
    )


@cache
def underlying(name: str) -> str:
    """Return the underlying type of a defined type, such as ``string`` for ``v1.DNSPolicy``; else ``name`` itself."""
    return str(_table()["named"].get(name, name))


def kind_type(kind: str) -> str | None:
    """Return the Go type of a workload kind, such as ``v1.Deployment``; None for a kind that has no pods."""
    return _KINDS.get(kind)
