"""Injection by templates of Istio 1.0 to 1.8: the rendered lists are appended to the pod.

Follows ``createPatch`` and what it calls in pkg/kube/inject/webhook.go (1.8.6) and, for kube-inject up to 1.7, ``IntoObject`` in
inject.go (1.7.8). Only what comes out counts: the operations of Istio's patch are applied here as functions of the pod.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from injector.injection import containers as c
from injector.injection import probes, prometheus
from injector.injection.appendspec import (
    AppendSpec,
    parse_lists,
    read_append_spec,
    status_port,
    with_cluster_env,
    with_concurrency,
    with_proxy,
    with_token_mount,
)
from injector.injection.guard import guarded
from injector.injection.parameters import CLUSTER, NETWORK, NETWORK_LABEL
from injector.injection.result import Made
from injector.injection.status import STATUS, read_status
from injector.istio.annotations import known_annotations, parse_bool
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.podfields import missing_fields
from injector.istio.webhooks import REVISION_LABEL
from injector.kube.serial import go_json
from injector.kube.typed import normalise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.injection.parameters import Parameters

_PROXY_UID: Final = 1337
_CLUSTER_KEYS: Final = (CLUSTER, NETWORK)
# What injectors before the status annotation added; Istio up to 1.8 removes it from any pod without one.
_UNNOTED: Final = {
    "initContainers": ("istio-init", "enable-core-dump"),
    "containers": ("istio-proxy",),
    "volumes": ("istio-certs", "istio-envoy"),
    "imagePullSecrets": (),
}


def inject_appending(params: Parameters, *, webhook: bool) -> Made:
    """Inject a pod by the single template of 1.0 to 1.8; ``webhook`` is False for kube-inject.

    Raises:
        DataError: the template fails, or what it renders is no lists to append.
    """
    revision, behaviours = params.revision, params.revision.behaviours
    patches = webhook or behaviours.kube_inject_patches
    pod = _with_fs_group(params.pod, params) if patches else params.pod
    where = f"revision {revision.name}, rendered template"
    spec, findings = guarded(
        params,
        pod,
        lambda data: parse_lists(revision.templates[SIDECAR_TEMPLATE_NAME].render(data), where=where),
        lambda lists: read_append_spec(lists, missing_fields(revision.minor), where=where),
        lambda lists: lists,
    )
    spec = _completed(params, spec)
    final = _patched(params, pod, spec) if patches else _with_fs_group(_assembled(params, spec), params)
    return Made(normalise(final, "v1.Pod"), (SIDECAR_TEMPLATE_NAME,), findings)


def _completed(params: Parameters, spec: AppendSpec) -> AppendSpec:
    behaviours = params.revision.behaviours
    if behaviours.concurrency_args:
        spec = with_concurrency(spec)
    return with_cluster_env(spec, _cluster_envs(params))


def _cluster_envs(params: Parameters) -> Mapping[str, str]:
    style = params.revision.behaviours.cluster_env
    if style == "pairs":
        return dict(sorted(params.proxy_envs.items()))
    if style == "positional" and params.proxy_envs:
        return {key: params.proxy_envs.get(key, "") for key in _CLUSTER_KEYS}
    return {}


def _with_fs_group(pod: c.Pod, params: Parameters) -> c.Pod:
    mesh, env = params.mesh, params.revision.env
    by_path = bool(mesh.sds_uds_path)
    wanted = {
        "": False,
        "sds_token_mount": by_path and mesh.enable_sds_token_mount,
        "sds_replace": by_path,
        "sds": by_path,
        "feature": parse_bool(env.get("ENABLE_LEGACY_FSGROUP_INJECTION", "true")) is not False,
    }
    how = params.revision.behaviours.fs_group
    if not wanted[how]:
        return pod
    kept = (pod["spec"].get("securityContext") or {}) if how in ("sds", "feature") else {}
    return c.with_spec(pod, securityContext={**kept, "fsGroup": _PROXY_UID})


def _patched(params: Parameters, pod: c.Pod, spec: AppendSpec) -> c.Pod:
    """Return the pod as Istio's patch makes it: without an earlier injection, with the lists, annotations and labels."""
    behaviours = params.revision.behaviours
    rewrite, port = _rewrite(params, spec)
    if rewrite is not None:
        spec = _with_probers(spec, rewrite.probers(c.containers_of(pod), port), behaviours.prober_env_when_empty)
        pod = c.with_spec(pod, containers=rewrite.redirected(c.containers_of(pod), c.annotations_of(pod), port))
    pod, before = _without_earlier(pod), pod
    annotations = {**c.annotations_of(pod), STATUS: _status_text(params, spec)}
    if behaviours.injected_annotations:
        annotations.update(params.injected_annotations)
    if behaviours.prometheus_merge and prometheus.enabled(annotations, mesh_setting=params.mesh.prometheus_merge):
        spec = _with_scrape_config(spec, pod)
        annotations.update(prometheus.agent_annotations(params.mesh.status_port))
    if behaviours.token_mount:
        spec = with_token_mount(spec, before)
    hold = params.hold_application
    pod = c.with_spec(
        pod,
        initContainers=_added(c.containers_of(pod, "initContainers"), spec.init_containers, hold=hold),
        containers=_added(c.containers_of(pod), spec.containers, hold=hold),
        volumes=[*(pod["spec"].get("volumes") or ()), *spec.volumes],
        imagePullSecrets=[*(pod["spec"].get("imagePullSecrets") or ()), *spec.image_pull_secrets],
    )
    if behaviours.dns_config and spec.dns_config is not None:
        pod = c.with_spec(pod, dnsConfig=spec.dns_config)
    return c.with_metadata(pod, annotations=annotations, labels=_labelled(params, pod, spec))


def _rewrite(params: Parameters, spec: AppendSpec) -> tuple[probes.Rewrite | None, int]:
    behaviours = params.revision.behaviours
    asked = None
    if behaviours.probe_rewrite_annotation:
        asked = parse_bool(c.annotations_of(params.pod).get(probes.REWRITE, ""))
    if not behaviours.probe_rewrite or not (spec.rewrite_probes if asked is None else asked):
        return None, 0
    rewrite = probes.Rewrite.of(behaviours, params.revision.env, by_default=True)
    return rewrite, status_port(spec) if behaviours.probe_port_from_args else params.mesh.status_port


def _with_probers(spec: AppendSpec, probers: dict[str, str], when_empty: bool) -> AppendSpec:  # noqa: FBT001 - a behaviour
    proxy = c.find(c.PROXY, spec.containers)
    if proxy is None or not (probers or when_empty):
        return spec
    return with_proxy(spec, c.env_appended(proxy, probes.APP_PROBERS, probes.joined(probers)))


def _with_scrape_config(spec: AppendSpec, pod: c.Pod) -> AppendSpec:
    proxy = c.find(c.PROXY, spec.containers)
    config = prometheus.scrape_config_json(c.annotations_of(pod))
    if proxy is None or config is None:
        return spec
    return with_proxy(spec, c.env_appended(proxy, prometheus.ENV, config))


def _without_earlier(pod: c.Pod) -> c.Pod:
    status = read_status(pod)
    noted = _UNNOTED if status is None or not status.any() else status.by_list()
    kept = {
        key: [item for item in pod["spec"].get(key) or () if item.get("name") not in names]
        for key, names in noted.items()
    }
    return c.with_spec(pod, **kept)


def _added(own: list[c.Container], injected: list[c.Container], *, hold: bool) -> list[c.Container]:
    for container in injected:
        first = container.get("name") == c.VALIDATION or (hold and container.get("name") == c.PROXY)
        own = [container, *own] if first else [*own, container]
    return own


def _status_text(params: Parameters, spec: AppendSpec) -> str:
    template = params.revision.config.templates[SIDECAR_TEMPLATE_NAME]
    listed = {
        "initContainers": spec.init_containers,
        "containers": spec.containers,
        "volumes": spec.volumes,
        "imagePullSecrets": spec.image_pull_secrets,
    }
    names = {key: [item.get("name", "") for item in items] or None for key, items in listed.items()}
    return go_json({"version": hashlib.sha256(template.encode()).hexdigest(), **names})


def _labelled(params: Parameters, pod: c.Pod, spec: AppendSpec) -> dict[str, str]:
    labels = c.labels_of(pod)
    wanted: dict[str, str] = {}
    added = params.revision.behaviours.added_labels
    if "tls_mode" in added:
        wanted["security.istio.io/tlsMode"] = "istio"
    if "canonical" in added:
        wanted["service.istio.io/canonical-name"] = (
            labels.get("app.kubernetes.io/name") or labels.get("app") or params.workload.name
        )
        wanted["service.istio.io/canonical-revision"] = (
            labels.get("app.kubernetes.io/version") or labels.get("version") or "latest"
        )
    if "revision" in added:
        wanted[REVISION_LABEL] = params.written_revision
    network = _network_of(spec) if "network" in added else ""
    if network:
        wanted[NETWORK_LABEL] = network
    return {**labels, **{name: value for name, value in wanted.items() if not labels.get(name)}}


def _network_of(spec: AppendSpec) -> str:
    for container in spec.containers:
        for variable in container.get("env") or ():
            if variable.get("name") == NETWORK:
                return str(variable.get("value", ""))
    return ""


def _assembled(params: Parameters, spec: AppendSpec) -> c.Pod:
    """Return the pod as kube-inject of 1.0 to 1.7 puts it together: nothing removed, no mount copied."""
    behaviours, pod = params.revision.behaviours, params.pod
    annotations: dict[str, str] = {}
    if behaviours.hold_application and prometheus.enabled(
        c.annotations_of(pod), mesh_setting=params.mesh.prometheus_merge
    ):
        annotations.update(prometheus.agent_annotations(params.mesh.status_port))
    changes: dict[str, Any] = {
        "initContainers": [*c.containers_of(pod, "initContainers"), *spec.init_containers],
        "containers": _with_proxy_placed(c.containers_of(pod), spec.containers, hold=params.hold_application),
        "volumes": [*(pod["spec"].get("volumes") or ()), *spec.volumes],
    }
    if behaviours.dns_config:
        changes["dnsConfig"] = spec.dns_config
    if behaviours.kube_inject_pull_secrets:
        changes["imagePullSecrets"] = [*(pod["spec"].get("imagePullSecrets") or ()), *spec.image_pull_secrets]
    rewrite, port = _rewrite(params, spec)
    pod = c.with_spec(pod, **changes)
    if rewrite is not None and not (behaviours.probe_port_from_args and port < 0):
        pod = _with_probes_rewritten(pod, rewrite, port, when_empty=behaviours.prober_env_when_empty)
    if behaviours.kube_inject_redirect_annotations:
        known = known_annotations(params.revision.minor)
        annotations.update(
            {key: str(value) for key, value in spec.redirect_annotations.items() if value and key in known}
        )
    annotations[STATUS] = _status_text(params, spec)
    labels = c.labels_of(pod)
    if "tls_mode" in behaviours.added_labels:
        labels = {"security.istio.io/tlsMode": "istio", **{k: v for k, v in labels.items() if v}}
    if "revision" in behaviours.added_labels:
        labels = {**labels, REVISION_LABEL: params.written_revision}
    return c.with_metadata(pod, annotations={**c.annotations_of(pod), **annotations}, labels=labels)


def _with_proxy_placed(own: list[c.Container], injected: list[c.Container], *, hold: bool) -> list[c.Container]:
    if not hold:
        return [*own, *injected]
    return [*(item for item in injected if item.get("name") == c.PROXY), *own, *c.without(c.PROXY, injected)]


def _with_probes_rewritten(pod: c.Pod, rewrite: probes.Rewrite, port: int, *, when_empty: bool) -> c.Pod:
    probers = rewrite.probers(c.containers_of(pod), port)
    proxy = c.find(c.PROXY, c.containers_of(pod))
    if proxy is not None and (probers or when_empty):
        pod = c.with_container(pod, c.env_appended(proxy, probes.APP_PROBERS, probes.joined(probers)))
    return c.with_spec(pod, containers=rewrite.redirected(c.containers_of(pod), c.annotations_of(pod), port))
