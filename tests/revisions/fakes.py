"""Revisions without the work of building one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from injector.istio.revision import Revision
from injector.revisions.source import RawRevision
from injector.revisions.verify import RecentPod, RecentPods
from tests.factories import make_pod, make_review

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

VALUES = '{"global": {"tag": "1.24.6"}}'


def fake_revision(name: str = "default", *, fingerprint: str = "f00d", version: str = "1.24") -> Revision:
    """A stand-in for a revision where only what identifies it matters."""
    fake = SimpleNamespace(
        name=name,
        written=name,
        istio_version=version,
        version_reason="stated",
        engine="go",
        fingerprint=fingerprint,
        origin=f"revisions/{name}",
        namespaces={},
        hermetic=True,
    )
    return cast("Revision", fake)


def make_raw(name: str = "default", *, config: str = CONFIG, **fields: Any) -> RawRevision:
    """A revision as text; further keywords are its other fields."""
    known: Mapping[str, Any] = {
        "values": VALUES,
        "mesh": None,
        "settings": {},
        "origin": f"revisions/{name}",
        **fields,
    }
    return RawRevision(name=name, config=config, **known)


def recent_pods(revision: str = "a", **fields: Any) -> dict[str, tuple[RecentPod, ...]]:
    """The pods that a revision injected last: one, of a workload; further keywords are of its metadata."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    meta = {"generateName": "db-", "ownerReferences": [owner], **fields}
    review = make_review({**make_pod(), "metadata": meta}, namespace="shop")
    recent = RecentPods()
    recent.keep(revision, json.dumps(review).encode(), pod={"metadata": meta}, namespace="shop", envs={})
    return recent.snapshot()
