"""The messages of istio.io/api that a mesh config is made of.

``meshschema.json`` is generated from the descriptors of istio.io/api (tests/istio/recorder/schema); ``_OLD_FIELDS`` adds what older
minors had and later ones dropped, so that their mesh configs load unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.istio.minor import Minor

MESH_CONFIG: Final = "istio.mesh.v1alpha1.MeshConfig"
PROXY_CONFIG: Final = "istio.mesh.v1alpha1.ProxyConfig"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = {
    "google.protobuf.BoolValue": "bool",
    "google.protobuf.Int32Value": "int32",
    "google.protobuf.UInt32Value": "uint32",
    "google.protobuf.Int64Value": "int64",
    "google.protobuf.StringValue": "string",
    "google.protobuf.DoubleValue": "double",
}
FREE_FORM: Final = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})


# Up to 1.6.14 a ProxyConfig's concurrency is a plain number, which is 0 and not nil where it is not set; from 1.7.8 on it is wrapped.
_UP_TO_1_6: Final = "@1.6"
_PLAIN: Final = {"concurrency": ("int32", ""), "defaultConfig": ("message", PROXY_CONFIG + _UP_TO_1_6)}


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its names in JSON, in protobuf and in Go, its kind, and the message or enum it holds."""

    json: str
    proto: str
    go: str
    kind: str
    type: str
    repeated: bool
    map_key: str
    oneof: str


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message: its fields in declaration order, and by each of their names."""

    name: str
    go_type: str
    fields: tuple[Field, ...]
    by_json: Mapping[str, Field]
    by_go: Mapping[str, Field]
    oneofs: frozenset[str]


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enumeration: numbers by name and names by number."""

    go_type: str
    numbers: Mapping[str, int]
    names: Mapping[int, str]


# Field, kind and the field it stands behind; the number of the minors that had each is in the mesh defaults.
_OLD_FIELDS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    PROXY_CONFIG: (
        ("parentShutdownDuration", DURATION, "drainDuration"),
        ("connectTimeout", DURATION, "zipkinAddress"),
    ),
    MESH_CONFIG: (
        ("mixerCheckServer", "string", ""),
        ("mixerReportServer", "string", "mixerCheckServer"),
        ("disablePolicyChecks", "bool", "mixerReportServer"),
        ("policyCheckFailOpen", "bool", "disablePolicyChecks"),
        ("sidecarToTelemetrySessionAffinity", "bool", "policyCheckFailOpen"),
        ("enableClientSidePolicyCheck", "bool", "sidecarToTelemetrySessionAffinity"),
        ("sdsUdsPath", "string", "enableTracing"),
        ("sdsRefreshDelay", DURATION, "sdsUdsPath"),
        ("enableSdsTokenMount", "bool", "sdsUdsPath"),
        ("sdsUseK8sSaJwt", "bool", "enableSdsTokenMount"),
        ("rdsRefreshDelay", DURATION, "sdsUdsPath"),
    ),
}


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = orjson.loads(files(__package__).joinpath("meshschema.json").read_bytes())
    return table


def mesh_config_type(minor: Minor) -> str:
    """Return the name of the minor's MeshConfig, for ``message_type``."""
    return MESH_CONFIG + (_UP_TO_1_6 if minor <= (1, 6) else "")


def proxy_config_type(minor: Minor) -> str:
    """Return the name of the minor's ProxyConfig, for ``message_type``."""
    return PROXY_CONFIG + (_UP_TO_1_6 if minor <= (1, 6) else "")


@cache
def message_type(name: str) -> MessageType:
    """Return a message type by its full protobuf name, or by one of ``mesh_config_type`` and ``proxy_config_type``."""
    base, variant, _ = name.partition(_UP_TO_1_6)
    raw = _table()["messages"][base]
    fields = [
        Field(
            json=item["json"],
            proto=item.get("proto", item["json"]),
            go=item["go"],
            kind=item["kind"],
            type=item.get("type", ""),
            repeated=item.get("repeated", False),
            map_key=item.get("mapKey", ""),
            oneof=item.get("oneof", ""),
        )
        for item in raw["fields"]
    ]
    _add_old(fields, base)
    if variant:
        kinds = [_PLAIN.get(field.json, (field.kind, field.type)) for field in fields]
        fields = [replace(field, kind=kind, type=of) for field, (kind, of) in zip(fields, kinds, strict=True)]
    by_json = {field.proto: field for field in fields} | {field.json: field for field in fields}
    oneofs = frozenset(field.oneof for field in fields if field.oneof)
    return MessageType(name, raw["goType"], tuple(fields), by_json, {field.go: field for field in fields}, oneofs)


def _add_old(fields: list[Field], name: str) -> None:
    known = {field.json for field in fields}
    for json_name, kind, after in _OLD_FIELDS.get(name, ()):
        if json_name in known:
            continue
        is_message = "." in kind
        field = Field(
            json=json_name,
            proto=_snake(json_name),
            go=json_name[0].upper() + json_name[1:],
            kind="message" if is_message else kind,
            type=kind if is_message else "",
            repeated=False,
            map_key="",
            oneof="",
        )
        place = next((index + 1 for index, other in enumerate(fields) if other.json == after), 0)
        fields.insert(place, field)


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


@cache
def enum_type(name: str) -> EnumType:
    """Return an enumeration by its full protobuf name."""
    raw = _table()["enums"][name]
    numbers = raw["values"]
    return EnumType(raw["goType"], numbers, {number: text for text, number in reversed(numbers.items())})
