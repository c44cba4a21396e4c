"""Why pods are injected or not, step by step: the way to the revision, the injection, and the API server's verdict on the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from injector.cluster.resources import NAMESPACES, PODS, WEBHOOKS
from injector.errors import ClusterError
from injector.fleet.dryrun import refusal
from injector.fleet.routing import (
    REVISION,
    RequestedName,
    Route,
    delivery_steps,
    last_called,
    live_route,
    pod_labels,
    route,
)
from injector.fleet.view import ClusterView, read_view
from injector.fleet.workloads import WorkloadName
from injector.injection.pipeline import inject_pod
from injector.injection.result import ENFORCE, OFF, Injected, RequestFacts
from injector.injection.tools.explain import INJECTED, PASSED, UNKNOWN, Decision, Step, explain_pod, refuse
from injector.injection.tools.podchanges import hiding_of
from injector.istio.analysis import Diagnostic, Item, Mesh, analyze, item_of
from injector.istio.labels import DEFAULT_NAME, NAME_LABEL, REVISION_LABEL

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.resources import ObjectReader
    from injector.fleet.sources import RevisionList, RevisionSources
    from injector.istio.revision import Revision
    from injector.kube.pods import Created
    from injector.revisions.source import RawRevision


DRY_RUN: Final = "dry_run"
_API_SERVER: Final = "the API server"


@dataclass(frozen=True, slots=True)
class WorkloadDecision:
    """The decision of one workload, the revision and tag that it leads to, and what Istio's analyzer says about it."""

    workload: Created
    decision: Decision
    revision: str | None
    tag: str | None
    messages: tuple[Diagnostic, ...] = ()

    def detail(self, step: Step) -> str:
        """Return the detail of a step without the values of the workload's environment variables."""
        return hiding_of(self.workload.pod).without_values(step.detail)


def explain_workload(
    workload: Created,
    routed: Route | Decision,
    build: Callable[[RawRevision], Revision],
    guard: str = ENFORCE,
    labels: Mapping[str, str] | None = None,
) -> WorkloadDecision:
    """Return the decision of one workload, from its webhook to the result. ``build`` builds the revision of ``routed``.

    The ``labels`` are those of its namespace, if they are known. Raises DataError if the revision cannot be built.
    """
    if isinstance(routed, Decision):
        return WorkloadDecision(workload, routed, None, None)
    revision = build(routed.raw)
    facts = RequestFacts(workload.namespace, routed.envs, revision.namespaces.get(workload.namespace), guard)
    detail = f"{revision.name}: Istio {revision.istio_version} ({revision.version_reason}), engine {revision.engine}"
    step = Step(REVISION, PASSED, detail, revision.origin)
    decision = explain_pod(revision, workload.pod, facts, labels).after(*routed.steps, step)
    return WorkloadDecision(workload, decision, revision.name, routed.tag)


def messages_about(
    workload: Created, labels: Mapping[str, str] | None, mesh: Mesh, running: Item | None = None
) -> tuple[Diagnostic, ...]:
    """Return the messages of Istio's analyzer about a workload and its namespace.

    ``labels`` are those of the namespace; None if they are not known. ``running`` is the workload itself, if it is a running pod.
    """
    items = [running or Item(workload.kind, workload.name, workload.namespace, pod=workload.pod)]
    if labels is not None:
        items.append(Item(NAMESPACES.kind, workload.namespace, labels=labels))
    return tuple(analyze(items, mesh))


def explain_files(
    workloads: tuple[Created, ...],
    requested: RequestedName,
    by_namespace: Mapping[str, Mapping[str, str]],
    revisions: RevisionList,
    guard: str,
) -> list[WorkloadDecision]:
    """Explain workloads of files by Istio's own webhooks.

    ``by_namespace`` has the labels of the known namespaces. A revision is built once, with its first workload.

    Raises:
        InjectorError: as in ``route``, or a revision cannot be built.
    """
    built: dict[str, Revision] = {}

    def build_once(raw: RawRevision) -> Revision:
        if raw.name not in built:
            built[raw.name] = revisions.build(raw)
        return built[raw.name]

    mesh, wanted = Mesh(names=revisions.state.served_names), None
    if requested.name is not None:
        wanted = {REVISION_LABEL: requested.name or DEFAULT_NAME}
        mesh = Mesh(names=frozenset(wanted.values()))
    explanations = []
    for workload in workloads:
        labels = by_namespace.get(workload.namespace)
        namespace_labels = {**(labels or {}), NAME_LABEL: workload.namespace}
        routed = route(revisions, requested, pod_labels(workload, namespace_labels))
        messages = messages_about(workload, wanted or labels, mesh)
        explanation = explain_workload(workload, routed, build_once, guard, labels)
        explanations.append(replace(explanation, messages=messages))
    return explanations


async def explain_live(
    reader: ObjectReader,
    sources: RevisionSources,
    wanted: WorkloadName | str | None,
    workloads: list[Created],
    guard: str = ENFORCE,
    client: KubeClient | None = None,
) -> tuple[list[WorkloadDecision], tuple[str, ...]]:
    """Return the traces of one workload of a cluster, or of all in a namespace, and notes for the user.

    ``wanted`` is the name of the workload, or of the namespace, and ``workloads`` are read from there.

    If there is a ``client``, the API server also checks the injected pods, by a dry run.

    Raises:
        InjectorError: the pod, its namespace, a webhook or the revisions cannot be read.
    """
    running: Item | None = None
    if isinstance(wanted, WorkloadName):
        namespace: str | None = wanted.namespace
        if wanted.resource is PODS:
            pod = await reader.get(PODS, wanted.name, namespace=wanted.namespace)
            running = item_of({**pod, "kind": PODS.kind}, wanted.namespace)
    else:
        namespace = wanted
    view = await read_view(reader, sources, namespace)
    mesh = Mesh(view.configurations, frozenset(), istio_namespace=sources.istio_namespace)
    explanations = [await _explain_live(reader, workload, view, mesh, running, guard) for workload in workloads]
    if client is not None:
        explanations = [await _dry_run(client, view.built.revisions, explanation) for explanation in explanations]
    place = "in any namespace" if namespace is None else f"in namespace {namespace}"
    missing = () if workloads else (f"there is no workload {place}",)
    return explanations, (*view.built.notes, *view.revisions.state.webhook_faults, *missing)


async def _explain_live(
    reader: ObjectReader, workload: Created, view: ClusterView, mesh: Mesh, running: Item | None, guard: str
) -> WorkloadDecision:
    labels = pod_labels(workload, view.namespaces[workload.namespace])
    routed = live_route(view, labels)
    webhook = last_called(view.webhooks, labels)
    delivery = () if webhook is None else await delivery_steps(reader, webhook)
    first, *rest = routed.steps
    routed = replace(routed, steps=(first, *delivery, *rest))
    name = "" if webhook is None else webhook.configuration
    messages = tuple(
        message
        for message in messages_about(workload, labels.namespace, mesh, running)
        if message.item.kind != WEBHOOKS.kind or message.item.name == name
    )
    explanation = explain_workload(workload, routed, view.built.revision, guard, labels.namespace)
    return replace(explanation, messages=messages)


async def _dry_run(
    client: KubeClient, revisions: Mapping[str, Revision], explanation: WorkloadDecision
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
