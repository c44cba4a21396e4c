"""The types of Kubernetes' API objects, as k8s.io/api declares them.

``schema.json`` is generated from the Go structs (tests/kube/recorder/schema) and says for each field its Go name, JSON name, Go type,
and what its tags say of encoding and of strategic merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of a struct. ``inline`` fields have no JSON name: their fields belong to the outer object."""

    go: str
    json: str
    type: str
    omitempty: bool
    omitzero: bool
    inline: bool
    strategies: frozenset[str]
    merge_key: str


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct: its fields in Go's order, by Go name, and by JSON name with the inline ones' fields among them."""

    name: str
    fields: tuple[FieldType, ...]
    by_go: Mapping[str, FieldType]
    by_json: Mapping[str, FieldType]


OPAQUE: Final = frozenset({"resource.Quantity", "intstr.IntOrString", "v1.Time", "v1.MicroTime", "v1.FieldsV1"})


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = orjson.loads(files(__package__).joinpath("schema.json").read_bytes())
    return table


@cache
def struct_type(name: str) -> StructType | None:
    """Return the struct of that Go name, such as ``v1.PodSpec``; None for what is no struct of the table."""
    raw = _table()["structs"].get(name)
    if raw is None:
        return None
    fields = tuple(
        FieldType(
            go=item["go"],
            json=item["json"],
            type=item["type"],
            omitempty=item.get("omitempty", False),
            omitzero=item.get("omitzero", False),
            inline=item.get("inline", False),
            strategies=frozenset(filter(None, item.get("strategy", "").split(","))),
            merge_key=item.get("mergeKey", ""),
        )
        for item in raw
    )
    by_json: dict[str, FieldType] = {}
    for field in fields:
        inner = struct_type(field.type.lstrip("*")) if field.inline else None
        by_json.update(inner.by_json if inner is not None else {field.json: field})
    return StructType(name, fields, {field.go: field for field in fields}, by_json)


@cache
def underlying(name: str) -> str:
    """Return the type behind a defined scalar or map type, such as ``string`` for ``v1.DNSPolicy``; else ``name``."""
    return str(_table()["named"].get(name, name))
