"""Injection of whole workload objects, as ``kube-inject`` does it.

Follows ``IntoObject`` in pkg/kube/inject/inject.go (1.30.3). It differs from the webhook as Istio's does: the policy is always
``is_enabled`` without selectors, the template always ``sidecar``, the config's own annotations are not added, and the pod's
``proxy.istio.io/config``, with the ProxyConfig resources of its namespace, reaches the mesh config too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from injector.injection import containers as c
from injector.injection.data import Parameters, ProxyOverlays, cluster_envs, proxy_ids
from injector.injection.pipeline import owner_meta, proxy_overlays, run_injection
from injector.injection.policy import ENABLED, injection_required
from injector.injection.result import ENFORCE
from injector.injection.steps.status import STATUS
from injector.istio.config import Policy
from injector.kube.escaping import escape_line
from injector.kube.lists import is_list
from injector.kube.objects import for_each_item
from injector.kube.pods import WorkloadMeta, workload_of
from injector.kube.podtemplates import (
    OTHER_KINDS,
    OtherKinds,
    Path,
    change_at,
    path_text,
    read_workload,
    template_at,
    workload_type,
)
from injector.kube.typed import go_encode, normalise

if TYPE_CHECKING:
    from injector.istio.revision import Revision

# Istio takes a CronJob's labels and annotations from its job template, and writes them there, not to the pod template.
METADATA_PATHS: Final[Mapping[str, Path]] = {"CronJob": ("spec", "jobTemplate")}
_CRON_JOB_NOTE: Final = (
    "as istioctl does, kube-inject reads and writes the labels and annotations of spec.jobTemplate, "
    "not those of the pod template; to use these, inject by the webhook or by `injector krm`"
)
_OPENSHIFT_NOTE: Final = (
    "as istioctl does, kube-inject does not read the range of user IDs of the namespace; "
    "to use it, inject by the webhook or by `injector krm`"
)
_NONE_AVAILABLE: Final = ("availableReplicas", 0)
_ENABLED: Final = Policy(ENABLED)


@dataclass(frozen=True, slots=True)
class _Manner:
    """How to inject workloads.

    Attributes:
        warn: called with a line for each workload that is left alone, and for each finding of a guard that warns.
        namespace: where a workload without a namespace is created.
        as_istioctl: take labels and annotations from where istioctl does, and nothing from namespaces.
    """

    revision: Revision
    warn: Callable[[str], None]
    guard: str
    namespace: str
    as_istioctl: bool = True

    def metadata_path(self, kind: str, path: Path) -> Path:
        """Return the path of the object whose metadata counts as the pod's."""
        return METADATA_PATHS.get(kind, path) if self.as_istioctl else path


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

    ``warn`` is called with a line, in Istio's words, for each workload that is left alone, with one for each workload whose labels and
    annotations istioctl reads in another place than Kubernetes, and for each finding of a guard that warns. Of ``others``, the kinds that
    Istio does not know, only the pod templates change. A workload without a namespace is injected as if it were created in ``namespace``,
    and still has none. Raises DataError if the object, an annotation or the template cannot be used.
    """
    if is_list(obj):
        read = normalise(obj, "v1.List", coerce=True)
        inject_item = partial(inject_object, revision, warn=warn, guard=guard, others=others, namespace=namespace)
        items = list(for_each_item(read, lambda item: inject_item(item) or item)) if "items" in read else None
        return {**_as_go_prints(revision, {**read, "items": []}, "v1.List"), "items": items}
    workload = read_workload(obj, others)
    if workload is None:
        return None
    injected = _inject_workload(_Manner(revision, warn, guard, namespace), *workload)
    type_name = workload_type(injected)
    return injected if type_name is None else _as_go_prints(revision, injected, type_name)


def inject_templates(
    revision: Revision,
    obj: dict[str, Any],
    *,
    warn: Callable[[str], None],
    guard: str = ENFORCE,
    others: OtherKinds = OTHER_KINDS,
    namespace: str = "",
) -> dict[Path, Any]:
    """Return the parts of a workload that an injection changes, by their paths: none if it has no pods, or is left alone.

    Only pod templates change, and a Pod's metadata and spec. Unlike ``inject_object``, it takes labels and annotations from the pod
    template of a CronJob too, and uses the namespaces of the revision, as the webhook does. For arguments and errors, see
    ``inject_object``.
    """
    workload = read_workload(obj, others)
    if workload is None:
        return {}
    before, paths = workload
    injected = _inject_workload(_Manner(revision, warn, guard, namespace, as_istioctl=False), before, paths)
    if injected is before:
        return {}
    if not paths[0]:
        return {(key,): injected[key] for key in ("metadata", "spec")}
    templates = {path: template_at(injected, path) for path in paths}
    return {path: template for path, template in templates.items() if template is not template_at(before, path)}


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


def _inject_workload(manner: _Manner, obj: dict[str, Any], paths: tuple[Path, ...]) -> dict[str, Any]:
    """Return a workload with its pods injected, or the workload itself if it is left alone."""
    meta = obj.get("metadata") or {}
    if not manner.namespace or meta.get("namespace"):
        return _inject_placed(manner, obj, paths)
    placed = {**obj, "metadata": {**meta, "namespace": manner.namespace}}
    injected = _inject_placed(manner, placed, paths)
    if injected is placed:
        return obj
    return {**injected, "metadata": {key: value for key, value in injected["metadata"].items() if key != "namespace"}}


def _inject_placed(manner: _Manner, obj: dict[str, Any], paths: tuple[Path, ...]) -> dict[str, Any]:
    """Return a workload with the pod of each template injected, or the workload itself if all are left alone."""
    for path in paths:
        obj = _inject_template(manner, obj, path, path_text(path) if len(paths) > 1 else "")
    return obj


def _inject_template(manner: _Manner, obj: dict[str, Any], path: Path, part: str) -> dict[str, Any]:
    revision, warn = manner.revision, manner.warn
    meta_path = manner.metadata_path(obj["kind"], path)
    pod = pod_in(obj, path, meta_path)  # as Go reads it: ``read_workload`` normalises it with the workload
    seen_through = not path and revision.behaviours.kube_inject_owners
    workload = workload_of(pod, revision.behaviours.owner_rules) if seen_through else _workload(obj)
    meta_in_data = owner_meta(revision, pod, workload) if seen_through else obj.get("metadata") or {}
    # istioctl does not take the namespace of a workload for that of its pods.
    reason = _skip_reason(
        revision, pod, pod["metadata"].get("namespace") or ("" if manner.as_istioctl else workload.namespace)
    )
    if meta_path != path:
        warn(f"warning: {_name(pod, workload)}: {_CRON_JOB_NOTE}")
    if reason:
        warn(_warning(revision, pod, workload, reason, part))
        return obj
    known = revision.namespaces.get(workload.namespace) if revision.openshift else None
    if manner.as_istioctl and known is not None and proxy_ids(known) != proxy_ids(None):
        warn(f"warning: {_name(pod, workload)}: {_OPENSHIFT_NOTE}")
    params = _parameters(manner, pod, workload, meta_in_data, None if manner.as_istioctl else known)
    outcome = run_injection(params, webhook=False)
    for finding in outcome.findings:
        warn(finding)
    obj = change_at(obj, meta_path, lambda holder: {**holder, "metadata": outcome.shared_pod["metadata"]})
    return change_at(obj, path, lambda holder: {**holder, "spec": outcome.shared_pod["spec"]})


def pod_in(obj: dict[str, Any], path: Path, meta_path: Path) -> c.Pod:
    """Return the pod of a workload whose template is at ``path``, with the metadata of the object at ``meta_path``."""
    meta, spec = template_at(obj, meta_path).get("metadata") or {}, template_at(obj, path).get("spec") or {}
    return {"metadata": meta, "spec": spec}


def _name(pod: c.Pod, workload: WorkloadMeta) -> str:
    name = pod["metadata"].get("name") or workload.name
    return escape_line(f"{workload.kind} {f'{workload.namespace}/{name}' if workload.namespace else name}")


def _workload(obj: dict[str, Any]) -> WorkloadMeta:
    meta = obj.get("metadata") or {}
    return WorkloadMeta(
        name=meta.get("name", ""),
        namespace=meta.get("namespace", ""),
        kind=obj.get("kind", ""),
        api_version=obj.get("apiVersion", ""),
    )


def _skip_reason(revision: Revision, pod: c.Pod, namespace: str) -> str:
    behaviours = revision.behaviours
    if pod["spec"].get("hostNetwork"):
        return "host networking enabled"
    if _is_injected(pod, behaviours.kube_inject_injected_check):
        return f'injected "{c.PROXY}" sidecar already'
    if not behaviours.kube_inject_patches:
        return ""  # up to 1.7, kube-inject asks no policy
    decision = injection_required(_ENABLED, behaviours, pod, namespace)
    return "" if decision.inject else "sidecar injection disabled"


def _is_injected(pod: c.Pod, check: str) -> bool:
    app = c.containers_of(pod)
    if not check or len(app) < 2 or c.find(c.PROXY, app) is None:  # noqa: PLR2004 - a proxy alone is the user's own pod
        return False
    return check == "containers" or STATUS in c.annotations_of(pod)


def _warning(revision: Revision, pod: c.Pod, workload: WorkloadMeta, reason: str, part: str) -> str:
    name = pod["metadata"].get("name") or workload.name
    style = revision.behaviours.kube_inject_warning
    full = f"{workload.namespace}/{name}" if workload.namespace and style == "kind" else name
    kind = f"{workload.kind} " if workload.kind and style == "kind" else ""
    arrow = "" if style == "plain" else "===> "
    place = f" at {part}" if part else ""
    return f'{arrow}Skipping injection because {kind}"{full}"{place} has {reason}'


def _parameters(
    manner: _Manner,
    pod: c.Pod,
    workload: WorkloadMeta,
    meta: dict[str, Any],
    namespace_meta: Mapping[str, Any] | None,
) -> Parameters:
    revision = manner.revision
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
        namespace_meta=namespace_meta,
        guard=manner.guard,
        overlays=overlays,
    )
