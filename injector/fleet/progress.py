"""The progress of long work and its notes, which a command shows. The work itself prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Report: TypeAlias = Callable[[str], object]
"""Shows a note or a warning to the user."""


class Progress(Protocol):
    """Yields items, and may show how many of them have passed."""

    def __call__(self, items: Iterable[T], label: str, *, length: int | None = None) -> Iterator[T]:
        """Yield the items. ``label`` names them; ``length`` is their number, if it is known."""


def no_progress(items: Iterable[T], label: str, *, length: int | None = None) -> Iterator[T]:
    """Yield the items, and show nothing."""
    del label, length
    return iter(items)
