"""Where two trees of JSON data differ, leaf by leaf.

A list of objects is compared by what names its entries, another list by its runs; where the same entries stand in another order,
that is a difference of its own. Texts that hold a JSON object, as many annotations do, are compared as that object.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final, TypeVar

from injector.errors import DataError
from injector.kube.serial import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")


class _Absent:
    """Nothing: a key or an entry that is not there, which null is."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
HIDDEN: Final = "<hidden>"
"""What stands for a value that is not shown."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference; with ``order``, ``old`` and ``new`` are the names of the same entries, in the order of each side."""

    path: str
    old: Any
    new: Any
    order: bool = False


# What names the entries of a list, by the field that holds it: the keys that strategic merge goes by, where it has any.
_NAMED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "items": ("key",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "readinessGates": ("conditionType",),
}
_NAME: Final = ("name",)


def differences(path: str, old: Any, new: Any, *, opaque: Collection[str] = ()) -> Iterator[Difference]:
    """Yield what differs between two values; the keys ``opaque`` differ as a whole, and show neither side."""
    if old == new:
        return
    old_tree, new_tree = _unfolded(old, new)
    if isinstance(old_tree, dict) and isinstance(new_tree, dict):
        for key in dict.fromkeys([*old_tree, *new_tree]):
            sides = old_tree.get(key, ABSENT), new_tree.get(key, ABSENT)
            if key in opaque and sides[0] != sides[1]:
                shown = [side if side is ABSENT else HIDDEN for side in sides]
                yield Difference(_below(path, key), shown[0], shown[1])
            else:
                yield from differences(_below(path, key), *sides, opaque=opaque)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_differences(path, old, new, opaque)
    else:
        yield Difference(path, old, new)


def entries(items: Iterable[T], name_of: Callable[[T], str]) -> dict[str, T]:
    """Return the items by name; further ones of a name get a number after it."""
    found: dict[str, T] = {}
    for item in items:
        name, count = name_of(item), 1
        key = name
        while key in found:
            count += 1
            key = f"{name}#{count}"
        found[key] = item
    return found


def order_difference(path: str, old: Sequence[str], new: Sequence[str]) -> Difference | None:
    """Return how the names that both sides have stand in another order, from the first to the last out of place."""
    both = set(old) & set(new)
    before, after = [name for name in old if name in both], [name for name in new if name in both]
    while before and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    return Difference(path, before, after, order=True) if before else None


def _list_differences(path: str, old: list[Any], new: list[Any], opaque: Collection[str]) -> Iterator[Difference]:
    keys = _NAMED_BY.get(path.rpartition(".")[2], _NAME)
    if all(isinstance(item, dict) and keys[0] in item for item in (*old, *new)):
        before, after = (entries(side, lambda item: _name(item, keys)) for side in (old, new))
        for name in dict.fromkeys([*before, *after]):
            sides = before.get(name, ABSENT), after.get(name, ABSENT)
            yield from differences(f"{path}[{name}]", *sides, opaque=opaque)
        moved = order_difference(path, list(before), list(after))
        if moved is not None:
            yield moved
        return
    before_texts, after_texts = ([json.dumps(item, sort_keys=True) for item in side] for side in (old, new))
    for tag, i, j, k, m in SequenceMatcher(None, before_texts, after_texts, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Difference(path, old[i:j] or ABSENT, new[k:m] or ABSENT)


def _name(item: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return "/".join(str(item[key]) for key in keys if key in item)


def _unfolded(old: Any, new: Any) -> tuple[Any, Any]:
    """Return both as objects where both are texts of JSON objects, else as they are."""
    if not (isinstance(old, str) and isinstance(new, str) and old.startswith("{") and new.startswith("{")):
        return old, new
    try:
        trees = load_json(old), load_json(new)
    except DataError:
        return old, new
    # Two spellings of one object differ all the same.
    return (old, new) if trees[0] == trees[1] else trees


def _below(path: str, key: str) -> str:
    return f"{path}[{key}]" if "." in key or "/" in key else f"{path}.{key}"
