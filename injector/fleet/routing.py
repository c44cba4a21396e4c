"""The way of a pod to its revision: the webhook that the API server calls, its tag, and the revision that this leads to.

``istio.webhooks.matching`` decides which webhook the API server calls. The revision is not built yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from injector.cluster.resources import ready_endpoints
from injector.errors import ClusterError, DataError, UsageError
from injector.injection.tools.explain import PASSED, SKIP, SKIPPED, UNKNOWN, WARNING, Decision, Step, conclude, refuse
from injector.istio.labels import DEFAULT_NAME, INJECT_LABEL, NAMESPACE
from injector.istio.webhooks.matching import (
    Webhook,
    called_webhooks,
    labels_without_effect,
    unserved_name,
    webhooks_of,
    why_none,
)
from injector.istio.webhooks.reading import LiveWebhook, LiveWebhooks, precedence_of
from injector.revisions.names import parse_path
from injector.revisions.tags import TagWorkload, usable_tags, workload_of_pod

if TYPE_CHECKING:
    from injector.cluster.resources import ObjectReader
    from injector.fleet.sources import RevisionList
    from injector.fleet.view import ClusterView
    from injector.kube.pods import Created
    from injector.revisions.source import RawRevision


WEBHOOK: Final = "webhook"
TAG: Final = "tag"
REVISION: Final = "revision"
NO_WEBHOOK: Final = "no_webhook"
UNKNOWN_WORKLOAD: Final = TagWorkload(("", "", ""))
_SELECTORS: Final = "selectors of Istio's own webhooks"
_WEBHOOKS: Final = "the cluster's webhooks"


@dataclass(frozen=True, slots=True)
class PodLabels:
    """Everything about a pod that decides which revision it gets.

    Selectors match the labels, not the ``annotations``. By the ``workload`` a tag with weights chooses.
    """

    namespace: Mapping[str, str]
    pod: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    workload: TagWorkload = UNKNOWN_WORKLOAD


def pod_labels(workload: Created, namespace_labels: Mapping[str, str]) -> PodLabels:
    """Return the labels and annotations that decide which revision the pod of a workload gets."""
    meta = workload.pod["metadata"]
    own = workload_of_pod(workload.pod, workload.namespace)
    return PodLabels(namespace_labels, meta.get("labels") or {}, meta.get("annotations") or {}, own)


@dataclass(frozen=True, slots=True)
class RequestedName:
    """The revision or tag that a webhook's path or a flag names.

    ``name`` is empty for the default, and None if the labels of the pod decide. ``envs`` are the proxy's environment variables from the
    path. ``source`` says what names it, such as a flag. ``precedence`` is that of the labels, one of ``PRECEDENCES``. With
    ``must_exist`` an unknown name is an error.
    """

    name: str | None = None
    source: str = ""
    envs: Mapping[str, str] = field(default_factory=dict)
    precedence: str = NAMESPACE
    must_exist: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The revision that a pod gets, the tag that refers to it, the steps so far, and environment variables from the path."""

    raw: RawRevision
    tag: str | None
    steps: tuple[Step, ...]
    envs: Mapping[str, str] = field(default_factory=dict)


def route(revisions: RevisionList, requested: RequestedName, labels: PodLabels) -> Route | Decision:
    """Return the revision that a pod gets by Istio's own webhooks, or the complete decision if it gets none.

    Raises:
        UsageError: the requested name must exist, and does not.
        DataError: the tags or the revision cannot be read.
    """
    state = revisions.state
    if state.tags_error is not None:
        raise state.tags_error
    if requested.name is not None:
        return _resolve(revisions, _force_step(requested, labels), requested, labels.workload)
    names = sorted(state.served_names)
    both, precedence = (labels.namespace, labels.pod), requested.precedence
    webhooks = called_webhooks(names, *both, precedence)
    if not webhooks:
        detail = f"no webhook is called: {why_none(*both, names, precedence)}"
        if INJECT_LABEL in labels.annotations and INJECT_LABEL not in labels.pod:
            detail += f"; selectors match the label {INJECT_LABEL}, not the annotation"
        return _not_called(Step(WEBHOOK, SKIP, detail, _SELECTORS), _SELECTORS)
    name, webhook = webhooks[0]
    details = _call_text(webhook, name, labels), *labels_without_effect(*both, precedence)
    return _resolve(
        revisions, Step(WEBHOOK, PASSED, "; ".join(details), _SELECTORS), RequestedName(name), labels.workload
    )


def live_route(view: ClusterView, labels: PodLabels) -> Route | Decision:
    """Return the revision that a pod gets by a cluster's webhooks, or the decision without one. Raises DataError if it cannot be read."""
    matching = view.webhooks.find_called(labels.namespace, labels.pod)
    if not matching:
        return _not_called(_no_live_webhook(view.webhooks, labels), _WEBHOOKS)
    return route_by(matching, view, labels)


def route_by(matching: list[LiveWebhook], view: ClusterView, labels: PodLabels) -> Route | Decision:
    """Return the same for a pod for which the API server calls the webhooks ``matching``, at least one."""
    *others, webhook = matching
    source = _configuration(webhook)
    step = Step(WEBHOOK, PASSED, _live_call_text(webhook, others, labels), source)
    try:
        parsed = parse_path(webhook.path)
    except DataError as error:
        return refuse(WEBHOOK, str(error), source).after(step)
    requested = RequestedName(parsed.name or webhook.revision, envs=parsed.envs)
    return _resolve(view.revisions, step, requested, labels.workload)


def _not_called(step: Step, source: str) -> Decision:
    detail = "not injected: the API server calls no webhook for the pod"
    return conclude(SKIPPED, NO_WEBHOOK, detail, source).after(step)


def _resolve(
    revisions: RevisionList, webhook: Step, requested: RequestedName, workload: TagWorkload
) -> Route | Decision:
    """Return the revision that a requested name leads to for a workload, or the complete decision if it leads to none."""
    state, tags_where = revisions.state, revisions.tags_where
    name = requested.name or ""
    if name == DEFAULT_NAME and name not in {*state.names, *state.tags}:
        name = ""  # the path of this webhook has no name, because no revision or tag is called `default`
    wanted = name or state.default_name or ""
    tag = state.tags.get(wanted)
    if tag is not None:
        usable, faults = usable_tags({wanted: tag}, state.names)
        if not usable:
            return refuse(TAG, str(faults[0]), tags_where).after(webhook)
    detail = f"{wanted} is a revision, not a tag" if wanted in state.names else f"{wanted} is not a tag"
    try:
        resolved = revisions.resolve(name, lambda: workload)
        raw = state.revision(resolved.revision)
    except UsageError as error:
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
    steps = (webhook, Step(TAG, PASSED, detail, tags_where))
    return Route(raw, None if tag is None else tag.name, steps, requested.envs)


def _force_step(requested: RequestedName, labels: PodLabels) -> Step:
    """Return the step if a flag selects the webhook, which says whether the labels would select it too."""
    name = requested.name or DEFAULT_NAME
    webhooks = webhooks_of(name, requested.precedence)
    nearest = min(webhooks, key=lambda webhook: len(webhook.unmet(labels.namespace, labels.pod)))
    missing = nearest.unmet(labels.namespace, labels.pod)
    if not missing:
        return Step(WEBHOOK, PASSED, _call_text(nearest, name, labels), _SELECTORS)
    detail = f"the labels alone do not select it: {nearest.name} of {name} requires {', '.join(missing)}"
    return Step(WEBHOOK, PASSED, detail, requested.source)


def _call_text(webhook: Webhook, name: str, labels: PodLabels) -> str:
    return f"{webhook.name} of {name} is called for {' and '.join(webhook.asked_by(labels.namespace, labels.pod))}"


def last_called(webhooks: LiveWebhooks, labels: PodLabels) -> LiveWebhook | None:
    """Return the webhook that decides about a pod: of several, the last one replaces the injection of the others."""
    return next(reversed(webhooks.find_called(labels.namespace, labels.pod)), None)


def served_names(webhooks: LiveWebhooks) -> frozenset[str]:
    """Return the revisions and tags that a cluster has webhooks for."""
    return frozenset(map(_name, webhooks))


def requested_name(webhooks: LiveWebhooks, labels: PodLabels) -> str | None:
    """Return the revision or tag of the webhook that is called, or the unknown one that the labels name."""
    webhook = last_called(webhooks, labels)
    if webhook is not None:
        return _name(webhook)
    return unserved_name(labels.namespace, labels.pod, served_names(webhooks), precedence_of(webhooks))


def _name(webhook: LiveWebhook) -> str:
    try:
        name = parse_path(webhook.path).name
    except DataError:
        name = ""
    return name or webhook.tag or webhook.revision


def _no_live_webhook(webhooks: LiveWebhooks, labels: PodLabels) -> Step:
    if not webhooks:
        return Step(WEBHOOK, SKIP, "the cluster has no webhook that calls an injector", _WEBHOOKS)
    nearest = min(webhooks, key=lambda webhook: len(webhook.unmet(labels.namespace, labels.pod)))
    missing = nearest.unmet(labels.namespace, labels.pod)
    why = why_none(labels.namespace, labels.pod, served_names(webhooks), precedence_of(webhooks))
    detail = f"no webhook is called: {why}; the nearest is {_title(nearest)}, which requires {', '.join(missing)}"
    return Step(WEBHOOK, SKIP, detail, _WEBHOOKS)


def _live_call_text(webhook: LiveWebhook, others: list[LiveWebhook], labels: PodLabels) -> str:
    cause = " and ".join(webhook.asked_by(labels.namespace, labels.pod)) or "all pods that its selectors match"
    details = [f"{_title(webhook)} is called for {cause}, with path {webhook.path}"]
    if others:
        details.append(f"it replaces the injection by {', '.join(map(_title, others))}")
    if webhook.conditional:
        details.append("its matchConditions are not evaluated here")
    return "; ".join(details)


def _title(webhook: LiveWebhook) -> str:
    return f"{webhook.name} of {webhook.configuration}"


def _configuration(webhook: LiveWebhook) -> str:
    return f"MutatingWebhookConfiguration {webhook.configuration}"


async def delivery_steps(reader: ObjectReader, webhook: LiveWebhook) -> tuple[Step, ...]:
    """Return the steps about the call of a webhook: its failure policy, its caBundle and its endpoints."""
    source = _configuration(webhook)
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
        return Step("endpoints", verdict, detail, _configuration(webhook) if service is None else f"Service {service}")

    service = webhook.service
    if service is None:
        return step(UNKNOWN, "the webhook has a URL, which is not checked here")
    try:
        ready = sum(await ready_endpoints(reader, service.namespace, service.name))
    except ClusterError as error:
        if error.reason != "forbidden":
            raise
        return step(UNKNOWN, f"cannot be read: {error}")
    if ready:
        return step(PASSED, f"{ready} ready")
    return step(WARNING, f"none is ready: pods are {'refused' if webhook.fails else 'created without a sidecar'}")
