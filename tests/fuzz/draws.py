"""Decisions that the bytes of an input make: a ``random.Random`` for generators, so that a fuzzer steers what they make.

It does what atheris' FuzzedDataProvider does, without atheris: a corpus is tried by any test run. An input that has ended
decides for 0 each time, which is the first of what there is to choose from, so that generators end.
"""

from __future__ import annotations

from random import Random
from typing import Any

FRACTION_BITS = 16
LONG = "\x07"
"""Stands for a number of more digits than Python reads, which no fuzzer would find a digit at a time."""
DIGITS = "9" * 4301


class Draws(Random):
    """A source of decisions that reads the input from its begin; ``rest`` is what no decision has used."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        super().__init__(0)

    def seed(self, a: Any = None, version: int = 2) -> None:
        """There is nothing to seed."""

    def getrandbits(self, k: int, /) -> int:
        size = (k + 7) // 8
        part = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(part, "little") & ((1 << k) - 1)

    def random(self) -> float:
        return self.getrandbits(FRACTION_BITS) / (1 << FRACTION_BITS)

    def is_used_up(self) -> bool:
        """Whether the input is used up."""
        return self._at >= len(self._data)

    def rest(self) -> bytes:
        """What is left."""
        part = self._data[self._at :]
        self._at = len(self._data)
        return part

    def whole_text(self) -> str:
        """What is left as text, a number in the place of ``LONG``; what is no UTF-8 are lone surrogates, as templates have it."""
        return self.rest().decode("utf-8", "surrogateescape").replace(LONG, DIGITS)
