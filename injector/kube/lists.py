"""Lists of objects: ``List``, and those of one kind such as ``PodList``, whose items have no kind of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from injector.errors import ManifestError

LIST: Final = "List"


def is_list(obj: Mapping[str, Any]) -> bool:
    """Return whether an object is a list. An object with a name is not, whatever its kind."""
    if obj.get("kind") == LIST:
        return True
    meta = obj.get("metadata")
    is_named = isinstance(meta, dict) and bool(meta.get("name"))
    return str(obj.get("kind")).endswith(LIST) and isinstance(obj.get("items", ""), list | None) and not is_named


def items_of(obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the items of a list, each with its kind. Raises ManifestError if one is not an object."""
    items: list[dict[str, Any]] = obj.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ManifestError("an item of the List is not an object", where="items", hint="give each item a kind")
    kind = str(obj.get("kind")).removesuffix(LIST)
    if not kind:
        return items
    inherited = {"apiVersion": obj["apiVersion"], "kind": kind} if "apiVersion" in obj else {"kind": kind}
    return [{**inherited, **item} for item in items]
