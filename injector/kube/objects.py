"""Objects of Kubernetes as plain dicts: values at a path, the items of Lists, and the object that an error is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from injector.errors import DataError, for_each
from injector.kube.lists import is_list, items_of

T = TypeVar("T")


def mapping_at(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path of keys; an empty one if a value on the way is missing or of another type."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def mappings_at(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the mappings of the list at a key; none if the value there is missing or of another type."""
    items = value.get(key)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def for_each_item(obj: Mapping[str, Any], function: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """Yield the result of ``function`` for each item of a List.

    The errors of all items, which name the item, are raised at the end, see ``for_each``.
    """

    def with_place(item: dict[str, Any]) -> T:
        try:
            return function(item)
        except DataError as error:
            add_place(error, item)
            raise

    return for_each(items_of(obj), with_place)


def add_place(error: DataError, obj: Mapping[str, Any], place: str = "") -> None:
    """Put a place, and the kind and the name of an object, in front of the place of an error."""
    meta = obj.get("metadata")
    name = meta.get("name") or meta.get("generateName") if isinstance(meta, dict) else None
    named = " ".join(word for word in (obj.get("kind"), name) if isinstance(word, str))
    for fault in error.errors:
        parts = (place, "" if is_list(obj) or fault.where.startswith(named) else named, fault.where)
        fault.where = ": ".join(part for part in parts if part)
