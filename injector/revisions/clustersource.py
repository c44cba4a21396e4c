"""Revisions in a cluster: Istio's ConfigMaps, its tags, and facts about nodes and namespaces.

``ClusterSource`` follows a cluster for the server: ``read`` returns the last known state, ``follow`` keeps it up to date. If all ConfigMaps
are deleted, the state has no revisions, and the loader keeps what it serves. Nodes are watched only if the native sidecars of a revision
depend on them, namespaces only if a revision is for OpenShift, and ProxyConfigs only if a revision's Istio reads them. ``list_state``
and ``build_all`` are for commands, which read once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar

from injector.cluster.listwatch import ListWatch
from injector.cluster.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PROXY_CONFIGS,
    WEBHOOKS,
    ObjectReader,
    Scope,
)
from injector.cluster.webhooks import WebhookFacts, webhook_facts, webhook_faults
from injector.errors import ClusterError, ConfigError, DataError
from injector.injection.data import SUPPLEMENTAL_GROUPS, UID_RANGE
from injector.istio.frozen import frozen
from injector.istio.labels import ISTIO_NAMESPACE, REVISION_LABEL
from injector.istio.proxyconfig import ProxyConfigResource, ProxyConfigs, read_proxy_config_resource
from injector.kube.objects import mapping_at, mappings_at
from injector.revisions.configmaps import istio_config_map, raw_revisions
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
from injector.revisions.tags import TagObject, read_tags, tag_object

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.istio.revision import Revision
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry

T = TypeVar("T")
P = ParamSpec("P")

_log = logging.getLogger(__name__)

SHARED_MESH: Final = "sharedmesh"
NO_NODES: Final = (
    "the files have no Node: native sidecars that depend on the nodes are off; give --node-version to state it"
)
VARIABLES: Final = frozenset({
    *("ENABLE_NATIVE_SIDECARS", "PLATFORM", "COMPLIANCE_POLICY", SHARED_MESH_CONFIG),
    *("ENABLE_LEGACY_FSGROUP_INJECTION", "REWRITE_TCP_PROBES"),
})  # fmt: skip
"""The variables of istiod that decide about an injection, besides those that a template reads."""


def reduce_webhooks(item: Mapping[str, Any]) -> tuple[TagObject | None, WebhookFacts | None]:
    """Return the tag of a MutatingWebhookConfiguration, if it has one, and where it leads."""
    return tag_object(item), webhook_facts(item)


def openshift_annotations(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the annotations that OpenShift gives a namespace; None if it has none."""
    annotations = item["metadata"].get("annotations") or {}
    ranges = {key: annotations[key] for key in (UID_RANGE, SUPPLEMENTAL_GROUPS) if key in annotations}
    return frozen({"annotations": ranges}) if ranges else None


def proxy_config(item: Mapping[str, Any]) -> ProxyConfigResource | None:
    """Return the ProxyConfig in an object; None if a field has another type than in Istio's CustomResourceDefinition."""
    try:
        return read_proxy_config_resource(item)
    except ConfigError as error:
        _log.warning("ignoring %s: it is not valid", error.where or "a ProxyConfig")
        return None


def kubelet_version(item: Mapping[str, Any]) -> str:
    """Return the version of a node's kubelet; empty, which is older than any other for Istio, if the node does not report it yet."""
    return str(mapping_at(item, "status", "nodeInfo").get("kubeletVersion") or "")


def _with_name(keep: Callable[[Mapping[str, Any]], T | None], item: Mapping[str, Any]) -> tuple[str, T] | None:
    reduced = keep(item)
    return None if reduced is None else (item["metadata"]["name"], reduced)


@dataclass(frozen=True, slots=True)
class Watched:
    """One resource to watch. ``keep`` returns what to remember of an object; None leaves it out.

    ``needed_by`` tells whether a revision needs it; None means that it is always watched.
    """

    scope: Scope
    keep: Callable[[Mapping[str, Any]], Any]
    needed_by: Callable[[Revision], bool] | None = None


def reads_proxy_configs(revision: Revision) -> bool:
    """Return whether the Istio of a revision reads ProxyConfig resources."""
    return bool(revision.behaviours.proxy_config_merge)


def shared_mesh(item: Mapping[str, Any]) -> str | None:
    """Return the mesh config of a ConfigMap; None if it has none."""
    text = mapping_at(item, "data").get("mesh")
    return text if isinstance(text, str) else None


def shared_meshes(state: SourceState, namespaces: Collection[str]) -> dict[str, Watched]:
    """Return the ConfigMaps with the shared mesh configs of the revisions. They have no label of a revision."""
    named = {(raw.namespace, name) for raw in state.revisions if (name := shared_mesh_name(raw))}
    return {
        f"{SHARED_MESH}/{namespace}/{name}": Watched(
            Scope(CONFIG_MAPS, namespace, name=name, optional=True, watch_name=SHARED_MESH), shared_mesh
        )
        for namespace, name in sorted(named)
        if namespace in namespaces
    }


def with_shared_mesh(state: SourceState, objects: Mapping[str, Mapping[str, str]]) -> SourceState:
    """Return the state with the shared mesh configs of its revisions. One that does not exist is left out, as istiod does it."""
    revisions = []
    for raw in state.revisions:
        texts = objects.get(f"{SHARED_MESH}/{raw.namespace}/{shared_mesh_name(raw)}", {})
        revisions.append(replace(raw, shared_mesh=next(iter(texts.values()), None)))
    return replace(state, revisions=tuple(revisions))


def config_map_key(namespace: str) -> str:
    """Return the key of the ConfigMaps of a namespace among the objects."""
    return f"{CONFIG_MAPS.plural}/{namespace}"


def watched_resources(namespaces: Iterable[str]) -> dict[str, Watched]:
    """Return the resources to watch by their plural, and ConfigMaps by namespace."""
    return {
        **{
            config_map_key(namespace): Watched(
                Scope(CONFIG_MAPS, namespace, REVISION_LABEL, watch_name=CONFIG_MAPS.plural), istio_config_map
            )
            for namespace in namespaces
        },
        WEBHOOKS.plural: Watched(Scope(WEBHOOKS, labels=REVISION_LABEL), reduce_webhooks),
        NODES.plural: Watched(Scope(NODES), kubelet_version, lambda revision: revision.asks_nodes),
        NAMESPACES.plural: Watched(Scope(NAMESPACES), openshift_annotations, lambda revision: revision.openshift),
        PROXY_CONFIGS.plural: Watched(Scope(PROXY_CONFIGS, optional=True), proxy_config, reads_proxy_configs),
    }


@dataclass
class ClusterSource:
    """The revisions of one cluster. Other tasks use the client too. ``registry`` has the revisions that are served."""

    client: KubeClient
    registry: Registry
    metrics: Metrics
    namespaces: tuple[str, ...] = (ISTIO_NAMESPACE,)
    objects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The objects of each resource that was listed, by resource and name."""
    _last: tuple[Mapping[str, Mapping[str, Any]], SourceState] | None = None
    """The objects that were read last, and their state."""
    _watches: dict[str, ListWatch] = field(default_factory=dict)
    _served_changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.registry.subscribe(self._served_changed.set)

    def read(self) -> SourceState:
        """Return the last known state, empty before the first list is complete. It may be called on any thread."""
        objects, last = self.objects, self._last
        if last is None or last[0] is not objects:
            # Tags that are listed before the revisions would all lead to nothing.
            state = cluster_state(objects if self._has_config_maps(objects) else {})
            self._last = last = objects, state
        return last[1]

    async def follow(self, changed: Callable[[], None], ready: asyncio.Event) -> None:
        """Watch until cancelled.

        ``changed`` is called after each change, when ``read`` returns the new state: in a server, ``Reloader.on_change``. ``ready`` is
        set once everything that the revisions need has been listed.
        """
        self._watches.clear()  # those of a run that failed have ended
        async with asyncio.TaskGroup() as tasks:
            for _ in range(2):  # the first list has the revisions
                self._watch(tasks, changed)
                await self._wait_until_synced()
            ready.set()
            while True:
                self._watch(tasks, changed)
                await self._served_changed.wait()
                self._served_changed.clear()

    def _watch(self, tasks: asyncio.TaskGroup, changed: Callable[[], None]) -> None:
        """Start the watches that are missing for the revisions that are served."""
        revisions = self.registry.snapshot.revisions.values()
        resources = {**watched_resources(self.namespaces), **shared_meshes(self.read(), self.namespaces)}
        for name, resource in resources.items():
            needed_by = resource.needed_by
            if name not in self._watches and (needed_by is None or any(map(needed_by, revisions))):
                self._watches[name] = ListWatch(
                    self.client,
                    resource.scope,
                    keep=resource.keep,
                    changed=partial(self._store, name, changed),
                    metrics=self.metrics,
                )
                tasks.create_task(self._watches[name].run())

    def _store(self, name: str, changed: Callable[[], None], objects: Mapping[str, Any]) -> None:
        self.objects = {**self.objects, name: objects}
        if self._has_config_maps(self.objects):
            changed()

    def _has_config_maps(self, objects: Collection[str]) -> bool:
        return all(config_map_key(namespace) in objects for namespace in self.namespaces)

    async def _wait_until_synced(self) -> None:
        for watch in self._watches.values():
            await watch.synced.wait()

    def pending(self) -> str:
        """Return why a resource that is watched has not been listed yet; empty if all have."""
        missing = [(name, watch.fault) for name, watch in self._watches.items() if not watch.synced.is_set()]
        return next((fault or f"listing {name}" for name, fault in missing), "")


def cluster_state(objects: Mapping[str, Mapping[str, Any]]) -> SourceState:
    """Return the state of a source from the remembered objects of a cluster."""
    proxy_configs = ProxyConfigs.of(objects.get(PROXY_CONFIGS.plural, {}).values())
    facts = ClusterFacts.of(objects.get(NODES.plural), frozen(objects.get(NAMESPACES.plural, {})), proxy_configs)
    config_maps = [
        half for key, halves in objects.items() if key.startswith(config_map_key("")) for half in halves.values()
    ]
    revisions, failures = raw_revisions(config_maps, facts=facts)
    webhooks: Iterable[tuple[TagObject | None, WebhookFacts | None]] = objects.get(WEBHOOKS.plural, {}).values()
    tags, faults = read_tags(tag for tag, _ in webhooks if tag is not None)
    webhook_errors = webhook_faults(led for _, led in webhooks)
    state = SourceState(revisions, failures, tags, tag_faults=faults, facts=facts, webhook_faults=webhook_errors)
    return with_shared_mesh(state, objects)


class Offload(Protocol):
    """Runs work that takes the processor for long: ``inline``, or ``asyncio.to_thread`` where an event loop has to stay free."""

    async def __call__(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` and return its result."""


async def inline(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``work`` in this thread."""
    return work(*args, **kwargs)


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

    Who may not list Deployments gets none.
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
