"""Injection of whole workload objects, as ``kube-inject`` does it.

Follows ``IntoObject`` in pkg/kube/inject/inject.go (1.30.3). It differs from the webhook as Istio's does: the policy is always
``is_enabled`` without selectors, the template always ``sidecar``, the config's own annotations are not added, and the pod's
``proxy.istio.io/config``, with the ProxyConfig resources of its namespace, reaches the mesh config too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from injector.injection import containers as c
from injector.injection.data import Parameters, ProxyOverlays, cluster_envs
from injector.injection.pipeline import owner_meta, proxy_overlays, run_injection
from injector.injection.policy import ENABLED, injection_required
from injector.injection.result import ENFORCE
from injector.injection.steps.status import STATUS
from injector.istio.config import Policy
from injector.kube.lists import is_list
from injector.kube.pods import (
    OTHER_KINDS,
    OtherKinds,
    WorkloadMeta,
    change_at,
    for_each_item,
    read_workload,
    template_at,
    workload_of,
)
from injector.kube.typed import go_encode, kind_type, normalise

if TYPE_CHECKING:
    from injector.istio.revision import Revision

# Istio takes a CronJob's labels and annotations from its job template, and writes them there, not to the pod template.
METADATA_PATHS: Final = {"CronJob": ("spec", "jobTemplate")}
_NONE_AVAILABLE: Final = ("availableReplicas", 0)
_ENABLED: Final = Policy(ENABLED)


def inject_object(
    revision: Revision,
    obj: dict[str, Any],
    *,
    warn: Callable[[str], None],
    guard: str = ENFORCE,
    others: OtherKinds = OTHER_KINDS,
    namespace: str = "",
) -> dict[str, Any] | None:
    """Return a workload, or a List of them, with its pods injected; None for a kind that has no pods.

    ``warn`` is called with a line, in Istio's words, for each workload that is left alone, and for each finding of a guard that warns. Of
    ``others``, the kinds that Istio does not know, only the pod template changes. A workload without a namespace is injected as if it were
    created in ``namespace``, and still has none. Raises DataError if the object, an annotation or the template cannot be used.
    """
    if is_list(obj):
        read = normalise(obj, "v1.List", coerce=True)
        inject_item = partial(inject_object, revision, warn=warn, guard=guard, others=others, namespace=namespace)
        items = list(for_each_item(read, lambda item: inject_item(item) or item)) if "items" in read else None
        return {**_as_go_prints(revision, {**read, "items": []}, "v1.List"), "items": items}
    workload = read_workload(obj, others)
    if workload is None:
        return None
    injected = _inject_workload(revision, *workload, warn, guard, namespace)
    type_name = kind_type(injected["kind"])
    return injected if type_name is None else _as_go_prints(revision, injected, type_name)


def injected_parts(
    revision: Revision,
    obj: dict[str, Any],
    *,
    warn: Callable[[str], None],
    guard: str = ENFORCE,
    namespace: str = "",
) -> dict[tuple[str, ...], Any]:
    """Return the parts of a workload that an injection changes, by their paths: none if it has no pods, or is left alone.

    For arguments and errors, see ``inject_object``.
    """
    workload = read_workload(obj)
    if workload is None:
        return {}
    injected = _inject_workload(revision, *workload, warn, guard, namespace)
    if injected is workload[0]:
        return {}
    path = METADATA_PATHS.get(injected["kind"], workload[1])
    return {path: template_at(injected, path)} if path else {(key,): injected[key] for key in ("metadata", "spec")}


def _as_go_prints(revision: Revision, obj: dict[str, Any], type_name: str) -> dict[str, Any]:
    printed: dict[str, Any] = go_encode(
        obj, type_name, creation_timestamp=revision.behaviours.kube_inject_creation_timestamp
    )
    if type_name == "v1.StatefulSet" and not revision.behaviours.kube_inject_available_replicas:
        status = {key: value for key, value in (printed.get("status") or {}).items() if (key, value) != _NONE_AVAILABLE}
        printed = {**printed, "status": status}
    spec = printed.get("spec")
    if not revision.behaviours.kube_inject_selector and isinstance(spec, dict) and "selector" in spec:
        # Of the workload kinds, only those of apps print one that is not there.
        fields = {key: value for key, value in spec.items() if (key, value) != ("selector", None)}
        printed = {**printed, "spec": fields}
    return printed


def _inject_workload(
    revision: Revision,
    obj: dict[str, Any],
    path: tuple[str, ...],
    warn: Callable[[str], None],
    guard: str,
    namespace: str,
) -> dict[str, Any]:
    """Return a workload with its pods injected, or the workload itself if it is left alone."""
    meta = obj.get("metadata") or {}
    if not namespace or meta.get("namespace"):
        return _inject_placed(revision, obj, path, warn, guard)
    placed = {**obj, "metadata": {**meta, "namespace": namespace}}
    injected = _inject_placed(revision, placed, path, warn, guard)
    if injected is placed:
        return obj
    return {**injected, "metadata": {key: value for key, value in injected["metadata"].items() if key != "namespace"}}


def _inject_placed(
    revision: Revision, obj: dict[str, Any], path: tuple[str, ...], warn: Callable[[str], None], guard: str
) -> dict[str, Any]:
    pod, meta_path = pod_in(obj, path)  # as Go reads it: ``read_workload`` normalises it with the workload
    seen_through = not path and revision.behaviours.kube_inject_owners
    workload = workload_of(pod, revision.behaviours.owner_rules) if seen_through else _workload(obj)
    meta_in_data = owner_meta(revision, pod, workload) if seen_through else obj.get("metadata") or {}
    reason = _skip_reason(revision, pod)
    if reason:
        warn(_warning(revision, pod, workload, reason))
        return obj
    outcome = run_injection(_parameters(revision, pod, workload, meta_in_data, guard), webhook=False)
    for finding in outcome.findings:
        warn(finding)
    obj = change_at(obj, meta_path, lambda holder: {**holder, "metadata": outcome.shared_pod["metadata"]})
    return change_at(obj, path, lambda holder: {**holder, "spec": outcome.shared_pod["spec"]})


def pod_in(obj: dict[str, Any], path: tuple[str, ...]) -> tuple[c.Pod, tuple[str, ...]]:
    """Return the pod of a workload, whose template is at ``path``, and the path of the object that has the pod's metadata."""
    meta_path = METADATA_PATHS.get(obj["kind"], path)
    meta, spec = template_at(obj, meta_path).get("metadata") or {}, template_at(obj, path).get("spec") or {}
    return {"metadata": meta, "spec": spec}, meta_path


def _workload(obj: dict[str, Any]) -> WorkloadMeta:
    meta = obj.get("metadata") or {}
    return WorkloadMeta(
        name=meta.get("name", ""),
        namespace=meta.get("namespace", ""),
        kind=obj.get("kind", ""),
        api_version=obj.get("apiVersion", ""),
    )


def _skip_reason(revision: Revision, pod: c.Pod) -> str:
    behaviours = revision.behaviours
    if pod["spec"].get("hostNetwork"):
        return "host networking enabled"
    if _is_injected(pod, behaviours.kube_inject_injected_check):
        return f'injected "{c.PROXY}" sidecar already'
    if not behaviours.kube_inject_patches:
        return ""  # up to 1.7, kube-inject asks no policy
    decision = injection_required(_ENABLED, behaviours, pod, pod["metadata"].get("namespace", ""))
    return "" if decision.inject else "sidecar injection disabled"


def _is_injected(pod: c.Pod, check: str) -> bool:
    app = c.containers_of(pod)
    if not check or len(app) < 2 or c.find(c.PROXY, app) is None:  # noqa: PLR2004 - a proxy alone is the user's own pod
        return False
    return check == "containers" or STATUS in c.annotations_of(pod)


def _warning(revision: Revision, pod: c.Pod, workload: WorkloadMeta, reason: str) -> str:
    name = pod["metadata"].get("name") or workload.name
    style = revision.behaviours.kube_inject_warning
    full = f"{workload.namespace}/{name}" if workload.namespace and style == "kind" else name
    kind = f"{workload.kind} " if workload.kind and style == "kind" else ""
    arrow = "" if style == "plain" else "===> "
    return f'{arrow}Skipping injection because {kind}"{full}" has {reason}'


def _parameters(revision: Revision, pod: c.Pod, workload: WorkloadMeta, meta: dict[str, Any], guard: str) -> Parameters:
    # istioctl asks the webhook of the cluster, which reads ProxyConfig resources, or else merges only the annotation.
    overlays = proxy_overlays(revision, {"metadata": {"namespace": workload.namespace, **pod["metadata"]}})
    if not overlays.below and not overlays.above:
        overlays = ProxyOverlays(annotation=overlays.annotation)
    overlaid = overlays.on(revision)
    # Where templates see the annotation in .MeshConfig by either way, kube-inject's own reads still take the plain mesh config.
    mesh = overlaid if revision.behaviours.proxy_config_merge else revision.mesh
    return Parameters(
        revision=revision,
        pod=pod,
        workload=workload,
        owner_meta=meta,
        mesh=mesh,
        mesh_in_data=overlaid,
        proxy_config=overlaid,
        proxy_envs=cluster_envs(revision, pod, {}),
        guard=guard,
        overlays=overlays,
    )
