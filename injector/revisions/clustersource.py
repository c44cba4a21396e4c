"""Revisions in a cluster: Istio's ConfigMaps, its tags, and facts about nodes and namespaces.

``ClusterSource`` follows a cluster for the server: ``read`` returns the last known state, ``follow`` keeps it up to date. If all ConfigMaps
are deleted, the state has no revisions, and the loader keeps what it serves. Nodes are watched only if the native sidecars of a revision
depend on them, namespaces only if a revision is for OpenShift, and ProxyConfigs only if a revision's Istio reads them.
``fleet.clusterrevisions`` reads the same once, for commands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

from injector.cluster.listwatch import ListWatch
from injector.cluster.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PROXY_CONFIGS,
    WEBHOOKS,
    Scope,
)
from injector.cluster.webhooks import WebhookFacts, webhook_facts, webhook_faults
from injector.errors import ConfigError
from injector.injection.data import SUPPLEMENTAL_GROUPS, UID_RANGE
from injector.istio.frozen import frozen
from injector.istio.labels import ISTIO_NAMESPACE, REVISION_LABEL
from injector.istio.proxyconfig import ProxyConfigResource, ProxyConfigs, read_proxy_config_resource
from injector.kube.objects import mapping_at
from injector.kube.selectors import is_subdomain
from injector.revisions.configmaps import istio_config_map, raw_revisions
from injector.revisions.source import (
    ClusterFacts,
    RawRevision,
    SourceState,
    shared_mesh_name,
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
        if namespace in namespaces and is_subdomain(name)
    }


def shared_mesh_key(raw: RawRevision) -> str:
    """Return the key of the ConfigMap with the shared mesh config of a revision among the objects."""
    return f"{SHARED_MESH}/{raw.namespace}/{shared_mesh_name(raw)}"


def with_shared_mesh(state: SourceState, objects: Mapping[str, Mapping[str, str]]) -> SourceState:
    """Return the state with the shared mesh configs of its revisions. One that does not exist is left out, as istiod does it."""
    revisions = []
    for raw in state.revisions:
        texts = objects.get(shared_mesh_key(raw), {})
        revisions.append(replace(raw, shared_mesh=next(iter(texts.values()), None)))
    return replace(state, revisions=tuple(revisions))


def without_changes_of(state: SourceState, unlisted: Collection[str], before: SourceState | None) -> SourceState:
    """Return the state, in which the revisions whose shared mesh config is ``unlisted`` are as in the state ``before`` it."""
    known = {} if before is None else {raw.name: raw for raw in before.revisions}
    revisions = (known.get(raw.name) if shared_mesh_key(raw) in unlisted else raw for raw in state.revisions)
    return replace(state, revisions=tuple(raw for raw in revisions if raw is not None))


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


class LastRead(NamedTuple):
    """The objects that were read last, their state, and the ConfigMaps with the shared mesh configs of its revisions."""

    objects: Mapping[str, Mapping[str, Any]]
    state: SourceState
    shared_meshes: Mapping[str, Watched]


@dataclass
class ClusterSource:
    """The revisions of one cluster. Other tasks use the client too. ``registry`` has the revisions that are served."""

    client: KubeClient
    registry: Registry
    metrics: Metrics
    namespaces: tuple[str, ...] = (ISTIO_NAMESPACE,)
    objects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The objects of each resource that was listed, by resource and name."""
    _last: LastRead | None = None
    _watches: dict[str, ListWatch] = field(default_factory=dict)
    _watch_again: asyncio.Event = field(default_factory=asyncio.Event)
    """Set if there may be more to watch."""
    _loop: asyncio.AbstractEventLoop | None = None
    """The event loop, once everything has been listed."""

    def __post_init__(self) -> None:
        self.registry.subscribe(self._watch_again.set)

    def read(self) -> SourceState:
        """Return the last known state, empty before the first list is complete. It may be called on any thread.

        Once everything has been listed, a revision is new or changed only after its shared mesh config has been listed.
        """
        return self._read().state

    def _read(self) -> LastRead:
        objects, last = self.objects, self._last
        if last is None or last.objects is not objects:
            # Tags that are listed before the revisions would all lead to nothing.
            state = cluster_state(objects if self._has_config_maps(objects) else {})
            shared = shared_meshes(state, self.namespaces)
            unlisted = shared.keys() - objects.keys()
            if unlisted and self._loop is not None:
                state = without_changes_of(state, unlisted, last and last.state)
                self._loop.call_soon_threadsafe(self._watch_again.set)
            self._last = last = LastRead(objects, state, shared)
        return last

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
            self._loop = asyncio.get_running_loop()
            ready.set()
            while True:
                self._watch(tasks, changed)
                await self._watch_again.wait()
                self._watch_again.clear()

    def _watch(self, tasks: asyncio.TaskGroup, changed: Callable[[], None]) -> None:
        """Start the watches that are missing for the revisions that are served, or wait for their shared mesh config."""
        revisions = self.registry.snapshot.revisions.values()
        resources = {**watched_resources(self.namespaces), **self._read().shared_meshes}
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
