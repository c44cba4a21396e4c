"""The way of a pod to its revision: the webhook that the API server calls, its tag, and the revision that this leads to.

``istio.webhooks.matching`` decides which webhook the API server calls. The revision is not built yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import ENDPOINT_SLICES, ready_endpoints
from injector.errors import ClusterError, DataError, UsageError
from injector.fleet.files import FileReader
from injector.injection.containers import annotations_of, labels_of
from injector.injection.tools.explain import (
    PASSED,
    REFUSE,
    REFUSED,
    SKIP,
    SKIPPED,
    UNKNOWN,
    WARNING,
    Decision,
    Step,
    conclude,
    refuse,
)
from injector.istio.labels import DEFAULT_NAME, INJECT_LABEL
from injector.istio.webhooks.calls import called_webhooks, nearest_webhook, why_not_called
from injector.istio.webhooks.configurations import WebhookOptions
from injector.istio.webhooks.matching import Webhooks, labels_without_effect, unserved_name
from injector.istio.webhooks.paths import is_injectors
from injector.istio.webhooks.reading import LiveWebhook, LiveWebhooks, istios_webhooks, precedence_of
from injector.kube.conditions import FAULT
from injector.revisions.names import parse_path
from injector.revisions.tags import TagWorkload, workload_of_pod

if TYPE_CHECKING:
    from injector.cluster.resources import ObjectReader
    from injector.fleet.sources import RevisionList
    from injector.fleet.view import ClusterView
    from injector.kube.podtemplates import Created
    from injector.revisions.source import RawRevision


WEBHOOK: Final = "webhook"
TAG: Final = "tag"
REVISION: Final = "revision"
ENDPOINTS: Final = "endpoints"
NO_WEBHOOK: Final = "no_webhook"
UNKNOWN_WORKLOAD: Final = TagWorkload(("", "", ""))
_SELECTORS: Final = "selectors of Istio's own webhooks"
_WEBHOOKS: Final = "the MutatingWebhookConfigurations"


@dataclass(frozen=True, slots=True)
class PodLabels:
    """Everything about a pod that decides which revision it gets.

    Selectors match the labels, and matchConditions the pod itself, its ``content``; None if it is not known. By the ``workload`` a tag
    with weights chooses.
    """

    namespace: Mapping[str, str]
    pod: Mapping[str, str]
    content: Mapping[str, Any] | None = None
    workload: TagWorkload = UNKNOWN_WORKLOAD


def pod_labels(workload: Created, namespace_labels: Mapping[str, str]) -> PodLabels:
    """Return the labels and the content that decide the revision of a workload's pod."""
    own = workload_of_pod(workload.pod, workload.namespace)
    return PodLabels(namespace_labels, labels_of(workload.pod), workload.pod, own)


@dataclass(frozen=True, slots=True)
class RequestedName:
    """The revision or tag that a webhook's path or a flag names.

    ``name`` is empty for the default, and None if the labels of the pod decide. ``envs`` are the proxy's environment variables from the
    path. ``source`` says what names it, such as a flag. With ``must_exist`` an unknown name is an error.
    """

    name: str | None = None
    source: str = ""
    envs: Mapping[str, str] = field(default_factory=dict)
    must_exist: bool = False


LABELS_DECIDE: Final = RequestedName()
"""No flag or path names a revision or tag."""


@dataclass(frozen=True, slots=True)
class Route:
    """The revision that a pod gets, the tag that refers to it, the steps so far, and environment variables from the path."""

    raw: RawRevision
    tag: str | None
    steps: tuple[Step, ...]
    envs: Mapping[str, str] = field(default_factory=dict)


def route(view: ClusterView, labels: PodLabels, requested: RequestedName = LABELS_DECIDE) -> Route | Decision:
    """Return the revision that a pod gets by the webhooks of a view, or the complete trace if it gets none.

    Raises:
        UsageError: the requested name must exist, and does not.
        DataError: the tags or the revision cannot be read.
    """
    if view.revisions.state.tags_error is not None:
        raise view.revisions.state.tags_error
    if requested.name is not None:
        return _resolve(view.revisions, _force_step(view.webhooks, requested, labels), requested, labels.workload)
    matching = find_called(view.webhooks, labels)
    if not matching:
        step = _no_webhook_step(view.webhooks, labels)
        return _not_called(step, step.source)
    return route_by(matching, view, labels)


def route_by(matching: list[LiveWebhook], view: ClusterView, labels: PodLabels) -> Route | Decision:
    """Return the same for a pod for which the API server calls the webhooks ``matching``, at least one."""
    for webhook in matching:
        if labels.content is not None and (result := webhook.condition(labels.content)).verdict == FAULT:
            step = Step(WEBHOOK, PASSED, f"the selectors of {webhook.title} match", _source(webhook))
            detail = f"the API server refuses the pod: {webhook.title}: {result.detail}"
            return refuse(WEBHOOK, detail, _source(webhook)).after(step)
    webhook, step = matching[-1], webhook_step(matching, view, labels)
    try:
        envs = parse_path(webhook.path).envs if is_injectors(webhook.path) else {}
        requested = RequestedName(name_of(webhook), envs=envs)
    except DataError as error:
        return refuse(WEBHOOK, str(error), _source(webhook)).after(step)
    return _resolve(view.revisions, step, requested, labels.workload)


def webhook_step(matching: list[LiveWebhook], view: ClusterView, labels: PodLabels) -> Step:
    """Return the step about the webhooks that are called, of which the last one decides."""
    *others, webhook = matching
    detail = _call_text(webhook, others, labels, precedence_of(view.webhooks))
    return Step(WEBHOOK, PASSED, detail, _source(webhook))


def destination(matching: list[LiveWebhook], view: ClusterView, labels: PodLabels) -> str:
    """Return the name of the revision that answers for a pod, also of one that cannot be used; empty if it is not known."""
    named = _readable_name(matching[-1])
    try:
        return view.revisions.resolve(name_of(matching[-1]), lambda: labels.workload).revision
    except (DataError, UsageError):
        tag = view.revisions.state.tags.get(named)
        if tag is None:
            return named
        return tag.revision if tag.sole else ""


def _not_called(step: Step, source: str) -> Decision:
    detail = "not injected: the API server calls no webhook for the pod"
    return conclude(SKIPPED, NO_WEBHOOK, detail, source).after(step)


def _resolve(
    revisions: RevisionList, webhook: Step, requested: RequestedName, workload: TagWorkload
) -> Route | Decision:
    """Return the revision that a requested name leads to for a workload, or the complete decision if it leads to none."""
    state, tags_where = revisions.state, revisions.tags_where
    name = requested.name or ""
    if name == DEFAULT_NAME and name not in {*state.names, *state.served_tags}:
        name = ""  # the path of this webhook has no name, because no revision or tag is called `default`
    wanted = name or state.default_name or ""
    tag, fault = state.served_tags.get(wanted), state.fault_of_tag(requested.name or DEFAULT_NAME)
    detail = f"{wanted} is a revision, not a tag" if wanted in state.names else f"{wanted} is not a tag"
    try:
        resolved = revisions.resolve(name, lambda: workload)
        raw = state.revision(resolved.revision)
    except UsageError as error:
        if fault is not None:
            return refuse(TAG, str(fault), tags_where).after(webhook)
        if requested.must_exist:
            raise
        detail = detail if wanted else "there is no default"
        return refuse(REVISION, str(error), revisions.where).after(webhook, Step(TAG, PASSED, detail, tags_where))
    if tag is not None:
        detail = f"{tag.name} is a tag of {raw.name if tag.sole else tag.destination}"
        if not tag.sole or resolved.reason:
            reason = f", {resolved.reason}" if resolved.reason else ""
            detail += f"; {'/'.join(workload.key)} gets {raw.name}{reason}"
    if not name:
        detail = f"the default is {wanted}; {detail}"
    if fault is not None:
        detail += f"; a replica that has served the tag before keeps its previous revisions: {fault}"
    steps = (webhook, Step(TAG, PASSED if fault is None else WARNING, detail, tags_where))
    return Route(raw, None if tag is None else tag.name, steps, requested.envs)


def _force_step(webhooks: LiveWebhooks, requested: RequestedName, labels: PodLabels) -> Step:
    """Return the step if a flag selects the webhook, which says whether the labels would select it too."""
    name = requested.name or DEFAULT_NAME
    named = Webhooks(webhook for webhook in webhooks if _readable_name(webhook) == name)
    named = named or istios_webhooks({name: WebhookOptions()})
    matching = find_called(named, labels)
    if matching:
        detail = _call_text(matching[-1], [], labels, precedence_of(named))
        return Step(WEBHOOK, PASSED, detail, _source(matching[-1]))
    nearest = nearest_webhook(named, labels.namespace, labels.pod)
    if nearest is None:  # pragma: no cover -- each revision and tag has a webhook
        raise AssertionError
    missing = nearest.missing(labels.namespace, labels.pod, labels.content)
    detail = f"the labels alone do not select it: {nearest.title} requires {missing}"
    return Step(WEBHOOK, PASSED, detail, requested.source)


def find_called(webhooks: LiveWebhooks, labels: PodLabels) -> list[LiveWebhook]:
    """Return the webhooks that the API server calls for a pod: of several, the last one replaces the injection of the others."""
    return called_webhooks(webhooks, labels.namespace, labels.pod, labels.content)


def served_names(webhooks: LiveWebhooks) -> frozenset[str]:
    """Return the revisions and tags that a cluster has webhooks for."""
    return frozenset(map(_readable_name, webhooks))


def requested_name(webhooks: LiveWebhooks, labels: PodLabels) -> str | None:
    """Return the revision or tag of the webhook that is called, or the unknown one that the labels name."""
    matching = find_called(webhooks, labels)
    if matching:
        return _readable_name(matching[-1])
    return unserved_name(labels.namespace, labels.pod, served_names(webhooks), precedence_of(webhooks))


def name_of(webhook: LiveWebhook) -> str:
    """Return the revision or tag that a webhook calls: that of its path, or else of its labels. Raises DataError if the path is not valid.

    Istio's own path has no name: it has a Service for each revision, and each tag leads to the Service of its revision.
    """
    named = parse_path(webhook.path).name if is_injectors(webhook.path) else ""
    return named or webhook.revision


def _readable_name(webhook: LiveWebhook) -> str:
    try:
        named = parse_path(webhook.path).name if is_injectors(webhook.path) else ""
    except DataError:
        named = ""
    return named or webhook.tag or webhook.revision


def _no_webhook_step(webhooks: LiveWebhooks, labels: PodLabels) -> Step:
    if not webhooks:
        return Step(WEBHOOK, SKIP, "no webhook calls an injector", _WEBHOOKS)
    namespace, pod = labels.namespace, labels.pod
    detail = f"no webhook is called: {why_not_called(webhooks, namespace, pod, labels.content, served_names(webhooks))}"
    nearest = nearest_webhook(webhooks, namespace, pod)
    if nearest is not None and not nearest.assumed and nearest.title not in detail:
        detail += f"; the nearest is {nearest.title}, which requires {nearest.missing(namespace, pod, labels.content)}"
    annotations = {} if labels.content is None else annotations_of(labels.content)
    if INJECT_LABEL in annotations and INJECT_LABEL not in pod:
        detail += f"; selectors match the label {INJECT_LABEL}, not the annotation"
    return Step(WEBHOOK, SKIP, detail, _source(nearest) if nearest is not None and nearest.assumed else _WEBHOOKS)


def _call_text(webhook: LiveWebhook, others: list[LiveWebhook], labels: PodLabels, precedence: str) -> str:
    cause = " and ".join(webhook.asked_by(labels.namespace, labels.pod)) or "all pods that its selectors match"
    if webhook.assumed:
        notes = labels_without_effect(labels.namespace, labels.pod, precedence)
        return "; ".join((f"{webhook.title} is called for {cause}", *notes))
    details = [f"{webhook.title} is called for {cause}, with path {webhook.path}"]
    if others:
        details.append(f"it replaces the injection by {', '.join(other.title for other in others)}")
    if labels.content is not None and (result := webhook.condition(labels.content)).detail:
        details.append(result.detail)
    return "; ".join(details)


def _source(webhook: LiveWebhook) -> str:
    return _SELECTORS if webhook.assumed else f"MutatingWebhookConfiguration {webhook.configuration}"


async def delivery_steps(webhook: LiveWebhook, reader: ObjectReader) -> tuple[Step, ...]:
    """Return the steps about the call of a webhook: its failure policy, its caBundle and its endpoints."""
    source = _source(webhook)
    policy = Step("failure_policy", PASSED, "Fail: without an answer the pod is not created", source)
    if not webhook.fails:
        detail = "Ignore: without an answer the pod is created without a sidecar"
        policy = Step("failure_policy", WARNING, detail, source)
    bundle = Step("ca_bundle", PASSED, "present", source)
    if not webhook.trusted:
        detail = "empty: the API server trusts only the certificate authorities of its own host"
        bundle = Step("ca_bundle", WARNING, detail, source)
    return policy, bundle, await _endpoints_step(reader, webhook)


async def _endpoints_step(reader: ObjectReader, webhook: LiveWebhook) -> Step:
    def step(verdict: str, detail: str) -> Step:
        return Step(ENDPOINTS, verdict, detail, _source(webhook) if service is None else f"Service {service}")

    service = webhook.service
    if service is None:
        return step(UNKNOWN, "the webhook has a URL, which is not checked here")
    if isinstance(reader, FileReader) and not reader.has(ENDPOINT_SLICES):
        return step(UNKNOWN, "the files have no EndpointSlice")
    try:
        ready = sum(await ready_endpoints(reader, service.namespace, service.name))
    except ClusterError as error:
        if error.reason != "forbidden":
            raise
        return step(UNKNOWN, f"cannot be read: {error}")
    if ready:
        return step(PASSED, f"{ready} ready")
    return step(REFUSE if webhook.fails else SKIP, f"none is ready: pods are {_without_answer(webhook)}")


def _without_answer(webhook: LiveWebhook) -> str:
    return "refused" if webhook.fails else "created without a sidecar"


def add_delivery(trace: Decision, webhook: LiveWebhook, delivery: tuple[Step, ...]) -> Decision:
    """Return the trace of a pod with the steps about the call of its webhook, and the API server's answer if nothing answers the call."""
    first, *rest = trace.steps
    endpoints = delivery[-1]
    if endpoints.verdict not in (REFUSE, SKIP):
        return replace(trace, steps=(first, *delivery, *rest))
    outcome = REFUSED if endpoints.verdict == REFUSE else SKIPPED
    detail = f"pods are {_without_answer(webhook)}: no replica of {endpoints.source} is ready to answer the webhook"
    return conclude(outcome, ENDPOINTS, detail, endpoints.source).after(first, *delivery, *rest[:-1])
