"""Tasks that run beside a test, and waits for what they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

LIMIT: Final = 60.0
"""Seconds after which a wait fails. Even a busy machine needs one or two."""


async def until(
    condition: Callable[[], object | Awaitable[object]], *, limit: float = LIMIT, every: float = 0.005
) -> float:
    """Wait until a condition, which may be a coroutine, is true. Return the seconds that it took.

    The deadline is one of real time, also if the clock of the event loop stands still.
    """
    started = time.monotonic()
    while True:
        result = condition()
        if await result if isinstance(result, Awaitable) else result:
            return time.monotonic() - started
        assert time.monotonic() - started < limit, f"not seen within {limit:g} s"
        await asyncio.sleep(every)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Run a task until the block ends. It is an error if the task ends before."""
    task = asyncio.create_task(work)
    try:
        yield task
        assert not task.done(), "the task ended"
    finally:
        task.cancel()
        await asyncio.wait([task])
