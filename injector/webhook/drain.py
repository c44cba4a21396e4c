"""The end of a drain: no new connections, an answer for whatever is under way, and no connection closed before that.

A request that crosses the close of its idle connection on the wire cannot be answered by anybody. What is left of that
is the time of the wire, on connections that nobody used for ``QUIET``: after a shutdown delay that is longer, nobody has used
those that are left during all of it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from injector.webhook.connections import readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from injector.webhook.arrivals import Arrivals
    from injector.webhook.connections import Connections

# With the shutdown delay of 5 s this leaves a second of the 10 in which the injector is to be gone. What runs takes
# milliseconds; longer takes only a caller who does not send the rest of his request.
FINISH: Final = 4.0
# How often it is looked. Each look costs one poll(2) over the connections that are left.
LOOK: Final = 0.02


async def empty(
    listening: asyncio.Server | Arrivals,
    connections: Connections,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> int:
    """Stop listening, and close each connection once nothing is under way on it.

    Whoever the kernel has accepted by then is still answered.

    Returns:
        How many connections were left after ``FINISH``.
    """
    end = clock() + FINISH
    while True:
        if listening.is_serving() and not _callers_wait(listening):
            listening.close()
        connections.close_idle()
        left = connections.left()
        if not (listening.is_serving() or left) or clock() >= end:
            return left
        await pause(LOOK)


def _callers_wait(listening: asyncio.Server | Arrivals) -> bool:
    return bool(readable(each.fileno() for each in listening.sockets))
