"""Taking an injection back: what the injector of any minor wrote is removed, and what it moved aside is put back.

Follows ``extractObject`` in istioctl/cmd/kubeuninject.go (Istio 1.12.9, the last minors that had it). It goes further
where the pod itself tells more than Istio's fixed names: the status annotation names what was added, whatever the
template, and a probe keeps its own thresholds. It does not mark the pod against injection, as Istio's did: what is
uninjected is what it was before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError, ManifestError
from injector.injection import containers as c
from injector.injection.overrides import OVERRIDES, reinserted
from injector.injection.status import STATUS, InjectionStatus, read_status
from injector.kube.pods import pod_template_path
from injector.kube.serial import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A CronJob's metadata was taken from, and written to, its job template (see ``manifest``).
_METADATA_PATHS: Final = {"CronJob": ("spec", "jobTemplate")}

BEFORE_STATUS: Final = InjectionStatus(
    init_containers=(c.INIT, c.VALIDATION, c.ENABLE_CORE_DUMP),
    containers=(c.PROXY,),
    volumes=("istio-certs", "istio-data", "istio-envoy", "istio-token", "istiod-ca-cert", "istio-podinfo"),
)
"""What Istio's templates add, for pods whose status annotation is gone or says nothing."""

PROBERS: Final = "ISTIO_KUBE_APP_PROBERS"
SCRAPE: Final = "ISTIO_PROMETHEUS_ANNOTATIONS"
_PROBER: Final = re.compile(r"/app-(?:health|lifecycle)/([^/]+)/(readyz|livez|startupz|prestopz|poststartz)")
_PROBE_FIELDS: Final = {"readyz": "readinessProbe", "livez": "livenessProbe", "startupz": "startupProbe"}
_HOOK_FIELDS: Final = {"prestopz": "preStop", "poststartz": "postStart"}
_HANDLERS: Final = ("httpGet", "tcpSocket", "grpc")

_ANNOTATIONS: Final = (STATUS, OVERRIDES, "istio.io/rev")
_DEFAULT_CONTAINER: Final = (
    "kubectl.kubernetes.io/default-container",
    "kubectl.kubernetes.io/default-logs-container",
)
_AGENT_PATH: Final = "/stats/prometheus"
_NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
# The group that istio-proxy runs with, which minors to 1.13 or so gave the pod so that the token is readable.
_PROXY_GROUP: Final = 1337
# Searched by pods of Istio 1.1 to 1.7 for services of other clusters.
_GLOBAL_DOMAIN: Final = "global"
# A canonical name of a workload is cut to the length of a label's value (Istio 1.30.3, pkg/kube/labels).
_LABEL_LENGTH: Final = 63


def uninject_object(obj: dict[str, Any]) -> dict[str, Any] | None:
    """Return a workload, or a List of them, without what injection added; None where it is of a kind that has no pods.

    Raises:
        ManifestError: a workload has no pod template, or an annotation of the injector's own cannot be read.
    """
    if obj.get("kind") == "List" and obj.get("apiVersion") == "v1":
        return {**obj, "items": [_item(item) for item in obj.get("items") or []]}
    path = pod_template_path(obj)
    if path is None:
        return None
    meta_path = _METADATA_PATHS.get(obj["kind"], path)
    pod = {"metadata": _at(obj, meta_path).get("metadata") or {}, "spec": _at(obj, path).get("spec") or {}}
    name = (obj.get("metadata") or {}).get("name") or ""
    restored = uninject_pod(pod, workload=name if path else "")
    if restored is pod:
        return obj
    obj = _changed_at(obj, meta_path, lambda holder: _with(holder, "metadata", restored["metadata"]))
    return _changed_at(obj, path, lambda holder: {**holder, "spec": restored["spec"]})


def uninject_pod(pod: c.Pod, *, workload: str = "") -> c.Pod:
    """Return a pod without what injection added; the very same where nothing was.

    ``workload`` is the name of what the pod belongs to, if it is not its own.
    """
    status = read_status(pod)
    proxy = c.find_in_pod(c.PROXY, pod)
    if status is None and proxy is None:
        return pod
    env = {item.get("name"): item.get("value") or "" for item in (proxy or {}).get("env") or ()}
    pod = _without_lists(pod, status if status is not None and status.any() else BEFORE_STATUS)
    pod = _with_probes(pod, _json_object(env.get(PROBERS, ""), PROBERS))
    pod = _with_metadata(reinserted(pod), _json_object(env.get(SCRAPE, ""), SCRAPE), workload)
    return _with_spec(pod)


def _item(item: Any) -> Any:
    if not isinstance(item, dict):
        raise ManifestError("an item of the List is not an object", where="items", hint="give each item a kind")
    restored = uninject_object(item)
    return item if restored is None else restored


def _without_lists(pod: c.Pod, status: InjectionStatus) -> c.Pod:
    spec = pod.get("spec") or {}
    changes = {
        key: [item for item in spec[key] if item.get("name") not in names] or None
        for key, names in status.by_list().items()
        if spec.get(key)
    }
    return c.with_spec(pod, **changes)


def _with_probes(pod: c.Pod, probers: Mapping[str, Any]) -> c.Pod:
    """Return the pod with the probes and hooks that the agent ran for it back in its containers."""
    for path, prober in probers.items():
        match = _PROBER.fullmatch(path)
        container = None if match is None else c.find_in_pod(match[1], pod)
        if match is not None and container is not None and isinstance(prober, dict):
            handler = {key: prober[key] for key in _HANDLERS if key in prober}
            pod = c.with_container(pod, _with_handler(container, match[2], handler))
    return pod


def _with_handler(container: c.Container, kind: str, handler: dict[str, Any]) -> c.Container:
    if kind in _PROBE_FIELDS:
        field = _PROBE_FIELDS[kind]
        return {**container, field: {**_without(container.get(field) or {}, _HANDLERS), **handler}}
    lifecycle = container.get("lifecycle") or {}
    return {**container, "lifecycle": {**lifecycle, _HOOK_FIELDS[kind]: handler}}


def _with_metadata(pod: c.Pod, scrape: Mapping[str, Any], workload: str) -> c.Pod:
    annotations = _without(c.annotations_of(pod), _ANNOTATIONS)
    first = next((item.get("name") for item in c.containers_of(pod)), None)
    annotations = {key: value for key, value in annotations.items() if key not in _DEFAULT_CONTAINER or value != first}
    if annotations.get("prometheus.io/path") == _AGENT_PATH:
        annotations = {key: value for key, value in annotations.items() if not key.startswith("prometheus.io/")}
        annotations |= {f"prometheus.io/{key}": str(value) for key, value in scrape.items() if value}
    annotations = _without_network(annotations)
    meta = pod.get("metadata") or {}
    labels = _without_labels(c.labels_of(pod), workload or meta.get("name") or "")
    meta = _with(_with(meta, "annotations", annotations), "labels", labels)
    return {**pod, "metadata": meta}


def _without_network(annotations: dict[str, str]) -> dict[str, str]:
    """Return the annotations without the CNI network that the multus provider asks for; a JSON list stays as it is."""
    text = annotations.get(_NETWORKS)
    if text is None or "istio-cni" not in text or text.lstrip().startswith("["):
        return annotations
    kept = [name for name in (part.strip() for part in text.split(",")) if name.rpartition("/")[2] != "istio-cni"]
    return _with(annotations, _NETWORKS, ",".join(kept))


def _without_labels(labels: dict[str, str], workload: str) -> dict[str, str]:
    """Return the labels without those that injection gives a pod; the user's own of the same value go too."""
    own = labels.get("app.kubernetes.io/name") or labels.get("app") or workload[:_LABEL_LENGTH].rstrip("-")
    version = labels.get("app.kubernetes.io/version") or labels.get("version") or "latest"
    added = {
        "security.istio.io/tlsMode": "istio",
        "networking.istio.io/tunnel": "http",
        "service.istio.io/canonical-name": own,
        "service.istio.io/canonical-revision": version,
        "service.istio.io/workload-name": workload[:_LABEL_LENGTH].rstrip("-"),
    }
    return {key: value for key, value in labels.items() if added.get(key) != value}


def _with_spec(pod: c.Pod) -> c.Pod:
    spec = dict(pod.get("spec") or {})
    context = spec.get("securityContext")
    if isinstance(context, dict) and context.get("fsGroup") == _PROXY_GROUP:
        spec = _with(spec, "securityContext", _without(context, ("fsGroup",)))
    dns = spec.get("dnsConfig")
    if isinstance(dns, dict) and dns.get("searches"):
        searches = [domain for domain in dns["searches"] if _GLOBAL_DOMAIN not in str(domain)]
        spec = _with(spec, "dnsConfig", _with(dns, "searches", searches))
    return {**pod, "spec": spec}


def _json_object(text: str, variable: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = load_json(text)
    except DataError as error:
        raise ManifestError(
            f"the proxy's variable {variable} is no JSON",
            where=c.PROXY,
            hint="it was changed by hand: correct it, or remove it",
        ) from error
    return found if isinstance(found, dict) else {}


def _without(mapping: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _with(mapping: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return ``mapping`` with ``key`` set at its place, or without it where ``value`` is empty."""
    if not value:
        return _without(mapping, (key,))
    return {**mapping, key: value}


def _at(obj: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    node = obj
    for key in path:
        inner = node.get(key)
        if not isinstance(inner, dict):
            raise ManifestError(f"{'.'.join(path)} is missing", hint="give the workload its pod template")
        node = inner
    return node


def _changed_at(
    obj: dict[str, Any], path: tuple[str, ...], change: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    if not path:
        return change(obj)
    key, *rest = path
    return {**obj, key: _changed_at(obj[key], tuple(rest), change)}
