"""The order of merged lists in strategic merge patches.

Follows k8s.io/apimachinery pkg/util/strategicpatch (v0.35, patch.go): the items of the patch keep the patch's order,
those of the original keep the original's, and where one of each is next, the original's order decides if it knows both,
else the patch's item comes first.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from injector.errors import ManifestError


def patch_error(what: str) -> ManifestError:
    """Make an error of a patch that cannot be merged."""
    return ManifestError(what, hint="correct the patch")


def shown(item: Any) -> str:
    """Return a short text of an item: of an object only the keys, since values may be long or secret."""
    return f"map[{' '.join(item)}]" if type(item) is dict else type(item).__name__


def merge_key_of(item: Any, key: str) -> Any:
    """Return what identifies an item of a list: its merge key, or the item itself where ``key`` is empty.

    Raises:
        ManifestError: the item has no such key, or one that cannot be compared.
    """
    if key:
        if type(item) is not dict:
            raise patch_error(f"expected a map[string]interface {{}}, but received a {shown(item)}")
        if key not in item:
            raise patch_error(f"map: {shown(item)} does not contain declared merge key: {key}")
        item = item[key]
    kind = type(item)
    if kind is dict or kind is list:
        raise patch_error(f"items of a list cannot be told apart by a {shown(item)}")
    # Python has true == 1, Go has not.
    return (item,) if kind is bool else item


def places_of(items: list[Any], key: str) -> dict[Any, int]:
    """Return the first place of each item, by its merge key.

    Raises:
        ManifestError: an item has no merge key.
    """
    places: dict[Any, int] = {}
    for index, item in enumerate(items):
        places.setdefault(merge_key_of(item, key), index)
    return places


def same_element_kind(*lists: list[Any], empty: str = "") -> type | None:
    """Return the one type that the elements of all lists have, every number a float; None where there are no elements.

    Raises:
        ManifestError: the types differ, or are lists themselves; or there is none, where ``empty`` says so.
    """
    found: type | None = None
    for item in (item for items in lists for item in items):
        kind = float if type(item) is int else type(item)
        if kind is list:
            raise patch_error("lists of lists are not supported")
        if found is not None and kind is not found:
            raise patch_error(f"list element types are not identical: {found.__name__}, {kind.__name__}")
        if item is None:
            raise patch_error("a list that is merged has a null element")
        found = kind
    if found is None and empty:
        raise patch_error(empty)
    return found


def validated_order(patch: list[Any], order: list[Any], key: str) -> None:
    """Hold a patch's list against its ``$setElementOrder``: the same items in the same order, deletions apart.

    Raises:
        ManifestError: the two contradict each other.
    """
    if not order or not patch:
        return
    items = [item for item in patch if not (key and type(item) is dict and item.get("$patch") == "delete")]
    next_item = 0
    for each in order:
        while next_item < len(items) and type(items[next_item]) is dict and "$patch" in items[next_item]:
            next_item += 1
        if next_item < len(items) and merge_key_of(items[next_item], key) == merge_key_of(each, key):
            next_item += 1
    if next_item < len(items):
        raise patch_error("The order in patch list doesn't match $setElementOrder list")


def partitioned(items: list[Any], by: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Split a list into the items that ``by`` names too, and the others.

    Raises:
        ManifestError: an item has no merge key.
    """
    names = {merge_key_of(item, key) for item in by}
    inside: list[Any] = []
    outside: list[Any] = []
    for item in items:
        (inside if merge_key_of(item, key) in names else outside).append(item)
    return inside, outside


def ordered(ours: list[Any], theirs: list[Any], our_order: list[Any], their_order: list[Any], key: str) -> list[Any]:
    """Sort the patch's items and the others, each by its own order, and weave them together.

    Raises:
        ManifestError: an item has no merge key.
    """
    their_places = places_of(their_order, key)
    right = _sorted(ours, places_of(our_order, key), key)
    left = _sorted(theirs, their_places, key)
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


def _sorted(items: list[Any], places: dict[Any, int], key: str) -> list[Any]:
    keyed = [(places.get(merge_key_of(item, key)), item) for item in items]
    placed = [(place, item) for place, item in keyed if place is not None]
    if len(placed) == len(items):
        return [item for _, item in sorted(placed, key=itemgetter(0))]
    # Go takes an item without a place for smaller than any other, on both sides of the comparison: what its insertion
    # sort makes of that is the order.
    for end in range(1, len(keyed)):
        index = end
        while index > 0 and _less(keyed[index][0], keyed[index - 1][0]):
            keyed[index], keyed[index - 1] = keyed[index - 1], keyed[index]
            index -= 1
    return [item for _, item in keyed]


def _less(left: int | None, right: int | None) -> bool:
    return left is None or right is None or left < right
