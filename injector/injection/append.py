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
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from injector.errors import DataError, ManifestError, OverlayError
from injector.golang.json import go_json
from injector.golang.strconv import atoi
from injector.injection import containers as c
from injector.injection.data import CLUSTER, DEFAULT_PROXY_ID, NETWORK, NETWORK_LABEL, Parameters
from injector.injection.render import MOST_VALUES, UNREADABLE, overlay_hint
from injector.injection.steps import probes, prometheus
from injector.injection.steps.status import STATUS, InjectionStatus, added_names, read_status
from injector.istio.annotations import known_annotations, parse_bool
from injector.istio.behaviours import missing_fields
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.labels import REVISION_LABEL
from injector.kube.quantity import parse_quantity
from injector.kube.typed import normalise, prune
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.istio.template import TemplateData

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a mount path, no secret
_LISTS: Final = ("initContainers", "containers", "volumes", "imagePullSecrets", "dnsConfig")
_CONCURRENCY = re.compile(r"-{1,2}concurrency(?:=(\d+))?", re.ASCII)
_STATUS_PORT = re.compile(r"-{1,2}statusPort(?:=(\d+))?", re.ASCII)


class AppendSpec(NamedTuple):
    """The rendered lists as a pod, typed and normalised, and the switches that stand beside them."""

    pod: c.Pod
    rewrite_probes: bool
    redirect_annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ListTemplate:
    """The one template of a revision up to 1.8, for a pod before injection."""

    revision: Revision
    pod: c.Pod

    def render(self, data: TemplateData) -> list[str]:
        """Return the text that the template renders. Raises TemplateRenderError if it fails."""
        return [self.revision.templates[SIDECAR_TEMPLATE_NAME].render(data)]

    def read(self, texts: list[str]) -> dict[str, Any]:
        """Return the lists of a rendered text. Raises OverlayError if it is not a YAML mapping."""
        try:
            lists = load_yaml(texts[0], where=self._where(), most=MOST_VALUES) or {}
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

        Raises OverlayError if a list holds something else than its objects.
        """
        by_key = {str(key).lower(): value for key, value in lists.items()}
        by_field = {key: by_key[key.lower()] for key in _LISTS if by_key.get(key.lower()) is not None}
        try:
            known = prune(by_field, "v1.PodSpec", missing_fields(self.revision.minor))
            spec = normalise(known, "v1.PodSpec", coerce=True)
            rewrite_probes = normalise(by_key.get("rewriteapphttpprobe"), "bool")
            redirect_annotations = normalise(by_key.get("podredirectannot"), "map[string]string", coerce=True)
        except DataError as error:
            raise self._unreadable(error) from error
        return AppendSpec({"spec": spec}, rewrite_probes, redirect_annotations or {})

    def _where(self) -> str:
        return f"revision {self.revision.name}, rendered template"

    def _unreadable(self, error: DataError) -> OverlayError:
        where, what = self._where(), error.what
        if error.where and error.where != where:
            what = f"{error.where}: {what}"  # not in ``where``, which is logged: the path can have keys made of annotations
        return OverlayError(f"{UNREADABLE}: {what}", where=where, hint=overlay_hint(self.pod))


def with_concurrency(added: c.Pod) -> c.Pod:
    """Return the lists with ``--concurrency`` given to the proxy as its CPU limit, or request, has it, unless it is given."""
    proxy = _proxy_in(added)
    if proxy is None or (_number(proxy, _CONCURRENCY) or 0) > 0:
        return added
    resources = proxy.get("resources") or {}
    for kind in ("limits", "requests"):
        cpus = math.ceil(parse_quantity(str((resources.get(kind) or {}).get("cpu", "0"))))
        if cpus > 0:
            args = [*(proxy.get("args") or ()), "--concurrency", str(cpus)]
            return c.with_container(added, {**proxy, "args": args})
    return added


def status_port(added: c.Pod) -> int:
    """Return the agent's port by the proxy's argument ``--statusPort``; -1 where it has none."""
    number = _number(_proxy_in(added) or {}, _STATUS_PORT)
    return -1 if number is None else number


def _proxy_in(pod: c.Pod) -> c.Container | None:
    return c.find(c.PROXY, c.containers_of(pod))


def _number(container: c.Container, flag: re.Pattern[str]) -> int | None:
    args = [str(item) for item in container.get("args") or ()]
    for text, following in zip_longest(args, args[1:], fillvalue=""):
        match = flag.fullmatch(text.strip())
        if match is not None:
            number, fault = atoi(match[1] or following)
            return None if fault or number < 0 else number
    return None


def with_token_mount(added: c.Pod, pod: c.Pod) -> c.Pod:
    """Return the lists with the pod's last mount of the service account's token on the proxy too."""
    every = [mount for container in c.containers_of(pod) for mount in container.get("volumeMounts") or ()]
    mounts = [mount for mount in every if mount.get("mountPath") == TOKEN_PATH]
    proxy = _proxy_in(added)
    if not mounts or proxy is None:
        return added
    return c.with_container(added, {**proxy, "volumeMounts": [*(proxy.get("volumeMounts") or ()), mounts[-1]]})


_CLUSTER_KEYS: Final = (CLUSTER, NETWORK)
# What injectors before the status annotation added; Istio up to 1.8 removes it from any pod without one.
_UNNOTED: Final[InjectionStatus] = {
    "initContainers": frozenset({c.INIT, c.ENABLE_CORE_DUMP}),
    "containers": frozenset({c.PROXY}),
    "volumes": frozenset({"istio-certs", "istio-envoy"}),
}


def append_sidecar(params: Parameters, visible_pod: c.Pod, spec: AppendSpec, *, webhook: bool) -> c.Pod:
    """Return the pod with what the template of 1.0 to 1.8 rendered; ``webhook`` is False for kube-inject.

    ``visible_pod`` is the pod as ``pod_for_template`` returned it.
    """
    behaviours, envs = params.revision.behaviours, _cluster_envs(params)
    added = with_concurrency(spec.pod) if behaviours.concurrency_args else spec.pod
    proxy = _proxy_in(added)
    if proxy is not None and envs:
        added = c.with_container(added, c.replace_env(proxy, envs))
    if _patches(params, webhook=webhook):
        final = _patch(params, visible_pod, added, _rewrite(params, spec))
    else:
        final = _with_fs_group(_assemble(params, spec, added), params)
    pod: c.Pod = normalise(final, "v1.Pod")
    return pod


def pod_for_template(params: Parameters, *, webhook: bool) -> c.Pod:
    """Return the pod as the template sees it: with the group that may read the proxy's token."""
    return _with_fs_group(params.pod, params) if _patches(params, webhook=webhook) else params.pod


def _patches(params: Parameters, *, webhook: bool) -> bool:
    return webhook or params.revision.behaviours.kube_inject_patches


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
    context = (pod["spec"].get("securityContext") or {}) if how in ("sds", "feature") else {}
    return c.with_spec(pod, securityContext={**context, "fsGroup": DEFAULT_PROXY_ID})


def _patch(params: Parameters, pod: c.Pod, added: c.Pod, rewrite: probes.Rewrite | None) -> c.Pod:
    """Return the pod as Istio's patch makes it: without an earlier injection, with the lists, annotations and labels."""
    behaviours = params.revision.behaviours
    annotations = {**c.annotations_of(pod), STATUS: _status_text(params, added)}
    if rewrite is not None:
        port = _probe_port(params, added)
        added = _with_probers(added, rewrite, c.containers_of(pod), port)
        pod = c.with_spec(pod, containers=rewrite.redirect(c.containers_of(pod), c.annotations_of(pod), port))
    pod, before = _without_earlier(pod), pod
    if behaviours.injected_annotations:
        annotations.update(params.injected_annotations)
    if behaviours.prometheus_merge and prometheus.is_enabled(annotations, mesh_setting=params.mesh.prometheus_merge):
        proxy, config = _proxy_in(added), prometheus.scrape_config_json(c.annotations_of(pod))
        if proxy is not None and config is not None:
            added = c.with_container(added, c.env_appended(proxy, prometheus.ENV, config))
        annotations.update(prometheus.agent_annotations(params.mesh.status_port))
    if behaviours.token_mount:
        added = with_token_mount(added, before)
    pod = c.with_spec(
        pod,
        **{kind: _insert(pod, added, kind, hold=params.hold_application) for kind in ("initContainers", "containers")},
        **{kind: _join(pod, added, kind) for kind in ("volumes", "imagePullSecrets")},
    )
    dns_config = added["spec"].get("dnsConfig")
    if behaviours.dns_config and dns_config is not None:
        pod = c.with_spec(pod, dnsConfig=dns_config)
    return c.with_metadata(pod, annotations=annotations, labels=_labels_with_added(params, pod, added))


def _rewrite(params: Parameters, spec: AppendSpec) -> probes.Rewrite | None:
    """Return how probes are rewritten; None if they are not."""
    behaviours = params.revision.behaviours
    annotated = None
    if behaviours.probe_rewrite_annotation:
        annotated = parse_bool(c.annotations_of(params.pod).get(probes.REWRITE, ""))
    if not behaviours.probe_rewrite or not (spec.rewrite_probes if annotated is None else annotated):
        return None
    return probes.Rewrite.of(behaviours, params.revision.env)


def _probe_port(params: Parameters, added: c.Pod) -> int:
    return status_port(added) if params.revision.behaviours.probe_port_from_args else params.mesh.status_port


def _with_probers(holder: c.Pod, rewrite: probes.Rewrite, probed: list[c.Container], port: int) -> c.Pod:
    """Return ``holder``, which may have the proxy, with the probers of the containers noted."""
    probers, proxy = rewrite.probers(probed, port), _proxy_in(holder)
    if proxy is None or not (probers or rewrite.behaviours.prober_env_when_empty):
        return holder
    return c.with_container(holder, probes.with_probers(proxy, probers))


def _without_earlier(pod: c.Pod) -> c.Pod:
    status = read_status(pod)
    noted = status if status is not None and any(status.values()) else _UNNOTED
    remaining = {
        kind: [item for item in c.containers_of(pod, kind) if item.get("name") not in names]
        for kind, names in noted.items()
    }
    return c.with_spec(pod, **remaining)


def _join(pod: c.Pod, added: c.Pod, kind: str) -> list[dict[str, Any]]:
    return [*c.containers_of(pod, kind), *c.containers_of(added, kind)]


def _insert(pod: c.Pod, added: c.Pod, kind: str, *, hold: bool) -> list[c.Container]:
    containers = c.containers_of(pod, kind)
    for container in c.containers_of(added, kind):
        is_first = container.get("name") == c.VALIDATION or (hold and container.get("name") == c.PROXY)
        containers = [container, *containers] if is_first else [*containers, container]
    return containers


def _status_text(params: Parameters, added: c.Pod) -> str:
    template = params.revision.config.templates[SIDECAR_TEMPLATE_NAME]
    return go_json({"version": hashlib.sha256(template.encode()).hexdigest(), **added_names(added)})


def _labels_with_added(params: Parameters, pod: c.Pod, added: c.Pod) -> dict[str, str]:
    labels = c.labels_of(pod)
    wanted: dict[str, str] = {}
    which = params.revision.behaviours.added_labels
    if "tls_mode" in which:
        wanted["security.istio.io/tlsMode"] = "istio"
    if "canonical" in which:
        names = ("service.istio.io/canonical-name", "app.kubernetes.io/name", "app")
        versions = ("service.istio.io/canonical-revision", "app.kubernetes.io/version", "version")
        wanted[names[0]] = _first_label(labels, names, params.workload.name)
        wanted[versions[0]] = _first_label(labels, versions, "latest")
    if "revision" in which:
        wanted[REVISION_LABEL] = params.revision.written
    variables = [item for container in c.containers_of(added) for item in container.get("env") or ()]
    network = str((c.find(NETWORK, variables) or {}).get("value", "")) if "network" in which else ""
    if network:
        wanted[NETWORK_LABEL] = network
    return {**labels, **{name: value for name, value in wanted.items() if not labels.get(name)}}


def _first_label(labels: Mapping[str, str], names: Iterable[str], default: str) -> str:
    # An empty label counts as one.
    return next((labels[name] for name in names if name in labels), default)


def _assemble(params: Parameters, spec: AppendSpec, added: c.Pod) -> c.Pod:
    """Return the pod as kube-inject of 1.0 to 1.7 puts it together: nothing removed, no mount copied."""
    behaviours, pod = params.revision.behaviours, params.pod
    annotations: dict[str, str] = {}
    if behaviours.hold_application and prometheus.is_enabled(
        c.annotations_of(pod), mesh_setting=params.mesh.prometheus_merge
    ):
        annotations.update(prometheus.agent_annotations(params.mesh.status_port))
    changes: dict[str, Any] = {kind: _join(pod, added, kind) for kind in ("initContainers", "containers", "volumes")}
    if params.hold_application:
        proxies = [item for item in c.containers_of(added) if item.get("name") == c.PROXY]
        changes["containers"] = [*proxies, *c.containers_of(pod), *c.without(c.PROXY, c.containers_of(added))]
    if behaviours.dns_config:
        changes["dnsConfig"] = added["spec"].get("dnsConfig")
    if behaviours.kube_inject_pull_secrets:
        changes["imagePullSecrets"] = _join(pod, added, "imagePullSecrets")
    pod = c.with_spec(pod, **changes)
    rewrite, port = _rewrite(params, spec), _probe_port(params, added)
    if rewrite is not None and not (behaviours.probe_port_from_args and port < 0):
        pod = _with_probers(pod, rewrite, c.containers_of(pod), port)
        pod = c.with_spec(pod, containers=rewrite.redirect(c.containers_of(pod), c.annotations_of(pod), port))
    if behaviours.kube_inject_redirect_annotations:
        known = known_annotations(params.revision.minor)
        annotations.update({key: value for key, value in spec.redirect_annotations.items() if value and key in known})
    annotations[STATUS] = _status_text(params, added)
    labels = c.labels_of(pod)
    if "tls_mode" in behaviours.added_labels:
        labels = {"security.istio.io/tlsMode": "istio", **{k: v for k, v in labels.items() if v}}
    if "revision" in behaviours.added_labels:
        labels = {**labels, REVISION_LABEL: params.revision.written}
    return c.with_metadata(pod, annotations={**c.annotations_of(pod), **annotations}, labels=labels)
