"""Revisions without the work of building one."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.istio.behaviours import behaviours_of, parse_minor
from injector.istio.config import parse_values
from injector.istio.proxyconfig import ProxyConfigs, read_proxy_config_resource
from injector.istio.revision import Revision
from injector.library import load_revisions
from injector.revisions.source import ClusterFacts, RawRevision, build
from injector.revisions.verify import RecentPod, RecentPods
from tests.factories import make_pod, make_review, owner_of

CONFIG = """\
policy: enabled
defaultTemplates: [sidecar]
templates:
  sidecar: |
    spec:
      containers:
      - name: istio-proxy
        image: proxy:{{ .Values.global.tag }}
"""
"""The smallest inject config that injects a proxy."""

WITH_GATEWAY = f"""\
{CONFIG}  gateway: |
    spec:
      containers:
      - name: istio-proxy
        image: proxy:{{{{ .Values.global.tag }}}}
  custom: |
    metadata:
      labels: {{custom: "yes"}}
"""
"""The same with a template for gateways, and one that adds a label."""

FACTS = RequestFacts("shop")
VALUES = '{"global": {"tag": "1.24.6"}}'


def saying(expression: str) -> str:
    """A config whose proxy has what ``expression`` gives for its image."""
    return CONFIG.replace("proxy:{{ .Values.global.tag }}", f'"{{{{ {expression} }}}}"')


def fake_revision(name: str = "default", *, fingerprint: str = "f00d", version: str = "1.24") -> Revision:
    """A stand-in for a revision where only what identifies it matters."""
    known = {"version_reason": "stated", "engine": "go", "namespaces": {}, "hermetic": True}
    known |= {"behaviours": behaviours_of(parse_minor(version))}
    own = {"name": name, "written": name, "istio_version": version, "origin": f"revisions/{name}"}
    known |= {"config": SimpleNamespace(templates={})}
    return cast("Revision", SimpleNamespace(**known, **own, fingerprint=fingerprint, values=parse_values(VALUES)))


def write_revision(folder: Path, config: str = CONFIG, values: str = "") -> Path:
    """Write the files of a revision into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config").write_text(config)
    if values:
        (folder / "values").write_text(values)
    return folder


def facts_with(*items: dict[str, Any]) -> ClusterFacts:
    """The facts of a cluster with these ProxyConfig resources in namespace `shop`, by their specs, named `a`, `b` and so on."""
    named = (
        {"metadata": {"namespace": "shop", "name": name}, "spec": spec}
        for name, spec in zip("abc", items, strict=False)
    )
    return ClusterFacts(proxy_configs=ProxyConfigs.of(map(read_proxy_config_resource, named)))


def make_raw(name: str = "default", *, config: str = CONFIG, **fields: Any) -> RawRevision:
    """A revision as text; further keywords are its other fields."""
    known: dict[str, Any] = {"values": VALUES, "mesh": None, "settings": {}, "origin": f"revisions/{name}"}
    return RawRevision(name=name, config=config, **known | fields)


def revision_of(
    minor: int = 30,
    config: str = CONFIG,
    *,
    name: str = "rev",
    engine: str = "go",
    env: dict[str, str] | None = None,
    **raw: Any,
) -> Revision:
    """A revision of Istio 1.``minor``; further keywords are of a raw revision."""
    settings = {"istioVersion": f"1.{minor}", "engine": engine, "env": env or {}}
    return build(make_raw(name, config=config, settings=settings, **raw))


def injected(revision: Revision, pod: dict[str, Any], facts: RequestFacts = FACTS) -> Injected:
    """The injection of a pod that gets one."""
    result = inject_pod(revision, pod, facts)
    assert isinstance(result, Injected)
    return result


@functools.cache
def embedded(name: str) -> Revision:
    """A revision that the project ships."""
    return load_revisions(embedded=True)[name]


def recent_pods(revision: str = "a", **fields: Any) -> dict[str, tuple[RecentPod, ...]]:
    """The pods that a revision injected last: one, of a workload; further keywords are of its metadata."""
    meta = {"generateName": "db-", "ownerReferences": [owner_of("db", "StatefulSet")], **fields}
    review = make_review({**make_pod(), "metadata": meta}, namespace="shop")
    recent = RecentPods()
    recent.keep(revision, json.dumps(review).encode(), pod={"metadata": meta}, namespace="shop", envs={})
    return recent.snapshot()
