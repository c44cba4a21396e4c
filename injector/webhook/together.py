"""Several things that follow a cluster beside the server, as one."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from injector.webhook.server import Follow

_log = logging.getLogger(__name__)


def together(works: Sequence[Follow], close: Callable[[], Awaitable[None]]) -> Follow:
    """Return what runs all of ``works``, settles when the last of them has, and calls ``close`` at the end.

    What raises before that ends the others; what does later is logged, and the others go on.
    """
    return partial(_together, works, close)


async def _together(works: Sequence[Follow], close: Callable[[], Awaitable[None]], settled: asyncio.Event) -> None:
    events = [asyncio.Event() for _ in works]
    tasks = [asyncio.create_task(work(event)) for work, event in zip(works, events, strict=True)]
    try:
        await _settle(tasks, events)
        settled.set()
        for task in tasks:
            task.add_done_callback(_log_end)
        await asyncio.wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await close()


async def _settle(tasks: Sequence[asyncio.Task[object]], events: Sequence[asyncio.Event]) -> None:
    """Wait until every event is set; raise what a task does meanwhile."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        for each in waiting:
            await asyncio.wait([each, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    await task
            await each
    finally:
        for each in waiting:
            each.cancel()


def _log_end(task: asyncio.Task[object]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("no longer followed: %s", error)
