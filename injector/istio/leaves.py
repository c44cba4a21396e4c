"""The leaves of an object that somebody read, as a tree, and what they hold in another object.

Who has read nothing else comes to the same result for every object that holds the same there. A text of which only
sameness matters, as of one that is printed and never looked into, may be another one each time: it is a slot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

# A DNS-1123 label that begins with a letter: never empty, in lower case, nothing that YAML or JSON would quote or escape, and no
# number. What YAML takes for something else than a text is left out.
_INERT: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_WORDS: Final = frozenset({"false", "inf", "n", "nan", "no", "null", "off", "on", "true", "y", "yes"})
INERT_LENGTH: Final = 63
# Quantities that Go writes as they are given, and that come to one CPU when they are rounded up.
_QUANTITIES: Final = {unit: re.compile(rf"[1-9][0-9]{{0,2}}{unit}", re.ASCII) for unit in ("m", "Mi")}


def inert(value: Any) -> bool:
    """Return whether a value is a text that is the same in every context that texts like it are printed in."""
    return type(value) is str and _INERT.fullmatch(value) is not None and value not in _WORDS


@dataclass(slots=True)
class Leaf:
    """What was read of a value: all of it, parts of it, or a text.

    Attributes:
        exact: what the value is matters, whole.
        parts: of an object, what was read of its keys.
        each: of a list, what was read of every element.
        unit: of a quantity, ``m`` or ``Mi``.

    With none of the first three it is a text of which only sameness matters, if it is inert, or a quantity of the unit below 1,000.
    """

    exact: bool = False
    parts: dict[str, Leaf] = field(default_factory=dict)
    each: Leaf | None = None
    unit: str = ""

    def is_slot(self, value: Any) -> bool:
        """Return whether only the sameness of a value matters, as long as nobody looks into it; for a leaf without parts."""
        if self.exact or type(value) is not str:
            return False
        return _QUANTITIES[self.unit].fullmatch(value) is not None if self.unit else inert(value)

    def part(self, key: str) -> Leaf:
        """Return the leaf of a key, which is read from now on."""
        return self.parts.setdefault(key, Leaf())

    def element(self) -> Leaf:
        """Return the leaf of a list's elements, which are read from now on."""
        if self.each is None:
            self.each = Leaf()
        return self.each

    def copy(self) -> Leaf:
        """Return a tree of its own."""
        parts = {key: leaf.copy() for key, leaf in self.parts.items()}
        return Leaf(self.exact, parts, None if self.each is None else self.each.copy(), self.unit)


EXACT: Final = Leaf(exact=True)


def gather(leaf: Leaf, value: Any, key: list[Any], slots: dict[str, int]) -> None:
    """Append what ``value`` holds at the leaves to ``key``; ``slots`` numbers the texts of which only sameness matters.

    Two objects with equal keys hold the same, but for the texts in the slots. A number is the slot's, every other value of an object
    is a text, None or JSON in bytes.
    """
    if leaf.exact:
        key.append(value if value is None or type(value) is str else orjson.dumps(value))
    elif leaf.parts:
        key.append(None if value is None else b"{")
        if value is not None:
            for name, part in leaf.parts.items():
                gather(part, value.get(name), key, slots)
    elif leaf.each is not None:
        key.append(None if value is None else b"[%d" % len(value))
        for item in value or ():
            gather(leaf.each, item, key, slots)
    elif leaf.is_slot(value):
        key.append(slots.setdefault(value, len(slots)))
    else:
        key.append(value if value is None or type(value) is str else orjson.dumps(value))


def with_texts(leaf: Leaf, value: Any, texts: Mapping[str, str]) -> Any:
    """Return ``value`` with other texts in its slots, by the text that is there."""
    if leaf.exact or value is None:
        return value
    if leaf.parts:
        changed = {name: with_texts(part, value[name], texts) for name, part in leaf.parts.items() if name in value}
        return {**value, **changed}
    if leaf.each is not None:
        return [with_texts(leaf.each, item, texts) for item in value]
    return texts.get(value, value) if leaf.is_slot(value) else value
