"""Revisions without the work of building one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from injector.revisions.source import RawRevision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.istio.revision import Revision

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
    )
    return cast("Revision", fake)


def make_raw(name: str = "default", *, config: str = CONFIG, **fields: Any) -> RawRevision:
    """A revision as text; further keywords are its other fields."""
    known: Mapping[str, Any] = {
        "values": VALUES,
        "mesh": None,
        "mesh_networks": None,
        "settings": {},
        "origin": f"revisions/{name}",
        **fields,
    }
    return RawRevision(name=name, config=config, **known)
