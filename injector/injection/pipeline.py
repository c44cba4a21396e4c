"""One injection, step by step: policy, parameters, data, render, merge, guard, steps after the templates, checks, patch.

Follows ``Webhook.inject`` and ``injectPod`` in pkg/kube/inject/webhook.go (1.30.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.errors import AnnotationError, DataError, InvalidPodError, TemplateBudgetError
from injector.golang.json import dump_json
from injector.gotemplate.budget import DEFAULT_BUDGET, Budget, use_meter
from injector.gotemplate.budget import Rendering as GoRendering
from injector.gotemplate.hidden import HiddenText, TextReadError, hide_text
from injector.injection import containers as c
from injector.injection.append import ListTemplate, append_sidecar, pod_for_template
from injector.injection.data import (
    Parameters,
    ProxyOverlays,
    cluster_envs,
    forget_assigned_user,
    keep_assigned_user,
    native_sidecar,
    template_data,
)
from injector.injection.guard import TemplateGuard
from injector.injection.policy import injection_required
from injector.injection.render import OverlayTemplates, select_templates
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.injection.steps import prometheus
from injector.injection.steps.overrides import reinsert_overrides
from injector.injection.steps.postprocess import finish
from injector.injection.steps.status import read_status, strip_injected
from injector.istio.annotations import LONGEST_LIST, PROXY_CONFIG, annotation_fault, list_too_long, validate_annotations
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.kube.escaping import escape_line
from injector.kube.jsonpatch import create_patch
from injector.kube.pods import workload_of
from injector.kube.podsecurity import PREFIX, UNRESTRICTED, LevelVersion
from injector.kube.podvalidation import MAX_ANNOTATIONS, new_faults
from injector.kube.typed import normalise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.injection.guard import PodTemplates
    from injector.injection.result import Answer
    from injector.istio.revision import Revision
    from injector.kube.jsonpatch import Operation
    from injector.kube.pods import WorkloadMeta

_BUDGET: Final = Budget(steps=4 * DEFAULT_BUDGET.steps, memory=4 * DEFAULT_BUDGET.memory)
"""For all renderings of an injection: the pod's templates, and the renderings that the guard compares them with."""
_LONGEST_TEXT: Final = 300
"""Characters of a place or fault in a message: names can be as long as a pod."""
_DEPLOYMENT_CONFIG: Final = "deploymentconfig"


def inject_pod(revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> Injected | Skipped:
    """Inject ``pod``, the object of an AdmissionReview, as the webhook of ``revision`` does.

    Raises DataError if the pod, an annotation or the revision's template cannot be used; the text says what, where and what to do.

    Returns:
        The injected pod with the patch from ``pod`` to it, or why it is left alone.
    """
    return inject_admitted(revision, admitted_pod(pod, facts.namespace), facts, original=pod)


def inject_admitted(
    revision: Revision, admitted: c.Pod, facts: RequestFacts, *, original: dict[str, Any] | None = None
) -> Injected | Skipped:
    """Inject a pod as ``admitted_pod`` returns it.

    The patch of the result starts from ``original``. Comparisons need only the injected pod: without ``original`` the patch is empty.
    Raises DataError as ``inject_pod``.
    """
    namespace = admitted["metadata"].get("namespace", "")
    decision = injection_required(revision.config.policy, revision.behaviours, admitted, namespace)
    warnings = (decision.warning,) if decision.warning else ()
    if not decision.inject:
        return Skipped(decision.reason, decision.detail, warnings)
    check_annotations_size(admitted)
    visible_pod = _without_assigned_user(revision, admitted)
    outcome = run_injection(webhook_parameters(revision, visible_pod, facts), webhook=True)
    result = outcome.shared_pod
    if visible_pod is not admitted:
        result = keep_assigned_user(result, admitted)
    if facts.deny_invalid:
        check_valid(result, admitted)
    patch = [] if original is None else _patch(original, result)
    return Injected(result, dump_json(patch), outcome.templates, warnings + outcome.findings, outcome.findings)


def _without_assigned_user(revision: Revision, admitted: c.Pod) -> c.Pod:
    """Return a pod without the user that OpenShift assigned; the pod itself where Istio does not remove it."""
    if not (revision.openshift and revision.behaviours.openshift):
        return admitted
    return forget_assigned_user(admitted, with_init_containers=revision.behaviours.openshift_init_containers)


def _patch(original: dict[str, Any], result: c.Pod) -> list[Operation]:
    before = patched_object(original)
    return create_patch(before, without_namespace(result, before))


def answers_to(
    pod: dict[str, Any], *requests: tuple[Revision, RequestFacts], policy: LevelVersion = UNRESTRICTED
) -> list[Answer]:
    """Return the result of ``inject_pod`` for each request with a pod, with an empty patch, or its error if the pod is refused.

    All requests are for the namespace of the first one, in which the API server enforces the Pod Security ``policy``.
    """
    try:
        admitted = admitted_pod(pod, requests[0][1].namespace)
    except DataError as error:
        return [error] * len(requests)
    return [_try_inject_admitted(revision, admitted, facts, policy) for revision, facts in requests]


def _try_inject_admitted(revision: Revision, admitted: c.Pod, facts: RequestFacts, policy: LevelVersion) -> Answer:
    try:
        result = inject_admitted(revision, admitted, facts)
        if isinstance(result, Injected):
            check_pod_security(result.shared_pod, policy)
    except DataError as error:
        return error
    return result


def check_pod_security(injected: c.Pod, policy: LevelVersion) -> None:
    """Raise InvalidPodError if the API server enforces a policy that refuses an injected pod."""
    fault = policy.fault(injected)
    if fault:
        raise InvalidPodError(
            f"{escape_line(fault)}: the API server would refuse the injected pod",
            hint=f"change the pod or the template, or the namespace's label {PREFIX}enforce",
        )


def admitted_pod(pod: Mapping[str, Any], namespace: str) -> c.Pod:
    """Return the pod as Go reads it from a review: normalised, its namespace filled in, managed fields left out."""
    read: c.Pod = normalise(pod, "v1.Pod")
    meta = {key: value for key, value in (read.get("metadata") or {}).items() if key != "managedFields"}
    if namespace and not meta.get("namespace"):
        meta["namespace"] = namespace
    return {**read, "metadata": meta, "spec": read.get("spec") or {}}


def patched_object(pod: dict[str, Any]) -> c.Pod:
    """Return the pod that the patch starts from: the original pod without fields that no injection touches.

    Managed fields can be large, and ``creationTimestamp: null`` is Go's empty value; neither needs an operation. Metadata that is
    absent or null has to be added as a whole.
    """
    if pod.get("metadata") is None:
        return pod
    meta = {key: value for key, value in pod["metadata"].items() if value is not None and key != "managedFields"}
    return {**pod, "metadata": meta}


def without_namespace(final: c.Pod, original: c.Pod) -> c.Pod:
    """Return the injected pod without the namespace that was only filled in for the templates, and without metadata that is null."""
    filled_in = "namespace" not in (original.get("metadata") or {})
    meta = final["metadata"]
    remaining = {
        key: value for key, value in meta.items() if value is not None and not (filled_in and key == "namespace")
    }
    return final if len(remaining) == len(meta) else {**final, "metadata": remaining}


def webhook_parameters(revision: Revision, pod: c.Pod, facts: RequestFacts) -> Parameters:
    """Return the webhook's parameters for ``pod``: the pod's ProxyConfigs change the proxy, not the mesh."""
    overlays = proxy_overlays(revision, pod)
    overlaid = overlays.on(revision)
    workload = workload_of(pod, revision.behaviours.owner_rules)
    of_config = workload.kind == "DeploymentConfig"
    return Parameters(
        revision=revision,
        pod=pod,
        workload=workload,
        owner_meta=owner_meta(revision, pod, workload),
        mesh=revision.mesh,
        mesh_in_data=revision.mesh if overlays.merge else overlaid,
        proxy_config=overlaid,
        default_templates=revision.config.default_templates,
        injected_annotations=revision.config.injected_annotations,
        proxy_envs=cluster_envs(revision, pod, facts.proxy_envs),
        namespace_meta=facts.namespace_meta if revision.openshift else None,
        hidden_label=_DEPLOYMENT_CONFIG if of_config and revision.behaviours.hides_deployment_config else "",
        guard=facts.guard,
        overlays=overlays,
    )


def owner_meta(revision: Revision, pod: c.Pod, workload: WorkloadMeta) -> dict[str, Any]:
    """Return the metadata of a pod's workload as templates see it: the pod's own, under the workload's name."""
    meta = {**pod["metadata"], "name": workload.name, "namespace": workload.namespace}
    if revision.behaviours.owner_meta_bare:
        meta.pop("ownerReferences", None)
        if workload.kind == "DeploymentConfig" and "labels" in meta:
            meta["labels"] = {key: value for key, value in meta["labels"].items() if key != _DEPLOYMENT_CONFIG}
    return meta


def proxy_overlays(revision: Revision, pod: c.Pod) -> ProxyOverlays:
    """Return the ProxyConfigs of a pod, as its webhook merges them. Raises AnnotationError if Istio refuses one of its annotations."""
    behaviours, applying = revision.behaviours, revision.proxy_configs_of(pod["metadata"])
    below, above = (
        {str(resource): resource.proxy_config(behaviours) for resource in some}
        for some in (applying.below, applying.above)
    )
    annotation = c.annotations_of(pod).get(PROXY_CONFIG) if behaviours.proxy_config_annotation else None
    if annotation is not None:
        validate(revision, pod)
    return ProxyOverlays(behaviours.proxy_config_merge, below, annotation, above)


def check_annotations_size(pod: c.Pod) -> None:
    """Raise AnnotationError if the annotations are longer than Kubernetes permits, before anything is looked for in them.

    Kubernetes checks it too, but after the webhooks (k8s.io/apimachinery, pkg/api/validation/objectmeta.go).
    """
    size = sum(len(key) + len(value) for key, value in c.annotations_of(pod).items())
    if size > MAX_ANNOTATIONS:
        raise AnnotationError(
            f"{size} characters, more than the {MAX_ANNOTATIONS} bytes that Kubernetes permits",
            where="metadata.annotations",
            hint="shorten the annotations",
        )


def check_valid(injected: c.Pod, admitted: c.Pod) -> None:
    """Raise InvalidPodError if the injection made a pod invalid.

    A fault that the pod had before is the API server's business: a later webhook may correct it, and otherwise the API server names it.
    """
    faults = new_faults(injected, admitted)
    if faults:
        first, names = faults[0], _names_of(admitted)
        where, what, place = (
            escape_line(text[:_LONGEST_TEXT]) for text in (first.where, first.what, first.place(names))
        )
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InvalidPodError(
            f"{what}{more}: the API server would refuse the injected pod",
            where=where,
            hint="correct the template, or the annotations and containers of the pod that it uses",
            place=place,
            lacks_volumes=all(fault.is_missing_volume for fault in faults),
        )


def _names_of(pod: c.Pod) -> frozenset[str]:
    """Return the names of the containers and volumes of a pod, and of Istio's containers."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    lists = (*(c.containers_of(pod, kind) for kind in ("containers", "initContainers")), volumes)
    return c.ISTIOS.union(str(item.get("name", "")) for items in lists for item in items)


def validate(revision: Revision, pod: c.Pod) -> None:
    """Raise AnnotationError, with Istio's words, for annotations that Istio refuses, and for a list too long for istio-init's arguments."""
    too_long = list_too_long(c.annotations_of(pod), revision.minor)
    if too_long is not None:
        name, size = too_long
        raise AnnotationError(
            f"the list has {size} bytes, more than the {LONGEST_LIST} that istio-init can be given",
            where=f"metadata.annotations[{name}]",
            hint="shorten the list",
        )
    annotations = c.annotations_of(pod)
    error = validate_annotations(annotations, revision.minor)
    if error:
        names = (name for name, value in annotations.items() if annotation_fault(name, value, revision.minor))
        what, hint = f"failed to run injection template: {error}", "correct the annotation"
        raise AnnotationError(what, hint=hint, names=names)


def run_injection(params: Parameters, *, webhook: bool) -> Injected:
    """Run one injection on a pod that gets one; ``webhook`` is False for kube-inject. Raises DataError as ``inject_pod``.

    Returns:
        The injected pod with an empty patch.
    """
    revision, pod = params.revision, params.pod
    validate(revision, pod)
    with use_meter(GoRendering(_BUDGET)):
        visible_pod = pod_for_templates(params, webhook=webhook)
        templates = _templates_of(params)
        rendered, findings = render_guarded(params, visible_pod, templates)
        if isinstance(templates, ListTemplate):
            pod = append_sidecar(params, visible_pod, rendered, webhook=webhook)
            return Injected(pod, b"[]", (SIDECAR_TEMPLATE_NAME,), findings, findings)
    return Injected(finish(params, rendered), b"[]", templates.names, findings, findings)


def ignores_text(revision: Revision, pod: dict[str, Any], facts: RequestFacts, text: str) -> bool:
    """Return whether no template reads ``text``, a whole value of the spec of a pod: neither prints it nor decides by it.

    The templates are rendered with an object in its place that notices any use. It is sound: such an object has no letters, so that what
    is rendered cannot depend on them.
    """
    admitted = admitted_pod(pod, facts.namespace)
    namespace = admitted["metadata"].get("namespace", "")
    if not injection_required(revision.config.policy, revision.behaviours, admitted, namespace).inject:
        return True
    params = webhook_parameters(revision, _without_assigned_user(revision, admitted), facts)
    hidden = HiddenText()
    try:
        with use_meter(GoRendering(_BUDGET)):
            visible_pod = pod_for_templates(params, webhook=True)
            data = template_data(params, {**visible_pod, "spec": hide_text(visible_pod["spec"], text, hidden)})
            _templates_of(params).render(data)
    except (DataError, TextReadError):
        return False
    return not hidden.was_read


def template_names(revision: Revision, pod: c.Pod) -> tuple[str, ...]:
    """Return the names of the templates that a revision has for a pod; none if it asks for too many."""
    if revision.config.appends:
        return (SIDECAR_TEMPLATE_NAME,)
    try:
        return select_templates(revision, pod, revision.config.default_templates)
    except AnnotationError:
        return ()


def _templates_of(params: Parameters) -> ListTemplate | OverlayTemplates:
    revision, pod = params.revision, params.pod
    if revision.config.appends:
        return ListTemplate(revision, pod)
    names = select_templates(revision, pod, params.default_templates)
    return OverlayTemplates(revision, pod, names, native=native_sidecar(revision, pod))


def render_guarded(params: Parameters, visible_pod: c.Pod, templates: PodTemplates) -> tuple[Any, tuple[str, ...]]:
    """Return the merged result of the templates of a pod, and the findings of a guard that only warns.

    ``visible_pod`` is the pod as templates see it. Raises BreakOutError if a value of the pod breaks out of the templates and the guard
    enforces, and DataError if the templates fail or what they render cannot be merged.
    """
    guard = TemplateGuard(params, visible_pod, templates)
    try:
        texts = templates.render(template_data(params, visible_pod))
        rendered = templates.read(texts)
        merged = templates.merge(rendered)
    except TemplateBudgetError:
        raise  # the guard renders again, which would spend the budget again
    except DataError as error:
        guard.check_failure(error)
        raise
    return merged, guard.check(texts, rendered)


def pod_for_templates(params: Parameters, *, webhook: bool) -> c.Pod:
    """Return the pod as the templates see it, for ``template_data``: without the additions of an earlier injection."""
    if params.revision.config.appends:
        return pod_for_template(params, webhook=webhook)
    pod, status = params.pod, read_status(params.pod)
    if status is not None:
        pod = prometheus.without_agent_annotations(
            strip_injected(pod, status), params.revision.behaviours, status_port=params.mesh.status_port
        )
    return reinsert_overrides(pod)
