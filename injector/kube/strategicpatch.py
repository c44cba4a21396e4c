"""Strategic merge patch: how Kubernetes merges a partial object into an object, list by list.

Follows k8s.io/apimachinery pkg/util/strategicpatch (patch.go, v0.35), ``StrategicMergeMapPatchUsingLookupPatchMeta``: lists with a
merge key are merged item by item, other lists replaced, nulls delete, ``$patch`` and the list directives are obeyed. The merge keys are
those of ``kube.schema``. Nothing given is changed; unchanged parts are shared with the original.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.errors import ManifestError
from injector.kube.schema import struct_type, underlying

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from injector.kube.schema import FieldType

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"


def strategic_merge(original: dict[str, Any], patch: dict[str, Any], type_name: str = "v1.Pod") -> dict[str, Any]:
    """Return ``original`` with ``patch`` merged into it, both objects of the type ``type_name``.

    Raises:
        ManifestError: the patch does not fit the type, or a directive is malformed.
    """
    return _merge_map(original, patch, type_name)


def _error(what: str) -> ManifestError:
    return ManifestError(what, hint="correct the overlay")


def _merge_map(original: dict[str, Any], patch: dict[str, Any], type_name: str) -> dict[str, Any]:
    directive = patch.get(_PATCH)
    if directive is not None:
        return _directed(directive, patch)
    result = _retained(original, patch)
    ordered = _merge_ordered_lists(result, patch, type_name)
    for key, value in patch.items():
        if key in ordered or key == _RETAIN:
            continue
        if key.startswith(_DELETE):
            _delete_from_list(result, key.removeprefix(_DELETE), value)
        elif value is None:
            result.pop(key, None)
        else:
            _merge_value(result, key, value, type_name)
    return result


def _merge_value(result: dict[str, Any], key: str, value: Any, type_name: str) -> None:
    current = result.get(key)
    if current is None or type(current) is not type(value) or not isinstance(value, dict | list):
        _take(result, key, value)
        return
    field = _field(type_name, key)
    if isinstance(value, dict):
        replaces = field is not None and "replace" in field.strategies
        result[key] = value if replaces else _merge_map(current, value, _element(field))
    elif field is not None and "merge" in field.strategies:
        result[key] = _merge_list(current, value, field)
    else:
        result[key] = value


def _take(result: dict[str, Any], key: str, value: Any) -> None:
    kept = _plain(value)
    if kept is _NOTHING:
        result.pop(key, None)
    else:
        result[key] = kept


def _directed(directive: Any, patch: dict[str, Any]) -> dict[str, Any]:
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    raise _error(f"Unknown patch type {directive!r} in {sorted(patch)}")


def _retained(original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    if _RETAIN not in patch:
        return dict(original)
    kept = patch[_RETAIN]
    if not isinstance(kept, list) or any(
        key not in kept
        for key, value in patch.items()
        if value is not None and key != _RETAIN and not key.startswith((_DELETE, _ORDER))
    ):
        raise _error("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in kept}


def _field(type_name: str, key: str) -> FieldType | None:
    base = type_name.lstrip("*")
    struct = struct_type(base)
    if struct is None:
        if base and not underlying(base).startswith("map["):
            raise _error(f"unable to find api field in struct {base.rpartition('.')[2]} for the json field {key!r}")
        return None
    field = struct.by_json.get(key)
    if field is None:
        raise _error(f"unable to find api field in struct {base.rpartition('.')[2]} for the json field {key!r}")
    return field


def _element(field: FieldType | None) -> str:
    if field is None:
        return ""
    return field.type.removeprefix("*").removeprefix("[]").removeprefix("*")


def _merge_list(original: list[Any], patch: list[Any], field: FieldType) -> list[Any]:
    if not original and not patch:
        return original
    kinds = {_kind(item) for item in (*original, *patch)}
    if len(kinds) > 1:
        raise _error("list element types are not identical")
    if kinds & {"list"}:
        raise _error("list of lists cannot be merged")
    if kinds != {"map"}:
        return _ordered(list(dict.fromkeys((*original, *patch))), patch, original, lambda item: item)
    key = field.merge_key
    if not key:
        raise _error(f"cannot merge lists without merge key for {_element(field)}")
    original, patch = _obey_directives(original, patch, key)
    merged = list(original)
    for item in patch:
        index = _index(merged, item, key)
        if index is None:
            merged.append(item)
        else:
            merged[index] = _merge_map(merged[index], item, _element(field))
    return _ordered(merged, patch, original, lambda item: item[key])


def _kind(item: Any) -> str:
    return "map" if isinstance(item, dict) else type(item).__name__


def _index(items: Sequence[Any], wanted: dict[str, Any], key: str) -> int | None:
    if not isinstance(wanted.get(key, ""), str | int | float):
        raise _error(f"merge key {key} is no scalar")
    if key not in wanted:
        raise _error(f"map: {sorted(wanted)} does not contain declared merge key: {key}")
    for index, item in enumerate(items):
        if key not in item:
            raise _error(f"map: {sorted(item)} does not contain declared merge key: {key}")
        if item[key] == wanted[key]:
            return index
    return None


def _obey_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Apply ``$patch`` items of a list: delete an item by its key, or replace the whole list."""
    kept, replace = [], False
    for item in patch:
        directive = item.get(_PATCH)
        if directive is None:
            kept.append(item)
        elif directive == "delete":
            if key not in item:
                raise _error(f"map: {sorted(item)} does not contain declared merge key: {key}")
            original = [other for other in original if other.get(key) != item[key]]
        elif directive == "replace":
            replace = True
        else:
            raise _error(f"Unknown patch type {directive!r} in a list")
    return (kept, []) if replace else (original, kept)


def _ordered(merged: list[Any], patch: list[Any], original: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Order a merged list as Kubernetes does: items of the patch in its order, the others in the original's, woven together.

    Where an item of each is next, the original's order decides if it has both; else the patch's item comes first.
    """
    patch_place = _places(patch, key)
    server_place = _places(original, key)
    ours = sorted((item for item in merged if key(item) in patch_place), key=lambda item: patch_place[key(item)])
    theirs = [item for item in merged if key(item) not in patch_place]
    woven: list[Any] = []
    i = j = 0
    while i < len(theirs) and j < len(ours):
        left, right = server_place.get(key(theirs[i])), server_place.get(key(ours[j]))
        if left is not None and right is not None and left < right:
            woven.append(theirs[i])
            i += 1
        else:
            woven.append(ours[j])
            j += 1
    return [*woven, *theirs[i:], *ours[j:]]


def _places(items: list[Any], key: Callable[[Any], Any]) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for index, item in enumerate(items):
        places.setdefault(key(item), index)
    return places


def _delete_from_list(result: dict[str, Any], key: str, values: Any) -> None:
    current = result.get(key)
    if current is None:
        return
    if not isinstance(current, list) or not isinstance(values, list):
        raise _error(f"expecting a list for {_DELETE}{key}")
    result[key] = [item for item in current if item not in values]


def _merge_ordered_lists(result: dict[str, Any], patch: dict[str, Any], type_name: str) -> set[str]:
    """Merge the lists that come with a ``$setElementOrder``; return the keys of the patch that are done with."""
    done: set[str] = set()
    for directive, order in patch.items():
        if not directive.startswith(_ORDER):
            continue
        name = directive.removeprefix(_ORDER)
        done |= {directive, name}
        if not isinstance(order, list):
            raise _error(f"expecting a list for {directive}")
        field = _field(type_name, name)
        current, added = result.get(name), patch.get(name)
        if current is None and added is None:
            continue
        if current is not None and added is not None and field is not None:
            merged = _merge_list(current, added, field)
        else:
            merged = current if added is None else _plain(added)
        merge_key = field.merge_key if field is not None else ""
        result[name] = _ordered(merged, order, current or [], lambda item, key=merge_key: item[key] if key else item)
    return done


_NOTHING: Final = object()


def _plain(value: Any) -> Any:
    """Return a patch's value as it is taken where the original has none: without directives and nulls."""
    if isinstance(value, dict):
        if _PATCH in value:
            return _NOTHING
        found = {
            key: kept
            for key, item in value.items()
            if item is not None
            and key != _RETAIN
            and not key.startswith((_ORDER, _DELETE))
            and (kept := _plain(item)) is not _NOTHING
        }
        return found if len(found) != len(value) or any(found[k] is not value[k] for k in found) else value
    if isinstance(value, list):
        items = [kept for item in value if (kept := _plain(item)) is not _NOTHING]
        return (
            items if len(items) != len(value) or any(a is not b for a, b in zip(items, value, strict=True)) else value
        )
    return value
