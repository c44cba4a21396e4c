"""Injection by templates of Istio 1.0 to 1.8: the rendered lists are appended to the pod.

Follows ``SidecarInjectionSpec`` and ``InjectionData`` in pkg/kube/inject/inject.go and concurrency.go (1.8.6). Istio decodes the text as
JSON, which finds keys in any case and ignores fields that the struct does not have. The steps follow ``createPatch`` in
pkg/kube/inject/webhook.go (1.8.6) and, for kube-inject up to 1.7, ``IntoObject`` in inject.go (1.7.8). Istio's patch operations are
functions of the pod here, because only their result counts.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError, ManifestError, OverlayError
from injector.golang.json import go_json
from injector.injection import containers as c
from injector.injection.data import CLUSTER, NETWORK, NETWORK_LABEL, Parameters
from injector.injection.render import MOST_VALUES, UNREADABLE
from injector.injection.steps import probes, prometheus
from injector.injection.steps.status import STATUS, read_status
from injector.istio.annotations import known_annotations, parse_bool
from injector.istio.behaviours import missing_fields
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.webhooks import REVISION_LABEL
from injector.kube.quantity import parse_quantity
from injector.kube.typed import normalise, pruned
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.istio.template import TemplateData

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a mount path, no secret
_LISTS: Final = ("initContainers", "containers", "volumes", "imagePullSecrets", "dnsConfig")
_CONCURRENCY = re.compile(r"-{1,2}concurrency(?:=(\d+))?", re.ASCII)
_STATUS_PORT = re.compile(r"-{1,2}statusPort(?:=(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class AppendSpec:
    """The rendered lists, typed and normalised, with the switches that stand beside them."""

    init_containers: list[c.Container]
    containers: list[c.Container]
    volumes: list[dict[str, Any]]
    image_pull_secrets: list[dict[str, Any]]
    dns_config: dict[str, Any] | None
    rewrite_probes: bool
    redirect_annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ListTemplate:
    """The one template of a revision up to 1.8."""

    revision: Revision

    def render(self, data: TemplateData) -> dict[str, Any]:
        """Return the lists that the template renders for ``data``.

        Raises:
            TemplateRenderError: the template fails.
            OverlayError: the rendered text is not a YAML mapping.
        """
        text, where = self.revision.templates[SIDECAR_TEMPLATE_NAME].render(data), self._where()
        try:
            lists = load_yaml(text, where=where, most=MOST_VALUES) or {}
        except ManifestError as error:
            raise self._unreadable(error) from error
        if not isinstance(lists, dict):
            raise self._unreadable(ManifestError("the rendered text is not a mapping"))
        return lists

    def trees(self, lists: dict[str, Any]) -> Any:
        """Return the JSON data of lists."""
        return lists

    def merge(self, lists: dict[str, Any]) -> AppendSpec:
        """Return the lists as Kubernetes' objects, without the fields that the minor's Kubernetes does not know.

        Raises:
            OverlayError: a list holds something else than its objects.
        """
        by_key = {str(key).lower(): value for key, value in lists.items()}
        by_field = {key: by_key[key.lower()] for key in _LISTS if by_key.get(key.lower()) is not None}
        try:
            known = pruned(by_field, "v1.PodSpec", missing_fields(self.revision.minor))
            spec = normalise(known, "v1.PodSpec", coerce=True)
        except DataError as error:
            raise self._unreadable(error) from error
        return AppendSpec(
            init_containers=spec.get("initContainers") or [],
            containers=spec.get("containers") or [],
            volumes=spec.get("volumes") or [],
            image_pull_secrets=spec.get("imagePullSecrets") or [],
            dns_config=spec.get("dnsConfig"),
            rewrite_probes=by_key.get("rewriteapphttpprobe") is True,
            redirect_annotations=by_key.get("podredirectannot") or {},
        )

    def _where(self) -> str:
        return f"revision {self.revision.name}, rendered template"

    def _unreadable(self, error: DataError) -> OverlayError:
        where = self._where()
        if error.where and error.where != where:
            where = f"{where}, {error.where}"
        hint = "look at the annotations that the template inserts into its text"
        return OverlayError(f"{UNREADABLE}: {error.what}", where=where, hint=hint)


def with_concurrency(spec: AppendSpec) -> AppendSpec:
    """Return the spec with ``--concurrency`` given to the proxy as its CPU limit, or request, has it, unless it is given."""
    proxy = c.find(c.PROXY, spec.containers)
    if proxy is None or (_number(proxy, _CONCURRENCY) or 0) > 0:
        return spec
    resources = proxy.get("resources") or {}
    for kind in ("limits", "requests"):
        cpus = math.ceil(parse_quantity(str((resources.get(kind) or {}).get("cpu", "0"))))
        if cpus > 0:
            args = [*(proxy.get("args") or ()), "--concurrency", str(cpus)]
            return with_proxy(spec, {**proxy, "args": args})
    return spec


def status_port(spec: AppendSpec) -> int:
    """Return the agent's port by the proxy's argument ``--statusPort``; -1 where it has none."""
    proxy = c.find(c.PROXY, spec.containers)
    number = None if proxy is None else _number(proxy, _STATUS_PORT)
    return -1 if number is None else number


def _number(container: c.Container, flag: re.Pattern[str]) -> int | None:
    args = [str(item) for item in container.get("args") or ()]
    for index, text in enumerate(args):
        match = flag.fullmatch(text.strip())
        if match is not None:
            value = match[1] or (args[index + 1] if index + 1 < len(args) else "")
            return int(value) if value.isascii() and value.isdigit() else None
    return None


def with_cluster_env(spec: AppendSpec, envs: Mapping[str, str]) -> AppendSpec:
    """Return the spec with the proxy's env variables of the URL at the end, in the order given."""
    proxy = c.find(c.PROXY, spec.containers)
    if proxy is None or not envs:
        return spec
    kept = [item for item in proxy.get("env") or () if item.get("name") not in envs]
    added = [{"name": name, "value": value} if value else {"name": name} for name, value in envs.items()]
    return with_proxy(spec, {**proxy, "env": kept + added})


def with_token_mount(spec: AppendSpec, pod: c.Pod) -> AppendSpec:
    """Return the spec with the pod's mount of the service account's token on the proxy too."""
    mount = _token_mount(c.containers_of(pod))
    proxy = c.find(c.PROXY, spec.containers)
    if mount is None or proxy is None:
        return spec
    return with_proxy(spec, {**proxy, "volumeMounts": [*(proxy.get("volumeMounts") or ()), mount]})


def _token_mount(containers: Iterable[c.Container]) -> dict[str, Any] | None:
    mounts = [
        mount
        for container in containers
        for mount in container.get("volumeMounts") or ()
        if mount.get("mountPath") == TOKEN_PATH
    ]
    return mounts[-1] if mounts else None


def with_proxy(spec: AppendSpec, proxy: c.Container) -> AppendSpec:
    """Return the spec with its first istio-proxy replaced."""
    index = next(i for i, item in enumerate(spec.containers) if item.get("name") == c.PROXY)
    return replace(spec, containers=[*spec.containers[:index], proxy, *spec.containers[index + 1 :]])


_PROXY_UID: Final = 1337
_CLUSTER_KEYS: Final = (CLUSTER, NETWORK)
# What injectors before the status annotation added; Istio up to 1.8 removes it from any pod without one.
_UNNOTED: Final = {
    "initContainers": ("istio-init", "enable-core-dump"),
    "containers": ("istio-proxy",),
    "volumes": ("istio-certs", "istio-envoy"),
    "imagePullSecrets": (),
}


def appended(params: Parameters, seen: c.Pod, spec: AppendSpec, *, webhook: bool) -> c.Pod:
    """Return the pod with what the template of 1.0 to 1.8 rendered; ``webhook`` is False for kube-inject.

    ``seen`` is the pod as ``seen_by_template`` returned it.
    """
    spec = _completed(params, spec)
    final = (
        _patched(params, seen, spec)
        if _patches(params, webhook=webhook)
        else _with_fs_group(_assembled(params, spec), params)
    )
    pod: c.Pod = normalise(final, "v1.Pod")
    return pod


def seen_by_template(params: Parameters, *, webhook: bool) -> c.Pod:
    """Return the pod as the template sees it: with the group that may read the proxy's token."""
    return _with_fs_group(params.pod, params) if _patches(params, webhook=webhook) else params.pod


def _patches(params: Parameters, *, webhook: bool) -> bool:
    return webhook or params.revision.behaviours.kube_inject_patches


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
    return with_proxy(spec, c.env_appended(proxy, probes.APP_PROBERS, probes.probers_json(probers)))


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
        names = ("service.istio.io/canonical-name", "app.kubernetes.io/name", "app")
        versions = ("service.istio.io/canonical-revision", "app.kubernetes.io/version", "version")
        wanted[names[0]] = _first_label(labels, names, params.workload.name)
        wanted[versions[0]] = _first_label(labels, versions, "latest")
    if "revision" in added:
        wanted[REVISION_LABEL] = params.written_revision
    network = _network_of(spec) if "network" in added else ""
    if network:
        wanted[NETWORK_LABEL] = network
    return {**labels, **{name: value for name, value in wanted.items() if not labels.get(name)}}


def _first_label(labels: Mapping[str, str], names: Iterable[str], default: str) -> str:
    # An empty label counts as one.
    return next((labels[name] for name in names if name in labels), default)


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
        pod = c.with_container(pod, c.env_appended(proxy, probes.APP_PROBERS, probes.probers_json(probers)))
    return c.with_spec(pod, containers=rewrite.redirected(c.containers_of(pod), c.annotations_of(pod), port))
