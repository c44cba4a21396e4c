"""How long a thread has worked: the clock of every rendering's budget, which is looked at again and again while one goes on.

Python runs one thread at a time, so a long rendering beside an event loop holds the loop up. A thread that is to give way does so
where its rendering looks at the clock.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GIVE_WAY: Final[ContextVar[Callable[[], None] | None]] = ContextVar("give_way", default=None)


def worked() -> float:
    """Return how many seconds this thread has worked; that the machine does other things meanwhile is no fault of a template."""
    give_way = _GIVE_WAY.get()
    if give_way is not None:
        give_way()
    return time.thread_time()


@contextmanager
def giving_way(give_way: Callable[[], None]) -> Iterator[None]:
    """Call ``give_way`` each time that a rendering of this thread looks at the clock, until the block ends."""
    token = _GIVE_WAY.set(give_way)
    try:
        yield
    finally:
        _GIVE_WAY.reset(token)
