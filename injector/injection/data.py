"""The data that templates get.

Follows ``SidecarTemplateData``, ``ProxyImage`` and ``imageURL`` in pkg/kube/inject/inject.go (1.30.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.values import Int64
from injector.injection import containers as c
from injector.injection.concurrency import estimated_concurrency
from injector.injection.openshift import proxy_ids
from injector.istio.goview import string_struct, view
from injector.istio.template import TemplateData

if TYPE_CHECKING:
    from injector.gotemplate.values import Struct
    from injector.injection.parameters import Parameters
    from injector.istio.minor import Minor
    from injector.istio.revision import Revision

PROXY_IMAGE_TYPE: Final = "sidecar.istio.io/proxyImageType"
_DEFAULT_PROXY_IMAGE: Final = "proxyv2"
_NAMESPACED_NAME_SINCE: Final[Minor] = (1, 22)
_KNOWN_IMAGE_TYPES: Final = ("distroless", "debug")


def template_data(params: Parameters, stripped: c.Pod) -> TemplateData:
    """Return the template data for one injection; ``stripped`` is the pod without what an earlier injection added."""
    revision, workload = params.revision, params.workload
    uid, gid = proxy_ids(params.namespace_meta)
    return TemplateData(
        {
            "TypeMeta": string_struct("v1.TypeMeta", Kind=workload.kind, APIVersion=workload.api_version),
            "DeploymentMeta": _deployment_meta(params),
            "ObjectMeta": view("v1.ObjectMeta", _seen(stripped.get("metadata") or {}, params.hidden_label)),
            "Spec": view("v1.PodSpec", stripped.get("spec") or {}),
            "ProxyConfig": params.proxy_config.proxy_config,
            "MeshConfig": params.mesh_in_data.mesh_pointer,
            "Values": revision.values.tree,
            "Revision": params.written_revision,
            "NativeSidecars": params.native_sidecar,
            "EstimatedConcurrency": estimated_concurrency(params),
            "ProxyImage": proxy_image(params, stripped),
            "ProxyUID": Int64(uid),
            "ProxyGID": Int64(gid),
            "InboundTrafficPolicyMode": params.mesh.inbound_traffic_policy,
            "CompliancePolicy": revision.env.get("COMPLIANCE_POLICY", ""),
        },
        # A Jinja2 revision is ours or the user's own: no minor of Istio limits what it sees.
        only=None if revision.engine == "jinja2" else revision.behaviours.template_fields,
    )


def _seen(metadata: dict[str, Any], hidden_label: str) -> dict[str, Any]:
    labels = metadata.get("labels") or {}
    if not hidden_label or hidden_label not in labels:
        return metadata
    return {**metadata, "labels": {key: value for key, value in labels.items() if key != hidden_label}}


def namespaced_name(revision: Revision) -> bool:
    """Return whether templates get no more of the workload's metadata than its name and namespace."""
    return revision.minor >= _NAMESPACED_NAME_SINCE


def _deployment_meta(params: Parameters) -> Struct:
    workload = params.workload
    if namespaced_name(params.revision):
        return string_struct("types.NamespacedName", Namespace=workload.namespace, Name=workload.name)
    return view("v1.ObjectMeta", dict(params.owner_meta))


def proxy_image(params: Parameters, pod: c.Pod) -> str:
    """Return the proxy's image: hub, name and tag of the values, the type by annotation, ProxyConfig or values."""
    values, revision = params.revision.values, params.revision
    by_values = values.variant if revision.behaviours.values_variant else ""
    image_type = params.proxy_config.image_type
    wanted = c.annotations_of(pod).get(PROXY_IMAGE_TYPE, by_values if image_type is None else image_type)
    return f"{values.hub}/{values.proxy_image or _DEFAULT_PROXY_IMAGE}:{tag_of_type(values.tag, wanted)}"


def tag_of_type(tag: str, image_type: str) -> str:
    """Return the tag with its known type suffix, if any, replaced by ``image_type``; ``default`` has no suffix."""
    if not image_type:
        return tag
    suffix = next((f"-{known}" for known in _KNOWN_IMAGE_TYPES if tag.endswith(f"-{known}")), "")
    bare = tag.removesuffix(suffix)
    return bare if image_type == "default" else f"{bare}-{image_type}"
