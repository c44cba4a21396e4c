"""Why pods are injected or not, step by step: the way to the revision, the injection, and the API server's verdict on the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from injector.cluster.resources import NAMESPACES, PODS, WEBHOOKS
from injector.cluster.session import ClusterSession
from injector.errors import ClusterError, DataError
from injector.fleet.dryrun import refusal
from injector.fleet.podmessages import PodMessages
from injector.fleet.progress import Progress, no_progress
from injector.fleet.replicas import NO_REPLICAS
from injector.fleet.routing import (
    LABELS_DECIDE,
    NO_WEBHOOK,
    REVISION,
    TAG,
    PodLabels,
    RequestedName,
    Route,
    add_delivery,
    delivery_steps,
    destination,
    find_called,
    pod_labels,
    route,
    webhook_step,
)
from injector.fleet.view import ClusterView, build_routed, read_revisions, read_routes, with_replicas
from injector.fleet.workloads import WorkloadName, read_target, read_targets
from injector.injection.pipeline import inject_pod
from injector.injection.result import ENFORCE, OFF, Injected, RequestFacts
from injector.injection.tools.explain import (
    INJECTED,
    PASSED,
    UNKNOWN,
    WARNING,
    Decision,
    Step,
    conclude,
    explain_answer,
    refuse,
)
from injector.injection.tools.podchanges import hiding_of
from injector.istio.analysis import Diagnostic, Item, Mesh, analyze, in_order, item_of_workload, items_of
from injector.istio.labels import DEFAULT_NAME, NAME_LABEL, NAMESPACE, REVISION_LABEL
from injector.istio.webhooks.configurations import WebhookOptions
from injector.istio.webhooks.reading import istios_webhooks

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.resources import ObjectReader
    from injector.fleet.files import FileReader, ReaderSession
    from injector.fleet.manifests import WorkloadFiles
    from injector.fleet.sources import RevisionList, RevisionSources
    from injector.istio.revision import Revision
    from injector.istio.webhooks.reading import LiveWebhook
    from injector.kube.podtemplates import Created
    from injector.revisions.source import RawRevision


DRY_RUN: Final = "dry_run"
LAST_GOOD: Final = "last_good_revision"
_API_SERVER: Final = "the API server"


@dataclass(frozen=True, slots=True)
class WorkloadDecision:
    """The decision of one workload, the revision and tag that it leads to, and what Istio's analyzer says about it."""

    workload: Created
    decision: Decision
    revision: str | None
    tag: str | None
    messages: tuple[Diagnostic, ...] = ()
    configuration: str = ""

    def detail(self, step: Step) -> str:
        """Return the detail of a step without the values of the workload's environment variables."""
        return hiding_of(self.workload.pod).without_values(step.detail)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the command line says in place of objects that files leave out.

    ``requested`` is the name in place of the webhooks, ``labels`` are those of every namespace, and ``precedence`` is that of Istio's own
    webhooks.
    """

    requested: RequestedName = LABELS_DECIDE
    labels: Mapping[str, str] | None = None
    precedence: str = NAMESPACE


NOTHING_ASSUMED: Final = Assumptions()


def _explain(
    workload: Created,
    routed: Route | Decision,
    build: Callable[[RawRevision], Revision],
    finder: PodMessages,
    guard: str = ENFORCE,
    labels: Mapping[str, str] | None = None,
) -> WorkloadDecision:
    """Return the decision about one workload, from its webhook to the result. ``build`` returns the built revision of ``routed``.

    The ``labels`` are those of its namespace, if they are known. Raises DataError if the revision cannot be built.
    """
    if isinstance(routed, Decision):
        return WorkloadDecision(workload, routed, None, None)
    revision = build(routed.raw)
    facts = RequestFacts(workload.namespace, routed.envs, revision.namespaces.get(workload.namespace), guard)
    detail = f"{revision.name}: Istio {revision.istio_version} ({revision.version_reason}), engine {revision.engine}"
    step = Step(REVISION, PASSED, detail, revision.origin)
    decision, answer = explain_answer(revision, workload.pod, facts, labels)
    messages = tuple(finder.about(revision, item_of_workload(workload), labels, answer))
    return WorkloadDecision(workload, decision.after(*routed.steps, step), revision.name, routed.tag, messages)


def _mesh_of(view: ClusterView, sources: RevisionSources) -> Mesh:
    """Return what Istio's analyzer needs of a view. One mesh serves all workloads."""
    return Mesh(view.configurations, istio_namespace=sources.istio_namespace, webhooks=view.webhooks)


def messages_about(
    workload: Created, labels: Mapping[str, str] | None, mesh: Mesh, running: Item | None = None
) -> tuple[Diagnostic, ...]:
    """Return the messages of Istio's analyzer about a workload and its namespace.

    ``labels`` are those of the namespace; None if they are not known. ``running`` is the workload itself, if it is a running pod.
    """
    items = [running or item_of_workload(workload)]
    if labels is not None:
        items.append(Item(NAMESPACES.kind, workload.namespace, labels=labels))
    return tuple(analyze(items, mesh))


def explain_workloads(
    session: ReaderSession,
    view: ClusterView,
    sources: RevisionSources,
    workloads: Sequence[Created],
    guard: str = ENFORCE,
    requested: RequestedName = LABELS_DECIDE,
) -> tuple[list[WorkloadDecision], ClusterView]:
    """Explain workloads of a cluster or of files, and return the view with the revisions that they lead to.

    Of a view, ``read_routes`` is enough.

    Raises:
        InjectorError: as in ``route``, or the requested revision cannot be built, or the endpoints of a webhook cannot be read.
    """
    labelled = [pod_labels(workload, view.labels_of(workload.namespace)) for workload in workloads]
    routes = [_try_route(view, labels, requested) for labels in labelled]
    raws = [routed.raw for routed in routes if isinstance(routed, Route)]
    view = build_routed(session, view, raws, sources.overrides)
    if requested.name is None and (view.has_unusable_revisions or any(isinstance(way, DataError) for way in routes)):
        view = session.run(partial(with_replicas, view))
    deliveries: dict[LiveWebhook, tuple[Step, ...]] = {}
    decisions, finder = [], PodMessages()
    for workload, labels, routed in zip(workloads, labelled, routes, strict=True):
        known = view.namespaces.get(workload.namespace)
        decision = _by_last_good(workload, routed, view, labels)
        if decision is None and requested.name is None:
            decision = _by_broken(workload, routed, view, labels)
        if decision is None:
            if isinstance(routed, DataError):
                raise routed
            decision = _explain(workload, routed, view.built.revision, finder, guard, known)
        webhook = next(reversed(find_called(view.webhooks, labels)), None)
        if webhook is not None and not webhook.assumed and requested.name is None:
            if webhook not in deliveries:
                deliveries[webhook] = session.run(partial(delivery_steps, webhook))
            trace = add_delivery(decision.decision, webhook, deliveries[webhook])
            decision = replace(decision, decision=trace, configuration=webhook.configuration)
        decisions.append(decision)
    return decisions, view


def _try_route(view: ClusterView, labels: PodLabels, requested: RequestedName) -> Route | Decision | DataError:
    try:
        return route(view, labels, requested)
    except DataError as error:
        return error


def _by_last_good(
    workload: Created, routed: Route | Decision | DataError, view: ClusterView, labels: PodLabels
) -> WorkloadDecision | None:
    """Return the decision of a workload whose revision cannot be used, if the replicas still serve its last good state."""
    error: object = routed
    if isinstance(routed, Route):
        error = view.built.failures.get(routed.raw.name)
    elif isinstance(routed, Decision):
        error = routed.steps[-1].detail if routed.reason in (TAG, REVISION) else None
    matching = find_called(view.webhooks, labels)
    if error is None or not matching:
        return None
    served = view.replicas.revisions.get(destination(matching, view, labels))
    if served is None:
        return None
    first = webhook_step(matching, view, labels)
    source = f"the status of the replicas of Service {matching[-1].service}"
    broken = Step(REVISION, WARNING, f"it cannot be used: {error}", view.revisions.where)
    detail = f"{view.replicas.about(served.name)}; what it does with the pod is not known here"
    decision = conclude(UNKNOWN, LAST_GOOD, detail, source).after(first, broken)
    return WorkloadDecision(workload, decision, served.name, None)


def _by_broken(
    workload: Created, routed: Route | Decision | DataError, view: ClusterView, labels: PodLabels
) -> WorkloadDecision | None:
    """Return the decision of a workload whose revision cannot be built and is not served; other workloads have theirs beside it."""
    error = view.built.failures.get(routed.raw.name) if isinstance(routed, Route) else routed
    matching = find_called(view.webhooks, labels)
    if not isinstance(error, DataError) or error is view.revisions.state.tags_error or not matching:
        return None
    name = destination(matching, view, labels)
    detail = f"{error}; {view.replicas.about(name)}" if view.replicas != NO_REPLICAS else str(error)
    steps = routed.steps if isinstance(routed, Route) else (webhook_step(matching, view, labels),)
    decision = refuse(REVISION, detail, view.revisions.where).after(*steps)
    return WorkloadDecision(workload, decision, name or None, None)


def _with_messages(decision: WorkloadDecision, view: ClusterView, mesh: Mesh, running: Item | None) -> WorkloadDecision:
    """Return a decision with the analyzer's messages about the workload, its namespace and the webhook that is called."""
    labels = view.namespaces.get(decision.workload.namespace)
    messages = tuple(
        message
        for message in messages_about(decision.workload, labels, mesh, running)
        if message.item.kind != WEBHOOKS.kind or message.item.name == decision.configuration
    )
    return replace(decision, messages=in_order((*messages, *decision.messages)))


def explain_files(
    reader: FileReader,
    revisions: RevisionList,
    sources: RevisionSources,
    workloads: Sequence[Created],
    guard: str = ENFORCE,
    assumed: Assumptions = NOTHING_ASSUMED,
) -> tuple[list[WorkloadDecision], tuple[str, ...]]:
    """Return the decisions about workloads of files, and notes for the user. Raises InjectorError as in ``explain_workloads``."""
    view = reader.run(lambda reader: read_routes(reader, None, revisions, assumed.precedence))
    if assumed.labels is not None:
        names = {workload.namespace for workload in workloads}
        view = replace(view, namespaces={name: {**assumed.labels, NAME_LABEL: name} for name in names})
    requested = assumed.requested
    decisions, built = explain_workloads(reader, view, sources, workloads, guard, requested)
    if requested.name is not None:
        wanted = {REVISION_LABEL: requested.name or DEFAULT_NAME}
        webhooks = istios_webhooks(dict.fromkeys(wanted.values(), WebhookOptions()))
        labels = dict.fromkeys((workload.namespace for workload in workloads), wanted)
        view = replace(view, webhooks=webhooks, configurations=(), namespaces=labels)
    mesh = _mesh_of(view, sources)
    decisions = [_with_messages(decision, view, mesh, None) for decision in decisions]
    skipped = {decision.workload.namespace for decision in decisions if decision.decision.reason == NO_WEBHOOK}
    unknown = sorted(skipped - view.namespaces.keys())
    missing = (f"the labels of namespace {name} are not known; give --namespace-labels" for name in unknown)
    return decisions, (*built.built.notes, *revisions.state.webhook_faults, *missing)


def explain_live(
    session: ClusterSession | FileReader,
    sources: RevisionSources,
    wanted: WorkloadName | str | None,
    files: WorkloadFiles,
    guard: str = ENFORCE,
    progress: Progress = no_progress,
) -> tuple[list[WorkloadDecision], tuple[str, ...]]:
    """Return the decisions about one workload of a cluster, or about all in a namespace, and notes for the user.

    ``wanted`` is the name of the workload, or of the namespace; None for all. Of the ``files``, the options of workloads count. The API
    server also checks the injected pod of one workload, by a dry run.

    Raises:
        InjectorError: the pod, its namespace, a webhook or the revisions cannot be read.
    """
    running = session.run(partial(_running_item, wanted))
    if isinstance(wanted, WorkloadName):
        namespace: str | None = wanted.namespace
        workloads = session.run(lambda client: read_target(client, wanted, files.others))
    else:
        namespace = wanted
        workloads = read_targets(session, namespace, files.others, _itself, files.selector, progress=progress)

    async def read(reader: ObjectReader) -> ClusterView:
        return await read_routes(reader, namespace, await read_revisions(reader, sources))

    view = session.run(read)
    decisions, view = explain_workloads(session, view, sources, workloads, guard)
    mesh = _mesh_of(view, sources)
    decisions = [_with_messages(decision, view, mesh, running) for decision in decisions]
    if isinstance(wanted, WorkloadName) and isinstance(session, ClusterSession):
        decisions = [session.run(partial(_dry_run, view.built.revisions, decision)) for decision in decisions]
    place = "in any namespace" if namespace is None else f"in namespace {namespace}"
    missing = () if workloads else (f"there is no workload {place}",)
    return decisions, (*view.built.notes, *view.revisions.state.webhook_faults, *missing)


def _itself(workload: Created) -> Created:
    return workload


async def _running_item(wanted: WorkloadName | str | None, reader: ObjectReader) -> Item | None:
    """Return the object that Istio's analyzer gets if a running pod is explained; None for another workload."""
    if not isinstance(wanted, WorkloadName) or wanted.resource is not PODS:
        return None
    pod = await reader.get(PODS, wanted.name, namespace=wanted.namespace)
    return items_of({**pod, "kind": PODS.kind}, wanted.namespace)[0]


async def _dry_run(
    revisions: Mapping[str, Revision], explanation: WorkloadDecision, client: KubeClient
) -> WorkloadDecision:
    """Return the decision of a workload with the API server's verdict on the injected pod: its policies, quotas and other webhooks."""
    revision, namespace = revisions.get(explanation.revision or ""), explanation.workload.namespace
    if explanation.decision.outcome != INJECTED or revision is None:
        return explanation
    facts = RequestFacts(namespace, {}, revision.namespaces.get(namespace), OFF)
    result = inject_pod(revision, explanation.workload.pod, facts)
    if not isinstance(result, Injected):  # pragma: no cover -- the decision says that it is injected
        return explanation
    *steps, last = explanation.decision.steps
    try:
        fault = await refusal(client, result.pod, namespace)
    except ClusterError as error:
        step = Step(DRY_RUN, UNKNOWN, f"the API server did not check the injected pod: {error}", _API_SERVER)
        return replace(explanation, decision=replace(explanation.decision, steps=(*steps, step, last)))
    if fault is not None:
        return replace(explanation, decision=refuse(DRY_RUN, fault, _API_SERVER).after(*steps))
    step = Step(DRY_RUN, PASSED, "the API server accepts the injected pod", _API_SERVER)
    return replace(explanation, decision=replace(explanation.decision, steps=(*steps, step, last)))
