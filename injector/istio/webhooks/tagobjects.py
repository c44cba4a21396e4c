"""The other objects of a tag, which lead to istiod as Istio's own do: a Service, and for the tag ``default`` a validator.

Follows Istio 1.30.3: manifests/charts/istio-control/istio-discovery/templates/revision-tags-*.yaml,
manifests/charts/default/templates/validatingwebhook.yaml and istioctl/pkg/tag/generate.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from injector.istio.labels import DEFAULT_NAME, REVISION_LABEL, TAG_LABEL
from injector.istio.webhooks.configurations import CHART_LABELS

VALIDATOR_NAME: Final = "istiod-default-validator"
"""The ValidatingWebhookConfiguration of the tag ``default``."""
_CONFIG_GROUPS: Final = ("security", "networking", "telemetry", "extensions")
_ISTIOD_PORTS: Final = (("grpc-xds", 15010), ("https-dns", 15012), ("https-webhook", 443), ("http-monitoring", 15014))
_TARGET_PORTS: Final = {"https-webhook": 15017}


def tag_service(tag: str, revision: str, istio_namespace: str) -> dict[str, Any]:
    """Return the Service of a tag, which selects the istiod of its revision (since Istio 1.28)."""
    ports = [
        {"name": name, "port": port, "protocol": "TCP", "targetPort": _TARGET_PORTS.get(name, port)}
        for name, port in _ISTIOD_PORTS
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"istiod-revision-tag-{tag}",
            "namespace": istio_namespace,
            "labels": {**CHART_LABELS, "app": "istiod", "istio": "pilot", REVISION_LABEL: revision, TAG_LABEL: tag},
        },
        "spec": {"ports": ports, "selector": {"app": "istiod", REVISION_LABEL: revision}},
    }


def default_validator(revision: str, istio_namespace: str, current: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the ValidatingWebhookConfiguration of the tag ``default``, which calls the istiod of its revision (since Istio 1.12).

    The failure policy of ``current`` and its URL, that of an istiod outside the cluster, stay. istiod sets the caBundle and the failure
    policy of each configuration with its revision's label.
    """
    before: Mapping[str, Any] = next(iter((current or {}).get("webhooks") or ()), {})
    url = (before.get("clientConfig") or {}).get("url")
    name = "istiod" if revision == DEFAULT_NAME else f"istiod-{revision}"
    service = {"name": name, "namespace": istio_namespace, "path": "/validate"}
    webhook = {
        "name": "validation.istio.io",
        "clientConfig": {"url": url} if url else {"service": service},
        "rules": [
            {
                "operations": ["CREATE", "UPDATE"],
                "apiGroups": [f"{group}.istio.io" for group in _CONFIG_GROUPS],
                "apiVersions": ["*"],
                "resources": ["*"],
            }
        ],
        "failurePolicy": before.get("failurePolicy") or "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "objectSelector": {"matchExpressions": [{"key": REVISION_LABEL, "operator": "DoesNotExist"}]},
    }
    labels = {**CHART_LABELS, "app": "istiod", "istio": "istiod", REVISION_LABEL: revision, TAG_LABEL: DEFAULT_NAME}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": VALIDATOR_NAME, "labels": labels},
        "webhooks": [webhook],
    }
