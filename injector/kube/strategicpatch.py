"""Strategic merge patch: how Kubernetes merges a partial object into an object, list by list, and in which order.

Follows k8s.io/apimachinery pkg/util/strategicpatch (v0.35, patch.go), ``StrategicMergeMapPatchUsingLookupPatchMeta``, step by step:
lists with a merge key are merged item by item, other lists are replaced, nulls delete, and the directives ``$patch``, ``$retainKeys``,
``$deleteFromPrimitiveList/`` and ``$setElementOrder/`` are obeyed. The items of the patch keep the patch's order and those of the
original keep the original's. If one of each is next, the original's order decides if it has both, else the patch's item comes first.
Go changes its arguments; here they stay as they are and share their parts with the result. (If ``$setElementOrder`` comes with a deletion,
Go reads the order from a list that it has overwritten; here the order is the original's.) What cannot be merged is a ``ManifestError``
with Go's words.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from injector.errors import ManifestError
from injector.kube.typed import OPAQUE, FieldType, is_struct, struct_type, underlying

Object: TypeAlias = dict[str, Any]

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_SET_ORDER: Final = "$setElementOrder"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"


def _patch_error(what: str) -> ManifestError:
    return ManifestError(what, hint="correct the patch")


def _format_value(item: Any) -> str:
    """Return a short text of an item: of an object only the keys, since values may be long or secret."""
    return f"map[{' '.join(item)}]" if type(item) is dict else type(item).__name__


def merge_key_of(item: Any, key: str) -> Any:
    """Return the identity of an item of a list: its merge key, or the item itself if ``key`` is empty."""
    if key:
        if type(item) is not dict:
            raise _patch_error(f"expected a map[string]interface {{}}, but received a {_format_value(item)}")
        if key not in item:
            raise _patch_error(f"map: {_format_value(item)} does not contain declared merge key: {key}")
        item = item[key]
    kind = type(item)
    if kind is dict or kind is list:
        raise _patch_error(f"items of a list cannot be told apart by a {_format_value(item)}")
    # Python has true == 1, Go has not.
    return (item,) if kind is bool else item


def places_of(items: list[Any], key: str) -> dict[Any, int]:
    """Return the first place of each item, by its merge key."""
    places: dict[Any, int] = {}
    for index, item in enumerate(items):
        places.setdefault(merge_key_of(item, key), index)
    return places


def same_element_kind(*lists: list[Any], empty: str = "") -> type | None:
    """Return the type of the elements of all lists, float for every number; None if there are no elements."""
    element_kind: type | None = None
    for item in (item for items in lists for item in items):
        kind = _kind(item)
        if kind is list:
            raise _patch_error("lists of lists are not supported")
        if element_kind is not None and kind is not element_kind:
            raise _patch_error(f"list element types are not identical: {element_kind.__name__}, {kind.__name__}")
        if item is None:
            raise _patch_error("a list that is merged has a null element")
        element_kind = kind
    if element_kind is None and empty:
        raise _patch_error(empty)
    return element_kind


def _validate_order(patch: list[Any], order: list[Any], key: str) -> None:
    """Check that a patch's list has the items of its ``$setElementOrder`` in the same order, except for deletions."""
    if not order or not patch:
        return
    items = [item for item in patch if not (key and type(item) is dict and item.get("$patch") == "delete")]
    next_item = 0
    for element in order:
        while next_item < len(items) and type(items[next_item]) is dict and "$patch" in items[next_item]:
            next_item += 1
        if next_item < len(items) and merge_key_of(items[next_item], key) == merge_key_of(element, key):
            next_item += 1
    if next_item < len(items):
        raise _patch_error("The order in patch list doesn't match $setElementOrder list")


def partition(items: list[Any], by: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Split a list into the items that ``by`` names too, and the others."""
    names = {merge_key_of(item, key) for item in by}
    inside: list[Any] = []
    outside: list[Any] = []
    for item in items:
        (inside if merge_key_of(item, key) in names else outside).append(item)
    return inside, outside


def merge_by_order(
    ours: list[Any], theirs: list[Any], our_order: list[Any], their_order: list[Any], key: str
) -> list[Any]:
    """Sort the patch's items and the others, each by its own order, and merge the two lists."""
    their_places = places_of(their_order, key)
    right = _sort_by_place(ours, places_of(our_order, key), key)
    left = _sort_by_place(theirs, their_places, key)
    woven: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        first, second = their_places.get(merge_key_of(left[i], key)), their_places.get(merge_key_of(right[j], key))
        if first is not None and second is not None and first < second:
            woven.append(left[i])
            i += 1
        else:
            woven.append(right[j])
            j += 1
    return [*woven, *left[i:], *right[j:]]


def _sort_by_place(items: list[Any], places: dict[Any, int], key: str) -> list[Any]:
    keyed = [(places.get(merge_key_of(item, key)), item) for item in items]
    placed = [(place, item) for place, item in keyed if place is not None]
    if len(placed) == len(items):
        return [item for _, item in sorted(placed, key=itemgetter(0))]
    # For Go, an item without a place is smaller than any other, on both sides of the comparison: the order is the result of its
    # insertion sort.
    for end in range(1, len(keyed)):
        index = end
        while index > 0 and _less(keyed[index][0], keyed[index - 1][0]):
            keyed[index], keyed[index - 1] = keyed[index - 1], keyed[index]
            index -= 1
    return [item for _, item in keyed]


def _less(left: int | None, right: int | None) -> bool:
    return left is None or right is None or left < right


def strategic_merge(original: Object, patch: Object, type_name: str = "v1.Pod") -> Object:
    """Return ``original`` with ``patch`` merged into it, both JSON objects of a Go type. Raises ManifestError with Go's words."""
    if _DIRECTIVE in patch:
        return _obey_directive(patch)
    result = dict(original)
    rest = patch
    if any(key[:1] == "$" for key in patch):
        rest = dict(patch)
        _retain_keys(result, rest)
        _merge_ordered_lists(result, rest, type_name)
    for key, value in rest.items():
        name, is_deletion = _list_deletion(key)
        if value is None:
            result.pop(name, None)
        elif name not in result or _kind(result[name]) != _kind(value):
            if not is_deletion:
                _take(result, name, value)
        elif type(value) is dict:
            meta = field_meta(type_name, name)
            result[name] = value if meta.strategy == "replace" else strategic_merge(result[name], value, meta.type)
        elif type(value) is list:
            result[name] = _merge_list(result[name], value, list_meta(type_name, name), is_deletion=is_deletion)
        else:
            result[name] = value
    return result


def _list_deletion(key: str) -> tuple[str, bool]:
    """Return the field of a key of the patch, and whether the value is a list of elements to delete from it."""
    if not key.startswith(_DELETE_FROM):
        return key, False
    if not key.startswith(_DELETE_FROM + "/"):
        raise _patch_error("invalid patch format of primitive list")
    return key.removeprefix(_DELETE_FROM + "/"), True


def _obey_directive(patch: Object) -> Object:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise _patch_error(f"unknown patch type: {directive} in map: {_format_value(patch)}")


def _retain_keys(result: Object, patch: Object) -> None:
    """Obey ``$retainKeys``: remove the keys that it does not name from the original. The patch may not have others either."""
    if _RETAIN_KEYS not in patch:
        return
    names = patch.pop(_RETAIN_KEYS)
    if type(names) is not list or any(isinstance(name, dict | list) for name in names):
        raise _patch_error("invalid patch format of retainKeys")
    retained = set(names)
    stated = (key for key, value in patch.items() if value is not None)
    if any(key not in retained and not key.startswith((_DELETE_FROM, _SET_ORDER)) for key in stated):
        raise _patch_error("invalid patch format of retainKeys")
    for key in result.keys() - retained:
        del result[key]


def _take(result: Object, name: str, value: Any) -> None:
    """Take a value of the patch that the original does not have, without nulls and directives."""
    taken = _plain(value)
    if taken is _DROPPED:
        result.pop(name, None)
    else:
        result[name] = taken


def without_directives(value: Any, type_name: str) -> Any:
    """Return a merged value of a Go type without the directives in parts that were not merged.

    Go drops them when it reads the result, because its structs have no such fields. Keys of maps stay. Go reads keys in sorted order, which
    matters for those that differ only in case.
    """
    name = type_name.removeprefix("*")
    if type(value) is list and (listed := underlying(name)).startswith("[]"):
        return [without_directives(element, listed[2:]) for element in value]
    if type(value) is not dict or not is_struct(name):
        return value
    fields = {key: struct_type(name).json_field(key) for key in value if key[:1] != "$"}
    if any(field is not None and field.json != key for key, field in fields.items()):
        fields = {key: fields[key] for key in sorted(fields)}
    return {
        key: value[key] if field is None else without_directives(value[key], field.type)
        for key, field in fields.items()
    }


_DROPPED: Final = object()


def _plain(value: Any, *, nulls: bool = False) -> Any:
    """Return a value without the objects that have a ``$patch``, and without nulls in objects unless ``nulls``.

    Other directives stay in it, as in Go.
    """
    kind = type(value)
    if kind is list:
        return [item for item in (_plain(element, nulls=nulls) for element in value) if item is not _DROPPED]
    if kind is not dict:
        return value
    if _DIRECTIVE in value and (nulls or value[_DIRECTIVE] is not None):
        return _DROPPED
    plain = ((key, _plain(item, nulls=nulls)) for key, item in value.items() if nulls or item is not None)
    return {key: item for key, item in plain if item is not _DROPPED}


def _merge_list(original: list[Any], patch: list[Any], meta: ListMeta, *, is_deletion: bool = False) -> list[Any]:
    if meta.strategy != "merge" and not is_deletion:
        return patch
    if not original and not patch:
        return original
    if same_element_kind(original, patch) is dict:
        return _merge_objects(original, patch, meta)
    if is_deletion:
        unwanted = set(patch)
        return [item for item in original if item not in unwanted]
    merged = list(dict.fromkeys([*original, *patch]))
    ours, theirs = partition(merged, patch, meta.merge_key)
    return merge_by_order(ours, theirs, patch, original, "")


def _merge_objects(original: list[Object], patch: list[Object], meta: ListMeta) -> list[Any]:
    key = meta.merge_key
    if not key:
        raise _patch_error(f"cannot merge lists without merge key for {_kind_name(meta.type)}")
    original, patch = _obey_directives(original, patch, key)
    merged = list(original)
    places = places_of(merged, key)
    for item in patch:
        place = places.setdefault(merge_key_of(item, key), len(merged))
        if place == len(merged):
            merged.append(item)
        else:
            merged[place] = strategic_merge(merged[place], item, meta.type)
    ours, theirs = partition(merged, patch, key)
    return merge_by_order(ours, theirs, patch, original, key)


def _obey_directives(original: list[Object], patch: list[Object], key: str) -> tuple[list[Object], list[Object]]:
    """Obey the items with ``$patch``: ``delete`` removes the items of its key, ``replace`` makes the patch the list."""
    plain_items: list[Object] = []
    replaces = False
    for item in patch:
        directive = item.get(_DIRECTIVE)
        if _DIRECTIVE not in item:
            plain_items.append(item)
        elif directive == "delete":
            unwanted = merge_key_of(item, key)
            original = [element for element in original if merge_key_of(element, key) != unwanted]
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise _patch_error("merging lists cannot yet be specified in the patch")
        else:
            raise _patch_error(f"unknown patch type: {directive} in map: {_format_value(item)}")
    return (plain_items, []) if replaces else (original, plain_items)


def _merge_ordered_lists(result: Object, patch: Object, type_name: str) -> None:
    """Obey ``$setElementOrder/NAME``: merge the list ``NAME`` now, in that order, and take both out of the patch."""
    for directive in [key for key in patch if key.startswith(_SET_ORDER)]:
        order, name = patch.pop(directive), directive.removeprefix(_SET_ORDER + "/")
        if name == directive:
            raise _patch_error("invalid patch format of setElementOrder list")
        current, added = result.get(name, []), patch.get(name, [])
        for value in (order, current, added):
            if type(value) is not list:
                raise _patch_error(
                    f"expected a []interface {{}}, but received a {_GO_NAMES.get(_kind(value), '<nil>')}"
                )
        meta = list_meta(type_name, name)
        _validate_order(added, order, meta.merge_key)
        if name not in result and name not in patch:
            continue
        if name not in patch:
            merged = current
        elif name not in result:
            merged = _plain(added, nulls=True)
        else:
            merged = _merge_list(current, added, meta)
        ours, theirs = partition(merged, order, meta.merge_key)
        same_element_kind(current, added, empty="no elements in any of the given slices")
        result[name] = merge_by_order(ours, theirs, order, current, meta.merge_key)
        patch.pop(name, None)


def field_meta(type_name: str, key: str) -> FieldType:
    """Return the field of a key, which tells how to merge it."""
    base = type_name.removeprefix("*")
    if not is_struct(base):
        what = f"merging an object in json but data type is not struct, instead is: {_kind_name(base)}"
        raise _patch_error(what)
    field = struct_type(base).json_field(key)
    if field is None:
        struct = base.rpartition(".")[2]
        raise _patch_error(f'unable to find api field in struct {struct} for the json field "{key}"')
    return field


class ListMeta(NamedTuple):
    """How to merge a list; ``type`` is the type of its elements."""

    type: str
    strategy: str
    merge_key: str


def list_meta(type_name: str, key: str) -> ListMeta:
    """Return how to merge the list of a key."""
    meta = field_meta(type_name, key)
    listed = underlying(meta.type)
    if not listed.startswith(("*", "[]")):
        raise _patch_error(f"expected slice or array type, but got: {_kind_name(type_name)}")
    return ListMeta(listed.removeprefix("*").removeprefix("[]"), meta.strategy, meta.merge_key)


def _kind(value: Any) -> type:
    # Every number is a float64 in Go's JSON data.
    kind = type(value)
    return float if kind is int else kind


_GO_NAMES: Final = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    float: "float64",
    bool: "bool",
}


def _kind_name(type_name: str) -> str:
    """Return the reflect.Kind of a type's text."""
    base = underlying(type_name)
    if base.startswith("*"):
        return "ptr"
    if base.startswith("map["):
        return "map"
    if base.startswith("[]"):
        return "slice"
    return "struct" if is_struct(base) or base in OPAQUE else base
