"""Go's encoding of typed objects: fields in the order of the struct, and what Go prints of its own zero values.

Follows encoding/json on the structs of k8s.io/api: ``omitempty`` leaves out empty scalars, lists, maps and nil
pointers, but no struct, so that ``resources: {}``, ``status: {}`` or ``lastProbeTime: null`` appear unasked.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.golang.json import go_json
from injector.kube.schema import OPAQUE, FieldType, StructType, struct_type, underlying

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Encoder: TypeAlias = "Callable[[Any], Any]"

_ZEROS: Final[Mapping[str, Any]] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "resource.Quantity": "0",
    "intstr.IntOrString": 0,
}
KEYS: Final = 256
"""Sets of keys that are remembered of one struct."""
_Fields: TypeAlias = "tuple[tuple[tuple[str, Encoder, bool], ...], tuple[str, ...]]"


def go_encode(value: Any, type_name: str, *, creation_timestamp: bool = False) -> Any:
    """Return a normalised value as Go encodes it: fields in Go's order, zero values without ``omitempty`` written out.

    Map keys are sorted; fields that the type does not have come last. ``creation_timestamp``: Kubernetes' libraries
    before 0.34 also print ``creationTimestamp: null``.
    """
    return _encoder(type_name, creation_timestamp)(value)


def go_struct_json(value: Any, type_name: str, *, creation_timestamp: bool = False) -> str:
    """Return a normalised value as encoding/json prints the Go type: compact, in field order, HTML escaped."""
    return go_json(go_encode(value, type_name, creation_timestamp=creation_timestamp))


def zero_of(type_name: str) -> Any:
    """Return the JSON of a type's zero value, of a struct an empty object."""
    return {} if struct_type.known(type_name) else _ZEROS.get(underlying(type_name))


@cache
def _encoder(type_name: str, creation_timestamp: bool) -> Encoder:  # noqa: FBT001 - part of the cache's key
    if type_name.startswith("*"):
        return _nil_or(_encoder(type_name[1:], creation_timestamp))
    if struct_type.known(type_name):
        return _struct_encoder(struct_type(type_name), creation_timestamp=creation_timestamp)
    base = underlying(type_name)
    if base.startswith("[]"):
        encode = _encoder(base[2:], creation_timestamp)
        return _nil_or(lambda items: [encode(item) for item in items])
    if base.startswith("map["):
        encode = _encoder(base.partition("]")[2], creation_timestamp)
        return _nil_or(lambda entries: {key: encode(entries[key]) for key in sorted(entries)})
    zero = _ZEROS.get(base)
    return lambda value: zero if value is None else value


def _nil_or(encode: Encoder) -> Encoder:
    return lambda value: None if value is None else encode(value)


def _struct_encoder(struct: StructType, *, creation_timestamp: bool) -> Encoder:
    plan = tuple(
        (field.json, _encoder(field.type, creation_timestamp), _left_out(field, creation_timestamp=creation_timestamp))
        for field in _flat(struct)
    )
    known = frozenset(struct.by_json)
    remembered: dict[tuple[str, ...], _Fields] = {}

    # Most structs have many more fields than an object of theirs, and few sets of keys repeat.
    def plan_of(keys: tuple[str, ...]) -> _Fields:
        there = frozenset(keys)
        unknown = tuple(key for key in keys if key not in known)
        found = tuple(each for each in plan if each[0] in there or not each[2]), unknown
        # A key that Go does not know is of whoever wrote it, of any length.
        if not unknown:
            if len(remembered) >= KEYS:
                remembered.clear()
            remembered[keys] = found
        return found

    def encode(value: Any) -> Any:
        value = value or {}
        keys = tuple(value)
        fields, unknown = remembered.get(keys) or plan_of(keys)
        result: dict[str, Any] = {}
        for name, encode_field, left_out in fields:
            item = value.get(name)
            if item is not None or not left_out:
                result[name] = encode_field(item)
        for key in unknown:
            result[key] = value[key]
        return result

    return encode


def _flat(struct: StructType) -> list[FieldType]:
    """Return the fields that stand in the struct's JSON object, in order."""
    return [field for each in struct.fields for field in (_flat(struct_type(each.type)) if each.inline else [each])]


def _left_out(field: FieldType, *, creation_timestamp: bool) -> bool:
    """Return whether Go leaves the field out where it has its zero value."""
    if field.omitzero:
        return not creation_timestamp
    is_struct = field.type in OPAQUE or struct_type.known(field.type)
    return field.omitempty and not is_struct
