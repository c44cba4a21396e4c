"""Builders of what tests send: a pod and an AdmissionReview, valid as they are, changed by keyword. And of what templates read."""

from __future__ import annotations

from typing import Any

from injector.istio.behaviours import NEWEST
from injector.istio.goview import GoStruct, NamespacedName
from injector.istio.mesh import mesh_facts, parse_mesh_config
from injector.istio.template import TemplateData

UID = "6f1d3c9e-3c1f-4b6e-9b0a-2f7f5a0c1d2e"
"""The uid of a review made here; the answer must carry it."""


def make_container(name: str = "app", **fields: Any) -> dict[str, Any]:
    """A container of a pod."""
    return {"name": name, "image": f"registry.example.com/{name}:1.0", **fields}


def named(*names: str) -> list[dict[str, Any]]:
    """Items of a list that have nothing but a name."""
    return [{"name": name} for name in names]


def proxy_of(pod: dict[str, Any]) -> dict[str, Any]:
    """The proxy among the containers and init containers of a pod."""
    containers = [*pod["spec"].get("containers", []), *pod["spec"].get("initContainers", [])]
    proxy: dict[str, Any] = next(container for container in containers if container["name"] == "istio-proxy")
    return proxy


def make_pod(
    name: str = "hello",
    *,
    namespace: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    containers: list[dict[str, Any]] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with one container; further keywords are fields of its spec."""
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [make_container()] if containers is None else containers, **spec},
    }


def owner_of(name: str, kind: str = "ReplicaSet", version: str = "apps/v1") -> dict[str, Any]:
    """The reference of an object to its controller."""
    return {"apiVersion": version, "kind": kind, "name": name, "uid": "1", "controller": True}


def created_by(pod: dict[str, Any], name: str, kind: str = "ReplicaSet", version: str = "apps/v1") -> dict[str, Any]:
    """The pod as a controller creates it: with a generated name and an owner."""
    owned = {"generateName": f"{name}-", "ownerReferences": [owner_of(name, kind, version)]}
    return {**pod, "metadata": {**pod["metadata"], **owned}}


def make_review(
    pod: dict[str, Any] | None = None,
    *,
    namespace: str = "default",
    uid: str = UID,
    version: str = "v1",
    **request: Any,
) -> dict[str, Any]:
    """An AdmissionReview that asks about creating ``pod``; further keywords are fields of its request."""
    return {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": make_pod() if pod is None else pod,
            "oldObject": None,
            "dryRun": False,
            **request,
        },
    }


def make_template_data(pod: dict[str, Any], *, mesh: str | None = None, **fields: Any) -> TemplateData:
    """The data of templates for ``pod`` in the newest minor; further keywords are fields of it."""
    facts = mesh_facts(parse_mesh_config(mesh, NEWEST))
    return TemplateData(
        {
            "TypeMeta": GoStruct("v1.TypeMeta", {"kind": "Deployment", "apiVersion": "apps/v1"}),
            "DeploymentMeta": NamespacedName("shop", "cart"),
            "ObjectMeta": GoStruct("v1.ObjectMeta", pod["metadata"]),
            "Spec": GoStruct("v1.PodSpec", pod["spec"]),
            "ProxyConfig": facts.proxy_config,
            "MeshConfig": facts.mesh_pointer,
            "Values": {"global": {"hub": "h"}},
            "Revision": "canary",
            "NativeSidecars": True,
            "ProxyImage": "h/proxyv2:t",
            "ProxyUID": 1337,
            "ProxyGID": 1338,
            "InboundTrafficPolicyMode": "passthrough",
            "CompliancePolicy": "fips-140-2",
            **fields,
        }
    )
