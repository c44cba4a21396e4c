"""The labels and annotations that injection adds to a pod, of every minor, and how to tell them from the user's.

Nothing marks them in an injected pod, so what has the value that injection would write counts as added. Read in the templates and in
pkg/kube/inject of Istio 1.1 to 1.30.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from injector.injection import containers as c
from injector.injection.data import NETWORK, NETWORK_LABEL
from injector.injection.overrides import OVERRIDES
from injector.injection.probes import REWRITE, STATUS_PORT
from injector.injection.render import TEMPLATES
from injector.injection.status import STATUS
from injector.istio.webhooks import REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

GATEWAY: Final = "gateway"
"""The template of gateways."""

_ALWAYS: Final = (STATUS, OVERRIDES, REVISION_LABEL)
_DEFAULT_CONTAINER: Final = ("kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container")
_AGENT_PATH: Final = "/stats/prometheus"
_NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
# As injection appends it to a JSON list (``appendMultusNetwork``).
_NETWORK_OBJECT: Final = re.compile(r',?\s*\{"name":\s*"(?:[^"{}]*/)?istio-cni"[^{}]*\}(?=\s*\]\s*$)')
# A canonical name of a workload is cut to the length of a label's value (Istio 1.30.3, pkg/kube/labels).
_LABEL_LENGTH: Final = 63
# What Istio's CNI is told: the values of a pod that says nothing itself.
_INTERCEPTION: Final = "sidecar.istio.io/interceptionMode"
_EXCLUDED_PORTS: Final = "traffic.sidecar.istio.io/excludeInboundPorts"
_STATUS_PORTS: Final = ("15020", "15021")


def users_annotations(pod: c.Pod, scrape: Mapping[str, Any], *, agent_port: str = "") -> dict[str, str]:
    """Return the annotations without those that injection added.

    Args:
        pod: the pod, with its own containers alone.
        scrape: what Prometheus was told before.
        agent_port: the agent's port by the proxy's arguments, where they say it.
    """
    annotations = without_added(c.annotations_of(pod))
    first = next((item.get("name") for item in c.containers_of(pod)), None)
    annotations = {key: value for key, value in annotations.items() if key not in _DEFAULT_CONTAINER or value != first}
    if annotations.get("prometheus.io/path") == _AGENT_PATH:
        annotations = {key: value for key, value in annotations.items() if not key.startswith("prometheus.io/")}
        annotations |= {f"prometheus.io/{key}": str(value) for key, value in scrape.items() if value}
    if annotations.get(TEMPLATES, "").startswith("grpc") and annotations.get(REWRITE) == "false":
        del annotations[REWRITE]
    excluded = {*_STATUS_PORTS, agent_port, annotations.get(STATUS_PORT, "")}
    return _without_network(_without_redirection(annotations, _ports(pod), excluded))


def without_added(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations without those that are never the user's."""
    return {key: value for key, value in annotations.items() if key not in _ALWAYS}


def _ports(pod: c.Pod) -> str:
    return ",".join(
        str(port.get("containerPort", "")) for item in c.containers_of(pod) for port in item.get("ports") or ()
    )


def _without_redirection(annotations: dict[str, str], ports: str, excluded: Container[str]) -> dict[str, str]:
    """Return the annotations without what Istio's CNI reads, where it says what it would say of any pod."""
    if _INTERCEPTION not in annotations:
        return annotations  # they come together: without the mode, all others are the user's
    rules: dict[str, Callable[[str], str]] = {
        _INTERCEPTION: lambda mode: "" if mode == "REDIRECT" else mode,
        _EXCLUDED_PORTS: lambda text: ",".join(port for port in text.split(",") if port not in excluded),
        "traffic.sidecar.istio.io/includeInboundPorts": lambda text: "" if text in ("*", ports) else text,
        "traffic.sidecar.istio.io/includeOutboundIPRanges": lambda text: "" if text == "*" else text,
        "traffic.sidecar.istio.io/excludeOutboundIPRanges": lambda text: text,
        "traffic.sidecar.istio.io/includeOutboundPorts": lambda text: text,
    }
    kept = {key: rules[key](value) if key in rules else value for key, value in annotations.items()}
    return {key: value for key, value in kept.items() if value or not annotations[key]}


def _without_network(annotations: dict[str, str]) -> dict[str, str]:
    """Return the annotations without the CNI network that the multus provider asks for."""
    text = annotations.get(_NETWORKS)
    if text is None or "istio-cni" not in text:
        return annotations
    kept = _NETWORK_OBJECT.sub("", text) if text.lstrip().startswith("[") else _other_networks(text)
    if kept and kept != "[]":
        return {**annotations, _NETWORKS: kept}
    return {key: value for key, value in annotations.items() if key != _NETWORKS}


def _other_networks(text: str) -> str:
    names = (part.strip() for part in text.split(","))
    return ",".join(name for name in names if name.rpartition("/")[2] != "istio-cni")


def users_labels(pod: c.Pod, workload: str, env: Mapping[str, str], *, revision_noted: bool) -> dict[str, str]:
    """Return the labels without those that injection added.

    Args:
        pod: the pod.
        workload: the name of what it belongs to.
        env: the proxy's variables.
        revision_noted: the status annotation names the revision, as from 1.11 on; minors before wrote a label instead,
            and the template of gateways still does.
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
    if REVISION_LABEL in labels and (not revision_noted or GATEWAY in c.annotations_of(pod).get(TEMPLATES, "")):
        added[REVISION_LABEL] = labels[REVISION_LABEL]
    return {key: value for key, value in labels.items() if key not in added or added[key] != value}
