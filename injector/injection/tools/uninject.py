"""Uninjection: removes what the injector of any minor added, and puts back what it moved aside.

Follows ``extractObject`` in istioctl/cmd/kubeuninject.go (Istio 1.12.9, one of the last minors that had it). It goes further if the pod
itself says more than Istio's fixed names: the status annotation names what was added, whatever the template, and a probe keeps its own
thresholds. Unlike Istio's, it does not mark the pod against injection: the result is the pod before injection.

Nothing marks the labels and annotations that injection added, so one with the value that injection would write counts as added. The
values are those of the templates and of pkg/kube/inject in Istio 1.1 to 1.31.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from injector.errors import DataError, ManifestError
from injector.golang.json import load_json
from injector.injection import containers as c
from injector.injection.data import DEFAULT_PROXY_ID, NETWORK, NETWORK_LABEL
from injector.injection.render import GATEWAY_TEMPLATE
from injector.injection.steps import prometheus
from injector.injection.steps.overrides import (
    AUTO_IMAGE,
    INTERCEPTION_MODE,
    OVERRIDES,
    read_overrides,
    reinsert_overrides,
)
from injector.injection.steps.probes import APP_PROBERS, REWRITE, STATUS_PORT
from injector.injection.steps.status import STATUS, InjectionStatus, read_status
from injector.injection.tools.manifest import METADATA_PATHS, pod_in
from injector.istio.labels import REVISION_LABEL, TEMPLATES
from injector.kube.lists import is_list
from injector.kube.objects import for_each_item, mapping_at
from injector.kube.pods import workload_of
from injector.kube.podtemplates import OTHER_KINDS, OtherKinds, Path, change_at, template_at, template_paths
from injector.kube.typed import normalise

_BEFORE_STATUS: Final[InjectionStatus] = {
    "initContainers": frozenset({c.INIT, c.VALIDATION, c.ENABLE_CORE_DUMP}),
    "containers": frozenset({c.PROXY}),
    "volumes": frozenset(
        {"istio-certs", "istio-data", "istio-envoy", "istio-token", "istiod-ca-cert", "istio-podinfo"}
    ),
}
"""What Istio's templates add, for pods without a status annotation or with an empty one."""

ANNOTATIONS_ENV: Final = "ISTIO_METAJSON_ANNOTATIONS"
LABELS_ENV: Final = "ISTIO_METAJSON_LABELS"
_STATUS_PORT: Final = "--statusPort"
_PROBER: Final = re.compile(r"/app-(?:health|lifecycle)/([^/]+)/(readyz|livez|startupz|prestopz|poststartz)")
_PROBE_FIELDS: Final = {"readyz": "readinessProbe", "livez": "livenessProbe", "startupz": "startupProbe"}
_HOOK_FIELDS: Final = {"prestopz": "preStop", "poststartz": "postStart"}
_HANDLERS: Final = ("httpGet", "tcpSocket", "grpc")

# A sysctl of the template of gateways: any user may bind ports below 1024.
_LOW_PORTS: Final = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
# Searched by pods of Istio 1.1 to 1.7 for services of other clusters.
_GLOBAL_DOMAIN: Final = "global"


def uninject_object(obj: dict[str, Any], others: OtherKinds = OTHER_KINDS) -> dict[str, Any] | None:
    """Return a workload, or a List of them, without what injection added; None for a kind that has no pods.

    Raises ManifestError if a workload has no pod template, or an annotation of the injector's own cannot be read.
    """
    if is_list(obj):
        items = list(for_each_item(obj, lambda item: uninject_object(item, others) or item))
        return _without_empty_metadata({**obj, "items": items})
    paths = template_paths(obj, others)
    for path in paths:
        obj = _uninject_template(obj, path)
    return obj if paths else None


def _uninject_template(obj: dict[str, Any], path: Path) -> dict[str, Any]:
    meta_path = _metadata_path(obj, path)
    injected = pod_in(obj, path, meta_path)
    try:
        pod = normalise(injected, "v1.Pod", coerce=True)
    except ManifestError:
        if any(name in str(injected) for name in (c.PROXY, STATUS)):
            raise
        return obj  # Kubernetes cannot read a pod with placeholders, but it has no sidecar
    name = (normalise(obj.get("metadata"), "v1.ObjectMeta", coerce=True) or {}).get("name", "")
    restored = uninject_pod(pod, workload=name if path else "")
    if restored is pod:
        return obj
    obj = change_at(obj, meta_path, lambda holder: _with(holder, "metadata", restored["metadata"]))
    obj = change_at(obj, path, lambda holder: _without_empty_metadata({**holder, "spec": restored["spec"]}))
    return obj if meta_path == path else change_at(obj, meta_path, _without_empty_metadata)


def _metadata_path(obj: dict[str, Any], path: Path) -> Path:
    """Return the path of the object whose metadata the injection changed: that of kube-inject, or else the pod template."""
    meta_path = METADATA_PATHS.get(obj["kind"], path)
    template_at(obj, meta_path)
    return path if STATUS in mapping_at(template_at(obj, path), "metadata", "annotations") else meta_path


def uninject_pod(pod: c.Pod, *, workload: str = "") -> c.Pod:
    """Return a pod without what injection added; ``pod`` itself if nothing was.

    ``workload`` is the name of the pod's workload, if it is not the pod's own.
    """
    status = read_status(pod)
    proxy = c.find_in_pod(c.PROXY, pod)
    if status is None and proxy is None:
        return pod
    env = {item.get("name"): item.get("value") or "" for item in (proxy or {}).get("env") or ()}
    added = status if status is not None and any(status.values()) else _BEFORE_STATUS
    spec = pod.get("spec") or {}
    remaining = {kind: [item for item in spec.get(kind) or () if item.get("name") not in added[kind]] for kind in added}
    pod = c.with_spec(pod, **{kind: items or None for kind, items in remaining.items() if spec.get(kind)})
    pod = _with_probes(pod, _json_object(env.get(APP_PROBERS, ""), APP_PROBERS))
    pod = _with_overridden(pod)
    noted = c.annotations_of(pod).get(STATUS, "")
    labels = remaining_labels(pod, workload or workload_of(pod).name, env, revision_noted='"revision"' in noted)
    scrape = _json_object(env.get(prometheus.ENV, ""), prometheus.ENV)
    original = _original_annotations(env)
    annotations = (
        remaining_annotations(pod, scrape, agent_port=_agent_port(proxy or {})) if original is None else original
    )
    secure_port = env.get(prometheus.SECURE_PORT_ENV)
    if secure_port and annotations.get(prometheus.SECURE_PORT) == secure_port:
        annotations = _without(annotations, (prometheus.SECURE_PORT,))
    return _with_spec(c.with_metadata(pod, annotations=annotations, labels=labels))


def _original_annotations(env: Mapping[str, str]) -> dict[str, str] | None:
    """Return the pod's original annotations, which templates up to 1.10 gave to the proxy; None if they did not."""
    if ANNOTATIONS_ENV not in env and LABELS_ENV not in env:
        return None
    return _without(_json_object(env.get(ANNOTATIONS_ENV, ""), ANNOTATIONS_ENV), _ALWAYS)


def _agent_port(proxy: c.Container) -> str:
    args = [str(item) for item in proxy.get("args") or ()]
    return args[args.index(_STATUS_PORT) + 1] if _STATUS_PORT in args[:-1] else ""


def _with_overridden(pod: c.Pod) -> c.Pod:
    """Return the pod with the containers that templates changed as they were; one without an image had ``auto``."""
    noted = {item.get("name") for items in read_overrides(pod).values() for item in items}
    pod = reinsert_overrides(pod)
    native = c.find(c.PROXY, c.containers_of(pod, "initContainers"))
    if native is not None:  # users write it among the containers: only templates make it a native sidecar
        init = c.without(c.PROXY, c.containers_of(pod, "initContainers"))
        pod = c.with_spec(pod, initContainers=init, containers=[*c.containers_of(pod), native])
    for kind in ("containers", "initContainers"):
        items = [
            item if item.get("image") or item.get("name") not in noted else {**item, "image": AUTO_IMAGE}
            for item in c.containers_of(pod, kind)
        ]
        pod = c.with_spec(pod, **{kind: items})
    return pod


def _without_empty_metadata(holder: dict[str, Any]) -> dict[str, Any]:
    """Return a template without empty metadata, which Go prints for each template that has none."""
    is_empty = all(value is None for value in mapping_at(holder, "metadata").values())
    return _without(holder, ("metadata",)) if is_empty else holder


def _with_probes(pod: c.Pod, probers: Mapping[str, Any]) -> c.Pod:
    """Return the pod with the probes and hooks that the agent ran back in its containers."""
    by_container: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for path, prober in probers.items():
        match = _PROBER.fullmatch(path)
        if match is not None and isinstance(prober, dict):
            by_container.setdefault(match[1], []).append((match[2], prober))
    for kind in ("containers", "initContainers"):
        items = c.containers_of(pod, kind)
        if items and by_container:
            restored = [_with_probers(item, by_container.pop(item.get("name", ""), ())) for item in items]
            pod = c.with_spec(pod, **{kind: restored})
    return pod


def _with_probers(container: c.Container, probers: Iterable[tuple[str, dict[str, Any]]]) -> c.Container:
    for kind, prober in probers:
        # Up to 1.4 a prober is the action of an HTTP probe, with nothing around it.
        actions = prober if any(key in prober for key in _HANDLERS) else {"httpGet": prober}
        handlers = {key: action for key in _HANDLERS if isinstance(action := actions.get(key), dict) and action}
        # The port of grpc has no name, and stays as it is.
        handler = {
            key: action if key == "grpc" else _with_port_name(action, container) for key, action in handlers.items()
        }
        container = _with_handler(container, kind, handler)
    return container


def _with_port_name(action: dict[str, Any], container: c.Container) -> dict[str, Any]:
    """Return a probe's action with its port by name, if the container names it: injection resolves names."""
    named = [
        port.get("name") for port in container.get("ports") or () if port.get("containerPort") == action.get("port")
    ]
    return {**action, "port": named[0]} if named and named[0] and "port" in action else action


def _with_handler(container: c.Container, kind: str, handler: dict[str, Any]) -> c.Container:
    if kind in _PROBE_FIELDS:
        field = _PROBE_FIELDS[kind]
        return {**container, field: {**_without(container.get(field) or {}, _HANDLERS), **handler}}
    lifecycle = container.get("lifecycle") or {}
    return {**container, "lifecycle": {**lifecycle, _HOOK_FIELDS[kind]: handler}}


def _with_spec(pod: c.Pod) -> c.Pod:
    spec = dict(pod.get("spec") or {})
    context = spec.get("securityContext")
    # Minors up to about 1.13 gave the pod the group of istio-proxy, so that the token is readable.
    if isinstance(context, dict) and context.get("fsGroup") == DEFAULT_PROXY_ID:
        spec = _with(spec, "securityContext", _without(context, ("fsGroup",)))
    context = spec.get("securityContext")
    if isinstance(context, dict) and GATEWAY_TEMPLATE in c.annotations_of(pod).get(TEMPLATES, ""):
        sysctls = [item for item in context.get("sysctls") or () if item != _LOW_PORTS]
        spec = _with(spec, "securityContext", _with(context, "sysctls", sysctls))
    dns = spec.get("dnsConfig")
    if isinstance(dns, dict) and dns.get("searches"):
        searches = [domain for domain in dns["searches"] if _GLOBAL_DOMAIN not in str(domain)]
        spec = _with(spec, "dnsConfig", _with(dns, "searches", searches))
    return {**pod, "spec": spec}


def _json_object(text: str, variable: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        document = load_json(text)
    except DataError as error:
        raise ManifestError(
            f"the proxy's variable {variable} is not JSON",
            where=c.PROXY,
            hint="it was changed by hand: correct it, or remove it",
        ) from error
    return document if isinstance(document, dict) else {}


def _without(mapping: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _with(mapping: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return ``mapping`` with ``key`` set, or without it if ``value`` is empty."""
    if not value:
        return _without(mapping, (key,))
    return {**mapping, key: value}


# --- labels and annotations

_ALWAYS: Final = (STATUS, OVERRIDES, REVISION_LABEL)
"""The annotations that are never the user's."""
_DEFAULT_CONTAINER: Final = ("kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container")
_AGENT_PATH: Final = "/stats/prometheus"
_NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
# As injection appends it to a JSON list (``istio.multus``).
_NETWORK_OBJECT: Final = re.compile(
    # Each run of spaces is looked at once, from its beginning.
    r'(?<!\s)\s*+,?\s*+\{"name":\s*"(?:[^"{}]*/)?istio-cni"[^{}]*\}(?=\s*\]\s*$)'
)
# A canonical name of a workload is cut to the length of a label's value (Istio 1.30.3, pkg/kube/labels).
_LABEL_LENGTH: Final = 63
_EXCLUDED_PORTS: Final = "traffic.sidecar.istio.io/excludeInboundPorts"
_INCLUDED_PORTS: Final = "traffic.sidecar.istio.io/includeInboundPorts"
# What Istio's CNI reads of a pod without such annotations of its own.
_REDIRECTION: Final = {
    INTERCEPTION_MODE: "REDIRECT",
    _INCLUDED_PORTS: "*",
    "traffic.sidecar.istio.io/includeOutboundIPRanges": "*",
}
_STATUS_PORTS: Final = ("15020", "15021")


def remaining_annotations(pod: c.Pod, scrape: Mapping[str, Any], *, agent_port: str = "") -> dict[str, str]:
    """Return the annotations of a pod, with its own containers alone, without those that injection added.

    ``scrape`` is what Prometheus read before, ``agent_port`` the agent's port in the proxy's arguments, if it is there.
    """
    annotations = _without(c.annotations_of(pod), _ALWAYS)
    first = next((item.get("name") for item in c.containers_of(pod)), None)
    annotations = {key: value for key, value in annotations.items() if key not in _DEFAULT_CONTAINER or value != first}
    if annotations.get("prometheus.io/path") == _AGENT_PATH:
        annotations = {key: value for key, value in annotations.items() if not key.startswith("prometheus.io/")}
        annotations |= prometheus.users_annotations(scrape)
    if annotations.get(TEMPLATES, "").startswith("grpc") and annotations.get(REWRITE) == "false":
        del annotations[REWRITE]
    excluded = {*_STATUS_PORTS, agent_port, annotations.get(STATUS_PORT, "")}
    return _without_network(_without_redirection(annotations, _ports(pod), excluded))


def _ports(pod: c.Pod) -> str:
    return ",".join(
        str(port.get("containerPort", "")) for item in c.containers_of(pod) for port in item.get("ports") or ()
    )


def _without_redirection(annotations: dict[str, str], ports: str, excluded: Container[str]) -> dict[str, str]:
    """Return the annotations without those for Istio's CNI, if they have the values of any pod."""
    if INTERCEPTION_MODE not in annotations:
        return annotations  # they come together: without the mode, all others are the user's
    result = {}
    for key, value in annotations.items():
        user_value = value
        if key == _EXCLUDED_PORTS:
            user_value = ",".join(port for port in value.split(",") if port not in excluded)
        elif value == _REDIRECTION.get(key) or (key == _INCLUDED_PORTS and value == ports):
            user_value = ""
        if user_value or not value:
            result[key] = user_value
    return result


def _without_network(annotations: dict[str, str]) -> dict[str, str]:
    """Return the annotations without the CNI network of the multus provider."""
    text = annotations.get(_NETWORKS)
    if text is None or "istio-cni" not in text:
        return annotations
    other_networks = _NETWORK_OBJECT.sub("", text) if text.lstrip().startswith("[") else _other_networks(text)
    if other_networks and other_networks != "[]":
        return {**annotations, _NETWORKS: other_networks}
    return _without(annotations, (_NETWORKS,))


def _other_networks(text: str) -> str:
    names = (part.strip() for part in text.split(","))
    return ",".join(name for name in names if name.rpartition("/")[2] != "istio-cni")


def remaining_labels(pod: c.Pod, workload: str, env: Mapping[str, str], *, revision_noted: bool) -> dict[str, str]:
    """Return the labels of a pod without those that injection added.

    ``revision_noted`` is whether the status annotation names the revision, as since 1.11. Earlier minors, and the template of gateways,
    write a label.
    """
    labels = c.labels_of(pod)
    name = workload[:_LABEL_LENGTH].rstrip("-")
    added = {
        "security.istio.io/tlsMode": "istio",
        "networking.istio.io/tunnel": "http",
        "service.istio.io/canonical-name": labels.get("app.kubernetes.io/name") or labels.get("app") or name,
        "service.istio.io/canonical-revision": labels.get("app.kubernetes.io/version")
        or labels.get("version")
        or "latest",
        "service.istio.io/workload-name": name,
        NETWORK_LABEL: env.get(NETWORK),
    }
    if REVISION_LABEL in labels and (
        not revision_noted or GATEWAY_TEMPLATE in c.annotations_of(pod).get(TEMPLATES, "")
    ):
        added[REVISION_LABEL] = labels[REVISION_LABEL]
    return {key: value for key, value in labels.items() if key not in added or added[key] != value}
