"""What was made of a text, for as long as there is room: equal texts are read once.

The pods of a ReplicaSet render to the same text, and reading it takes longer than all else that is done with it. What is remembered is
shared by all who ask: nobody may change it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ENTRIES: Final = 32
"""Workloads that scale at once. What is read of a text takes eight times its bytes, 45 KB for Istio's own: 1.5 MB for a revision."""

CHARACTERS: Final = 1 << 18


class Remembered(Generic[T]):
    """Values by text, those asked for last; threads may share it.

    Args:
        entries: how many there are at most.
        characters: how long their texts are together at most.
    """

    __slots__ = ("_characters", "_entries", "_held", "_size")

    def __init__(self, entries: int = ENTRIES, characters: int = CHARACTERS) -> None:
        self._entries = entries
        self._characters = characters
        self._held: OrderedDict[str, T] = OrderedDict()
        self._size = 0

    def get(self, text: str, make: Callable[[str], T]) -> T:
        """Return what ``make`` makes of ``text``, now or when it was last asked for; an error it raises is not remembered."""
        try:
            self._held.move_to_end(text)
            return self._held[text]
        except KeyError:  # not there, or gone meanwhile
            made = make(text)
        if len(text) <= self._characters:
            self._keep(text, made)
        return made

    def _keep(self, text: str, made: T) -> None:
        if text not in self._held:
            self._size += len(text)
        self._held[text] = made
        while len(self._held) > self._entries or self._size > self._characters:
            try:
                gone, _ = self._held.popitem(last=False)
            except KeyError:  # another thread has emptied it: the count starts anew
                self._size = 0
                return
            self._size -= len(gone)

    def __len__(self) -> int:
        """How many are held."""
        return len(self._held)
