"""Admission queue: one injection at a time, fair between namespaces, with early rejection.

An injection blocks the event loop. So requests take turns, and the loop runs between two turns, so that probes, handshakes and cached
answers do not wait for the queue. The turns are round robin over the namespaces, and first in, first out within a namespace.

A request that does not fit is rejected at once, while the client has time to retry: client-go, and so the API server, retries 429 and 503
after ``Retry-After`` (k8s.io/client-go/rest, withRetry). A namespace may use at most as much of the queue as is still free (a dynamic
threshold): one namespace can take half of the queue, two a third each, and there is always room for the next one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

MAX_WAITING: Final = 1000
"""Requests. At 4 ms each that is 4 s of work. An API server sends at most 200 at once (--max-mutating-requests-inflight)."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all bodies in memory: a quarter of the memory limit in ``deploy/``."""

OVERLOAD: Final = "overload"
DEADLINE: Final = "deadline"

_COST: Final = 0.005
# So the last dozen requests make up half of the average.
_WEIGHT: Final = 0.06
# Turns vary, and the client has to read the response before its deadline.
_MARGIN: Final = 1.5
# One very slow pod does not predict the next.
_MAX_COST: Final = 0.5


class Rejected(Exception):  # noqa: N818 -- an answer to the caller, not an error of the injector
    """The queue rejects a request; ``reason`` is ``OVERLOAD`` or ``DEADLINE``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Waiter:
    """A waiting request, with the size of its body."""

    __slots__ = ("granted", "size")

    def __init__(self, size: int) -> None:
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.size = size


class _Waiters(deque[_Waiter]):
    """The waiting requests of one namespace, in order of arrival, and their bytes."""

    bytes = 0


class AdmissionQueue:
    """The queue of one event loop.

    Args:
        max_waiting: maximum number of waiting requests.
        max_bytes: maximum bytes of the bodies in memory, and of those of waiting requests.
        clock: returns seconds from any start; deadlines use the same clock.
        cost: the initial estimate of the seconds of a turn.
        weight: the weight of the last turn in the moving average.
    """

    def __init__(
        self,
        max_waiting: int = MAX_WAITING,
        max_bytes: int = MAX_BYTES,
        *,
        clock: Callable[[], float] = time.perf_counter,
        cost: float = _COST,
        weight: float = _WEIGHT,
    ) -> None:
        self.clock = clock
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._held = 0
        # In round robin order: the first namespace gets the next turn, and moves to the end if it has more requests.
        self._namespaces: dict[str, _Waiters] = {}
        self._count = 0
        self._bytes = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._granted_at = 0.0
        self._cost = cost
        self._weight = weight

    def waiting(self) -> int:
        """Return the number of waiting requests."""
        return self._count

    async def idle(self) -> None:
        """Wait until no request has its turn or waits for it."""
        await self._idle.wait()

    def reserve(self, size: int, body: int = 0) -> bool:
        """Reserve ``size`` more bytes, until ``release``, for a body that has ``body`` bytes so far.

        Returns:
            Whether the body fits: it may have at most as many bytes as are free, so that large bodies are rejected first.
        """
        fits = body + size <= self._max_bytes - self._held
        self._held += size
        return fits

    def release(self, size: int) -> None:
        """Release bytes that ``reserve`` reserved, whether they fit or not."""
        self._held -= size

    @asynccontextmanager
    async def turn(self, namespace: str, size: int, deadline: float = math.inf) -> AsyncIterator[None]:
        """Wait for the turn of a request, which lasts until the end of the block.

        ``size`` is that of the review in bytes, and ``deadline`` is when the client stops waiting, by ``clock``.

        Raises:
            Rejected: the queue is full, the namespace has used its share, or the deadline cannot be met.
        """
        if self._idle.is_set():
            self._idle.clear()
            self._granted_at = self.clock()
        else:
            await self._wait(namespace, size, deadline)
        try:
            if self.clock() >= deadline:
                raise Rejected(DEADLINE)
            try:
                yield
            finally:
                self._cost += self._weight * (min(self.clock() - self._granted_at, _MAX_COST) - self._cost)
        finally:
            self._end_turn()

    async def _wait(self, namespace: str, size: int, deadline: float) -> None:
        waiters = self._namespaces.get(namespace)
        self._check(waiters, size, deadline)
        if waiters is None:
            waiters = self._namespaces[namespace] = _Waiters()
        waiter = _Waiter(size)
        waiters.append(waiter)
        waiters.bytes += size
        self._count += 1
        self._bytes += size
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self._end_turn()
            elif waiter in waiters:
                self._remove(namespace, waiter)
            raise

    def _check(self, waiters: _Waiters | None, size: int, deadline: float) -> None:
        """Raise ``Rejected`` unless a request may wait behind ``waiters``, those of its namespace."""
        count, size_of_others = (0, 0) if waiters is None else (len(waiters), waiters.bytes)
        if count >= self._max_waiting - self._count:
            raise Rejected(OVERLOAD)
        if self._bytes and size_of_others + size > self._max_bytes - self._bytes:
            raise Rejected(OVERLOAD)
        left = (deadline - self.clock()) / _MARGIN
        # The exact position takes a loop over the namespaces, so it is computed only if the deadline may be missed.
        if (self._count + 1) * self._cost > left and (self._ahead(count) + 1) * self._cost > left:
            raise Rejected(DEADLINE)

    def _ahead(self, count: int) -> int:
        """Return the number of requests before the next one of a namespace with ``count`` waiting."""
        return sum(min(len(each), count + 1) for each in self._namespaces.values())

    def _remove(self, namespace: str, waiter: _Waiter) -> None:
        waiters = self._namespaces[namespace]
        waiters.remove(waiter)
        waiters.bytes -= waiter.size
        self._count -= 1
        self._bytes -= waiter.size
        if not waiters:
            del self._namespaces[namespace]

    def _end_turn(self) -> None:
        """Give the turn to the next request, which runs in the next pass of the event loop."""
        if not self._grant():
            # Not idle before the next pass, so that ready requests do not run in a row without I/O in between.
            asyncio.get_running_loop().call_soon(self._free)

    def _free(self) -> None:
        if not self._grant():
            self._idle.set()

    def _grant(self) -> bool:
        """Give the turn to the next namespace. Return False if no request waits."""
        while self._namespaces:
            namespace = next(iter(self._namespaces))
            waiters = self._namespaces[namespace]
            waiter = waiters[0]
            self._remove(namespace, waiter)
            if waiters:
                del self._namespaces[namespace]
                self._namespaces[namespace] = waiters
            # A cancelled waiter stays in the queue until its task runs.
            if not waiter.granted.cancelled():
                self._granted_at = self.clock()
                waiter.granted.set_result(None)
                return True
        return False
