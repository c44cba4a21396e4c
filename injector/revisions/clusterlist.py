"""The revisions of a cluster as they stand now, for commands that look once and end; ``clustersource`` follows them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from injector.cluster.reader import CONFIG_MAPS, NODES, WEBHOOKS, Scope
from injector.errors import ClusterError, DataError
from injector.revisions.build import Overrides, build, overridden, with_facts
from injector.revisions.clustersource import cluster_state, kept_node, watched
from injector.revisions.source import ClusterFacts, RawRevision, SourceState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from injector.cluster.reader import Reader
    from injector.istio.revision import Revision


@dataclass(frozen=True, slots=True)
class Built:
    """The revisions of a source, built, and what is wrong with those that cannot be; ``notes`` are for the user."""

    revisions: Mapping[str, Revision]
    failures: Mapping[str, DataError]
    notes: tuple[str, ...] = ()

    def revision(self, raw: RawRevision) -> Revision:
        """Return the revision that was built of ``raw``.

        Raises:
            DataError: it cannot be.
        """
        if raw.name in self.failures:
            raise self.failures[raw.name]
        return self.revisions[raw.name]


async def listed_state(reader: Reader, istio_namespace: str) -> SourceState:
    """Return the revisions and tags that Istio installed in a cluster.

    Raises:
        ClusterError: the API server cannot be reached, or refuses.
    """
    known = watched(istio_namespace)
    seen: dict[str, dict[str, Any]] = {}
    for name in (CONFIG_MAPS.plural, WEBHOOKS.plural):
        kept = await reader.all(known[name].scope, known[name].keep)
        seen[name] = {each.name: each for each in kept}
    return cluster_state(seen, istio_namespace)


async def built_with_facts(
    reader: Reader, state: SourceState, namespaces: Mapping[str, Mapping[str, Any]], overrides: Overrides
) -> Built:
    """Build every revision of a source with what the cluster says of nodes and namespaces.

    ``namespaces`` is what OpenShift says of each. Nodes are asked only where a revision depends on them; where that is not
    permitted a note says so, and none is known.

    Raises:
        ClusterError: the API server cannot be reached.
    """
    revisions: dict[str, Revision] = {}
    failures: dict[str, DataError] = dict(state.failures)
    raws = {raw.name: overridden(raw, overrides) for raw in state.revisions}
    for name, raw in raws.items():
        try:
            revisions[name] = build(raw)
        except DataError as error:
            failures[name] = error
    notes: list[str] = []
    versions: list[str] = []
    if any(revision.asks_nodes and not revision.node_versions for revision in revisions.values()):
        try:
            versions = await reader.all(Scope(NODES), kept_node)
        except ClusterError as error:
            if error.reason != "forbidden":
                raise
            notes.append(f"native sidecars are taken to be off, since the nodes cannot be asked: {error}")
    facts = ClusterFacts(tuple(sorted(set(versions))), namespaces)
    found = {name: with_facts(revision, replace(raws[name], facts=facts)) for name, revision in revisions.items()}
    return Built(found, failures, tuple(notes))
