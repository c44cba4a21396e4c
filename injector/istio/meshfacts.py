"""What the injector itself reads of a mesh config, beside what templates read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from injector.gotemplate.values import Pointer

if TYPE_CHECKING:
    from injector.istio.proto import Message


@dataclass(frozen=True, slots=True)
class MeshFacts:
    """A mesh config, with the fields that post-processing and the template data need read once."""

    mesh_config: Message
    mesh_pointer: Pointer
    proxy_config: Pointer
    concurrency: int | None
    status_port: int
    interception_mode: str
    hold_application: bool
    prometheus_merge: bool | None
    inbound_traffic_policy: str
    image_type: str | None
    sds_uds_path: str
    enable_sds_token_mount: bool


def mesh_facts(mesh_config: Message) -> MeshFacts:
    """Read a parsed mesh config; the fields are those of istio.io/api mesh/v1alpha1, absent ones have protobuf's zero."""
    return mesh_config.derived(_mesh_facts)


def _mesh_facts(mesh_config: Message) -> MeshFacts:
    proxy = mesh_config.field("DefaultConfig")
    image = _field(proxy, "Image")
    policy = _field(mesh_config.field("InboundTrafficPolicy"), "Mode")
    return MeshFacts(
        mesh_config=mesh_config,
        mesh_pointer=Pointer("*v1alpha1.MeshConfig", mesh_config),
        proxy_config=proxy,
        concurrency=_number(_field(proxy, "Concurrency")),
        status_port=int(_field(proxy, "StatusPort") or 0),
        interception_mode=str(_field(proxy, "InterceptionMode") or "REDIRECT"),
        hold_application=bool(_wrapped(_field(proxy, "HoldApplicationUntilProxyStarts"))),
        prometheus_merge=_wrapped(mesh_config.field("EnablePrometheusMerge")),
        inbound_traffic_policy="localhost" if str(policy) == "LOCALHOST" else "passthrough",
        image_type=None if _target(image) is None else str(_field(image, "ImageType")),
        sds_uds_path=str(mesh_config.field("SdsUdsPath") or ""),
        enable_sds_token_mount=bool(mesh_config.field("EnableSdsTokenMount")),
    )


def _target(value: Any) -> Any:
    return getattr(value, "target", value)


def _field(value: Any, name: str) -> Any:
    target = _target(value)
    return None if target is None else target.field(name)


def _number(value: Any) -> int | None:
    # A plain number up to 1.6, wrapped later.
    return value if isinstance(value, int) else _wrapped(value)


def _wrapped(value: Any) -> Any:
    return _field(value, "Value")
