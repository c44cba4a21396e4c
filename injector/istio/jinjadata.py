"""What Jinja2 templates see: Istio's template data as plain mappings, by Kubernetes' and Istio's JSON names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.errors import AnnotationError, DataError
from injector.gotemplate.values import Pointer
from injector.istio.meshconfig import proto_to_json
from injector.kube.serial import load_json
from injector.kube.typed import go_struct_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from injector.istio.minor import Minor
    from injector.istio.template import TemplateData


_PREFIX: Final = "sidecar.istio.io/"
_RESOURCES: Final = {
    "proxyCPU": ("requests", "cpu"),
    "proxyMemory": ("requests", "memory"),
    "proxyCPULimit": ("limits", "cpu"),
    "proxyMemoryLimit": ("limits", "memory"),
}


def jinja_data(data: TemplateData, minor: Minor) -> dict[str, Any]:
    """Return the template data for Jinja2.

    ``pod`` has ``metadata`` and ``spec``; ``annotations`` and ``labels`` are the pod's, ``annotation(name, default)`` and
    ``label(name, default)`` read them; ``proxy_config`` and ``mesh`` are JSON, ``proxy_config_json`` is what goes into the proxy's
    environment.
    """
    metadata, spec = data.field("ObjectMeta").data, data.field("Spec").data
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    owner, kind = data.field("DeploymentMeta"), data.field("TypeMeta")
    return {
        "pod": {"metadata": metadata, "spec": spec},
        "annotations": annotations,
        "labels": labels,
        "annotation": _reader(annotations),
        "label": _reader(labels),
        "containers": spec.get("containers") or [],
        "pod_ports": lambda: pod_ports(spec.get("containers") or ()),
        "resources": lambda default: resources(annotations, default),
        "references": lambda names: [{"name": name} for name in names],
        "env_entries": lambda entries: [{"name": name, "value": entries[name]} for name in sorted(entries)],
        "named_entries": lambda name: named_entries(annotations, name),
        "values": data.field("Values"),
        "mesh": _json(data.field("MeshConfig")),
        "proxy_config": _json(data.field("ProxyConfig")),
        "proxy_config_json": proto_to_json(data.field("ProxyConfig").target, minor),
        "istio_minor": minor[1],
        "revision": data.field("Revision"),
        "native_sidecars": data.field("NativeSidecars"),
        "proxy_image": data.field("ProxyImage"),
        "proxy_uid": int(data.field("ProxyUID")),
        "proxy_gid": int(data.field("ProxyGID")),
        "inbound_traffic_policy_mode": data.field("InboundTrafficPolicyMode"),
        "compliance_policy": data.field("CompliancePolicy"),
        "workload": {
            "name": owner.field("Name"),
            "namespace": owner.field("Namespace"),
            "kind": kind.field("Kind"),
            "api_version": kind.field("APIVersion"),
        },
    }


def pod_ports(containers: Iterable[Mapping[str, Any]]) -> str:
    """Return the ports of all containers as the JSON text that the agent reads from ISTIO_META_POD_PORTS."""
    ports = [go_struct_json(port, "v1.ContainerPort") for item in containers for port in item.get("ports") or ()]
    return "[\n" + "".join(f"    {',' if index else ''}{port}\n" for index, port in enumerate(ports)) + "]"


def resources(annotations: Mapping[str, str], default: Any) -> dict[str, Any]:
    """Return the proxy's resources: those of the pod's annotations if it has any, else ``default``."""
    asked = {key: annotations[_PREFIX + key] for key in _RESOURCES if _PREFIX + key in annotations}
    if not asked:
        return dict(default)
    found: dict[str, dict[str, str]] = {}
    for key, value in asked.items():
        kind, resource = _RESOURCES[key]
        found.setdefault(kind, {})[resource] = value
    return found


def named_entries(annotations: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """Return the entries of an annotation such as ``sidecar.istio.io/userVolume``: a JSON object of specs by name.

    Raises:
        AnnotationError: it is no such object.
    """
    if name not in annotations:
        return []
    where = f"metadata.annotations[{name}]"
    hint = "make it a JSON object of names and specs"
    try:
        entries = load_json(annotations[name])
    except DataError as error:
        raise AnnotationError(error.what, where=where, hint=hint) from error
    if not isinstance(entries, dict) or not all(isinstance(spec, dict) for spec in entries.values()):
        raise AnnotationError("it is no object of objects", where=where, hint=hint)
    return [{**entries[key], "name": key} for key in sorted(entries)]


class _Reader:
    """A function of a name and a default."""

    __slots__ = ("entries",)

    def __init__(self, entries: Mapping[str, str]) -> None:
        self.entries = entries

    def __call__(self, name: str, default: Any = "") -> Any:
        return self.entries.get(name, default)


def _reader(entries: Mapping[str, str]) -> _Reader:
    return _Reader(entries)


def _json(value: Any) -> Any:
    target = value.target if isinstance(value, Pointer) else value
    return target.json_value()
