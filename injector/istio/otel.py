"""OpenTelemetry resource attributes of a pod, for the env variable OTEL_RESOURCE_ATTRIBUTES.

Follows ``otelResourceAttributes`` in pkg/kube/inject/template.go (1.30.3), which follows the semantic conventions for Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.values import Pointer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PREFIX: Final = "resource.opentelemetry.io/service."
_SEMANTIC_CONVENTIONS: Final = "OTEL_SEMANTIC_CONVENTIONS"


def otel_resource_attributes(
    mesh: Any, annotations: Mapping[str, str], labels: Mapping[str, str], namespace: str, containers: Sequence[Any]
) -> str:
    """Return ``key=value`` pairs joined by commas; empty unless a provider asks for the semantic conventions.

    An annotation wins over what the pod shows. ``service.instance.id`` holds ``$(POD_NAME)``, which Kubernetes expands: the pod has
    no name yet when it is injected.
    """
    if not enriches(mesh):
        return ""
    found = {
        "namespace": annotations.get(_PREFIX + "namespace") or namespace,
        "version": annotations.get(_PREFIX + "version")
        or labels.get("app.kubernetes.io/version")
        or (_image_version(containers[0].field("Image")) if len(containers) == 1 else ""),
        "instance.id": annotations.get(_PREFIX + "instance.id")
        or (f"{namespace}.$(POD_NAME).{containers[0].field('Name')}" if containers else ""),
    }
    return ",".join(f"service.{key}={value}" for key, value in found.items() if value)


def enriches(mesh: Any) -> bool:
    """Return whether a provider of a mesh config asks for the semantic conventions; without one there are no attributes at all."""
    message = mesh.target if isinstance(mesh, Pointer) else mesh
    return message is not None and bool(message.derived(_enriches))


def _enriches(message: Any) -> bool:
    for provider in message.field("ExtensionProviders"):
        otel = _call(_target(provider), "GetOpentelemetry")
        if otel is not None and str(_call(otel, "GetServiceAttributeEnrichment")) == _SEMANTIC_CONVENTIONS:
            return True
    return False


def _call(message: Any, getter: str) -> Any:
    method = message.method(getter)
    return _target(method.call()) if method is not None else None


def _target(value: Any) -> Any:
    return value.target if isinstance(value, Pointer) else value


def _image_version(image: str) -> str:
    name, _, digest = image.partition("@")
    slash, colon = name.rfind("/"), name.rfind(":")
    tag = name[colon + 1 :] if colon > slash else ""
    return "@".join(part for part in (tag, digest) if part)
