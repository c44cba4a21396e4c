"""From a pod's labels, a webhook's path or a name to the revision that gets the pod, by files or by the webhooks of a cluster.

Nothing is built here: a revision's raw texts come out. Which webhook is called is told by ``istio.webhooks``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.cli.options import REVISION_FLAG, find_revision
from injector.cluster.reader import ENDPOINT_SLICES, Scope
from injector.errors import ClusterError, DataError, UsageError
from injector.injection.tools.explain import PASSED, SKIP, SKIPPED, UNKNOWN, WARNING, Step, Trace, ended, refused
from injector.istio.webhooks import DEFAULT_NAME, INJECT_LABEL, called, passed_over, unserved, webhooks_of, why_none
from injector.revisions.directory import TAGS_FILE
from injector.revisions.tags import usable_tags
from injector.webhook.path import parse_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from injector.cli.cluster import ClusterView
    from injector.cluster.reader import Reader
    from injector.istio.webhooks import LiveWebhook, Service, Webhook
    from injector.revisions.source import RawRevision, SourceState
    from injector.revisions.tags import Tag

WEBHOOK: Final = "webhook"
TAG: Final = "tag"
REVISION: Final = "revision"
NO_WEBHOOK: Final = "no_webhook"
_SELECTORS: Final = "selectors of Istio's own webhooks"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the flags ask for: the name of a revision or tag, empty for the default; None leaves it to the pod's labels.

    ``flag`` is the one that says so, ``envs`` what a path adds to the proxy's environment.
    """

    name: str | None = None
    flag: str = ""
    envs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Labels:
    """What tells where a pod goes.

    ``declared`` are its annotations, which no selector sees; ``workload`` is what a tag with weights chooses by.
    """

    namespace: Mapping[str, str]
    pod: Mapping[str, str]
    declared: Mapping[str, str] = field(default_factory=dict)
    workload: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A webhook that is called: the step that says so, the name that it asks for, empty for the default, and its path's pairs.

    ``strict`` lets a name that nothing has be the user's error rather than a refusal.
    """

    step: Step
    name: str
    envs: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Routed:
    """The revision that gets the pod, the tag that led to it if one did, what its webhook's path adds, and the steps so far."""

    raw: RawRevision
    tag: str | None
    steps: tuple[Step, ...]
    envs: Mapping[str, str] = field(default_factory=dict)


def route(state: SourceState, asked: Asked, labels: Labels, *, where: str) -> Routed | Trace:
    """Return which of the source's revisions gets a pod, by Istio's own webhooks; the whole trace where none does.

    Raises:
        UsageError: ``--revision`` names nothing that is there.
        DataError: the tags cannot be read, or the revision is there and cannot be.
    """
    if state.tags_error is not None:
        raise state.tags_error
    webhook, name = _webhook(_served(state), asked, labels)
    if name is None:
        return uncalled(webhook, _SELECTORS)
    call = Call(webhook, name, asked.envs, strict=asked.flag == REVISION_FLAG)
    return resolved(state, call, labels.workload, where=where, tags_where=f"{where}/{TAGS_FILE}")


def uncalled(webhook: Step, source: str) -> Trace:
    """Return the trace of a pod that no webhook is called for."""
    detail = "not injected: the API server calls no webhook for the pod"
    return ended(SKIPPED, NO_WEBHOOK, detail, source).after(webhook)


def resolved(state: SourceState, call: Call, workload: Sequence[str], *, where: str, tags_where: str) -> Routed | Trace:
    """Return the revision that answers a webhook's call for a workload; the whole trace where none does.

    Raises:
        UsageError: the call is strict, and names nothing that is there.
        DataError: the revision is there and cannot be read.
    """
    name = call.name
    if name == DEFAULT_NAME and name not in {*state.names, *state.tags}:
        name = ""  # no revision or tag is called so: the webhook's path is the one without a name
    wanted = name or state.default_name or ""
    usable, faults = usable_tags({key: tag for key, tag in state.tags.items() if key == wanted}, state.names)
    if wanted in state.tags and wanted not in usable:
        return refused(TAG, str(faults[0]), tags_where).after(call.step)
    lead = "" if name else f"no name asks for the default, {wanted or 'which nothing is'}; "

    def steps(said: str) -> tuple[Step, Step]:
        return call.step, Step(TAG, PASSED, f"{lead}{said}".removesuffix("; "), tags_where)

    try:
        raw = find_revision(state, name, where=where, workload=lambda: workload)
    except UsageError as error:
        if call.strict:
            raise
        return refused(REVISION, str(error), where).after(*steps(f"{wanted} is no tag" if wanted else ""))
    tag = state.tags.get(wanted)
    said = f"{wanted} is no tag" if tag is None else _described_tag(tag, workload, raw.name)
    return Routed(raw, None if tag is None else tag.name, steps(said), call.envs)


def _served(state: SourceState) -> list[str]:
    # Istio's webhooks for `default` are there wherever something is the default, whatever its name.
    return sorted(state.names | set(state.tags) | ({DEFAULT_NAME} if state.default_name else set()))


def _webhook(served: list[str], asked: Asked, labels: Labels) -> tuple[Step, str | None]:
    """Return the step, and the name that the webhook is of; None where none is called."""
    if asked.name is not None:
        return _given(asked, labels), asked.name
    found = called(served, labels.namespace, labels.pod)
    if not found:
        detail = why_none(labels.namespace, labels.pod, served)
        return Step(WEBHOOK, SKIP, f"none is called: {detail}{_unseen(labels)}", _SELECTORS), None
    detail = "; ".join((_call(found[0].webhook, found[0].name, labels), *passed_over(labels.namespace, labels.pod)))
    return Step(WEBHOOK, PASSED, detail, _SELECTORS), found[0].name


def _call(webhook: Webhook, name: str, labels: Labels) -> str:
    return f"{webhook.name} of {name} is called for {' and '.join(webhook.asked_by(labels.namespace, labels.pod))}"


def _given(asked: Asked, labels: Labels) -> Step:
    """Return the step where a flag says which webhook called; the labels say whether Istio's own would have."""
    name = asked.name or DEFAULT_NAME
    unmet = [(webhook, webhook.unmet(labels.namespace, labels.pod)) for webhook in webhooks_of(name)]
    nearest, missing = min(unmet, key=lambda pair: len(pair[1]))
    if not missing:
        return Step(WEBHOOK, PASSED, _call(nearest, name, labels), _SELECTORS)
    detail = f"taken as called; by the labels it is not: {nearest.name} of {name} wants {', '.join(missing)}"
    return Step(WEBHOOK, PASSED, detail, asked.flag)


def _unseen(labels: Labels) -> str:
    if INJECT_LABEL in labels.declared and INJECT_LABEL not in labels.pod:
        return f"; the annotation {INJECT_LABEL} is seen by no selector, the label of that name is"
    return ""


def _described_tag(tag: Tag, workload: Sequence[str], revision: str) -> str:
    """Say how a tag leads to the revision of a workload."""
    if tag.sole:
        return f"{tag.name} is a tag of {revision}"
    weights = ", ".join(f"{name}: {weight}" for name, weight in tag.weights)
    return f"{tag.name} is a tag of {weights}; {'/'.join(workload)} gets {revision}"


SOURCE: Final = "the cluster's webhooks"


def live_route(around: ClusterView, labels: Labels) -> Routed | Trace:
    """Return which revision a pod with these labels gets; the whole trace where none does.

    Raises:
        DataError: the revision is there and cannot be read.
    """
    found = called_last(around.webhooks, labels)
    if found is None:
        return uncalled(_none_called(around.webhooks, labels), SOURCE)
    others = [each for each in around.webhooks if each is not found and each.calls(labels.namespace, labels.pod)]
    step = Step(WEBHOOK, PASSED, _described(found, others, labels), _object(found))
    try:
        parsed = parse_path(found.path)
    except DataError as error:
        return refused(WEBHOOK, str(error), _object(found)).after(step)
    call = Call(step, parsed.name or found.revision, parsed.envs)
    revisions = around.revisions
    return resolved(revisions.state, call, labels.workload, where=revisions.where, tags_where=revisions.tags_where)


def called_last(webhooks: Iterable[LiveWebhook], labels: Labels) -> LiveWebhook | None:
    """Return the webhook that decides: of several that are called, the last one injects anew what the others did."""
    called = [each for each in webhooks if each.calls(labels.namespace, labels.pod)]
    return called[-1] if called else None


def served_names(webhooks: Iterable[LiveWebhook]) -> frozenset[str]:
    """Return the revisions and tags that a cluster has webhooks for."""
    return frozenset(_name(each) for each in webhooks)


def asked_name(webhooks: Iterable[LiveWebhook], labels: Labels) -> str | None:
    """Return the revision or tag that is asked for: by the webhook that is called, or by labels that no webhook is for."""
    webhooks = tuple(webhooks)
    found = called_last(webhooks, labels)
    return _name(found) if found is not None else unserved(labels.namespace, labels.pod, served_names(webhooks))


def _name(webhook: LiveWebhook) -> str:
    try:
        named = parse_path(webhook.path).name
    except DataError:
        named = ""
    return named or webhook.tag or webhook.revision


def _none_called(webhooks: tuple[LiveWebhook, ...], labels: Labels) -> Step:
    if not webhooks:
        return Step(WEBHOOK, SKIP, "none is called: no webhook of the cluster calls an injector", SOURCE)
    unmet = [(each, each.webhook.unmet(labels.namespace, labels.pod)) for each in webhooks]
    nearest, missing = min(unmet, key=lambda pair: len(pair[1]))
    why = why_none(labels.namespace, labels.pod, served_names(webhooks))
    detail = f"none is called: {why}; nearest is {_titled(nearest)}, which wants {', '.join(missing)}"
    return Step(WEBHOOK, SKIP, detail, SOURCE)


def _described(found: LiveWebhook, others: list[LiveWebhook], labels: Labels) -> str:
    asked = " and ".join(found.webhook.asked_by(labels.namespace, labels.pod)) or "every pod of its selectors"
    said = [f"{_titled(found)} is called for {asked}, with path {found.path}"]
    if others:
        said.append(f"before it {', '.join(map(_titled, others))}, whose injection it takes the place of")
    if found.conditional:
        said.append("its matchConditions are not judged here")
    return "; ".join(said)


def _titled(webhook: LiveWebhook) -> str:
    return f"{webhook.webhook.name} of {webhook.configuration}"


def _object(webhook: LiveWebhook) -> str:
    return f"MutatingWebhookConfiguration {webhook.configuration}"


FAILURE_POLICY: Final = "failure_policy"
CA_BUNDLE: Final = "ca_bundle"
ENDPOINTS: Final = "endpoints"
# Which Service an EndpointSlice is of (k8s.io/api/discovery/v1, LabelServiceName).
_SERVICE_LABEL: Final = "kubernetes.io/service-name"


async def delivery_steps(reader: Reader, webhook: LiveWebhook) -> tuple[Step, ...]:
    """Return what the API server does when the injector does not answer, whether it can trust it, and whether anything is there.

    Raises:
        ClusterError: the API server cannot be reached.
    """
    source = f"MutatingWebhookConfiguration {webhook.configuration}"
    return (_failure_policy(webhook, source), _ca_bundle(webhook, source), await _endpoints(reader, webhook, source))


def _failure_policy(webhook: LiveWebhook, source: str) -> Step:
    if webhook.fails:
        return Step(FAILURE_POLICY, PASSED, "Fail: without an answer the pod is not created", source)
    return Step(FAILURE_POLICY, WARNING, "Ignore: without an answer the pod is created without a sidecar", source)


def _ca_bundle(webhook: LiveWebhook, source: str) -> Step:
    if webhook.trusted:
        return Step(CA_BUNDLE, PASSED, "there is one", source)
    detail = "it is empty: the API server trusts none but the authorities of its own host"
    return Step(CA_BUNDLE, WARNING, detail, source)


async def _endpoints(reader: Reader, webhook: LiveWebhook, source: str) -> Step:
    service = webhook.service
    if service is None:
        return Step(ENDPOINTS, UNKNOWN, "the webhook is called by URL, which is not tried here", source)
    scope = Scope(ENDPOINT_SLICES, service.namespace, f"{_SERVICE_LABEL}={service.name}")
    try:
        ready = sum(await reader.all(scope, _ready))
    except ClusterError as error:
        if error.reason != "forbidden":
            raise
        return Step(ENDPOINTS, UNKNOWN, f"they cannot be asked: {error}", source)
    return _counted(service, ready, webhook)


def _counted(service: Service, ready: int, webhook: LiveWebhook) -> Step:
    source = f"Service {service}"
    if ready:
        return Step(ENDPOINTS, PASSED, f"{ready} ready", source)
    outcome = "refused" if webhook.fails else "created without a sidecar"
    return Step(ENDPOINTS, WARNING, f"none is ready: pods are {outcome}", source)


def _ready(item: Mapping[str, Any]) -> int:
    """Return how many endpoints of a slice are ready; one whose condition is not said counts, as for the API server."""
    endpoints = item.get("endpoints") or ()
    return sum((each.get("conditions") or {}).get("ready") is not False for each in endpoints)
