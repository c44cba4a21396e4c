"""JSON patch (RFC 6902): the operations that lead from one document to another.

Lists of named objects (containers, env, volumes, mounts, ports) are aligned by name, other lists by their common beginnings and ends.
The work is linear in the size of the documents: an edit distance over lists is quadratic, and takes seconds if a pod has thousands of
variables. The ``jsonpatch`` package and the API server apply patches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Operation: TypeAlias = dict[str, Any]

# The keys that identify the items of Kubernetes' lists, in the order they are tried: containers, env and volumes by name, then mounts,
# ports, projected items and conditions.
_NAMES: Final = ("name", "mountPath", "containerPort", "key", "type")
_NAME_TYPES: Final = frozenset((str, int, bool))


def create_patch(before: Any, after: Any) -> list[Operation]:
    """Return the operations that turn ``before`` into ``after``; empty if they are equal.

    Values of different types differ: 1, 1.0 and true. The operations share their values with ``after``.
    """
    operations: list[Operation] = []
    _compare(before, after, "", operations)
    return operations


def _compare(before: Any, after: Any, path: str, operations: list[Operation]) -> None:
    if before is after:
        return
    kind = type(before)
    if kind is not type(after):
        operations.append({"op": "replace", "path": path, "value": after})
    elif kind is dict:
        _compare_objects(before, after, path, operations)
    elif kind is list:
        _compare_lists(before, after, path, operations)
    elif before != after:
        operations.append({"op": "replace", "path": path, "value": after})


def _compare_objects(before: dict[str, Any], after: dict[str, Any], path: str, operations: list[Operation]) -> None:
    if not before.keys() <= after.keys():
        operations.extend({"op": "remove", "path": f"{path}/{_escape(key)}"} for key in before if key not in after)
    for key, value in after.items():
        if key not in before:
            operations.append({"op": "add", "path": f"{path}/{_escape(key)}", "value": value})
        elif before[key] is not value:
            _compare(before[key], value, f"{path}/{_escape(key)}", operations)


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def _compare_lists(before: list[Any], after: list[Any], path: str, operations: list[Operation]) -> None:
    for name in _NAMES:
        old, new = _by_name(before, name), _by_name(after, name)
        if old is not None and new is not None:
            if _same_order(old, new):
                _compare_by_name(old, new, path, operations)
                return
            break
    _compare_by_position(before, after, path, operations)


def _by_name(items: list[Any], name: str) -> dict[Any, Any] | None:
    """Return the items by their name; None unless every item has one and no two are equal."""
    try:
        names = [item[name] for item in items]
    except (KeyError, TypeError):
        return None
    if not _NAME_TYPES.issuperset(map(type, names)):
        return None
    by_name = dict(zip(names, items, strict=True))
    return by_name if len(by_name) == len(items) else None


def _same_order(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    return [name for name in old if name in new] == [name for name in new if name in old]


def _compare_by_name(old: dict[Any, Any], new: dict[Any, Any], path: str, operations: list[Operation]) -> None:
    """Remove the items that are gone, from the end on, then add and change items from the beginning on."""
    if not old.keys() <= new.keys():
        places = reversed(list(enumerate(old)))
        operations.extend({"op": "remove", "path": f"{path}/{index}"} for index, name in places if name not in new)
    for index, (name, item) in enumerate(new.items()):
        if name not in old:
            operations.append({"op": "add", "path": f"{path}/{index}", "value": item})
        elif old[name] is not item:
            _compare(old[name], item, f"{path}/{index}", operations)


def _compare_by_position(before: list[Any], after: list[Any], path: str, operations: list[Operation]) -> None:
    """Compare the items between the equal ones at both ends, pair by pair."""
    shorter = min(len(before), len(after))
    start = _count_same(zip(before, after, strict=False), shorter)
    end = _count_same(zip(reversed(before), reversed(after), strict=False), shorter - start)
    old_end, new_end = len(before) - end, len(after) - end
    common = min(old_end, new_end)
    for index in range(start, common):
        _compare(before[index], after[index], f"{path}/{index}", operations)
    operations.extend({"op": "remove", "path": f"{path}/{index}"} for index in range(old_end - 1, common - 1, -1))
    added = ({"op": "add", "path": f"{path}/{index}", "value": after[index]} for index in range(common, new_end))
    operations.extend(added)


def _count_same(pairs: Iterator[tuple[Any, Any]], limit: int) -> int:
    count = 0
    while count < limit and _same(*next(pairs)):
        count += 1
    return count


def _same(left: Any, right: Any) -> bool:
    """Return whether two values are equal, types of numbers included."""
    if left is right:
        return True
    kind = type(left)
    if kind is not type(right) or left != right:
        return False
    if kind is dict:
        return all(_same(value, right[key]) for key, value in left.items())
    return kind is not list or all(map(_same, left, right))
