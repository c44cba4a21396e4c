"""``injector explain``: why pods are injected or not, step by step, for manifests or for a cluster.

The first steps lead from a pod's labels, a webhook's path or a name to a revision that is not built yet. ``istio.webhooks`` decides which
webhook the API server calls. The other steps are those of the injection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.cluster import (
    ClusterView,
    WorkloadName,
    cluster_options,
    parse_target,
    read_target,
    read_targets,
    read_view,
    refusal,
)
from injector.cli.commands import EX_DATAERR, is_file_name, verbose
from injector.cli.manifests import SELECTOR_FLAG, WorkloadFiles, workload_options
from injector.cli.options import ALL_FLAG, ALL_NAMESPACES, GUARD, PRECEDENCE_FLAG, REVISION_FLAG, output_format
from injector.cli.output import data_text, echo, echo_colored, examples
from injector.cli.sources import (
    RevisionList,
    Sources,
    chosen_revisions,
    precedence_option,
    revision_option,
)
from injector.cluster.resources import NAMESPACES, PODS, WEBHOOKS, ObjectReader, ready_endpoints
from injector.cluster.session import open_session
from injector.errors import ClusterError, DataError, UsageError
from injector.injection.pipeline import inject_pod
from injector.injection.result import ENFORCE, OFF, Injected, RequestFacts
from injector.injection.tools.explain import (
    INJECTED,
    PASSED,
    REFUSED,
    SKIP,
    SKIPPED,
    UNKNOWN,
    WARNING,
    Step,
    Trace,
    ended,
    refused,
    trace_pod,
)
from injector.injection.tools.podchanges import hiding_of
from injector.istio.analysis import Diagnostic, Item, Mesh, analyze, item_of
from injector.istio.webhooks import (
    DEFAULT_NAME,
    INJECT_LABEL,
    NAME_LABEL,
    NAMESPACE,
    REVISION_LABEL,
    LiveWebhook,
    LiveWebhooks,
    Webhook,
    called,
    passed_over,
    precedence_of,
    unserved,
    webhooks_of,
    why_none,
)
from injector.kube.escaping import escape_line
from injector.revisions.registry import PATH_PREFIX, parse_path
from injector.revisions.tags import TagWorkload, usable_tags, workload_of_pod

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.istio.revision import Revision
    from injector.kube.pods import Created
    from injector.revisions.source import RawRevision

WEBHOOK: Final = "webhook"
TAG: Final = "tag"
REVISION: Final = "revision"
NO_WEBHOOK: Final = "no_webhook"
UNKNOWN_WORKLOAD: Final = TagWorkload(("", "", ""))
DRY_RUN: Final = "dry_run"
_API_SERVER: Final = "the API server"
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


@dataclass(frozen=True, slots=True)
class RequestedName:
    """The revision or tag that a webhook's path or a flag names.

    ``name`` is empty for the default, and None if the labels of the pod decide. ``envs`` are the proxy's environment variables from the
    path. ``flag`` is the flag that names it, if one does. ``precedence`` is that of the labels, one of ``PRECEDENCES``.
    """

    name: str | None = None
    flag: str = ""
    envs: Mapping[str, str] = field(default_factory=dict)
    precedence: str = NAMESPACE


@dataclass(frozen=True, slots=True)
class Route:
    """The revision that a pod gets, the tag that refers to it, the steps so far, and environment variables from the path."""

    raw: RawRevision
    tag: str | None
    steps: tuple[Step, ...]
    envs: Mapping[str, str] = field(default_factory=dict)


def route(revisions: RevisionList, requested: RequestedName, labels: PodLabels) -> Route | Trace:
    """Return the revision that a pod gets by Istio's own webhooks, or the complete trace if it gets none.

    Raises:
        UsageError: ``--revision`` names an unknown revision or tag.
        DataError: the tags or the revision cannot be read.
    """
    state = revisions.state
    if state.tags_error is not None:
        raise state.tags_error
    if requested.name is not None:
        return _resolve(revisions, _forced_step(requested, labels), requested, labels.workload)
    names = sorted(state.served_names)
    both, precedence = (labels.namespace, labels.pod), requested.precedence
    webhooks = called(names, *both, precedence)
    if not webhooks:
        detail = f"no webhook is called: {why_none(*both, names, precedence)}"
        if INJECT_LABEL in labels.annotations and INJECT_LABEL not in labels.pod:
            detail += f"; selectors match the label {INJECT_LABEL}, not the annotation"
        return _not_called(Step(WEBHOOK, SKIP, detail, _SELECTORS), _SELECTORS)
    name, webhook = webhooks[0]
    details = _call_text(webhook, name, labels), *passed_over(*both, precedence)
    return _resolve(
        revisions, Step(WEBHOOK, PASSED, "; ".join(details), _SELECTORS), RequestedName(name), labels.workload
    )


def live_route(view: ClusterView, labels: PodLabels) -> Route | Trace:
    """Return the revision that a pod gets by a cluster's webhooks, or the trace if it gets none. Raises DataError if it cannot be read."""
    matching = view.webhooks.called(labels.namespace, labels.pod)
    if not matching:
        return _not_called(_no_live_webhook(view.webhooks, labels), _WEBHOOKS)
    return route_by(matching, view, labels)


def route_by(matching: list[LiveWebhook], view: ClusterView, labels: PodLabels) -> Route | Trace:
    """Return the same for a pod for which the API server calls the webhooks ``matching``, at least one."""
    *others, webhook = matching
    source = _configuration(webhook)
    step = Step(WEBHOOK, PASSED, _live_call_text(webhook, others, labels), source)
    try:
        parsed = parse_path(webhook.path)
    except DataError as error:
        return refused(WEBHOOK, str(error), source).after(step)
    requested = RequestedName(parsed.name or webhook.revision, envs=parsed.envs)
    return _resolve(view.revisions, step, requested, labels.workload)


def _not_called(step: Step, source: str) -> Trace:
    detail = "not injected: the API server calls no webhook for the pod"
    return ended(SKIPPED, NO_WEBHOOK, detail, source).after(step)


def _resolve(revisions: RevisionList, webhook: Step, requested: RequestedName, workload: TagWorkload) -> Route | Trace:
    """Return the revision that a requested name leads to for a workload, or the complete trace if it leads to none."""
    state, tags_where = revisions.state, revisions.tags_where
    name = requested.name or ""
    if name == DEFAULT_NAME and name not in {*state.names, *state.tags}:
        name = ""  # the path of this webhook has no name, because no revision or tag is called `default`
    wanted = name or state.default_name or ""
    tag = state.tags.get(wanted)
    if tag is not None:
        usable, faults = usable_tags({wanted: tag}, state.names)
        if not usable:
            return refused(TAG, str(faults[0]), tags_where).after(webhook)
    detail = f"{wanted} is a revision, not a tag" if wanted in state.names else f"{wanted} is not a tag"
    try:
        resolved = revisions.resolve(name, lambda: workload)
        raw = state.revision(resolved.revision)
    except UsageError as error:
        if requested.flag == REVISION_FLAG:
            raise
        detail = detail if wanted else "there is no default"
        return refused(REVISION, str(error), revisions.where).after(webhook, Step(TAG, PASSED, detail, tags_where))
    if tag is not None:
        detail = f"{tag.name} is a tag of {raw.name if tag.sole else tag.destination}"
        if not tag.sole or resolved.reason:
            reason = f", {resolved.reason}" if resolved.reason else ""
            detail += f"; {'/'.join(workload.key)} gets {raw.name}{reason}"
    if not name:
        detail = f"the default is {wanted}; {detail}"
    steps = (webhook, Step(TAG, PASSED, detail, tags_where))
    return Route(raw, None if tag is None else tag.name, steps, requested.envs)


def _forced_step(requested: RequestedName, labels: PodLabels) -> Step:
    """Return the step if a flag selects the webhook, which says whether the labels would select it too."""
    name = requested.name or DEFAULT_NAME
    webhooks = webhooks_of(name, requested.precedence)
    nearest = min(webhooks, key=lambda webhook: len(webhook.unmet(labels.namespace, labels.pod)))
    missing = nearest.unmet(labels.namespace, labels.pod)
    if not missing:
        return Step(WEBHOOK, PASSED, _call_text(nearest, name, labels), _SELECTORS)
    detail = f"the labels alone do not select it: {nearest.name} of {name} requires {', '.join(missing)}"
    return Step(WEBHOOK, PASSED, detail, requested.flag)


def _call_text(webhook: Webhook, name: str, labels: PodLabels) -> str:
    return f"{webhook.name} of {name} is called for {' and '.join(webhook.asked_by(labels.namespace, labels.pod))}"


def called_last(webhooks: LiveWebhooks, labels: PodLabels) -> LiveWebhook | None:
    """Return the webhook that decides about a pod: of several, the last one replaces the injection of the others."""
    return next(reversed(webhooks.called(labels.namespace, labels.pod)), None)


def served_names(webhooks: LiveWebhooks) -> frozenset[str]:
    """Return the revisions and tags that a cluster has webhooks for."""
    return frozenset(map(_name, webhooks))


def requested_name(webhooks: LiveWebhooks, labels: PodLabels) -> str | None:
    """Return the revision or tag of the webhook that is called, or the unknown one that the labels name."""
    webhook = called_last(webhooks, labels)
    if webhook is not None:
        return _name(webhook)
    return unserved(labels.namespace, labels.pod, served_names(webhooks), precedence_of(webhooks))


def _name(webhook: LiveWebhook) -> str:
    try:
        name = parse_path(webhook.path).name
    except DataError:
        name = ""
    return name or webhook.tag or webhook.revision


def _no_live_webhook(webhooks: LiveWebhooks, labels: PodLabels) -> Step:
    if not webhooks:
        return Step(WEBHOOK, SKIP, "the cluster has no webhook that calls an injector", _WEBHOOKS)
    nearest = min(webhooks, key=lambda each: len(each.unmet(labels.namespace, labels.pod)))
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


PATH_FLAG: Final = "--path"
LABELS_FLAG: Final = "--namespace-labels"
_COLORS: Final = {
    r"^\S.*: injected(?: by \S+)? \([^()]*\)$": "32",
    r"^\S.*: skipped(?: by \S+)? \([^()]*\)$": "33",
    r"^\S.*: refused(?: by \S+)? \([^()]*\)$": "31",
    r"^  Error .*": "31",
    r"^  Warning .*": "33",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The trace of one workload, the revision and tag that it leads to, and what Istio's analyzer says about it."""

    workload: Created
    trace: Trace
    revision: str | None
    tag: str | None
    messages: tuple[Diagnostic, ...] = ()

    def detail(self, step: Step) -> str:
        """Return the detail of a step without the values of the workload's environment variables."""
        return hiding_of(self.workload.pod).without_values(step.detail)

    def text(self) -> str:
        """Return the trace as text."""
        by = f" by {self.revision}" if self.revision else ""
        names, verdicts = (
            max(map(len, column)) for column in zip(*((s.step, s.verdict) for s in self.trace.steps), strict=True)
        )
        steps = "".join(
            f"  {step.step:{names}}  {step.verdict:{verdicts}}  {escape_line(self.detail(step))}  [{escape_line(step.source)}]\n"
            for step in self.trace.steps
        )
        messages = "".join(f"  {each.level} {escape_line(each.line)}\n" for each in self.messages)
        return f"{self.workload}: {self.trace.outcome}{by} ({self.trace.reason})\n{steps}{messages}"

    def data(self) -> dict[str, Any]:
        """Return the trace as JSON data."""
        return {
            "kind": self.workload.kind,
            "namespace": self.workload.namespace,
            "name": self.workload.name,
            "outcome": self.trace.outcome,
            "reason": self.trace.reason,
            "revision": self.revision,
            "tag": self.tag,
            "steps": [
                {"step": step.step, "verdict": step.verdict, "detail": self.detail(step), "source": step.source}
                for step in self.trace.steps
            ],
            "messages": [each.data() for each in self.messages],
        }


def explain_workload(
    workload: Created,
    routed: Route | Trace,
    build: Callable[[RawRevision], Revision],
    guard: str = ENFORCE,
    labels: Mapping[str, str] | None = None,
) -> Explanation:
    """Return the trace of one workload, from its webhook to the result. ``build`` builds the revision of ``routed``.

    The ``labels`` are those of its namespace, if they are known. Raises DataError if the revision cannot be built.
    """
    if isinstance(routed, Trace):
        return Explanation(workload, routed, None, None)
    revision = build(routed.raw)
    facts = RequestFacts(workload.namespace, routed.envs, revision.namespaces.get(workload.namespace), guard)
    detail = f"{revision.name}: Istio {revision.istio_version} ({revision.version_reason}), engine {revision.engine}"
    step = Step(REVISION, PASSED, detail, revision.origin)
    trace = trace_pod(revision, workload.pod, facts, labels).after(*routed.steps, step)
    return Explanation(workload, trace, revision.name, routed.tag)


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


def pod_labels(workload: Created, namespace_labels: Mapping[str, str]) -> PodLabels:
    """Return the labels and annotations that decide which revision the pod of a workload gets."""
    meta = workload.pod["metadata"]
    own = workload_of_pod(workload.pod, workload.namespace)
    return PodLabels(namespace_labels, meta.get("labels") or {}, meta.get("annotations") or {}, own)


async def explain_live(
    reader: ObjectReader,
    sources: Sources,
    wanted: WorkloadName | str | None,
    workloads: list[Created],
    guard: str = ENFORCE,
    client: KubeClient | None = None,
) -> tuple[list[Explanation], tuple[str, ...]]:
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
    explanations = [await _explain_live(reader, each, view, mesh, running, guard) for each in workloads]
    if client is not None:
        explanations = [await _dry_run(client, view.built.revisions, each) for each in explanations]
    place = "in any namespace" if namespace is None else f"in namespace {namespace}"
    missing = () if workloads else (f"there is no workload {place}",)
    return explanations, (*view.built.notes, *view.revisions.state.webhook_faults, *missing)


async def _explain_live(
    reader: ObjectReader, workload: Created, view: ClusterView, mesh: Mesh, running: Item | None, guard: str
) -> Explanation:
    labels = pod_labels(workload, view.namespaces[workload.namespace])
    routed = live_route(view, labels)
    webhook = called_last(view.webhooks, labels)
    delivery = () if webhook is None else await delivery_steps(reader, webhook)
    first, *rest = routed.steps
    routed = replace(routed, steps=(first, *delivery, *rest))
    name = "" if webhook is None else webhook.configuration
    messages = tuple(
        each
        for each in messages_about(workload, labels.namespace, mesh, running)
        if each.item.kind != WEBHOOKS.kind or each.item.name == name
    )
    explained = explain_workload(workload, routed, view.built.revision, guard, labels.namespace)
    return replace(explained, messages=messages)


async def _dry_run(client: KubeClient, revisions: Mapping[str, Revision], explained: Explanation) -> Explanation:
    """Return the trace of a workload with the API server's verdict on the injected pod: its policies, quotas and other webhooks."""
    revision, namespace = revisions.get(explained.revision or ""), explained.workload.namespace
    if explained.trace.outcome != INJECTED or revision is None:
        return explained
    facts = RequestFacts(namespace, {}, revision.namespaces.get(namespace), OFF)
    result = inject_pod(revision, explained.workload.pod, facts)
    if not isinstance(result, Injected):  # pragma: no cover -- the trace says that it is injected
        return explained
    *steps, last = explained.trace.steps
    try:
        said = await refusal(client, result.pod, namespace)
    except ClusterError as error:
        step = Step(DRY_RUN, UNKNOWN, f"the API server did not check the injected pod: {error}", _API_SERVER)
        return replace(explained, trace=replace(explained.trace, steps=(*steps, step, last)))
    if said is not None:
        return replace(explained, trace=refused(DRY_RUN, said, _API_SERVER).after(*steps))
    step = Step(DRY_RUN, PASSED, "the API server accepts the injected pod", _API_SERVER)
    return replace(explained, trace=replace(explained.trace, steps=(*steps, step, last)))


@click.command(
    "explain",
    epilog=examples(
        "explain deploy/hello.shop",
        "explain -n shop",
        "explain -f app.yaml --namespace-labels istio.io/rev=canary",
    ),
)
@click.argument("target", metavar="[[TYPE/]NAME[.NAMESPACE]]", required=False)
@workload_options("Default namespace. Without NAME or FILES, explain every workload in it.")
@ALL_NAMESPACES
@revision_option("Use this revision or tag instead of the labels. For FILES.")
@click.option(PATH_FLAG, metavar="PATH", help="Use this path of a webhook, such as /inject/prod. For FILES.")
@click.option(
    LABELS_FLAG,
    "namespace_labels",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Labels of the workloads' namespace. Default: those of the Namespace objects in FILES.",
)
@precedence_option("For FILES.")
@cluster_options
@GUARD
@output_format("text", "json", "yaml")
@verbose
def explain(  # noqa: PLR0913 -- one parameter for each flag
    *,
    target: str | None,
    files: WorkloadFiles,
    every: bool,
    revision: str | None,
    path: str | None,
    namespace_labels: tuple[str, ...],
    precedence: str,
    sources: Sources,
    kubeconfig: Kubeconfig,
    guard: str,
    output: str,
) -> None:
    """Explain step by step why pods of the FILES or of the cluster are injected or not.

    For FILES, the labels of pod and namespace select one of Istio's own webhooks, and so a revision or tag. --path or --revision
    override that. For a workload of the cluster, or for all in a namespace, the command uses the labels and webhooks of the cluster.
    The exit code is 65 if a pod would be refused.
    """
    namespace = files.namespace
    _check_input(target, files, every=every)
    if not files.filenames:
        only_files: dict[str, object] = {
            REVISION_FLAG: revision,
            PATH_FLAG: path,
            LABELS_FLAG: namespace_labels,
            PRECEDENCE_FLAG: precedence != NAMESPACE,
            "--recursive": files.recursive,
        }
        for flag, value in only_files.items():
            if value:
                raise UsageError("only for FILES, not for the cluster", where=flag, hint="leave it out")
        name = None
        if target is not None:
            name = parse_target(target, namespace=namespace, default=kubeconfig.namespace(), others=files.others)
        with open_session(kubeconfig) as session:
            if name is None:
                created = read_targets(session, namespace, files.others, lambda each: each, selector=files.selector)
            else:
                created = [session.run(lambda client: read_target(client, name, files.others))]
            explanations, notes = session.run(
                lambda client: explain_live(
                    client, sources, name or namespace, created, guard, client if name else None
                )
            )
    else:
        requested, labels = replace(_requested(revision, path), precedence=precedence), _labels(namespace_labels)
        workloads = files.read()
        by_namespace = (
            workloads.namespace_labels
            if labels is None
            else dict.fromkeys((each.namespace for each in workloads.created), labels)
        )
        with chosen_revisions(sources, kubeconfig) as revisions:
            explanations = _explain_files(workloads.created, requested, by_namespace, revisions, guard)
        notes = _missing_labels(explanations, by_namespace)
    for note in notes:
        echo(f"note: {note}", err=True)
    if output == "text":
        echo_colored("\n".join(each.text() for each in explanations), _COLORS)
    else:
        echo(data_text({"workloads": [each.data() for each in explanations]}, output), nl=False)
    if any(each.trace.outcome == REFUSED for each in explanations):
        click.get_current_context().exit(EX_DATAERR)


def _check_input(target: str | None, files: WorkloadFiles, *, every: bool) -> None:
    """Refuse a command line that names no workloads, or names them in two ways, by a UsageError."""
    names = {"NAME": target, "-f": files.filenames, ALL_FLAG: every}
    if len(given := [name for name, value in names.items() if value]) > 1:
        hint = "give NAME, -n or -A for workloads of the cluster, or -f for files"
        raise UsageError(f"{given[0]} and {given[1]} exclude each other", hint=hint)
    if not given and not files.namespace:
        hint = "give NAME, -n NAMESPACE or -A for workloads of the cluster, or -f FILE (- for stdin)"
        raise UsageError("no workload is given", hint=hint)
    if every and files.namespace:
        raise UsageError(f"-n and {ALL_FLAG} exclude each other", hint="give one of the two")
    if target and is_file_name(target):
        raise UsageError(f"{target!r} is a file, not the name of a workload", hint=f"give it by a flag: `-f {target}`")
    if target and not files.selector.is_empty:
        raise UsageError(f"NAME and {SELECTOR_FLAG} exclude each other", hint="give one of the two")


def _explain_files(
    workloads: tuple[Created, ...],
    requested: RequestedName,
    by_namespace: Mapping[str, Mapping[str, str]],
    revisions: RevisionList,
    guard: str,
) -> list[Explanation]:
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
        explained = explain_workload(workload, routed, build_once, guard, labels)
        explanations.append(replace(explained, messages=messages))
    return explanations


def _missing_labels(explanations: list[Explanation], known: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return a note for each namespace without known labels whose pods no webhook is called for."""
    skipped = {each.workload.namespace for each in explanations if each.trace.reason == NO_WEBHOOK}
    return tuple(
        f"the labels of namespace {name} are not known; give {LABELS_FLAG}" for name in sorted(skipped - known.keys())
    )


def _requested(revision: str | None, path: str | None) -> RequestedName:
    if revision is not None and path is not None:
        raise UsageError(f"{REVISION_FLAG} and {PATH_FLAG} exclude each other", hint="give one of the two")
    if revision is not None:
        return RequestedName(revision, REVISION_FLAG)
    if path is None:
        return RequestedName()
    if path != PATH_PREFIX and not path.startswith(f"{PATH_PREFIX}/"):
        hint = f"write {PATH_PREFIX} or {PATH_PREFIX}/NAME"
        raise UsageError(f"{path!r} is not a path of the webhook", where=PATH_FLAG, hint=hint)
    parsed = parse_path(path)
    return RequestedName(parsed.name, PATH_FLAG, parsed.envs)


def _labels(given: tuple[str, ...]) -> dict[str, str] | None:
    if not given:
        return None
    pairs = [pair.partition("=") for text in given for pair in text.split(",") if pair]
    for name, separator, value in pairs:
        if not separator or not name:
            hint = "write istio-injection=enabled"
            raise UsageError(f"{name + value!r} is not a label", where=LABELS_FLAG, hint=hint)
    return {name.strip(): value.strip() for name, _, value in pairs}
