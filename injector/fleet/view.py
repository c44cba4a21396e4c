"""The revisions, tags, webhooks and namespaces of a cluster, which decide which revision a pod gets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from injector.cluster.resources import CONFIG_MAPS, NAMESPACES, WEBHOOKS, ObjectReader, Scope
from injector.cluster.session import open_session
from injector.errors import UsageError, no_source
from injector.fleet.files import FileReader
from injector.fleet.sources import IN_DIRECTORY, RevisionList, RevisionSources, directory_revisions
from injector.istio.labels import NAME_LABEL, TAG_LABEL
from injector.istio.webhooks.reading import LiveWebhooks, live_webhooks
from injector.revisions.clustersource import (
    BuiltRevisions,
    Offload,
    build_all,
    inline,
    list_state,
    openshift_annotations,
)

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.progress import Report
    from injector.istio.revision import Revision
    from injector.revisions.source import RawRevision


ReadRevisions: TypeAlias = "Callable[[ObjectReader, RevisionSources], Coroutine[Any, Any, RevisionList]]"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything that decides which revision a pod of the cluster gets.

    ``namespaces`` has the labels of each namespace. ``webhooks`` are those of the ``configurations`` that call an injector, in the order
    of the calls.
    """

    revisions: RevisionList
    built: BuiltRevisions
    webhooks: LiveWebhooks
    namespaces: Mapping[str, Mapping[str, str]]
    configurations: Sequence[dict[str, Any]]


async def read_revisions(reader: ObjectReader, sources: RevisionSources, offload: Offload = inline) -> RevisionList:
    """Return the revisions of a directory, or else of the reader: the cluster, or files that stand for it.

    Raises:
        NotConfiguredError: the files have no revision.
        UsageError: the directory or the cluster has none.
        DataError: the tags cannot be read.
    """
    if sources.revisions_dir is None:
        state = await list_state(reader, sources.istio_namespace, offload)
        where = f"the {CONFIG_MAPS.plural} of namespace {sources.istio_namespace}"
        revisions = RevisionList(state, where, f"the label {TAG_LABEL} of the {WEBHOOKS.plural}")
    else:
        revisions = directory_revisions(sources.revisions_dir)
    if revisions.state.tags_error is not None:
        raise revisions.state.tags_error
    if not revisions.state.revisions and not revisions.state.failures:
        if sources.revisions_dir is None and isinstance(reader, FileReader):
            raise no_source("Istio's ConfigMaps in FILES", IN_DIRECTORY)
        hint = "give --revisions-dir or --istio-namespace"
        raise UsageError("no Istio revision found", where=revisions.where, hint=hint)
    return revisions


@contextmanager
def cluster_revisions(
    sources: RevisionSources, kubeconfig: Kubeconfig, read: ReadRevisions | None, *, note: Report
) -> Iterator[RevisionList]:
    """Choose the revisions that ``read``, or else ``read_revisions``, finds in the cluster.

    They are built with the cluster's facts about nodes and namespaces. ``note`` is called with notes for the user when one is built.

    Raises:
        InjectorError: reading them raises it, or the credentials cannot be used.
    """
    with open_session(kubeconfig) as session:
        listed = session.run(lambda reader: (read or read_revisions)(reader, sources))

        def build_listed(raw: RawRevision) -> Revision:
            alone = replace(listed.state, revisions=(raw,), failures={})
            built = session.run(lambda reader: build_all(reader, alone, None, sources.overrides))
            for text in built.notes:
                note(text)
            return built.revision(raw)

        yield replace(listed, build=build_listed)


async def read_view(
    reader: ObjectReader,
    sources: RevisionSources,
    namespace: str | None,
    names: Sequence[str] = (),
    *,
    offload: Offload = inline,
) -> ClusterView:
    """Read everything that decides about the pods of one namespace, or of all.

    If ``names`` of revisions or tags are given, only these are built: hundreds of others would take seconds and 100 MB. A
    server gives ``offload`` to keep its event loop free.

    Raises:
        InjectorError: as in ``read_revisions``, a name is unknown, or a webhook or the namespace cannot be read.
    """
    revisions = await read_revisions(reader, sources, offload)
    state = revisions.state
    if names:
        wanted = {raw.name: raw for raw in map(revisions.find, names)}
        state = replace(state, revisions=tuple(wanted.values()), failures={})
    configurations = await reader.all(Scope(WEBHOOKS), lambda item: item)
    webhooks = live_webhooks(configurations)
    if namespace is None:
        namespaces = dict(await reader.all(Scope(NAMESPACES), _namespace))
    else:
        namespaces = dict([_namespace(await reader.get(NAMESPACES, namespace))])
    annotated = {name: facts for name, (_, facts) in namespaces.items() if facts is not None}
    built = await build_all(reader, state, annotated, sources.overrides, offload)
    labels = {name: labels for name, (labels, _) in namespaces.items()}
    return ClusterView(revisions, built, webhooks, labels, configurations)


def notes_of_unknown_namespaces(names: Iterable[str]) -> list[str]:
    """Return a note for each namespace whose labels are not known. The name is empty for objects of a file without one."""
    return [
        f"skipped namespace {name}: its labels are not known" if name else "skipped objects without a namespace"
        for name in sorted(names)
    ]


def _namespace(item: Mapping[str, Any]) -> tuple[str, tuple[dict[str, str], Mapping[str, Any] | None]]:
    """Return the name of a namespace with its labels and its OpenShift annotations."""
    name = str(item["metadata"].get("name", ""))
    labels = {**(item["metadata"].get("labels") or {}), NAME_LABEL: name}
    return name, (labels, openshift_annotations(item))
