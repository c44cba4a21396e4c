"""Prometheus merge: the application's scrape annotations move into the proxy's environment and are replaced by the agent's.

Follows ``applyPrometheusMerge``, ``applySecurePrometheusAnnotation`` and their callees in pkg/kube/inject/webhook.go, and
``ParseScrapeTargets`` and ``IstioReservedPortReason`` in pilot/cmd/pilot-agent/status/server.go (1.31.0-rc.0). For Prometheus,
``prometheus.io/port``, ``prometheus.io.port`` and every other spelling with the same sanitised name are equal, so all of them count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from injector.errors import AnnotationError
from injector.golang.json import go_json
from injector.golang.strconv import SPACE, atoi, quote
from injector.injection import containers as c
from injector.istio.annotations import parse_bool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.istio.behaviours import Behaviours

MERGE_METRICS: Final = "prometheus.istio.io/merge-metrics"
ENV: Final = "ISTIO_PROMETHEUS_ANNOTATIONS"
_INVALID = re.compile(r"[^a-zA-Z0-9_]")
_SANITISED: Final = {
    "prometheus_io_scrape": "scrape",
    "prometheus_io_path": "path",
    "prometheus_io_port": "port",
    "prometheus_istio_io_scrape_targets": "targets",
}
# In the order of status.PrometheusScrapeConfiguration.
_FIELDS: Final = ("scrape", "path", "port")
_EXACT: Final = {f"prometheus.io/{field}": field for field in _FIELDS}
SCRAPE_TARGETS: Final = "prometheus.istio.io/scrape-targets"
SECURE_PORT: Final = "prometheus.istio.io/secure-port"
SECURE_PORT_ENV: Final = "ENVOY_SECURE_MERGED_METRICS_PORT"
_LAST_PORT: Final = 65535
_RESERVED: Final = {
    15000: "Envoy admin",
    15001: "outbound traffic capture",
    15004: "pilot debug",
    15006: "inbound traffic capture",
    15008: "HBONE tunnel",
    15020: "pilot-agent status / merged Prometheus",
    15021: "Envoy health",
    15053: "DNS proxy",
    15090: "Envoy Prometheus (already merged)",
}
"""The ports that the application cannot have, and what Istio uses each for."""


def merge_metrics(pod: c.Pod, behaviours: Behaviours, *, mesh_setting: bool | None, status_port: int) -> c.Pod:
    """Return the pod with merged metrics, or as it is if merging is off, declined or already done.

    Since Istio 1.13 the annotations count in every spelling, and ``scrape: false`` declines. Raises AnnotationError if the application's
    port cannot be scraped (since Istio 1.31).
    """
    annotations = c.annotations_of(pod)
    fields = _fields(annotations, behaviours)
    declined = behaviours.prometheus_sanitised and not _is_scraped(annotations, fields)
    if declined or not is_enabled(annotations, mesh_setting=mesh_setting):
        return pod
    scrape = {field: annotations[key] for key, field in fields.items()}
    if scrape.get("port") == str(status_port):
        return pod
    config: dict[str, Any] = {key: scrape.get(key, "") for key in _FIELDS}
    targets = _targets(scrape.get("targets", ""))
    if targets:
        # An older agent reads only the first one.
        config = {**config, **targets[0], "targets": targets}
    if behaviours.prometheus_targets:
        _check_ports(config, status_port)
    sidecar = c.find_in_pod(c.PROXY, pod)
    if sidecar is not None and any(config.values()):
        pod = c.with_container(pod, c.env_appended(sidecar, ENV, go_json(config)))
    other_annotations = {key: value for key, value in annotations.items() if key not in fields}
    return c.with_metadata(pod, annotations={**other_annotations, **agent_annotations(status_port)})


def with_secure_port(pod: c.Pod) -> c.Pod:
    """Return the pod with the annotation of the port where the proxy serves merged metrics over mTLS, unless it has one already."""
    annotations = c.annotations_of(pod)
    wanted = _INVALID.sub("_", SECURE_PORT)
    if any(key.startswith("prometheus") and _INVALID.sub("_", key) == wanted for key in annotations):
        return pod
    sidecar = c.find_in_pod(c.PROXY, pod) or {}
    values = (item.get("value", "") for item in sidecar.get("env") or () if item.get("name") == SECURE_PORT_ENV)
    port = next((value for value in values if value not in {"", "0"}), None)
    return pod if port is None else c.with_metadata(pod, annotations={**annotations, SECURE_PORT: port})


def users_annotations(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations from which a configuration for the agent was made."""
    listed = config.get("targets")
    targets = [target for target in listed if isinstance(target, dict)] if isinstance(listed, list) else []
    if not targets:
        return {f"prometheus.io/{key}": str(config[key]) for key in _FIELDS if config.get(key)}
    endpoints = ",".join(f"{target.get('port', '')}:{target.get('path', '')}" for target in targets)
    scrape = {"prometheus.io/scrape": str(config["scrape"])} if config.get("scrape") else {}
    return {**scrape, SCRAPE_TARGETS: endpoints}


def _targets(text: str) -> list[dict[str, str]]:
    """Return the endpoints of the annotation ``SCRAPE_TARGETS``, a list of ``port:path``; none if it is not such a list."""
    targets = []
    for entry in filter(None, (part.strip(SPACE) for part in text.split(","))):
        port, _, path = (part.strip(SPACE) for part in entry.partition(":"))
        if not port:
            return []
        targets.append({"port": port, "path": path or "/metrics"})
    return targets


def _check_ports(config: Mapping[str, Any], status_port: int) -> None:
    targets = config.get("targets")
    what, noun = ("targets", "target port") if targets else ("configuration", "port")
    for text in [target["port"] for target in targets] if targets else filter(None, [config["port"]]):
        port, wrong = atoi(text)
        if wrong or not 1 <= port <= _LAST_PORT:
            raise AnnotationError(f"invalid prometheus scrape {what}: invalid {noun} {quote(text)}")
        if port == status_port:
            raise AnnotationError(f"invalid prometheus scrape {what}: {noun} {text} conflicts with agent port")
        if port in _RESERVED:
            reason = f"{noun} {text} is reserved for Istio ({_RESERVED[port]}) and cannot be scraped"
            raise AnnotationError(f"invalid prometheus scrape {what}: {reason}")


def agent_annotations(status_port: int) -> dict[str, str]:
    """Return the annotations that make Prometheus scrape the agent."""
    return {
        "prometheus.io/port": str(status_port),
        "prometheus.io/path": "/stats/prometheus",
        "prometheus.io/scrape": "true",
    }


def scrape_config_json(annotations: Mapping[str, str]) -> str | None:
    """Return the application's own scrape annotations, in their exact spelling, as JSON for the agent; None if there are none."""
    config = {key: annotations.get(f"prometheus.io/{key}", "") for key in _FIELDS}
    return go_json(config) if any(config.values()) else None


def without_agent_annotations(pod: c.Pod, behaviours: Behaviours, *, status_port: int) -> c.Pod:
    """Return the pod without the scrape annotations of an earlier injection, which have the agent's port."""
    annotations = c.annotations_of(pod)
    fields = _fields(annotations, behaviours)
    if {field: annotations[key] for key, field in fields.items()}.get("port") != str(status_port):
        return pod
    return c.with_metadata(pod, annotations={key: text for key, text in annotations.items() if key not in fields})


def is_enabled(annotations: Mapping[str, str], *, mesh_setting: bool | None) -> bool:
    """Return whether metrics are merged: by annotation, else by mesh config, else yes."""
    annotated = parse_bool(annotations.get(MERGE_METRICS, ""))
    if annotated is not None:
        return annotated
    return True if mesh_setting is None else mesh_setting


def _is_scraped(annotations: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    flags = (parse_bool(annotations[key]) for key, field in fields.items() if field == "scrape")
    return next((scrape for scrape in flags if scrape is not None), True)


def _fields(annotations: Mapping[str, str], behaviours: Behaviours) -> dict[str, str]:
    """Return the annotations that configure the scraping, each with the field that it sets."""
    fields: dict[str, str] = {}
    for key in annotations:
        if key.startswith("prometheus"):
            field = _SANITISED.get(_INVALID.sub("_", key)) if behaviours.prometheus_sanitised else _EXACT.get(key)
            if field is not None and (field != "targets" or behaviours.prometheus_targets):
                fields[key] = field
    return fields
