"""How work that takes the processor for long is run: in this thread, or in another one where an event loop has to stay free."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class Offload(Protocol):
    """Runs work that takes the processor for long: ``inline``, or ``asyncio.to_thread`` where an event loop has to stay free."""

    async def __call__(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` and return its result."""


async def inline(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``work`` in this thread."""
    return work(*args, **kwargs)
