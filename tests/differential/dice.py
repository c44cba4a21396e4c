"""Choices that come out alike in every Python: only ``Random.random`` is promised to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

Item = TypeVar("Item")


class Dice:
    """A source of choices, by a seed of text."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)  # noqa: S311 -- inputs of tests

    def below(self, limit: int) -> int:
        """A number from 0 to ``limit``, less that itself."""
        return int(self._random.random() * limit)

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.below(len(items))]

    def happens(self, chance: float) -> bool:
        """True that often."""
        return self._random.random() < chance

    def some_of(self, items: Sequence[Item], chance: float = 0.5) -> list[Item]:
        """Each item or not, in their order."""
        return [item for item in items if self.happens(chance)]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """The items in any order."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in items]

    def call(self, makers: Sequence[Callable[[], Any]]) -> Any:
        """What one of the makers makes."""
        return self.one_of(makers)()
