"""Pods changed at any leaf, as a hostile or careless user would: other names, names that mean something, numbers, parts gone or doubled."""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Iterator
from random import Random
from typing import Any, TypeAlias

from injector.injection.data import value_at
from tests.cases import read_cases

Path: TypeAlias = tuple[str | int, ...]

# Names that the templates know, words that YAML takes for something else, texts that have to be quoted, and numbers.
_DATA = read_cases(pathlib.Path(__file__).with_suffix(".yaml"))
TEXTS: list[str] = _DATA["texts"]
KEYS: list[str] = _DATA["keys"]
QUANTITIES = ("100m", "250m", "999m", "7m", "64Mi", "128Mi", "999Mi")
NUMBERS = (0, 1, -1, 8080, 15020, 15021, 2**31, "http")
MOST_CHANGES = 3
MOSTLY = 0.8


def mutated(pod: dict[str, Any], random: Random) -> dict[str, Any]:
    """A pod with one to three of its leaves, lists or objects changed."""
    pod = copy.deepcopy(pod)
    for _ in range(random.randint(1, MOST_CHANGES)):
        path, value = random.choice([entry for entry in values_in(pod) if entry[0]])
        _change(pod, value_at(pod, path[:-1]), path[-1], value, random)
    return pod


def values_in(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value in JSON data with its path, the data itself first."""
    yield path, data
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, item in inner:
        yield from values_in(item, (*path, key))


def _change(pod: dict[str, Any], parent: Any, key: Any, value: Any, random: Random) -> None:
    if isinstance(parent, dict) and random.random() < 0.1:
        del parent[key]
    elif isinstance(value, bool):
        parent[key] = not value
    elif isinstance(value, int):
        parent[key] = random.choice((value + 1, *NUMBERS))
    elif isinstance(value, str):
        others = [other for _, other in values_in(pod) if isinstance(other, str)]
        texts = QUANTITIES if value in QUANTITIES and random.random() < MOSTLY else TEXTS
        parent[key] = random.choice((random.choice(texts), random.choice(texts), random.choice(others), f"{value}x"))
    elif isinstance(value, list) and value:
        change = random.choice((value.pop, value.reverse, lambda: value.append(copy.deepcopy(value[0]))))
        change()
    elif isinstance(value, dict):
        value[random.choice((*KEYS, "name"))] = random.choice((*TEXTS, *QUANTITIES))
