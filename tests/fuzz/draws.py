"""Decisions that the bytes of an input make: a ``random.Random`` for generators, so that a fuzzer steers what they make.

It does what atheris' FuzzedDataProvider does, without atheris: a corpus is tried by any test run. An input that has ended
decides for 0 each time, which is the first of what there is to choose from, so that generators end.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

_T = TypeVar("_T")

FRACTION_BITS = 16
BYTE = 255
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

    def choice(self, seq: SupportsLenAndGetItem[_T]) -> _T:
        return seq[self._below(len(seq))]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self._below(start) if stop is None else super().randrange(start, stop, step)

    def _below(self, end: int) -> int:
        """What ``random`` draws, by the same bytes, in a third of the time: generators do little else."""
        if end > BYTE:
            return super().randrange(end)
        data, at, mask = self._data, self._at, (1 << end.bit_length()) - 1
        while at < len(data):
            drawn = data[at] & mask
            at += 1
            if drawn < end:
                self._at = at
                return drawn
        self._at = at
        return 0

    def random(self) -> float:
        return self.getrandbits(FRACTION_BITS) / (1 << FRACTION_BITS)

    def ended(self) -> bool:
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
