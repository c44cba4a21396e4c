"""The revisions that Istio installed in a cluster, read and built once: for commands, and for the plans of upgrades.

``revisions.clustersource`` follows the same objects for the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from injector.cluster.resources import DEPLOYMENTS, NAMESPACES, NODES, PROXY_CONFIGS, ObjectReader, Scope
from injector.errors import ClusterError, DataError
from injector.fleet.offload import Offload, inline
from injector.istio.labels import REVISION_LABEL
from injector.istio.proxyconfig import ProxyConfigs
from injector.kube.objects import mapping_at, mappings_at
from injector.revisions.clustersource import (
    Watched,
    cluster_state,
    kubelet_version,
    openshift_annotations,
    proxy_config,
    reads_proxy_configs,
    shared_meshes,
    watched_resources,
    with_shared_mesh,
)
from injector.revisions.source import (
    SETTINGS_KEY,
    SHARED_MESH_CONFIG,
    ClusterFacts,
    Overrides,
    RawRevision,
    SourceState,
    build,
    overridden,
    shared_mesh_name,
    with_facts,
)

if TYPE_CHECKING:
    from injector.istio.revision import Revision

T = TypeVar("T")

NO_NODES: Final = (
    "the files have no Node: native sidecars that depend on the nodes are off; give --node-version to state it"
)
VARIABLES: Final = frozenset({
    *("ENABLE_NATIVE_SIDECARS", "PLATFORM", "COMPLIANCE_POLICY", SHARED_MESH_CONFIG),
    *("ENABLE_LEGACY_FSGROUP_INJECTION", "REWRITE_TCP_PROBES"),
})  # fmt: skip
"""The variables of istiod that decide about an injection, besides those that a template reads."""


async def list_state(reader: ObjectReader, istio_namespace: str, offload: Offload = inline) -> SourceState:
    """Return the revisions and tags that Istio installed in a cluster."""
    objects: dict[str, dict[str, Any]] = {}
    for name, resource in watched_resources([istio_namespace]).items():
        if resource.needed_by is None:
            objects[name] = await _list_objects(reader, resource)
    state = await offload(cluster_state, objects)
    for name, resource in shared_meshes(state, [istio_namespace]).items():
        objects[name] = await _list_objects(reader, resource)
    return with_shared_mesh(state, objects)


async def _list_objects(reader: ObjectReader, resource: Watched) -> dict[str, Any]:
    return {str(number): item for number, item in enumerate(await reader.all(resource.scope, resource.keep))}


@dataclass(frozen=True, slots=True)
class BuiltRevisions:
    """The revisions of a source, built, and the errors of the others; ``notes`` are for the user."""

    revisions: Mapping[str, Revision]
    failures: Mapping[str, DataError]
    notes: tuple[str, ...] = ()

    def revision(self, raw: RawRevision) -> Revision:
        """Return the revision that was built from ``raw``. Raises DataError if it could not be built."""
        if raw.name in self.failures:
            raise self.failures[raw.name]
        return self.revisions[raw.name]


async def build_all(
    reader: ObjectReader,
    state: SourceState,
    namespaces: Mapping[str, Mapping[str, Any]] | None,
    overrides: Overrides,
    offload: Offload = inline,
) -> BuiltRevisions:
    """Build every revision of a source, with the cluster's facts about nodes and namespaces.

    ``namespaces`` are the annotations of OpenShift; None if they are not known. Nodes, ProxyConfigs, and namespaces that are not known,
    are listed only if a revision depends on them. If the injector may not list nodes or ProxyConfigs, it uses none, and a note says so.
    Files without nodes do not say that a cluster has none: its nodes are not known.
    """
    revisions: dict[str, Revision] = {}
    failures: dict[str, DataError] = dict(state.failures)
    raws = {raw.name: overridden(raw, overrides) for raw in state.revisions}
    for name, raw in raws.items():
        try:
            revisions[name] = await offload(build, raw)
        except DataError as error:
            failures[name] = error
    notes: list[str] = []
    nodes: dict[str, str] | None = None
    asking = [name for name, revision in revisions.items() if revision.asks_nodes and revision.node_versions is None]
    if asking:
        try:
            listed_nodes = dict(await reader.all(Scope(NODES), partial(_with_name, kubelet_version)))
            nodes = listed_nodes if listed_nodes or reader.is_complete else None
            if nodes is None and any(raws[name].namespace for name in asking):
                notes.append(NO_NODES)
        except ClusterError as error:
            if error.reason != "forbidden":
                raise
            notes.append(f"assuming no native sidecars, because the nodes cannot be listed: {error}")
    if namespaces is None:
        is_needed = any(revision.openshift for revision in revisions.values())
        annotated = partial(_with_name, openshift_annotations)
        namespaces = dict(await reader.all(Scope(NAMESPACES), annotated)) if is_needed else {}
    proxy_configs = state.facts.proxy_configs
    if any(map(reads_proxy_configs, revisions.values())):
        try:
            listed = ProxyConfigs.of(await reader.all(Scope(PROXY_CONFIGS), proxy_config))
            proxy_configs = proxy_configs.merge_over(listed)
        except ClusterError as error:
            if error.reason not in ("forbidden", "missing"):
                raise
            if error.reason == "forbidden":
                notes.append(f"ignoring ProxyConfigs, because they cannot be listed: {error}")
    notes += [
        f"revision {name}: its shared mesh config, ConfigMap {shared}, is not there; its own is used alone"
        for name, raw in raws.items()
        if name in revisions and raw.shared_mesh is None and (shared := shared_mesh_name(raw))
    ]
    notes += await _unread_variables(reader, raws, revisions)
    facts = ClusterFacts.of(nodes, namespaces, proxy_configs)
    for name, revision in revisions.items():
        revisions[name] = await offload(with_facts, revision, replace(raws[name], facts=facts))
    return BuiltRevisions(revisions, failures, tuple(notes))


async def _unread_variables(
    reader: ObjectReader, raws: Mapping[str, RawRevision], revisions: Mapping[str, Revision]
) -> list[str]:
    """Return a note for each istiod whose Deployment sets variables that decide, but that neither the values nor settings have.

    There is none if the Deployments may not be listed.
    """
    notes = []
    for namespace in sorted({raws[name].namespace for name in revisions} - {""}):
        scope = Scope(DEPLOYMENTS, namespace, "app=istiod")
        try:
            listed = await reader.all(scope, _istiod_variables)
        except ClusterError as error:
            if error.reason != "forbidden":
                raise
            continue
        for name, variables in listed:
            if name in revisions and namespace == raws[name].namespace:
                env = revisions[name].env
                unread = [f"{key}={value}" for key, value in variables.items() if env.get(key, "") != value]
                if unread:
                    notes.append(
                        f"revision {name}: variables of the Deployment of istiod are not read, {', '.join(unread)}; "
                        f"put them into env of {SETTINGS_KEY}, or give --set-env"
                    )
    return notes


def _istiod_variables(item: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the revision of a Deployment of istiod, and the variables in it that decide about an injection."""
    revision = str(mapping_at(item, "metadata", "labels").get(REVISION_LABEL) or "default")
    pod = mapping_at(item, "spec", "template", "spec")
    variables = [variable for container in mappings_at(pod, "containers") for variable in mappings_at(container, "env")]
    stated = {str(variable.get("name")): variable.get("value") for variable in variables}
    return revision, {name: str(value) for name, value in stated.items() if name in VARIABLES and value is not None}


def _with_name(keep: Callable[[Mapping[str, Any]], T | None], item: Mapping[str, Any]) -> tuple[str, T] | None:
    reduced = keep(item)
    return None if reduced is None else (item["metadata"]["name"], reduced)
