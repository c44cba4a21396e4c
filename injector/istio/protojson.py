"""JSON data as the plain form of a message's fields, and back.

Follows golang/protobuf's jsonpb, by which Istio reads and writes its mesh config (pkg/util/protomarshal, 1.30.3): fields go by their
JSON or their protobuf name, enums by name or number, durations as Go's; what a document sets replaces what was there, message by
message; null leaves a field alone.

Plain forms: fields by JSON name, enums as numbers, durations as nanoseconds, wrapped scalars as the scalar, messages as nested mappings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError
from injector.istio.duration import json_duration, parse_duration
from injector.istio.protoschema import DURATION, FREE_FORM, WRAPPERS, Field, MessageType, enum_type, message_type

if TYPE_CHECKING:
    from collections.abc import Mapping

_RANGES: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}


def read_fields(kind: MessageType, data: Any, *, where: str = "") -> dict[str, Any]:
    """Return what JSON data sets of a message; unknown fields are ignored, as Istio ignores them.

    Raises:
        ConfigError: it is no mapping, or a field has the wrong type; with its path.
    """
    return _parsed_fields(kind, data, where, "")


def _parsed_fields(kind: MessageType, data: Any, where: str, path: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _wrong(where, path, f"a {kind.name.rpartition('.')[2]}", data)
    found: dict[str, Any] = {}
    for key, value in data.items():
        field = kind.by_json.get(key)
        if field is None or value is None:
            continue
        if field.oneof:
            found = {name: item for name, item in found.items() if kind.by_json[name].oneof != field.oneof}
        found[field.json] = _parsed(field, value, where, f"{path}.{key}" if path else key)
    return found


def _parsed(field: Field, value: Any, where: str, path: str) -> Any:
    if field.map_key:
        if not isinstance(value, dict):
            raise _wrong(where, path, "a mapping", value)
        return {str(key): _parsed_element(field, item, where, f"{path}.{key}") for key, item in value.items()}
    if field.repeated:
        if not isinstance(value, list):
            raise _wrong(where, path, "a list", value)
        return [_parsed_element(field, item, where, f"{path}[{index}]") for index, item in enumerate(value)]
    return _parsed_element(field, value, where, path)


def _parsed_element(field: Field, value: Any, where: str, path: str) -> Any:
    if field.kind == "enum":
        return _parsed_enum(field, value, where, path)
    if field.kind != "message":
        return _parsed_scalar(field.kind, value, where, path)
    if field.type == DURATION:
        return _parsed_duration(value, where, path)
    if field.type in WRAPPERS:
        return _parsed_scalar(WRAPPERS[field.type], value, where, path)
    return value if field.type in FREE_FORM else _parsed_fields(message_type(field.type), value, where, path)


def _parsed_enum(field: Field, value: Any, where: str, path: str) -> int:
    kind = enum_type(field.type)
    if isinstance(value, str) and value in kind.numbers:
        return kind.numbers[value]
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _wrong(where, path, f"one of {', '.join(kind.numbers)}", value)


def _parsed_duration(value: Any, where: str, path: str) -> int:
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise ConfigError(f"`{path}`: bad Duration: {error}", where=where, hint="write it as 45s or 1m") from error
    raise _wrong(where, path, "a duration such as 45s", value)


def _parsed_scalar(kind: str, value: Any, where: str, path: str) -> Any:
    if kind in _RANGES:
        return _parsed_integer(kind, value, where, path)
    if kind in ("double", "float"):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise _wrong(where, path, "a number", value)
    wanted = bool if kind == "bool" else str
    if not isinstance(value, wanted):
        raise _wrong(where, path, "true or false" if wanted is bool else "a string", value)
    return value


def _parsed_integer(kind: str, value: Any, where: str, path: str) -> int:
    low, high = _RANGES[kind]
    if isinstance(value, str) and value.lstrip("-").isdecimal() and value.isascii():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _wrong(where, path, f"a whole number ({kind})", value)
    return value


def _wrong(where: str, path: str, wanted: str, value: Any) -> ConfigError:
    shown = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
    return ConfigError(f"`{path}` is {shown}", where=where, hint=f"make it {wanted}")


def write_fields(kind: MessageType, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields as jsonpb writes them: in declaration order, zero values left out."""
    found: dict[str, Any] = {}
    for field in kind.fields:
        value = values.get(field.json)
        if value is None or (not field.oneof and _is_zero(field, value)):
            continue
        if field.map_key:
            found[field.json] = {key: _json_element(field, value[key]) for key in sorted(value)}
        elif field.repeated:
            found[field.json] = [_json_element(field, item) for item in value]
        else:
            found[field.json] = _json_element(field, value)
    return found


def _is_zero(field: Field, value: Any) -> bool:
    if field.map_key or field.repeated:
        return not value
    return field.kind != "message" and not value


def _json_element(field: Field, value: Any) -> Any:
    if field.kind == "enum":
        return enum_type(field.type).names.get(value, value)
    kind = WRAPPERS.get(field.type, field.kind)
    if kind in ("int64", "uint64"):
        return str(value)
    if kind != "message":
        return value
    if field.type == DURATION:
        return json_duration(value)
    return value if field.type in FREE_FORM else write_fields(message_type(field.type), value)
