"""The steps after the templates, in their order.

Follows ``postProcessPod`` and its callees in pkg/kube/inject/webhook.go (1.30.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from injector.golang.json import go_json
from injector.injection import containers as c
from injector.injection.data import NETWORK, NETWORK_LABEL
from injector.injection.steps import probes, prometheus
from injector.injection.steps.overrides import init_user_adjusted, reapply_overrides
from injector.injection.steps.status import STATUS, status_annotation

if TYPE_CHECKING:
    from injector.injection.data import Parameters
    from injector.injection.render import Rendered


def finish(params: Parameters, rendered: Rendered) -> c.Pod:
    """Apply the steps after the templates to a pod with its overlays."""
    revision, pod = params.revision, params.pod
    final = reapply_overrides(rendered.merged, pod, rendered.template, revision.behaviours)
    if revision.behaviours.adjust_init_user:
        final = init_user_adjusted(final, pod, mesh_interception_mode=params.proxy_config.interception_mode)
    return post_process(final, rendered.template, params)


def post_process(pod: c.Pod, template: c.Pod, params: Parameters) -> c.Pod:
    """Return the merged pod after all steps; ``template`` has the additions of the templates, as a pod."""
    pod = cluster_info(pod, params)
    pod = prometheus_merge(pod, params)
    pod = rewrite_probes(pod, params)
    pod = metadata(pod, template, params)
    pod = reorder(pod, params)
    return keep_env_order(pod, params)


def cluster_info(pod: c.Pod, params: Parameters) -> c.Pod:
    """Set the proxy's env variables of the URL and of the cluster, which override the template's."""
    sidecar = c.find_in_pod(c.PROXY, pod)
    if sidecar is None or not params.proxy_envs:
        return pod
    return c.with_container(pod, c.replace_env(sidecar, dict(sorted(params.proxy_envs.items()))))


def prometheus_merge(pod: c.Pod, params: Parameters) -> c.Pod:
    """Let the agent serve the application's metrics with the proxy's."""
    behaviours, facts = params.revision.behaviours, params.mesh
    pod = prometheus.merge_metrics(pod, behaviours, mesh_setting=facts.prometheus_merge, status_port=facts.status_port)
    return prometheus.with_secure_port(pod) if behaviours.prometheus_secure_port else pod


def rewrite_probes(pod: c.Pod, params: Parameters) -> c.Pod:
    """Send the application's probes through the agent."""
    revision = params.revision
    rewrite = probes.Rewrite.of(revision.behaviours, revision.env)
    by_default = revision.values.rewrite_probes
    return probes.rewritten(pod, rewrite, by_default=by_default, status_port=params.mesh.status_port)


def metadata(pod: c.Pod, template: c.Pod, params: Parameters) -> c.Pod:
    """Write the network label of the URL, the status annotation and the annotations that the config adds."""
    network, revision = params.proxy_envs.get(NETWORK), params.revision
    if network is not None:
        pod = c.with_metadata(pod, labels={**c.labels_of(pod), NETWORK_LABEL: network})
    written = (revision.written or "default") if revision.behaviours.status_revision else None
    added = {STATUS: status_annotation(template, written), **params.injected_annotations}
    return c.with_metadata(pod, annotations={**c.annotations_of(pod), **added})


def reorder(pod: c.Pod, params: Parameters) -> c.Pod:
    """Put the proxy and Istio's init containers in the order in which they must start.

    A native sidecar comes right after Istio's own init containers, so that the user's init containers are in the mesh. Otherwise
    interception starts after the user's init containers, which have no proxy.
    """
    move_proxy = c.move_first if params.hold_application else c.move_last
    init = c.containers_of(pod, "initContainers")
    if params.revision.behaviours.sidecar_among_init and c.find(c.PROXY, init) is not None:
        for name in (c.ENABLE_CORE_DUMP, c.PROXY, c.VALIDATION, c.INIT):
            init = c.move_first(name, init)
    else:
        init = c.move_first(c.VALIDATION, init)
        init = c.move_last(c.INIT, init)
        init = c.move_last(c.ENABLE_CORE_DUMP, init)
    return c.with_spec(pod, containers=move_proxy(c.PROXY, c.containers_of(pod)), initContainers=init)


def keep_env_order(pod: c.Pod, params: Parameters) -> c.Pod:
    """Keep the proxy's env variables in the order of an earlier injection if only their order would change.

    Each injection puts the cluster's variables last. In Istio (1.30.3) a second webhook in the chain therefore changes a pod needlessly.
    """
    before, after = c.find_in_pod(c.PROXY, params.pod), c.find_in_pod(c.PROXY, pod)
    if STATUS not in c.annotations_of(params.pod) or before is None or after is None:
        return pod
    old, new = before.get("env") or [], after.get("env") or []
    if old == new or len(old) != len(new) or _sorted_json(old) != _sorted_json(new):
        return pod
    return c.with_container(pod, {**after, "env": old})


def _sorted_json(variables: list[dict[str, Any]]) -> list[str]:
    return sorted(go_json(variable, sort_keys=True) for variable in variables)
