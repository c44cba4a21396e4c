"""What the installers of Istio leave in a cluster, for the pages of ``docs/installers``.

The names, labels and owners are those of Istio's chart `istiod` 1.30.3, of the sail-operator's code of 2026-08-22, of Rancher's chart,
and of Microsoft's pages about the add-on of AKS. Webhooks have the selectors of ``tests/istio/goldens.yaml``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from tests.manifests import control_plane, make_object, namespace_of, workload

Object = dict[str, Any]

ISTIO, AZURE, EXTERNAL = "istio-system", "aks-istio-system", "external-istiod"
SAIL = "sailoperator.io"
_AKS_REQUIREMENTS = (
    {"key": "control-plane", "operator": "DoesNotExist"},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
)


def _webhooks(name: str, home: str, *, tag: str = "", url: str = "", **metadata: Any) -> Object:
    """Return the configuration of a revision, or of its tag, that leads to istiod; further keywords are of its metadata."""
    service = "istiod" if name == "default" else f"istiod-{name}"
    options = WebhookOptions(Endpoint(service, home, url=url or None), istio_namespace=home)
    item = tag_webhook(tag, name, options) if tag else revision_webhook(name, options)
    labels = {**item["metadata"]["labels"], **metadata.pop("labels", {})}
    for webhook in item["webhooks"]:
        if not url:  # all that calls istiod has this path
            webhook["clientConfig"]["service"]["path"] = "/inject"
    return {**item, "metadata": {**item["metadata"], **metadata, "labels": labels}}


def _helm(release: str) -> dict[str, Any]:
    """Return the metadata by which Helm knows an object."""
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": ISTIO}
    return {"annotations": annotations, "labels": {"app.kubernetes.io/managed-by": "Helm"}}


def helm() -> list[Object]:
    """Two releases of the chart `istiod`, the first of which has a tag."""
    return [
        *_planes(ISTIO, {"1-24": "1.24.6", "1-30": "1.30.3"}),
        *(_webhooks(name, ISTIO, **_helm(f"istiod-{name}")) for name in ("1-24", "1-30")),
        _webhooks("1-24", ISTIO, tag="prod", **_helm("istiod-1-24")),
    ]


def istioctl() -> list[Object]:
    """Two revisions that istioctl installed, and a tag."""
    return [
        *_planes(ISTIO, {"1-24": "1.24.6", "1-30": "1.30.3"}),
        *(_webhooks(name, ISTIO) for name in ("1-24", "1-30")),
        _webhooks("1-24", ISTIO, tag="prod"),
    ]


def aks() -> list[Object]:
    """The add-on in an upgrade: two revisions, with the requirements that AKS adds to all webhooks, and istiod."""
    items = [_webhooks(name, AZURE) for name in ("asm-1-27", "asm-1-28")]
    for webhook in (webhook for item in items for webhook in item["webhooks"]):
        webhook["namespaceSelector"] = copy.deepcopy(webhook["namespaceSelector"])
        webhook["namespaceSelector"]["matchExpressions"] += _AKS_REQUIREMENTS
    shared = make_object(
        "ConfigMap", "istio-shared-configmap-asm-1-27", AZURE, data={"mesh": "accessLogFile: /dev/stdout"}
    )
    return [
        *_planes(AZURE, {"asm-1-27": "1.27.3", "asm-1-28": "1.28.5"}),
        shared,
        workload("Deployment", "istiod-asm-1-27", AZURE, replicas=0),
        *items,
    ]


def rancher() -> list[Object]:
    """The control plane without a revision that Rancher's Job installed, and a revision beside it."""
    return [
        *_planes(ISTIO, {"default": "1.24.1", "1-30": "1.30.3"}),
        workload("Deployment", "istiod", ISTIO, replicas=0),
        *(_webhooks(name, ISTIO) for name in ("default", "1-30")),
    ]


def external() -> list[Object]:
    """Two revisions of an external control plane, as the profile `remote` and the values of the page leave them."""
    url = "https://istiod.example.com:15017/inject/cluster/remote/net/network2"
    return [
        *_planes(EXTERNAL, {"1-24": "1.24.6", "1-30": "1.30.3"}),
        *(_webhooks(name, EXTERNAL, url=url) for name in ("1-24", "1-30")),
    ]


def sail() -> list[Object]:
    """The objects of two revisions and a tag. ``SAIL_OWNERS`` names the owners of its webhooks."""
    names = {"default-v1-28-5": "1.28.5", "default-v1-30-3": "1.30.3"}
    return [
        *_planes(ISTIO, names),
        *(_webhooks(name, ISTIO) for name in names),
        _webhooks("default-v1-28-5", ISTIO, tag="prod"),
    ]


SAIL_RESOURCES: Sequence[Object] = (
    {"kind": "Istio", "metadata": {"name": "default"}, "spec": {"namespace": ISTIO, "version": "v1.30.3"}},
    *(
        {"kind": "IstioRevision", "metadata": {"name": f"default-v1-{minor}"}, "spec": {"namespace": ISTIO}}
        for minor in ("28-5", "30-3")
    ),
    {
        "kind": "IstioRevisionTag",
        "metadata": {"name": "prod"},
        "spec": {"targetRef": {"kind": "IstioRevision", "name": "default-v1-28-5"}},
    },
)
"""The resources of the sail-operator."""
SAIL_OWNERS = {
    "istio-sidecar-injector-default-v1-28-5": ("IstioRevision", "default-v1-28-5"),
    "istio-sidecar-injector-default-v1-30-3": ("IstioRevision", "default-v1-30-3"),
    "istio-revision-tag-prod": ("IstioRevisionTag", "prod"),
}
"""The owner of each webhook configuration."""


def _planes(home: str, releases: dict[str, str]) -> list[Object]:
    return [
        namespace_of(home),
        *(item for name, release in releases.items() for item in control_plane(home, name, tag=release)),
    ]


INSTALLERS: dict[str, Callable[[], list[Object]]] = {
    "helm": helm,
    "istioctl": istioctl,
    "sail-operator": sail,
    "aks": aks,
    "rancher": rancher,
    "external": external,
}
"""The objects of each page."""
