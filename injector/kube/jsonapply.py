"""JSON patches of our own (``jsonpatch``) applied, without a copy of what they leave as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from injector.kube.jsonpatch import Operation


def patched(document: Any, operations: Sequence[Operation]) -> Any:
    """Return ``document`` with the operations done to it (RFC 6902: ``add``, ``remove``, ``replace``), which fit it.

    ``document`` stays as it is; the result shares what no operation is about with it.
    """
    own: set[int] = set()
    holder = {"": document}
    for operation in operations:
        *way, last = map(_unescaped, operation["path"].split("/"))
        target: Any = holder
        for key in way:
            target = _own_part(target, key, own)
        _do(target, last, operation)
    return holder[""]


def _own_part(holder: Any, key: str, own: set[int]) -> Any:
    """Return what a key or index holds as an object that nobody else has, put there in place of the one that was."""
    place: Any = int(key) if type(holder) is list else key
    part = holder[place]
    if id(part) not in own:
        part = holder[place] = part.copy()
        own.add(id(part))
    return part


def _do(target: Any, last: str, operation: Operation) -> None:
    place: Any = int(last) if type(target) is list else last
    if operation["op"] == "remove":
        del target[place]
    elif operation["op"] == "add" and type(target) is list:
        target.insert(place, operation["value"])
    else:
        target[place] = operation["value"]


def _unescaped(key: str) -> str:
    return key.replace("~1", "/").replace("~0", "~") if "~" in key else key
