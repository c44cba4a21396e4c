"""Prometheus merge: the application's scrape annotations move into the proxy's environment and are replaced by the agent's.

Follows ``applyPrometheusMerge`` and its callees in pkg/kube/inject/webhook.go (1.30.3). For Prometheus, ``prometheus.io/port``,
``prometheus.io.port`` and every other spelling with the same sanitised name are equal, so all of them count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from injector.golang.json import go_json
from injector.injection import containers as c
from injector.istio.annotations import parse_bool

if TYPE_CHECKING:
    from collections.abc import Mapping

MERGE_METRICS: Final = "prometheus.istio.io/merge-metrics"
ENV: Final = "ISTIO_PROMETHEUS_ANNOTATIONS"
_INVALID = re.compile(r"[^a-zA-Z0-9_]")
_SANITISED: Final = {"prometheus_io_scrape": "scrape", "prometheus_io_path": "path", "prometheus_io_port": "port"}
_EXACT: Final = {f"prometheus.io/{field}": field for field in ("scrape", "path", "port")}


def merged(pod: c.Pod, *, mesh_setting: bool | None, status_port: int, sanitised: bool) -> c.Pod:
    """Return the pod with merged metrics, or as it is if merging is off, declined or already done.

    ``sanitised`` (since Istio 1.13): the annotations count in every spelling, and ``scrape: false`` declines.
    """
    annotations = c.annotations_of(pod)
    if not enabled(annotations, mesh_setting=mesh_setting) or (sanitised and not _scraped(annotations)):
        return pod
    target = str(status_port)
    found = _scrape_config(annotations, sanitised=sanitised)
    if found.get("port") == target:
        return pod
    sidecar = c.find_in_pod(c.PROXY, pod)
    if sidecar is not None and any(found.values()):
        pod = c.with_container(pod, c.env_appended(sidecar, ENV, _config_json(found)))
    kept = _cleared(annotations, sanitised=sanitised)
    return c.with_metadata(pod, annotations={**kept, **agent_annotations(status_port)})


def agent_annotations(status_port: int) -> dict[str, str]:
    """Return the annotations that make Prometheus scrape the agent."""
    return {
        "prometheus.io/port": str(status_port),
        "prometheus.io/path": "/stats/prometheus",
        "prometheus.io/scrape": "true",
    }


def scrape_config_json(annotations: Mapping[str, str]) -> str | None:
    """Return the application's own scrape annotations, in their exact spelling, as JSON for the agent; None if there are none."""
    found = _scrape_config(annotations, sanitised=False)
    return _config_json(found) if any(found.values()) else None


def without_agent_annotations(pod: c.Pod, *, status_port: int, sanitised: bool) -> c.Pod:
    """Return the pod without the scrape annotations of an earlier injection, which have the agent's port."""
    annotations = c.annotations_of(pod)
    if _scrape_config(annotations, sanitised=sanitised).get("port") != str(status_port):
        return pod
    return c.with_metadata(pod, annotations=_cleared(annotations, sanitised=sanitised))


def enabled(annotations: Mapping[str, str], *, mesh_setting: bool | None) -> bool:
    """Return whether metrics are merged: by annotation, else by mesh config, else yes."""
    asked = parse_bool(annotations.get(MERGE_METRICS, ""))
    if asked is not None:
        return asked
    return True if mesh_setting is None else mesh_setting


def _scraped(annotations: Mapping[str, str]) -> bool:
    for key, value in annotations.items():
        scrape = parse_bool(value) if _field_of(key, sanitised=True) == "scrape" else None
        if scrape is not None:
            return scrape
    return True


def _field_of(annotation: str, *, sanitised: bool) -> str | None:
    if not sanitised:
        return _EXACT.get(annotation)
    return _SANITISED.get(_INVALID.sub("_", annotation)) if annotation.startswith("prometheus") else None


def _scrape_config(annotations: Mapping[str, str], *, sanitised: bool) -> dict[str, str]:
    found = {}
    for key, value in annotations.items():
        field = _field_of(key, sanitised=sanitised)
        if field is not None:
            found[field] = value
    return found


def _cleared(annotations: Mapping[str, str], *, sanitised: bool) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if _field_of(key, sanitised=sanitised) is None}


def _config_json(found: Mapping[str, str]) -> str:
    # Field order of status.PrometheusScrapeConfiguration.
    return go_json({key: found.get(key, "") for key in ("scrape", "path", "port")})
