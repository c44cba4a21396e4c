"""The input of Istio's analyzer: the objects of a cluster or of files, and the facts of the mesh that decide about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from injector.cluster import resources as r
from injector.cluster.resources import ObjectReader, Scope
from injector.errors import ManifestError
from injector.fleet.files import FileReader
from injector.fleet.podmessages import PodMessages
from injector.fleet.routing import PodLabels, Route, route
from injector.fleet.sources import RevisionSources, directory_revisions
from injector.fleet.view import build_routed, list_revisions, read_routes, webhooks_of
from injector.fleet.workloads import LISTED
from injector.injection.containers import labels_of
from injector.istio import analysis
from injector.istio.analysis import Item, Mesh
from injector.istio.labels import ISTIO_NAMESPACE, SYSTEM_NAMESPACES
from injector.istio.webhooks.reading import read_configuration
from injector.kube.objects import add_place
from injector.revisions.source import known_minor
from injector.revisions.tags import workload_of_pod

if TYPE_CHECKING:
    from injector.fleet.files import ReaderSession
    from injector.fleet.sources import RevisionList
    from injector.fleet.view import ClusterView
    from injector.istio.analysis import Diagnostic
    from injector.istio.behaviours import Minor
    from injector.kube.podtemplates import OtherKinds
    from injector.revisions.source import SourceState


async def read_items(reader: ObjectReader, namespace: str, default: str, others: OtherKinds) -> list[Item]:
    """Return the objects to analyze. Raises DataError if one cannot be read.

    ``namespace`` is the only one; empty for all. ``default`` is the namespace of objects that name none.
    """
    known = [await reader.find_resource(*kind_and_group) for kind_and_group in others]
    resources = (r.SERVICES, r.PODS, *LISTED, *(resource for resource in known if resource is not None))
    items = await _items(reader, Scope(r.NAMESPACES, name=namespace), "", others)
    for resource in resources:
        items += await _items(reader, Scope(resource, namespace), default, others)
    return items


async def _items(reader: ObjectReader, scope: Scope, default: str, others: OtherKinds) -> list[Item]:
    resource = scope.resource

    def keep(obj: dict[str, Any]) -> list[Item]:
        version = obj.get("apiVersion", resource.api_version)
        if resource is r.SERVICES and version != resource.api_version:
            return []  # a Service of Knative
        typed = {**obj, "apiVersion": version, "kind": resource.kind}
        place = _place(reader, obj)
        try:
            return analysis.items_of(typed, default, others, place=place)
        except ManifestError as error:
            add_place(error, typed, place)
            raise

    return [item for items in await reader.all(scope, keep) for item in items]


def _place(reader: ObjectReader, obj: Mapping[str, Any]) -> str:
    return reader.place_of(obj) if isinstance(reader, FileReader) else ""


async def read_own_revisions(reader: ObjectReader, sources: RevisionSources) -> RevisionList | None:
    """Return the revisions of the directory, or else of the reader; None for files without revisions and without webhooks.

    Raises:
        DataError: the revisions or a webhook cannot be read.
    """
    if sources.revisions_dir is not None:
        return directory_revisions(sources.revisions_dir)
    revisions = await list_revisions(reader, sources)
    if not isinstance(reader, FileReader) or revisions.state.names:
        return revisions
    return revisions if await reader.all(Scope(r.WEBHOOKS), read_configuration) else None


async def read_mesh(
    reader: ObjectReader, state: SourceState, namespace: str, items: Sequence[Item], oldest: Minor | None = None
) -> Mesh:
    """Return the facts that decide about the injection of all objects. Raises DataError if a webhook cannot be read.

    If files have no webhooks, they are those that Istio would have for the revisions and tags of ``state``. ``namespace`` is Istio's.
    ``oldest`` is the minor that control planes are upgraded from; default: that of the oldest revision.
    """
    placed = await reader.all(Scope(r.WEBHOOKS), lambda obj: (read_configuration(obj), _place(reader, obj)))
    configurations = [configuration for configuration, _ in placed]
    zipkin = await r.find_object(reader, r.SERVICES, analysis.ZIPKIN, namespace=ISTIO_NAMESPACE)
    called = sorted({service for configuration in configurations for service in analysis.services_of(configuration)})
    # Files may leave out the Services of a namespace.
    known = {item.namespace for item in items if item.kind == r.SERVICES.kind}
    checked = [name for name in called if not isinstance(reader, FileReader) or name.partition("/")[0] in known]
    missing = [
        service
        for service in checked
        for place, _, name in [service.partition("/")]
        if await r.find_object(reader, r.SERVICES, name, namespace=place) is None
    ]
    minors = [minor for raw in state.revisions if (minor := known_minor(raw)) is not None]
    return Mesh(
        configurations,
        missing=frozenset(missing),
        istio_namespace=namespace,
        oldest=oldest or min(minors, default=None),
        zipkin=None if zipkin is None else Item(r.SERVICES.kind, analysis.ZIPKIN, ISTIO_NAMESPACE),
        places={configuration["metadata"]["name"]: place for configuration, place in placed},
        webhooks=webhooks_of(reader, configurations, state),
    )


def injection_messages(
    session: ReaderSession,
    items: Sequence[Item],
    revisions: RevisionList,
    sources: RevisionSources,
    namespace: str | None,
) -> list[Diagnostic]:
    """Return the messages about the pods that revisions inject; none about pods whose revision cannot be built.

    ``namespace`` is the only one; None for all. Raises InjectorError if a webhook, a namespace or the tags cannot be read.
    """
    view = session.run(lambda reader: read_routes(reader, namespace, revisions))
    routes = [
        (item, routed.raw)
        for item in analysis.without_repeated_pods(items)
        if item.pod is not None and item.home not in SYSTEM_NAMESPACES
        for routed in [route(view, _pod_labels(item, view))]
        if isinstance(routed, Route)
    ]
    view = build_routed(session, view, [raw for _, raw in routes], sources.overrides)
    finder = PodMessages()
    return [
        message
        for item, raw in routes
        if raw.name not in view.built.failures
        for message in finder.about(view.built.revision(raw), item, view.namespaces.get(item.namespace))
    ]


def _pod_labels(item: Item, view: ClusterView) -> PodLabels:
    pod = dict(item.pod or {})
    return PodLabels(view.labels_of(item.namespace), labels_of(pod), pod, workload_of_pod(pod, item.namespace))
