"""The steps after the templates, in Istio's order: everything that a template cannot do.

Follows ``postProcessPod`` and its callees in pkg/kube/inject/webhook.go (1.30.3).
"""

from __future__ import annotations

from injector.injection import containers as c
from injector.injection.data import NETWORK, NETWORK_LABEL, Parameters
from injector.injection.steps import probes, prometheus
from injector.injection.steps.status import STATUS, status_text


def cluster_info(pod: c.Pod, params: Parameters) -> c.Pod:
    """Set the proxy's env variables of the URL and of the cluster, which override the template's."""
    sidecar = c.find_in_pod(c.PROXY, pod)
    if sidecar is None or not params.proxy_envs:
        return pod
    env = [item for item in sidecar.get("env") or () if item.get("name") not in params.proxy_envs]
    # Go leaves an empty value out of the variable's JSON.
    env += [
        {"name": name, "value": value} if value else {"name": name} for name, value in sorted(params.proxy_envs.items())
    ]
    return c.with_container(pod, {**sidecar, "env": env})


def prometheus_merge(pod: c.Pod, params: Parameters) -> c.Pod:
    """Let the agent serve the application's metrics with the proxy's."""
    behaviours, facts = params.revision.behaviours, params.mesh
    pod = prometheus.merged(pod, behaviours, mesh_setting=facts.prometheus_merge, status_port=facts.status_port)
    return prometheus.with_secure_port(pod) if behaviours.prometheus_secure_port else pod


def rewrite_probes(pod: c.Pod, params: Parameters) -> c.Pod:
    """Send the application's probes through the agent."""
    revision = params.revision
    rewrite = probes.Rewrite.of(revision.behaviours, revision.env, by_default=revision.values.rewrite_probes)
    return probes.rewritten(pod, rewrite, status_port=params.mesh.status_port)


def metadata(pod: c.Pod, template: c.Pod, params: Parameters) -> c.Pod:
    """Write the network label of the URL, the status annotation and the annotations that the config adds."""
    network = params.proxy_envs.get(NETWORK)
    if network is not None:
        pod = c.with_metadata(pod, labels={**c.labels_of(pod), NETWORK_LABEL: network})
    added = {STATUS: _status(template, params), **params.injected_annotations}
    return c.with_metadata(pod, annotations={**c.annotations_of(pod), **added})


def _status(template: c.Pod, params: Parameters) -> str:
    revision = (params.written_revision or "default") if params.revision.behaviours.status_revision else None
    return status_text(template.get("spec") or {}, revision)


def reorder(pod: c.Pod, params: Parameters) -> c.Pod:
    """Put the proxy and Istio's init containers in the order in which they must start.

    A native sidecar comes right after Istio's own init containers, so that the user's init containers are in the mesh. Otherwise
    interception starts after the user's init containers, which have no proxy.
    """
    move_proxy = c.moved_first if params.hold_application else c.moved_last
    init = c.containers_of(pod, "initContainers")
    if params.revision.behaviours.sidecar_among_init and c.find(c.PROXY, init) is not None:
        for name in (c.ENABLE_CORE_DUMP, c.PROXY, c.VALIDATION, c.INIT):
            init = c.moved_first(name, init)
    else:
        init = c.moved_first(c.VALIDATION, init)
        init = c.moved_last(c.INIT, init)
        init = c.moved_last(c.ENABLE_CORE_DUMP, init)
    return c.with_spec(pod, containers=move_proxy(c.PROXY, c.containers_of(pod)), initContainers=init)


def keep_env_order(pod: c.Pod, params: Parameters) -> c.Pod:
    """Keep the proxy's env variables in the order of an earlier injection if only their order would change.

    Each injection puts the cluster's variables last. In Istio (1.30.3) a second webhook in the chain therefore changes a pod needlessly.
    """
    before, after = c.find_in_pod(c.PROXY, params.pod), c.find_in_pod(c.PROXY, pod)
    if STATUS not in c.annotations_of(params.pod) or before is None or after is None:
        return pod
    old, new = before.get("env") or [], after.get("env") or []
    same = len(old) == len(new) and all(item in old for item in new) and all(item in new for item in old)
    return c.with_container(pod, {**after, "env": old}) if same and old != new else pod


def post_processed(pod: c.Pod, template: c.Pod, params: Parameters) -> c.Pod:
    """Return the merged pod after all steps; ``template`` has the additions of the templates, as a pod."""
    pod = cluster_info(pod, params)
    pod = prometheus_merge(pod, params)
    pod = rewrite_probes(pod, params)
    pod = metadata(pod, template, params)
    pod = reorder(pod, params)
    return keep_env_order(pod, params)
