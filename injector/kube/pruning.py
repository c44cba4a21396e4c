"""What Go's types know of an object: the rest is what Go's decoder drops without a word.

Follows encoding/json on the structs of k8s.io/api. A field that is newer than a version of those structs is unknown to it.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.kube.schema import struct_type, underlying

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

FieldName: TypeAlias = tuple[str, str]
"""A field as its struct's Go name and its JSON name, such as ``("v1.Container", "restartPolicy")``."""

_DIRECTIVE: Final = "$"


def pruned(value: Any, type_name: str, missing: AbstractSet[FieldName] = frozenset()) -> Any:
    """Return ``value`` without the fields that ``type_name`` does not have, or has in ``missing``.

    Strategic merge's directives (``$patch``) stay, and so does what is of another kind than its field: decoding it is the error. Where
    nothing goes, the result is ``value`` itself.
    """
    type_name = type_name.removeprefix("*")
    if struct_type.known(type_name):
        return _object(value, type_name, missing) if isinstance(value, dict) else value
    base = underlying(type_name)
    if base.startswith("[]") and isinstance(value, list):
        kept = [pruned(item, base[2:], missing) for item in value]
        return value if all(map(is_, kept, value)) else kept
    if base.startswith("map[") and isinstance(value, dict):
        inner = base.partition("]")[2]
        held = {key: pruned(item, inner, missing) for key, item in value.items()}
        return value if all(map(is_, held.values(), value.values())) else held
    return value


def _object(value: dict[str, Any], type_name: str, missing: AbstractSet[FieldName]) -> dict[str, Any]:
    struct = struct_type(type_name)
    kept: dict[str, Any] = {}
    for key, item in value.items():
        if key.startswith(_DIRECTIVE):
            kept[key] = item
            continue
        field = struct.json_field(key)
        if field is not None and (type_name, field.json) not in missing:
            kept[key] = pruned(item, field.type, missing)
    same = len(kept) == len(value) and all(map(is_, kept.values(), value.values()))
    return value if same else kept
