"""JSON data as the plain form of a message's fields, and back.

Follows golang/protobuf's jsonpb (v1.5.4), by which Istio reads and writes its mesh config (pkg/util/protomarshal, 1.30.3): fields go by
their JSON or their protobuf name, the JSON name first; enums by name or number, durations as Go's; of a oneof's members the last declared
one counts; null leaves a field alone, and is the zero value in a list or a map.

Plain forms: fields by JSON name, enums as numbers, durations as nanoseconds, wrapped scalars as the scalar, messages as nested mappings.
"""

from __future__ import annotations

import math
import re
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
# What jsonpb makes a number of, once it has taken the quotes away: JSON, white space and all. No range has more than 20 digits.
_INTEGER = re.compile(r" *(?P<digits>-?(?:0|[1-9][0-9]{0,19})) *", re.ASCII)
_NUMBER = re.compile(r" *-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)? *", re.ASCII)
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NULL: Final = "null"
_SHOWN: Final = 100


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
    members: dict[str, str] = {}
    for field in kind.fields:
        key = field.json if field.json in data else field.proto
        value = data.get(key)
        if value is None:
            continue
        found[field.json] = _parsed(field, value, where, f"{path}.{key}" if path else key)
        if field.oneof:
            found.pop(members.get(field.oneof, ""), None)
            members[field.oneof] = field.json
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
    if field.type in FREE_FORM:
        return value
    return _parsed_fields(message_type(field.type), {} if value is None else value, where, path)


def _parsed_enum(field: Field, value: Any, where: str, path: str) -> int:
    kind = enum_type(field.type)
    found = kind.numbers.get(value) if isinstance(value, str) else _integer("int32", value)
    if found is None:
        raise _wrong(where, path, f"one of {', '.join(kind.numbers)}", value)
    return found


def _parsed_duration(value: Any, where: str, path: str) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise ConfigError(f"`{path}`: bad Duration: {error}", where=where, hint="write it as 45s or 1m") from error
    raise _wrong(where, path, "a duration such as 45s", value)


def _parsed_scalar(kind: str, value: Any, where: str, path: str) -> Any:
    found: Any
    if kind in _RANGES:
        wanted, found = f"a whole number ({kind})", _integer(kind, value)
    elif kind in ("double", "float"):
        wanted, found = "a number", _float(value)
    elif kind == "bool":
        wanted, found = "true or false", _of_type(bool, value)
    else:
        wanted, found = "a string", _of_type(str, value)
    if found is None:
        raise _wrong(where, path, wanted, value)
    return found


def _of_type(kind: type, value: Any) -> Any:
    """Return a value of a type, the type's zero value for null, and None for others."""
    return kind() if value is None else value if isinstance(value, kind) else None


def _integer(kind: str, value: Any) -> int | None:
    """Return the whole number that jsonpb reads, None where it reads none in the kind's range."""
    if isinstance(value, str):
        match = _INTEGER.fullmatch(value) if "-" not in value or not kind.startswith("u") else None
        value = None if _is_null(value) else int(match["digits"]) if match else value
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        return 0
    low, high = _RANGES[kind]
    return value if type(value) is int and low <= value <= high else None


def _float(value: Any) -> float | None:
    """Return the number that jsonpb reads, None where it reads none."""
    if isinstance(value, str):
        if value in _NOT_FINITE:
            return _NOT_FINITE[value]
        value = None if _is_null(value) else float(value) if _NUMBER.fullmatch(value) else value
    if value is None:
        return 0.0
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else None


def _is_null(text: str) -> bool:
    return text.strip(" ") == _NULL


def _wrong(where: str, path: str, wanted: str, value: Any) -> ConfigError:
    shown = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else _shown(value)
    return ConfigError(f"`{path}` is {shown}", where=where, hint=f"make it {wanted}")


def _shown(value: Any) -> str:
    text = repr(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


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
    # A negative zero is set, as far as protobuf is concerned.
    return field.kind != "message" and not value and str(value) != "-0.0"


def _json_element(field: Field, value: Any) -> Any:
    if field.kind == "enum":
        return enum_type(field.type).names.get(value, value)
    kind = WRAPPERS.get(field.type, field.kind)
    if kind in ("int64", "uint64"):
        return str(value)
    if kind in ("double", "float"):
        return next((name for name, found in _NOT_FINITE.items() if str(found) == str(value)), value)
    if kind != "message":
        return value
    if field.type == DURATION:
        return json_duration(value)
    return value if field.type in FREE_FORM else write_fields(message_type(field.type), value)
