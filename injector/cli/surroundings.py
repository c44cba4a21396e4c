"""What commands need to know of a cluster beside its pods: revisions, tags, webhooks and the labels of namespaces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.cli.selection import offline_source
from injector.cluster.reader import CONFIG_MAPS, NAMESPACES, WEBHOOKS, Scope
from injector.errors import UsageError
from injector.injection.result import ENFORCE
from injector.istio.livewebhooks import live_webhooks
from injector.istio.webhooks import TAG_LABEL
from injector.revisions.build import Overrides
from injector.revisions.clusterlist import built_with_facts, listed_state
from injector.revisions.clustersource import kept_namespace
from injector.revisions.directory import TAGS_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from injector.cluster.reader import Reader
    from injector.istio.livewebhooks import LiveWebhook
    from injector.revisions.clusterlist import Built
    from injector.revisions.source import SourceState

NAME_LABEL: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a command looks for revisions: a folder, or else Istio's namespace in the cluster.

    ``overrides`` is what flags change of them, and ``guard`` one of ``result.GUARDS``.
    """

    revisions_dir: Path | None
    istio_namespace: str
    overrides: Overrides = field(default_factory=Overrides)
    guard: str = ENFORCE


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revisions and tags of a source, and how messages call the source and its tags."""

    state: SourceState
    where: str
    tags_where: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides which revision a pod of the cluster gets.

    ``namespaces`` has the labels of each; ``webhooks`` are those that call an injector, in the order they are called in.
    """

    revisions: Revisions
    built: Built
    webhooks: tuple[LiveWebhook, ...]
    namespaces: Mapping[str, Mapping[str, str]]


async def read_revisions(reader: Reader, sources: Sources) -> Revisions:
    """Return the revisions that a command works with.

    Raises:
        UsageError: there is none.
        DataError: the tags cannot be read.
        ClusterError: the API server cannot be reached, or refuses.
    """
    if sources.revisions_dir is None:
        state = await listed_state(reader, sources.istio_namespace)
        where = f"the {CONFIG_MAPS.plural} of namespace {sources.istio_namespace}"
        found = Revisions(state, where, f"the label {TAG_LABEL} of the {WEBHOOKS.plural}")
    else:
        source = offline_source(sources.revisions_dir)
        found = Revisions(source.read(), str(source.path), f"{source.path}/{TAGS_FILE}")
    if found.state.tags_error is not None:
        raise found.state.tags_error
    if not found.state.revisions and not found.state.failures:
        raise UsageError(
            "there is no revision of Istio's", where=found.where, hint="give --revisions-dir or --istio-namespace"
        )
    return found


async def read_surroundings(reader: Reader, sources: Sources, namespace: str | None) -> Surroundings:
    """Read what decides about pods: of one namespace, or of all.

    Raises:
        InjectorError: as ``read_revisions``; or a webhook or the namespace cannot be read.
    """
    revisions = await read_revisions(reader, sources)
    webhooks = live_webhooks(await reader.all(Scope(WEBHOOKS), lambda item: item))
    if namespace is None:
        namespaces = dict(await reader.all(Scope(NAMESPACES), _namespace))
    else:
        namespaces = dict([_namespace(await reader.one(NAMESPACES, namespace))])
    annotated = {name: kept for name, (_, kept) in namespaces.items() if kept is not None}
    built = await built_with_facts(reader, revisions.state, annotated, sources.overrides)
    return Surroundings(revisions, built, webhooks, {name: labels for name, (labels, _) in namespaces.items()})


def _namespace(item: Mapping[str, Any]) -> tuple[str, tuple[dict[str, str], Mapping[str, Any] | None]]:
    """Return the name of a namespace with its labels, and with what OpenShift says of it."""
    name = str(item["metadata"].get("name", ""))
    # The API server gives every namespace the label of its name.
    labels = {**(item["metadata"].get("labels") or {}), NAME_LABEL: name}
    return name, (labels, kept_namespace(item))
