"""The template data as templates can read it: places by their names in pod, values and mesh config, and their types.

A place is a path such as ``metadata.annotations[x]`` with the Go type of its value. Some fields of the data are computed:
``SOURCES`` names the fields of pod, values and mesh config that they are computed from (``injection/data.py``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from injector.istio.annotations import PROXY_CONFIG, checked_annotations
from injector.istio.behaviours import Behaviours, Minor, behaviours_of
from injector.istio.proto import WRAPPERS, Field, mesh_config_type, message_type, proxy_config_type
from injector.kube.typed import is_struct, struct_type, underlying

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Path: TypeAlias = tuple[str, ...]

ANY: Final = "any"
ANY_KEY: Final = "*"
"""Stands in a path for every element of a list and every key of a map."""
RAW: Final = "raw"
QUOTED: Final = "quoted"
YAML: Final = "yaml"
MOST_STEPS: Final = 5_000
"""The most calls of templates in a walk, and places of a value. Both can double with each template that calls another one twice."""
_MESSAGE: Final = "message "
_OWNER: Final = "owner"
_HARMLESS: Final = frozenset({"bool", "int", "int32", "int64", "float64", "enum", "resource.Quantity", "v1.Time"})
_TRUSTED: Final = frozenset({"values", "mesh", "env", "revision", "namespace", "nativeSidecars", "gateway"})
_ANNOTATIONS: Final = ("metadata", "annotations")
_IMAGE_TYPE: Final = (*_ANNOTATIONS, "sidecar.istio.io/proxyImageType")
_IMAGE: Final = (("values", "global", "hub"), ("values", "global", "tag"), ("values", "global", "variant"), _IMAGE_TYPE)
_SERVICE_ACCOUNT: Final = ("spec", "serviceAccountName")
"""The API server looks up the service account before it calls webhooks, so it is the name of one."""
_OBJECT: Final = re.compile(r"^(?:apiVersion|kind):", re.MULTILINE)
_LABELS: Final = ("pod-template-hash", "rollouts-pod-template-hash", "deploymentconfig")

SOURCES: Final[dict[str, tuple[Path, ...]]] = {
    _OWNER: (
        *(("metadata", name) for name in ("name", "namespace", "generateName", "ownerReferences")),
        *(("metadata", "labels", name) for name in _LABELS),
    ),
    "proxyImage": (*_IMAGE, ("values", "global", "proxy", "image"), ("proxyConfig", "image")),
    "proxyInitImage": (*_IMAGE, ("values", "global", "proxy_init", "image")),
    "estimatedConcurrency": (
        ("proxyConfig", "concurrency"),
        (*_ANNOTATIONS, "sidecar.istio.io/proxyCPULimit"),
        (*_ANNOTATIONS, "sidecar.istio.io/proxyCPU"),
        ("values", "global", "proxy", "resources"),
    ),
    "nativeSidecars": (("spec", "nodeName"), ("env", "ENABLE_NATIVE_SIDECARS")),
}
"""The computed fields, and the places that they are computed from. ``proxyConfig`` is the mesh's with the pod's annotation on top."""


class Place(NamedTuple):
    """A place in the template data and the Go type of its value."""

    path: Path
    type: str

    def element(self) -> Place:
        """Return the place of every element."""
        return Place((*self.path, ANY_KEY), _element(self.type))

    def key(self, name: str) -> Place:
        """Return the place of one element of a map or list."""
        return Place((*self.path, name), _element(self.type))


class Taint(NamedTuple):
    """A text that the creator of a pod controls: where it comes from, and what was done with it: ``RAW``, ``QUOTED`` or ``YAML``."""

    path: Path
    state: str


@dataclass(frozen=True, slots=True)
class Value:
    """All that a value of a template may be: places, texts that a pod controls, and the constant if it is one (in a tuple)."""

    places: frozenset[Place] = frozenset()
    taints: frozenset[Taint] = frozenset()
    constant: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if len(self.places) > MOST_STEPS:
            raise RecursionError

    def __or__(self, other: Value) -> Value:
        constant = self.constant if self.constant == other.constant else ()
        return Value(self.places | other.places, self.taints | other.taints, constant)


NOTHING: Final = Value()


def union(values: Iterable[Value]) -> Value:
    """Return a value that may be any of these."""
    options = list(values)
    if len(options) == 1:
        return options[0]
    places = frozenset[Place]().union(*(option.places for option in options))
    return Value(places, frozenset[Taint]().union(*(option.taints for option in options)))


class Read(NamedTuple):
    """A read of a place: with everything below it if it is ``deep``, else whether it exists, its length or its keys."""

    path: Path
    deep: bool

    def __str__(self) -> str:
        text = format_path(self.path)
        return text if self.deep else f"{text} (set or not, keys)"


def is_gateway(text: str) -> bool:
    """Return whether a template renders whole objects: Istio's gateway controller uses it, and injection does not."""
    return _OBJECT.search(text) is not None


def without_repeats(reads: Mapping[Read, tuple[str, int]]) -> dict[Read, tuple[str, int]]:
    """Return reads in the order of their paths, without those that another one implies."""
    ordered = sorted(reads, key=lambda read: (read.path, not read.deep))
    return {
        read: reads[read]
        for read in ordered
        if not any(
            Read(read.path[:size], deep=True) in reads and (size < len(read.path) or not read.deep)
            for size in range(1, len(read.path) + 1)
        )
    }


def format_path(path: Path) -> str:
    """Return a path as users write it: ``spec.containers[*].name``, ``metadata.annotations[x/y]``."""
    text = path[0]
    for name in path[1:]:
        plain = name.isidentifier() or name.replace("-", "").isalnum()
        text += f".{name}" if plain and not name.isdigit() else f"[{name}]"
    return text


@dataclass(frozen=True)
class Model:
    """The template data of a minor: of a pod, or with ``gateway`` of the gateway controller, which renders whole objects of a Gateway."""

    minor: Minor
    gateway: bool = False

    @property
    def behaviours(self) -> Behaviours:
        """The behaviours of the minor."""
        return behaviours_of(self.minor)

    def root(self, name: str) -> Place | None:
        """Return the place of a field of the template data; None if the minor has no such field."""
        if self.gateway:
            return _GATEWAY.get(name) or self._common(name) or Place(("gateway", name), ANY)
        return self._common(name) if name in self.behaviours.template_fields else None

    def _common(self, name: str) -> Place | None:
        if name == "ProxyConfig":
            return Place(("proxyConfig",), f"*{_MESSAGE}{proxy_config_type(self.minor)}")
        if name == "MeshConfig":
            return Place(("mesh",), f"*{_MESSAGE}{mesh_config_type(self.minor)}")
        return _ROOTS.get(name)

    def field(self, place: Place, name: str) -> Place | None:
        """Return the place of a field or method of a value; None if its type has none of this name."""
        kind = place.type.removeprefix("*")
        if kind == "data":
            return self.root(name)
        if kind == _OWNER:
            return self._owner(name)
        if kind.startswith(_MESSAGE):
            return _message_field(place.path, kind.removeprefix(_MESSAGE), name)
        if is_struct(kind):
            return _struct_field(place.path, kind, name)
        if kind == ANY or underlying(kind).startswith("map["):
            return place.key(name)
        return Place(place.path, kind)  # a method such as String

    def _owner(self, name: str) -> Place | None:
        if name in _OWNER_FIELDS:
            return Place((_OWNER, _OWNER_FIELDS[name]), "string")
        # Since 1.22 templates get no more than a name and a namespace.
        bare = self.minor >= (1, 22) or self.gateway
        return None if bare else _struct_field(("metadata",), "v1.ObjectMeta", name)

    def taint(self, place: Place) -> Taint | None:
        """Return the text that a pod controls at a place; None if it cannot break YAML: a number, or a text that Istio checks."""
        path = place.path
        if place.type.removeprefix("*") in _HARMLESS or path[0] in _TRUSTED or path[1:] == ("namespace",):
            return None
        if path == _SERVICE_ACCOUNT or (path[:2] == _ANNOTATIONS and not self.gateway and self._is_checked(path[2:])):
            return None
        if self.gateway and path[:2] != _ANNOTATIONS and path[0] != "proxyImage":
            return (
                None  # Kubernetes has checked the names and labels of a Gateway, and its annotations set no ProxyConfig
            )
        if path[0] == "proxyConfig" and not self.behaviours.proxy_config_annotation:
            return None
        return Taint(path, RAW)

    def _is_checked(self, names: Path) -> bool:
        return names[:1] != (PROXY_CONFIG,) and bool(checked_annotations(dict.fromkeys(names, ""), self.minor))

    def sources(self, path: Path) -> Iterator[Path]:
        """Yield the places in pod, values and mesh config that a place is computed from; itself if it is one."""
        if path[0] == "proxyConfig":
            yield ("mesh", "defaultConfig", *path[1:])
            if self.behaviours.proxy_config_annotation:
                yield (*_ANNOTATIONS, PROXY_CONFIG)
        elif path[0] in SOURCES:
            for source in SOURCES[path[0]]:
                yield from self.sources(source)
        else:
            yield path


class Walk:
    """The common part of the walks through templates: the reads, and the texts of a pod in values.

    ``text`` is the name of the template text that the walk is in. More than ``MOST_STEPS`` calls raise a RecursionError.
    """

    def __init__(self, model: Model, reads: dict[Read, tuple[str, int]]) -> None:
        self.model = model
        self.text = ""
        self._reads = reads
        self._calls = 0

    def count_call(self) -> None:
        """Count a call of a template."""
        self._calls += 1
        if self._calls > MOST_STEPS:
            raise RecursionError

    def taints(self, value: Value) -> set[Taint]:
        """Return the texts of a pod in a value."""
        taints = (self.model.taint(place) for place in value.places if place.path)
        return {*value.taints, *(taint for taint in taints if taint is not None)}

    def read(self, value: Value, line: int, *, deep: bool = True) -> None:
        """Note a read of all places of a value; printing the whole data reads it, testing it does not."""
        for place in value.places:
            for path in [place.path] if place.path else WHOLE if deep else ():
                self.note(Read(path, deep), line)

    def note(self, read: Read, line: int) -> None:
        """Note a read."""
        for path in self.model.sources(read.path):
            computed = path[:1] != read.path[:1]
            self._reads.setdefault(Read(path, read.deep or computed), (self.text, line))


WHOLE: Final[tuple[Path, ...]] = (("metadata",), ("spec",), ("values",), ("mesh",), ("proxyConfig",))
"""All of the template data that a pod, the values and the mesh config decide."""
DATA: Final = Value(frozenset({Place((), "data")}))
"""The template data itself, which dot is at the start of a Go template."""
_OWNER_FIELDS: Final = {"Name": "name", "Namespace": "namespace", "Kind": "kind", "APIVersion": "apiVersion"}
_ROOTS: Final = {
    "TypeMeta": Place((_OWNER,), _OWNER),
    "DeploymentMeta": Place((_OWNER,), _OWNER),
    "ObjectMeta": Place(("metadata",), "v1.ObjectMeta"),
    "Spec": Place(("spec",), "v1.PodSpec"),
    "Values": Place(("values",), ANY),
    "Revision": Place(("revision",), "string"),
    "NativeSidecars": Place(("nativeSidecars",), "bool"),
    "EstimatedConcurrency": Place(("estimatedConcurrency",), "int"),
    "ProxyImage": Place(("proxyImage",), "string"),
    "ProxyInitImage": Place(("proxyInitImage",), "string"),
    "ProxyUID": Place(("namespace", "annotations"), "int64"),
    "ProxyGID": Place(("namespace", "annotations"), "int64"),
    "InboundTrafficPolicyMode": Place(("mesh", "inboundTrafficPolicy"), "enum"),
    "CompliancePolicy": Place(("env", "COMPLIANCE_POLICY"), "string"),
}
_GATEWAY: Final = {
    "Spec": Place(("gateway", "spec"), ANY),
    "InfrastructureAnnotations": Place((*_ANNOTATIONS, ANY_KEY), "map[string]string"),
    "TypeMeta": Place(("gateway", "type"), ANY),
    "AgentgatewayImage": Place((*_ANNOTATIONS, "gateway.istio.io/agentgatewayImage"), "string"),
}


def _element(kind: str) -> str:
    base = underlying(kind.removeprefix("*")) if kind not in ("", ANY) else ANY
    if base.startswith("[]"):
        return base[2:]
    return base[4:].partition("]")[2] if base.startswith("map[") else ANY


def _struct_field(path: Path, kind: str, name: str) -> Place | None:
    if kind == "v1.ObjectMeta" and name.startswith("Get"):
        name = name[3:]
    fields = struct_type(kind).go_path(name)
    if not fields:
        return None
    return Place((*path, *(field.json for field in fields if not field.inline)), fields[-1].type)


def _message_field(path: Path, kind: str, name: str) -> Place | None:
    if kind.startswith("google."):
        # JSON has the wrapped value, or the duration, in place of the message.
        return Place(path, "string" if WRAPPERS.get(kind) == "string" else "int")
    message, name = message_type(kind), name.removeprefix("Get")
    if name in message.oneofs:
        return Place(path, f"*{_MESSAGE}{kind}")
    field = message.by_go.get(name)
    return None if field is None else message_place(path, field)


def message_place(path: Path, field: Field) -> Place:
    """Return the place of a field of a message."""
    inner = f"*{_MESSAGE}{field.type}" if field.kind == "message" else field.kind
    base = f"map[string]{inner}" if field.map_key else f"[]{inner}" if field.repeated else inner
    return Place((*path, field.json), base)
