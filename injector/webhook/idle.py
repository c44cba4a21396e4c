"""An event loop that tells other threads whether it waits: threads that work beside it give way to it by that."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from selectors import SelectorKey

# What the platform has, epoll on Linux, as asyncio takes it.
_Selector = selectors.DefaultSelector


class Selector(_Selector):
    """What a loop waits with; ``waits`` tells whether it does so now."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = False

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Wait until something is to be done, as the selector of the platform does."""
        # A look in passing is no waiting: there is work at hand.
        self.waits = timeout is None or timeout > 0
        try:
            return super().select(timeout)
        finally:
            self.waits = False


class Loop(asyncio.SelectorEventLoop):
    """asyncio's loop with such a selector."""

    def __init__(self) -> None:
        self._waiting = Selector()
        super().__init__(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do; any thread may ask."""
        return self._waiting.waits


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` to its end on such a loop, as ``asyncio.run`` does on its own."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main)
