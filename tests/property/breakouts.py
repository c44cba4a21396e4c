"""Values that try to break out of a template, put together from parts, and what a pod may gain by them: nothing."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from injector.injection.data import value_at
from tests.cases import read_cases
from tests.property.mutations import Path as Place
from tests.property.mutations import values_in

EVIL = "ev" + "il"
QUOTES = ("", "x", '"', "'", "`", "]", "}", "x" + '"', "x" + "'", '",', "x]", "}" + '"', "\\")
BREAKS = ("\n", "\n", "\n", "\r", "\r\n", "\n\n", "\x85", "\u2028", "\t")
INDENTS = (0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 12, 14, 16)
KEYS = ("privileged", "hostPID", "hostNetwork", "hostIPC", "allowPrivilegeEscalation")
LISTS = ("containers", "initContainers", "volumes")
ITEMS = (("- name", EVIL), ("  image", EVIL), ("  hostPath", "{path: /}"), ("- b", "c"), ("image", EVIL), ("- x", ""))
DIRECTIVES = (("$patch", "delete"), ("$patch", "replace"), ("$retainKeys", "[x]"), ("capabilities", "{add: [ALL]}"))
ENDS = ("", "\n", " #", "\n#", "\n- '", '\nb: "', "\nb: |")
_DATA = read_cases(Path(__file__).with_suffix(".yaml"))
PASTED: dict[str, str] = _DATA["pasted"]
"""Annotations that templates insert as they are."""
DECODED: dict[str, str] = _DATA["decoded"]
"""Annotations that templates decode."""
LABELS: dict[str, str] = _DATA["labels"]
SINGLE = (
    *("*a", "&a b", "!x y", "| ", ">-", "%a", "@a", "- a", "? a", ": a", "a: b", "a #b", "#b", ",a", "a:", "a: ", "~"),
    *("{a: b}", "[a]", "{", "}", "[", "]", "\x00", "\ufeff", "a\tb", " a", "a ", "---", "...", "it's", "\\x41", "<<"),
)


def value(dice: Random) -> str:
    """A hostile value: one indicator, or lines that would be more of the overlay."""
    if dice.random() < 0.25:
        return dice.choice(SINGLE)
    text = dice.choice(QUOTES)
    for _ in range(dice.choice((1, 1, 2, 3))):
        text += dice.choice(BREAKS) + " " * dice.choice(INDENTS) + _line(dice)
    return text + dice.choice(ENDS)


def _line(dice: Random) -> str:
    kind = dice.random()
    if kind < 0.3:
        return dice.choice(KEYS) + ": true"
    if kind < 0.5:
        return dice.choice(LISTS) + ":" + dice.choice(("", " []"))
    name, content = dice.choice(ITEMS if kind < 0.9 else DIRECTIVES)
    return f"{name}: {content}" if content else name


def aimed(indent: int) -> str:
    """A value in an argument that ends it, and its container, and begins another one at the indentation ``indent``."""
    fields = ("- name: " + EVIL, "  image: " + EVIL, "  args:")
    return "x" + "".join("\n" + " " * indent + field for field in fields)


def overriding(text: str, mark: str, image: str) -> Iterator[str]:
    """Values that give the keys of a container twice, in place of ``mark`` in a rendered text: its image differs, all else is repeated."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        before, result, _ = line.partition(mark)
        if not (result and before.lstrip().startswith("- ")):
            continue
        indent = len(before) - len(before.lstrip())
        key = number
        while key >= 0 and (lines[key].lstrip().startswith("- ") or not lines[key].endswith(":")):
            key -= 1
        own = len(lines[key]) - len(lines[key].lstrip())
        for quote in ("", '"', "'"):
            for last in (before, " " * indent + "- "):
                repeated = "\n".join([*lines[key:number], last + "x"])
                yield f"x{quote}\n{' ' * own}image: {image}\n{repeated}"


def places(pod: dict[str, Any]) -> list[Place]:
    """Where a pod has texts that are its author's."""
    texts = (place for place, value in values_in(pod) if isinstance(value, str))
    return [place for place in texts if place not in (("kind",), ("apiVersion",))]


def put(pod: dict[str, Any], place: Place, text: str, *, as_key: bool = False) -> dict[str, Any]:
    """The pod with another text in a place, or in the key of it."""
    changed = copy.deepcopy(pod)
    parent = value_at(changed, place[:-1])
    if as_key:
        parent[text] = parent.pop(place[-1])
    else:
        parent[place[-1]] = text
    return changed


def rights(pod: dict[str, Any]) -> Counter[tuple[str, ...]]:
    """What a pod runs, mounts and may do to its node."""
    spec = pod["spec"]
    counts: Counter[tuple[str, ...]] = Counter((key,) for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or []:
            name, context = str(container.get("name")), container.get("securityContext") or {}
            counts[(kind, name)] += 1
            counts.update((name, key) for key in ("privileged", "allowPrivilegeEscalation") if context.get(key))
            counts.update(
                (name, str(capability)) for capability in (context.get("capabilities") or {}).get("add") or []
            )
    for volume in spec.get("volumes") or []:
        counts[("volumes", str(volume.get("name")))] += 1
        if "hostPath" in volume:
            counts[("hostPath", str(volume["hostPath"]))] += 1
    return counts
