"""Manifests of a cluster: namespaces, workloads, webhooks, and what an installation of Istio leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from injector.revisions.tags import WEIGHTS
from tests.factories import make_container
from tests.revisions.fakes import CONFIG

BROKEN = "policy: enabled\ntemplates:\n  sidecar: '{{ .x'\n"
"""An inject config whose template has no end."""


APIS = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet"), "apps/v1"),
    "Job": "batch/v1",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    **dict.fromkeys(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), "rbac.authorization.k8s.io/v1"),
}
"""The API of each kind that is not of the core."""


def make_object(
    kind: str, name: str, namespace: str = "", labels: dict[str, str] | None = None, **fields: Any
) -> dict[str, Any]:
    """An object; further keywords are its fields."""
    metadata = {"name": name, "labels": labels or {}, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": APIS.get(kind, "v1"), "kind": kind, "metadata": metadata, **fields}


def config_map(name: str, namespace: str, revision: str, **data: str) -> dict[str, Any]:
    return make_object("ConfigMap", name, namespace, {"istio.io/rev": revision}, data=data)


def revision_maps(namespace: str, revision: str, *, mesh: str = "{}", **data: str) -> tuple[dict[str, Any], ...]:
    """The two ConfigMaps of a revision; further keywords are keys of the injector's."""
    suffix = "" if revision == "default" else f"-{revision}"
    return (
        config_map(f"istio-sidecar-injector{suffix}", namespace, revision, **data),
        config_map(f"istio{suffix}", namespace, revision, mesh=mesh, meshNetworks="networks: {}"),
    )


def control_plane(
    namespace: str, revision: str, *, tag: str, config: str = CONFIG, platform: str = ""
) -> tuple[dict[str, Any], ...]:
    """What an installation of Istio leaves for the injector."""
    values = json.dumps({"global": {"tag": tag, "platform": platform}, "pilot": {"env": {}}})
    return revision_maps(namespace, revision, config=config, values=values)


def workload(
    kind: str,
    name: str,
    namespace: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    pod: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A workload. ``labels`` and ``annotations`` are those of its pods, ``pod`` has fields of their spec, and other keywords its own."""
    own = {"app": name}
    metadata = {"labels": {**own, **(labels or {})}, "annotations": annotations or {}}
    template = {"metadata": metadata, "spec": {"containers": [make_container()], **(pod or {})}}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return make_object(kind, name, namespace, spec={"selector": {"matchLabels": own}, "template": template, **spec})


def pod_webhook(name: str, client: dict[str, Any], *, namespace: str = "", **fields: Any) -> dict[str, Any]:
    """A webhook that is called for each pod that is created, or for those of one namespace; further keywords are its fields."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}} if namespace else {}
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "sideEffects": "None",
        "namespaceSelector": selector,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        **fields,
    }


def namespace_of(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return make_object("Namespace", name, labels=labels)


def account_of(namespace: str, name: str = "default") -> dict[str, Any]:
    """A service account: the one that pods have, where no controller makes it, or another."""
    return make_object("ServiceAccount", name, namespace)


def tag_of(name: str, revision: str, weights: dict[str, int] | None = None) -> dict[str, Any]:
    labels = {"istio.io/rev": revision, "istio.io/tag": name}
    tag = make_object("MutatingWebhookConfiguration", f"istio-revision-tag-{name}", labels=labels, webhooks=[])
    if weights is not None:
        tag["metadata"]["annotations"] = {WEIGHTS: json.dumps(weights)}
    return tag


def resource_of(
    group: str, kind: str, plural: str = "", *, version: str = "v1", scope: str = "Namespaced"
) -> dict[str, Any]:
    """A CustomResourceDefinition without a schema, and with a status."""
    plural = plural or f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    definition = make_object("CustomResourceDefinition", f"{plural}.{group}")
    definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
    definition["spec"] = {
        "group": group,
        "scope": scope,
        "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
        "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
    }
    return definition


def gateway_of(
    name: str, place: str, labels: Mapping[str, str] | None = None, class_name: str = "istio", **fields: Any
) -> dict[str, Any]:
    """A Gateway of the Gateway API with one listener; further keywords are its other fields."""
    metadata = {"name": name, "namespace": place, "labels": dict(labels or {})}
    listeners = [{"name": "http", "port": 80, "protocol": "HTTP"}]
    spec = {"gatewayClassName": class_name, "listeners": listeners}
    version = "gateway.networking.k8s.io/v1"
    return {"apiVersion": version, "kind": "Gateway", "metadata": metadata, "spec": spec, **fields}
