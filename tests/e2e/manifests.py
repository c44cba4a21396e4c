"""What an installation of Istio leaves in a cluster, and the namespaces around it."""

from __future__ import annotations

import json
from typing import Any

from tests.revisions.fakes import CONFIG

BROKEN = "policy: enabled\ntemplates:\n  sidecar: '{{ .x'\n"
"""An inject config whose template has no end."""


def config_map(name: str, namespace: str, revision: str, **data: str) -> dict[str, Any]:
    labels = {"istio.io/rev": revision}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def control_plane(
    namespace: str, revision: str, *, tag: str, config: str = CONFIG, platform: str = ""
) -> tuple[dict[str, Any], ...]:
    """What an installation of Istio leaves for the injector."""
    suffix = "" if revision == "default" else f"-{revision}"
    values = json.dumps({"global": {"tag": tag, "platform": platform}, "pilot": {"env": {}}})
    return (
        config_map(f"istio-sidecar-injector{suffix}", namespace, revision, config=config, values=values),
        config_map(f"istio{suffix}", namespace, revision, mesh="{}", meshNetworks="networks: {}"),
    )


def namespace_of(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}


def account_of(namespace: str) -> dict[str, Any]:
    """The service account that pods have, where no controller makes it."""
    metadata = {"name": "default", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def tag_of(name: str, revision: str) -> dict[str, Any]:
    labels = {"istio.io/rev": revision, "istio.io/tag": name}
    metadata = {"name": f"istio-revision-tag-{name}", "labels": labels}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": [],
    }
