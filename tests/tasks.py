"""Tasks that run beside a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


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
