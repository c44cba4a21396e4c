"""What breaks in a cluster between the minors of two revisions: the objects, the workloads and the versions that ``istio`` asks about."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    NODES,
    PODS,
    RUNNING,
    SERVICES,
    ObjectReader,
    Resource,
    Scope,
)
from injector.errors import ClusterError
from injector.hints import first_of
from injector.istio.behaviours import NEWEST, Minor, format_minor
from injector.istio.labels import REVISION_LABEL
from injector.istio.minorchanges import (
    MESH,
    POD,
    Break,
    ChangedDefault,
    breaks_of,
    changed_defaults,
    kubernetes_breaks,
    proxy_version_breaks,
    removed_variables,
    rules_between,
    skew_breaks,
)
from injector.istio.revision import kubelet_minor
from injector.kube.objects import mapping_at, mappings_at
from injector.kube.pods import has_ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from injector.istio.minorchanges import Rule
    from injector.istio.revision import Revision
    from injector.kube.podtemplates import Created

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "EnvoyFilter": ("networking.istio.io",),
    "DestinationRule": ("networking.istio.io",),
    "ServiceEntry": ("networking.istio.io",),
    "Telemetry": ("telemetry.istio.io",),
    "BackendTLSPolicy": ("gateway.networking.k8s.io",),
    "InferencePool": ("inference.networking.x-k8s.io",),
    "TLSRoute": ("gateway.networking.k8s.io",),
    "TCPRoute": ("gateway.networking.k8s.io",),
    "AuthorizationPolicy": ("security.istio.io",),
    "RequestAuthentication": ("security.istio.io",),
    "WasmPlugin": ("extensions.istio.io",),
    "NetworkPolicy": ("networking.k8s.io",),
    "PodDisruptionBudget": ("policy",),
}
"""The API groups of the kinds that rules are about. The other kinds are Kubernetes' own, or no objects."""
_SERVED: Final = frozenset({"TLSRoute", "TCPRoute"})
"""The kinds whose rules are about the versions that the API server offers. Files do not tell them."""
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.\d+")
_CNI_LABEL: Final = "k8s-app=istio-cni-node"
_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class MinorChanges:
    """What breaks for the minor ``target``, the defaults that change, and notes about what could not be read."""

    breaks: tuple[Break, ...] = ()
    defaults: tuple[ChangedDefault, ...] = ()
    notes: tuple[str, ...] = ()
    target: Minor = NEWEST

    def data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "breaks": [item.data() for item in self.breaks],
            "changedDefaults": [
                {"minor": format_minor(default.minor), "variable": default.variable, "about": default.about}
                for default in self.defaults
            ],
        }

    def break_lines(self) -> list[str]:
        """Return a line for each thing that breaks, with the first objects."""
        subjects: dict[tuple[str, str], list[str]] = {}
        for item in self.breaks:
            subjects.setdefault((item.what, item.source), []).append(item.subject)
        return [
            f"breaks: {first_of(names, _NAMES)}: {what}" + (f" [{source}]" if source else "")
            for (what, source), names in subjects.items()
        ]

    def lines(self) -> list[str]:
        """Return the same, and a line for each changed default."""
        return self.break_lines() + [
            f"default of {format_minor(default.minor)}: {default.about}; {default.remedy(self.target)}"
            for default in self.defaults
        ]


async def read_minor_changes(
    reader: ObjectReader, source: Revision, target: Revision, workloads: Iterable[Created], *, is_upgrade: bool = False
) -> MinorChanges:
    """Return what breaks for a cluster, or for files, when workloads go from one revision to one of another version.

    Without a later minor, only the versions of proxies in EnvoyFilters count. Kinds that the cluster does not have are left out. For an
    upgrade to a later minor, the versions that run beside each other are checked too.
    """
    if _version(source) == _version(target):
        return MinorChanges()
    rules, notes = rules_between(source.minor, target.minor), list[str]()
    objects: dict[str, list[dict[str, Any]]] = {}
    kinds = {"EnvoyFilter", *(rule.kind for rule in rules)}
    if MESH in kinds:
        kinds.add(SERVICES.kind)  # one of them receives traces
    if not reader.is_complete:
        kinds -= _SERVED
    for kind in sorted(kinds - {MESH, POD}):
        objects[kind] = await _objects(reader, kind, notes)
    breaks = [item for kind, items in objects.items() for obj in items for item in breaks_of(rules, kind, obj)]
    root = target.mesh.root_namespace
    breaks += proxy_version_breaks(objects["EnvoyFilter"], _version(source), _version(target), root)
    breaks += removed_variables(source.minor, target.minor, {*_variables(source), *_variables(target)})
    for workload in workloads:
        breaks += breaks_of(rules, POD, workload.pod, str(workload))
    breaks += _mesh_breaks(rules, target, objects.get(SERVICES.kind, ()))
    if is_upgrade and source.minor < target.minor:
        breaks += await _version_breaks(reader, source, target, notes)
        breaks += await _kubernetes_breaks(reader, target, notes)
    return MinorChanges(
        tuple(sorted(breaks, key=lambda item: (item.rule, item.subject))),
        tuple(_defaults(source, target)),
        tuple(notes),
        target.minor,
    )


async def _objects(reader: ObjectReader, kind: str, notes: list[str]) -> list[dict[str, Any]]:
    """Return the objects of a kind, each with its kind; empty if the cluster does not have it."""
    try:
        resources = [SERVICES] if kind == SERVICES.kind else []
        for group in _GROUPS.get(kind, ()):
            served = await reader.find_resource(kind, group)
            resources += [] if served is None else [served]
        return [obj for resource in resources for obj in await _all(reader, Scope(resource))]
    except ClusterError as error:
        notes.append(f"what breaks of {kind}s is not known: {error.what}")
        return []


async def _all(reader: ObjectReader, scope: Scope) -> list[dict[str, Any]]:
    """Return the objects of a scope. The items of a live list do not name their kind and version."""
    kind: Resource = scope.resource
    return await reader.all(scope, lambda item: {"apiVersion": kind.api_version, "kind": kind.kind, **item})


def _mesh_breaks(rules: Sequence[Rule], target: Revision, services: Iterable[Mapping[str, Any]]) -> list[Break]:
    mesh, zipkin = dict(target.mesh.mesh_config.values), (target.mesh.root_namespace, "zipkin")
    mesh["zipkinExists"] = any(
        (item["metadata"].get("namespace"), item["metadata"].get("name")) == zipkin for item in services
    )
    return breaks_of(rules, MESH, mesh, f"mesh config of {target.name}")


async def _version_breaks(reader: ObjectReader, source: Revision, target: Revision, notes: list[str]) -> list[Break]:
    try:
        minors = await reader.all(Scope(PODS, fields=RUNNING), _proxy_minor)
        agents = await reader.all(Scope(DAEMON_SETS, labels=_CNI_LABEL), _image_minor)
    except ClusterError as error:
        notes.append(f"the versions of proxies and of the CNI are not known: {error.what}")
        return []
    breaks = skew_breaks(source.minor, target.minor, Counter(minors), min(agents, default=None))
    if _uses_cni(target) and not _uses_cni(source) and reader.is_complete and not agents:
        what = "its pods have no istio-init, and the cluster has no DaemonSet istio-cni-node: install it first"
        breaks.append(Break("cni-missing", f"revision {target.name}", what))
    return breaks


async def _kubernetes_breaks(reader: ObjectReader, target: Revision, notes: list[str]) -> list[Break]:
    def kubelet(node: dict[str, Any]) -> int | None:
        return kubelet_minor(str(mapping_at(node, "status", "nodeInfo").get("kubeletVersion", ""))) or None

    try:
        minors = await reader.all(Scope(NODES), kubelet)
    except ClusterError as error:
        notes.append(f"the version of Kubernetes is not known: {error.what}")
        return []
    return kubernetes_breaks(target.minor, max(minors)) if minors else []


def _uses_cni(revision: Revision) -> bool:
    tree = revision.values.tree
    return any(mapping_at(tree, *path).get("enabled") for path in (("pilot", "cni"), ("istio_cni",)))


def _proxy_minor(pod: dict[str, Any]) -> Minor | None:
    if has_ended(pod):
        return None
    spec = pod.get("spec") or {}
    for container in (*mappings_at(spec, "initContainers"), *mappings_at(spec, "containers")):
        if container.get("name") == "istio-proxy":
            return _minor_of_image(str(container.get("image", "")))
    return None


async def read_istiod_minor(reader: ObjectReader, revisions: Sequence[str]) -> Minor | None:
    """Return the minor of the first Deployment of an istiod of one of the revisions; None if no image that can be read tells."""
    for revision in revisions:
        scope = Scope(DEPLOYMENTS, labels=f"app=istiod,{REVISION_LABEL}={revision}")
        try:
            minors = await reader.all(scope, _image_minor)
        except ClusterError:
            return None
        if minors:
            return minors[0]
    return None


def _image_minor(workload: dict[str, Any]) -> Minor | None:
    """Return the minor in the first image of a DaemonSet or Deployment that has one."""
    containers = mappings_at(mapping_at(workload, "spec", "template", "spec"), "containers")
    return next(
        (minor for container in containers if (minor := _minor_of_image(str(container.get("image", ""))))), None
    )


def _minor_of_image(image: str) -> Minor | None:
    match = _VERSION.match(image.rpartition("/")[2].partition(":")[2])
    return None if match is None else (int(match[1]), int(match[2]))


def _version(revision: Revision) -> str:
    """Return the complete version of a revision's proxies, as ``1.28.3``; the first one of its minor if its tag does not tell."""
    match, minor = _VERSION.match(revision.values.tag), format_minor(revision.minor)
    return match[0] if match is not None and match[0].startswith(f"{minor}.") else f"{minor}.0"


def _istiod_variables(revision: Revision) -> Mapping[str, Any]:
    return {**revision.values.environment, **revision.env}


def _proxy_variables(revision: Revision) -> Mapping[str, Any]:
    return mapping_at(dict(revision.mesh.mesh_config.values), "defaultConfig", "proxyMetadata")


def _variables(revision: Revision) -> Mapping[str, Any]:
    return {**_istiod_variables(revision), **_proxy_variables(revision)}


def _defaults(source: Revision, target: Revision) -> list[ChangedDefault]:
    return changed_defaults(source.minor, target.minor, _istiod_variables(target), _proxy_variables(target))
