"""Who is worked on, who waits for it, and who is told to come back before the queue grows.

Injection holds the event loop, so the queue would be the loop itself, where nothing can be counted and a probe waits as
long as everybody. Here requests that have come in full take turns instead: as many in one pass of the loop as fit into
``SLICE``, in the order they came. Who would wait beyond the bounds, or beyond the deadline of the call, is told at once,
while another replica can still answer in time: client-go, and so the API server, tries again after a ``Retry-After``
(k8s.io/client-go/rest, withRetry).

Who asks for the first time on a connection comes after those who have been answered on theirs, but is not left out: an API server keeps
its connections, so that new ones by the hundred are a burst, or hostile.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# At 4 ms each that is 4 s of work, and a webhook may be given 5 s; those that take longer are turned away by their
# deadline. An API server sends 200 at once at most (--max-mutating-requests-inflight), and who is turned away costs a
# handshake when he comes back, which is more than most injections: it keeps 25 connections.
MAX_WAITING: Final = 1000
# A quarter of the memory that deploy/ allows; 1,000 reviews of 30 KB, as pods with many volumes have, are 30 MB.
MAX_BYTES: Final = 64 * 1024 * 1024
# Probes, handshakes and reading wait for this and one injection; where they take longer themselves, injections get as
# long as they do, for who has asked is to be answered before others are let in.
SLICE: Final = 0.01
LONGEST_SLICE: Final = 0.25
NEWCOMERS: Final = 0.0025
"""What of it newcomers get, and one injection."""

OVERLOAD: Final = "overload"
DEADLINE: Final = "deadline"

# Until something was measured: what an injection takes with an empty memory.
_FIRST_GUESS: Final = 0.005
# The last dozen requests make half of the average, which so follows a change of load.
_WEIGHT: Final = 0.06
# One pod that takes seconds says nothing of the next.
_MOST_COUNTED: Final = 0.25


class Admittance:
    """The queue of one event loop.

    Args:
        most: how many requests may wait.
        room: how many bytes the bodies of all requests may have together, those that have not come in full among them.
    """

    def __init__(
        self, most: int = MAX_WAITING, room: int = MAX_BYTES, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._most = most
        self._room = room
        self._clock = clock
        self._queue: deque[asyncio.Future[None]] = deque()
        self._newcomers: deque[asyncio.Future[None]] = deque()
        self._bytes = 0
        self._cost = _FIRST_GUESS
        self._slice_began = self._slice_ends = 0.0
        self._worked = 0.0
        self._in_slice = False

    def waiting(self) -> int:
        """Return how many requests wait for their turn."""
        return len(self._queue) + len(self._newcomers)

    def hold(self, size: int) -> bool:
        """Take room for ``size`` bytes of a body, and tell whether it was there; ``release`` gives it back either way."""
        self._bytes += size
        return self._bytes <= self._room

    def release(self, size: int) -> None:
        """Give back the room of a body."""
        self._bytes -= size

    def refusal(self, left: float, *, newcomer: bool = False) -> str:
        """Return why a request that has come in full should not wait; nothing where it may.

        ``left`` are the seconds until nobody waits for its answer; newcomers stand behind all others.
        """
        ahead = self.waiting() if newcomer else len(self._queue)
        if ahead >= self._most:
            return OVERLOAD
        return DEADLINE if ahead * self._cost > left else ""

    async def turn(self, *, newcomer: bool = False) -> None:
        """Wait until it is this request's turn; ``newcomer`` says that it is the first one on its connection."""
        queue = self._newcomers if newcomer else self._queue
        if not queue:
            if not self._in_slice:
                self._begin_slice()
                return
            if self._clock() < (self._slice_began + NEWCOMERS if newcomer else self._slice_ends):
                return
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        await turn

    def took(self, seconds: float) -> None:
        """Learn how long an injection took."""
        self._worked += seconds
        self._cost += _WEIGHT * (min(seconds, _MOST_COUNTED) - self._cost)

    def _begin_slice(self, length: float = SLICE) -> None:
        self._in_slice = True
        self._worked = 0.0
        self._slice_began = self._clock()
        self._slice_ends = self._slice_began + length
        asyncio.get_running_loop().call_soon(self._next_slice)

    def _next_slice(self) -> None:
        """Give their turns to those who fit into the next pass of the loop."""
        self._in_slice = False
        if not self.waiting():
            return
        elsewhere = self._clock() - self._slice_began - self._worked
        length = min(LONGEST_SLICE, max(SLICE, elsewhere))
        _let_in(self._queue, int(length / max(self._cost, 1e-6)))
        _let_in(self._newcomers, int(NEWCOMERS / max(self._cost, 1e-6)))
        self._begin_slice(length)


def _let_in(queue: deque[asyncio.Future[None]], most: int) -> None:
    """Give so many their turn, and one at least."""
    for _ in range(min(len(queue), max(1, most))):
        turn = queue.popleft()
        # Cancelled, where the server ends before its turn.
        if not turn.done():
            turn.set_result(None)
