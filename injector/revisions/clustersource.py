"""Revisions from a cluster: Istio's ConfigMaps, its tags, and what revisions ask of nodes and namespaces.

``ClusterSource.read`` returns the last known state; ``follow`` keeps it up to date and reports each change. A cluster
whose ConfigMaps are all deleted is read as one without revisions; the loader then keeps what it serves. Nodes are
watched only where a revision's native sidecars depend on them, namespaces only where one is for OpenShift, and of both
only what is asked for is remembered.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.configmaps import istio_config_map, revision_texts
from injector.cluster.listwatch import ListWatch
from injector.cluster.reader import CONFIG_MAPS, NAMESPACES, NODES, WEBHOOKS, Scope
from injector.cluster.webhooks import tag_webhook, tag_webhooks
from injector.errors import DataError
from injector.injection.steps.openshift import SUPPLEMENTAL_GROUPS, UID_RANGE
from injector.istio.frozen import frozen
from injector.istio.webhooks import REVISION_LABEL, TAG_LABEL
from injector.revisions.names import checked_name
from injector.revisions.source import ClusterFacts, RawRevision, SourceState
from injector.revisions.tagannotations import annotated_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from injector.cluster.configmaps import RevisionTexts
    from injector.cluster.listwatch import Client, Observer
    from injector.cluster.webhooks import TagWebhook
    from injector.istio.revision import Revision
    from injector.revisions.tags import Tag


def kept_namespace(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what OpenShift says of a namespace; None where it says nothing."""
    annotations = item["metadata"].get("annotations") or {}
    kept = {key: annotations[key] for key in (UID_RANGE, SUPPLEMENTAL_GROUPS) if key in annotations}
    return {"annotations": kept} if kept else None


def kept_node(item: Mapping[str, Any]) -> str | None:
    """Return the version of a node's kubelet; None before it has told."""
    version = ((item.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion")
    return str(version) if version else None


@dataclass(frozen=True, slots=True)
class Watched:
    """What is asked for of one resource, and what is remembered of each object; None leaves it out."""

    scope: Scope
    keep: Callable[[Mapping[str, Any]], Any]


def watched(istio_namespace: str) -> dict[str, Watched]:
    """Return what is watched, by resource, and what is remembered of each object."""
    return {
        CONFIG_MAPS.plural: Watched(Scope(CONFIG_MAPS, istio_namespace, REVISION_LABEL), istio_config_map),
        WEBHOOKS.plural: Watched(Scope(WEBHOOKS, labels=TAG_LABEL), tag_webhook),
        NODES.plural: Watched(Scope(NODES), kept_node),
        NAMESPACES.plural: Watched(Scope(NAMESPACES), kept_namespace),
    }


ALWAYS: Final = (CONFIG_MAPS.plural, WEBHOOKS.plural)
WHERE_ASKED: Final[dict[str, Callable[[Revision], bool]]] = {
    NODES.plural: lambda revision: revision.asks_nodes,
    NAMESPACES.plural: lambda revision: revision.openshift,
}
"""What is watched only if a revision needs it, and which do."""


@dataclass
class ClusterSource:
    """The revisions of one cluster.

    Args:
        client: the API server.
        observer: is told of faults.
        namespace: Istio's.
    """

    client: Client
    observer: Observer
    namespace: str = "istio-system"
    _seen: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    _watches: dict[str, ListWatch] = field(default_factory=dict)
    _served_changed: asyncio.Event = field(default_factory=asyncio.Event)

    def read(self) -> SourceState:
        """Return what was seen last; nothing before the first list is complete. Any thread may ask."""
        seen = self._seen
        # Tags that are listed before the revisions would all lead nowhere.
        return cluster_state(seen if CONFIG_MAPS.plural in seen else {}, self.namespace)

    def served_changed(self) -> None:
        """See whether what is served now asks for more than is watched."""
        self._served_changed.set()

    async def follow(
        self, changed: Callable[[], None], served: Callable[[], Iterable[Revision]], settled: asyncio.Event
    ) -> None:
        """Watch until cancelled.

        Args:
            changed: is called after each change; ``read`` has it then.
            served: what is served now, which says what else to watch; ``served_changed`` says that it has changed.
            settled: is set once the API server has answered everything that is asked for.

        Raises:
            ConfigError: there are no credentials, or they cannot be used.
        """
        await self.client.open()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._watch(tasks, ALWAYS, changed)
                await self._answered()
                self._watch(tasks, _asked_by(served()), changed)
                await self._answered()
                settled.set()
                while True:
                    self._watch(tasks, _asked_by(served()), changed)
                    await self._served_changed.wait()
                    self._served_changed.clear()
        finally:
            await self.client.close()

    def _watch(self, tasks: asyncio.TaskGroup, names: Iterable[str], changed: Callable[[], None]) -> None:
        known = watched(self.namespace)
        for name in names:
            if name not in self._watches:
                self._watches[name] = ListWatch(
                    self.client,
                    known[name].scope,
                    keep=known[name].keep,
                    changed=self._told(name, changed),
                    observer=self.observer,
                )
                tasks.create_task(self._watches[name].run())

    def _told(self, name: str, changed: Callable[[], None]) -> Callable[[Mapping[str, Any]], None]:
        def told(objects: Mapping[str, Any]) -> None:
            self._seen = {**self._seen, name: objects}
            if CONFIG_MAPS.plural in self._seen:
                changed()

        return told

    async def _answered(self) -> None:
        """Wait for every watch; one that is not permitted is not waited for, but for that of the ConfigMaps."""
        for name, watch in self._watches.items():
            await (watch.synced if name == CONFIG_MAPS.plural else watch.answered).wait()


def _asked_by(revisions: Iterable[Revision]) -> list[str]:
    known = tuple(revisions)
    return [name for name, asks in WHERE_ASKED.items() if any(asks(revision) for revision in known)]


def cluster_state(seen: Mapping[str, Mapping[str, Any]], namespace: str) -> SourceState:
    """Return what objects of a cluster, as they are remembered, come to."""
    found = revision_texts(seen.get(CONFIG_MAPS.plural, {}).values(), namespace=namespace)
    facts = ClusterFacts(
        node_versions=tuple(sorted(set(seen.get(NODES.plural, {}).values()))),
        namespaces=frozen(seen.get(NAMESPACES.plural, {})),
    )
    revisions: list[RawRevision] = []
    failures: dict[str, DataError] = dict(found.failures)
    for texts in found.revisions:
        try:
            revisions.append(_raw(texts, facts))
        except DataError as error:
            failures[texts.name] = error
    tags, faults = cluster_tags(seen.get(WEBHOOKS.plural, {}).values())
    return SourceState(tuple(revisions), failures, tags, tag_faults=faults, facts=facts)


def _raw(texts: RevisionTexts, facts: ClusterFacts) -> RawRevision:
    return RawRevision(
        name=checked_name(texts.name, where=texts.origin),
        config=texts.config,
        values=texts.values,
        mesh=texts.mesh,
        mesh_networks=texts.mesh_networks,
        settings=texts.settings,
        origin=texts.origin,
        files=texts.files,
        facts=facts,
    )


def cluster_tags(webhooks: Iterable[TagWebhook]) -> tuple[dict[str, Tag], dict[str, DataError]]:
    """Return the tags of these objects, and what is wrong with tags, by name."""
    objects, clashes = tag_webhooks(webhooks)
    tags: dict[str, Tag] = {}
    faults: dict[str, DataError] = dict(clashes)
    for name, webhook in objects.items():
        try:
            tags[name], fault = annotated_tag(webhook)
        except DataError as error:
            faults[name] = error
        else:
            faults |= {} if fault is None else {name: fault}
    return tags, faults
