"""Go's typed view of a JSON object: what encoding/json leaves of it when it decodes into a struct and encodes it again.

Follows encoding/json on the structs of k8s.io/api: absent and empty ``omitempty`` fields go, null is absent, names match in any case,
quantities come out canonical, wrong types are errors with Go's words. Fields that the structs do not have are kept.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.errors import ManifestError
from injector.kube.quantity import canonical_quantity
from injector.kube.schema import OPAQUE, FieldType, StructType, struct_type, underlying
from injector.kube.serial import go_json

if TYPE_CHECKING:
    from collections.abc import Callable

Normaliser: TypeAlias = "Callable[[Any, str], Any]"

_RANGES: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "int": (-(2**63), 2**63 - 1),
    "uint8": (0, 255),
    "uint32": (0, 2**32 - 1),
}


def normalise(value: Any, type_name: str) -> Any:
    """Return ``value`` as Go reads and writes it as ``type_name``, such as ``v1.Pod``.

    Raises:
        ManifestError: a value has another type than its field; with the path of keys.
    """
    return _normaliser(type_name)(value, "")


@cache
def _normaliser(type_name: str) -> Normaliser:
    special = _SPECIAL.get(type_name)
    if special is not None:
        return special
    if type_name.startswith("*"):
        return _normaliser(type_name[1:])
    if type_name.startswith("[]"):
        return _list_normaliser(type_name)
    if type_name.startswith("map["):
        return _map_normaliser(type_name)
    struct = struct_type(type_name)
    if struct is not None:
        return _struct_normaliser(struct)
    base = underlying(type_name)
    if base == type_name:
        raise AssertionError(f"unknown type {type_name}")
    return _normaliser(base)


def _struct_normaliser(struct: StructType) -> Normaliser:
    prepared: dict[str, tuple[str, Normaliser, bool]] = {}
    folded = {name.lower(): name for name in reversed(struct.by_json)}

    def field_of(key: str) -> tuple[str, Normaliser, bool] | None:
        name = key if key in struct.by_json else folded.get(key.lower())
        if name is None:
            return None
        field = struct.by_json[name]
        return name, _normaliser(field.type), _drops_empty(field)

    def normal(value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, path, struct.name)
        result: dict[str, Any] = {}
        for key, item in value.items():
            if item is None:
                continue
            entry = prepared.get(key)
            if entry is None:
                entry = field_of(key)
                if entry is None:
                    result[key] = item
                    continue
                prepared[key] = entry
            name, convert, drops_empty = entry
            converted = convert(item, f"{path}.{name}" if path else name)
            if converted or not drops_empty:
                result[name] = converted
        return result

    return normal


def _drops_empty(field: FieldType) -> bool:
    """Return whether Go leaves the field out when it is empty: omitempty, on anything but a pointer or a struct."""
    if not field.omitempty or field.type.startswith("*") or field.type in OPAQUE:
        return False
    return struct_type(field.type) is None


def _list_normaliser(type_name: str) -> Normaliser:
    element = _normaliser(type_name[2:])

    def normal(value: Any, path: str) -> Any:
        if type(value) is not list:
            raise _mismatch(value, path, type_name)
        return [element({} if item is None else item, path) for item in value]

    return normal


def _map_normaliser(type_name: str) -> Normaliser:
    element_type = type_name.partition("]")[2]
    element = _normaliser(element_type)
    zero = "" if underlying(element_type) == "string" else None

    def normal(value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, path, type_name)
        return {key: zero if item is None else element(item, path) for key, item in value.items()}

    return normal


def _string(value: Any, path: str) -> Any:
    if isinstance(value, str):
        return value
    raise _mismatch(value, path, "string")


def _bool(value: Any, path: str) -> Any:
    if isinstance(value, bool):
        return value
    raise _mismatch(value, path, "bool")


def _integer(kind: str) -> Normaliser:
    low, high = _RANGES[kind]

    def normal(value: Any, path: str) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _mismatch(value, path, kind)
        if not low <= value <= high:
            raise _mismatch(value, path, kind, shown=f"number {value}")
        return value

    return normal


def _bytes(value: Any, path: str) -> Any:
    return _string(value, path)


def _quantity(value: Any, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _mismatch(value, path, "resource.Quantity")
    try:
        return canonical_quantity(value.strip() if isinstance(value, str) else go_json(value))
    except ManifestError:
        raise
    except Exception as error:
        raise ManifestError(str(error), where=path, hint="write a quantity such as 100m or 1Gi") from error


def _int_or_string(value: Any, path: str) -> Any:
    return value if isinstance(value, str) else _integer("int32")(value, path)


def _json(value: Any, _path: str) -> Any:
    return value


_SPECIAL: Final[dict[str, Normaliser]] = {
    "string": _string,
    "bool": _bool,
    **{kind: _integer(kind) for kind in _RANGES},
    "[]uint8": _bytes,
    "resource.Quantity": _quantity,
    "intstr.IntOrString": _int_or_string,
    "v1.Time": _string,
    "v1.MicroTime": _string,
    "v1.FieldsV1": _json,
    "interface {}": _json,
}

_KINDS: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def _mismatch(value: Any, path: str, wanted: str, *, shown: str = "") -> ManifestError:
    found = shown or _KINDS.get(type(value), "null")
    what = f"json: cannot unmarshal {found} into Go value of type {wanted}"
    return ManifestError(what, where=path, hint=f"make it {_ASKED.get(wanted, 'what the API asks for')}")


_ASKED: Final = {"string": "a string", "bool": "true or false", "int32": "a whole number", "int64": "a whole number"}


def go_encode(value: Any, type_name: str, *, creation_timestamp: bool = False) -> Any:
    """Return a normalised value as Go encodes it: fields in Go's order, zero values without ``omitempty`` written out.

    ``creation_timestamp``: Kubernetes' libraries before 0.34 also print ``creationTimestamp: null``.
    """
    if type_name.startswith("*"):
        return None if value is None else go_encode(value, type_name[1:], creation_timestamp=creation_timestamp)
    if type_name.startswith("[]") and type_name != "[]uint8":
        if value is None:
            return None
        return [go_encode(item, type_name[2:], creation_timestamp=creation_timestamp) for item in value]
    base = underlying(type_name)
    if base.startswith("map["):
        if value is None:
            return None
        element = base.partition("]")[2]
        return {key: go_encode(value[key], element, creation_timestamp=creation_timestamp) for key in sorted(value)}
    struct = struct_type(base)
    if struct is None:
        return _ZEROS.get(base) if value is None else value
    return _encode_struct(value or {}, struct, creation_timestamp=creation_timestamp)


_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bool": False,
    **dict.fromkeys(_RANGES, 0),
    "resource.Quantity": "0",
    "intstr.IntOrString": 0,
}


def _encode_struct(value: dict[str, Any], struct: StructType, *, creation_timestamp: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for field in struct.fields:
        if field.inline:
            inner = struct_type(field.type.lstrip("*"))
            if inner is not None:
                names = {key: value[key] for key in inner.by_json if key in value}
                result.update(_encode_struct(names, inner, creation_timestamp=creation_timestamp))
            continue
        if field.json not in value and _left_out(field, creation_timestamp=creation_timestamp):
            continue
        result[field.json] = go_encode(value.get(field.json), field.type, creation_timestamp=creation_timestamp)
    result.update({key: item for key, item in value.items() if key not in struct.by_json})
    return result


def _left_out(field: FieldType, *, creation_timestamp: bool) -> bool:
    if field.json == "creationTimestamp":
        return not creation_timestamp
    if field.omitzero:
        return True
    # omitempty does not reach structs that are no pointers: they print as {}.
    return field.omitempty and (field.type.startswith("*") or field.type in OPAQUE or struct_type(field.type) is None)


def go_struct_json(value: Any, type_name: str) -> str:
    """Return a normalised value as encoding/json prints the Go type: compact, in field order, HTML escaped."""
    return go_json(go_encode(value, type_name))
