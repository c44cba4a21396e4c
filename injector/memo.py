"""A bounded memo: results of a pure function by the function's complete argument. ``share`` holds them only as long as they are in use.

A memo never changes an answer. Callers share the results that it holds, so nothing may change them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from weakref import WeakValueDictionary

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Keeps the results that were used last, in two generations.

    A new result joins the young generation. When that is full it becomes the old one, and the results of the old one are dropped unless
    they were used meanwhile. A hit costs one dictionary lookup; a list in order of use costs three.
    Several threads may share a memo: at worst a result is computed twice.

    Args:
        entries: how many results the memo holds at most.
        size: how much all keys together may measure.
        size_of: measures a key, for example the length of a text.
    """

    __slots__ = ("_entries", "_old", "_room", "_size", "_size_of", "_young", "hits")

    def __init__(self, entries: int, size: int, size_of: Callable[[K], int]) -> None:
        self._entries = entries // 2
        self._size = self._room = size // 2
        self._size_of = size_of
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self.hits = 0

    def find(self, key: K) -> V | None:
        """Return the result for ``key``, None if the memo does not hold it."""
        result = self._young.get(key)
        if result is None:
            result = self._old.get(key)
            if result is None:
                return None
            self.keep(key, result)
        self.hits += 1
        return result

    def keep(self, key: K, result: V) -> None:
        """Hold the result for ``key``, unless the key is too large."""
        size = self._size_of(key)
        if size > self._size:
            return
        if len(self._young) >= self._entries or size > self._room:
            self._old, self._young, self._room = self._young, {}, self._size
        self._young[key] = result
        self._room -= size

    def get(self, key: K, compute: Callable[[K], V]) -> V:
        """Return the result for ``key``: the one held, else what ``compute`` returns. An error that it raises is not held."""
        result = self.find(key)
        if result is None:
            result = compute(key)
            self.keep(key, result)
        return result

    def __len__(self) -> int:
        """How many results it holds."""
        return len(self._young.keys() | self._old.keys())


def share(values: WeakValueDictionary[K, V], key: K, compute: Callable[[], V]) -> V:
    """Return the value for ``key`` if it is in use, else what ``compute`` returns, which is shared from now on."""
    value = values.get(key)
    if value is None:
        value = values[key] = compute()
    return value
