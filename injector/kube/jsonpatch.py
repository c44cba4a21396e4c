"""JSON patch (RFC 6902): the operations that lead from one document to another.

Made for the shape of Kubernetes objects: lists of named objects are aligned by name, other lists element by element, so that the work
is linear and no edit distance is computed. Applying is left to the ``jsonpatch`` package and to the API server.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Operation: TypeAlias = dict[str, Any]

_NAMES: Final = ("name", "mountPath", "containerPort", "key")


def create_patch(before: Any, after: Any) -> list[Operation]:
    """Return the operations that turn ``before`` into ``after``; empty where they are equal.

    Numbers are told apart by type: 1, 1.0 and true are three values. Values are shared with ``after``.
    """
    operations: list[Operation] = []
    _compare(before, after, "", operations)
    return operations


def _compare(before: Any, after: Any, path: str, operations: list[Operation]) -> None:
    if before is after:
        return
    kind = type(before)
    if kind is not type(after) or kind not in (dict, list):
        if kind is not type(after) or before != after:
            operations.append({"op": "replace", "path": path, "value": after})
    elif kind is dict:
        _compare_objects(before, after, path, operations)
    else:
        _compare_lists(before, after, path, operations)


def _compare_objects(before: dict[str, Any], after: dict[str, Any], path: str, operations: list[Operation]) -> None:
    for key in before:
        if key not in after:
            operations.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
    for key, value in after.items():
        if key in before:
            _compare(before[key], value, f"{path}/{_escaped(key)}", operations)
        else:
            operations.append({"op": "add", "path": f"{path}/{_escaped(key)}", "value": value})


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def _compare_lists(before: list[Any], after: list[Any], path: str, operations: list[Operation]) -> None:
    name = _naming_key(before, after)
    if name is None:
        _compare_by_position(before, after, path, operations)
    else:
        _compare_by_name(before, after, name, path, operations)


def _naming_key(before: list[Any], after: list[Any]) -> str | None:
    """Return the key whose values name every item of both lists once, or None."""
    for key in _NAMES:
        if all(_named_once(items, key) for items in (before, after)):
            return key
    return None


def _named_once(items: list[Any], key: str) -> bool:
    seen = set()
    for item in items:
        name = item.get(key) if type(item) is dict else None
        if not isinstance(name, str | int) or name in seen:
            return False
        seen.add(name)
    return True


def _compare_by_position(before: list[Any], after: list[Any], path: str, operations: list[Operation]) -> None:
    common = min(len(before), len(after))
    for index in range(common):
        _compare(before[index], after[index], f"{path}/{index}", operations)
    operations.extend({"op": "remove", "path": f"{path}/{index}"} for index in range(len(before) - 1, common - 1, -1))
    operations.extend(
        {"op": "add", "path": f"{path}/{index}", "value": after[index]} for index in range(common, len(after))
    )


def _compare_by_name(before: list[Any], after: list[Any], name: str, path: str, operations: list[Operation]) -> None:
    """Remove what went, insert what came at its place, compare what stayed; lists whose order changed go by position."""
    after_names = {item[name] for item in after}
    kept = [item for item in before if item[name] in after_names]
    before_names = {item[name] for item in before}
    if [item[name] for item in kept] != [item[name] for item in after if item[name] in before_names]:
        _compare_by_position(before, after, path, operations)
        return
    operations.extend(
        {"op": "remove", "path": f"{path}/{index}"}
        for index in range(len(before) - 1, -1, -1)
        if before[index][name] not in after_names
    )
    staying = iter(kept)
    for index, item in enumerate(after):
        if item[name] in before_names:
            _compare(next(staying), item, f"{path}/{index}", operations)
        else:
            operations.append({"op": "add", "path": f"{path}/{index}", "value": item})
