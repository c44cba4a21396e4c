"""The revisions, tags, webhooks and namespaces of a cluster, which decide which revision a pod gets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.cluster.resources import CONFIG_MAPS, NAMESPACES, WEBHOOKS, ObjectReader, Scope
from injector.cluster.session import open_session
from injector.errors import DataError, UsageError, no_source
from injector.fleet.clusterrevisions import BuiltRevisions, build_all, list_state
from injector.fleet.files import FileReader
from injector.fleet.offload import Offload, inline
from injector.fleet.replicas import NO_REPLICAS, Replicas, read_replicas
from injector.fleet.sources import IN_DIRECTORY, RevisionList, RevisionSources, directory_revisions
from injector.istio.frozen import frozen
from injector.istio.labels import NAME_LABEL, NAMESPACE, TAG_LABEL
from injector.istio.webhooks.configurations import WebhookOptions
from injector.istio.webhooks.reading import LiveWebhooks, istios_webhooks, live_webhooks
from injector.revisions.clustersource import openshift_annotations

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.files import ReaderSession
    from injector.fleet.progress import Report
    from injector.istio.revision import Revision
    from injector.revisions.source import Overrides, RawRevision, SourceState


ReadRevisions: TypeAlias = "Callable[[ObjectReader, RevisionSources], Coroutine[Any, Any, RevisionList]]"


ASSUMED: Final = (
    "the files have no MutatingWebhookConfiguration: those that Istio has for the revisions and tags are assumed"
)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything that decides which revision a pod of the cluster, or of files that stand for it, gets.

    ``namespaces`` has the labels of each namespace. ``webhooks`` are those of the ``configurations`` that call an injector, in the order
    of the calls. If files have no configuration, they are those that Istio would have for the ``revisions``.
    """

    revisions: RevisionList
    built: BuiltRevisions
    webhooks: LiveWebhooks
    namespaces: Mapping[str, Mapping[str, str]]
    configurations: Sequence[dict[str, Any]]
    annotations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The annotations of OpenShift by namespace."""
    replicas: Replicas = NO_REPLICAS
    """What the replicas serve, if a revision cannot be used."""

    @property
    def assumed(self) -> bool:
        """Whether the webhooks are those that Istio would have, because the files have none."""
        return any(webhook.assumed for webhook in self.webhooks)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know: what is not read, what the files leave out, and the faults of webhooks."""
        assumed = (ASSUMED,) if self.assumed else ()
        return (*self.built.notes, *assumed, *self.revisions.state.webhook_faults)

    @property
    def has_unusable_revisions(self) -> bool:
        """Whether a revision cannot be used, or a tag leads to one that is not there."""
        state = self.revisions.state
        targets = {target for tag in state.tags.values() for target in tag.targets}
        return bool(self.built.failures) or not state.names.issuperset(targets)

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace, of one that is not known the one that each has."""
        return self.namespaces.get(namespace) or {NAME_LABEL: namespace}


async def read_revisions(reader: ObjectReader, sources: RevisionSources, offload: Offload = inline) -> RevisionList:
    """Return the revisions of a directory, or else of the reader: the cluster, or files that stand for it.

    Raises:
        NotConfiguredError: the files have no revision.
        UsageError: the directory or the cluster has none.
        DataError: the tags cannot be read.
    """
    if sources.revisions_dir is None:
        revisions = await list_revisions(reader, sources, offload)
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


async def file_revisions(reader: ObjectReader, sources: RevisionSources) -> RevisionList | None:
    """Return the revisions of Istio's ConfigMaps in files; None if they have none."""
    revisions = await list_revisions(reader, sources)
    return revisions if revisions.state.names else None


async def list_revisions(reader: ObjectReader, sources: RevisionSources, offload: Offload = inline) -> RevisionList:
    """Return the revisions of Istio's ConfigMaps in a cluster or in files, maybe none."""
    state = await list_state(reader, sources.istio_namespace, offload)
    where = f"the {CONFIG_MAPS.plural} of namespace {sources.istio_namespace}"
    return RevisionList(state, where, f"the label {TAG_LABEL} of the {WEBHOOKS.plural}")


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

        yield replace(listed, build=build_listed, of_cluster=True)


async def read_view(
    reader: ObjectReader,
    sources: RevisionSources,
    namespace: str | None,
    names: Sequence[str] = (),
    *,
    offload: Offload = inline,
) -> ClusterView:
    """Read everything that decides about the pods of one namespace, or of all, and build the revisions.

    If ``names`` of revisions or tags are given, only these are built: hundreds of others would take seconds and 100 MB. A
    server gives ``offload`` to keep its event loop free.

    Raises:
        InjectorError: as in ``read_revisions``, a name is unknown, or a webhook or the namespace cannot be read.
    """
    view = await read_routes(reader, namespace, await read_revisions(reader, sources, offload))
    raws = [view.revisions.find(name) for name in names] if names else None
    return await build_view(reader, view, raws, sources.overrides, offload)


async def read_routes(
    reader: ObjectReader,
    namespace: str | None,
    revisions: RevisionList,
    precedence: str = NAMESPACE,
) -> ClusterView:
    """Read the webhooks and namespaces, which decide which of the ``revisions`` a pod gets. None of these is built.

    ``precedence`` is that of Istio's own webhooks, if files have none. Raises InjectorError if a webhook or the namespace cannot be read.
    """
    configurations = await reader.all(Scope(WEBHOOKS), lambda item: item)
    webhooks = webhooks_of(reader, configurations, revisions.state, precedence)
    if namespace is None:
        namespaces = dict(await reader.all(Scope(NAMESPACES), _namespace))
    else:
        namespaces = dict([_namespace(await reader.get(NAMESPACES, namespace))])
    annotated = {name: facts for name, (_, facts) in namespaces.items() if facts is not None}
    labels = {name: labels for name, (labels, _) in namespaces.items()}
    return ClusterView(revisions, BuiltRevisions({}, {}), webhooks, labels, configurations, annotated)


def webhooks_of(
    reader: ObjectReader, configurations: Sequence[dict[str, Any]], state: SourceState, precedence: str = NAMESPACE
) -> LiveWebhooks:
    """Return the webhooks of configurations that call an injector; if files have no configuration, those that Istio would have.

    Raises DataError if one is not valid.
    """
    if configurations or not isinstance(reader, FileReader):
        return live_webhooks(configurations)
    return istios_webhooks(state.webhook_options(WebhookOptions(precedence=precedence)))


async def build_view(
    reader: ObjectReader,
    view: ClusterView,
    raws: Iterable[RawRevision] | None,
    overrides: Overrides,
    offload: Offload = inline,
) -> ClusterView:
    """Return a view with the revisions ``raws`` built, by default all, with the facts about nodes, namespaces and ProxyConfigs."""
    state = view.revisions.state
    if raws is not None:
        state = replace(state, revisions=tuple({raw.name: raw for raw in raws}.values()), failures={})
    built = await build_all(reader, state, view.annotations, overrides, offload)
    return replace(view, built=built)


async def with_replicas(view: ClusterView, reader: FileReader | KubeClient) -> ClusterView:
    """Return a view with what the replicas serve. Files have no replicas."""
    if isinstance(reader, FileReader):
        return view
    return replace(view, replicas=await read_replicas(view.webhooks, reader))


def build_routed(
    session: ReaderSession, view: ClusterView, raws: Iterable[RawRevision], overrides: Overrides
) -> ClusterView:
    """Return a view with the revisions ``raws`` built, also those of a cluster for workloads of files.

    These have the facts of the cluster, and the namespaces of the files.
    """
    if not view.revisions.of_cluster:
        return session.run(lambda reader: build_view(reader, view, raws, overrides))
    revisions: dict[str, Revision] = {}
    failures: dict[str, DataError] = {}
    for raw in {raw.name: raw for raw in raws}.values():
        try:
            revision = view.revisions.build(raw)
        except DataError as error:
            failures[raw.name] = error
        else:
            revisions[raw.name] = replace(revision, namespaces=frozen({**revision.namespaces, **view.annotations}))
    return replace(view, built=BuiltRevisions(revisions, failures))


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
