"""Admission queue: one injection at a time, fair between namespaces, with early rejection.

An injection holds the event loop. Therefore one request at a time has its turn, and the loop runs between two turns, so that probes,
handshakes and cached answers are not delayed by the length of the queue. The turn goes round robin over the namespaces that have
requests waiting. Within a namespace the order is first in, first out.

A request that does not fit is rejected at once, while the caller still has time to try again: client-go, and so the API server, retries
429 and 503 after ``Retry-After`` (k8s.io/client-go/rest, withRetry). A namespace may use at most as much of the queue as is still free
(a dynamic threshold, as in shared-buffer switches): one namespace alone can take half of the queue, two can take a third each, and there is
always room for the next one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

MAX_WAITING: Final = 1000
"""Requests. At 4 ms each that is 4 s of work. An API server sends 200 at once at most (--max-mutating-requests-inflight)."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all bodies in memory: a quarter of the memory that ``deploy/`` allows."""

OVERLOAD: Final = "overload"
DEADLINE: Final = "deadline"

_COST: Final = 0.005
# The last dozen requests make up half of the average, so the average follows a change of load.
_WEIGHT: Final = 0.06
# An answer that arrives at its deadline is late: turns vary, and the caller reads the answer too.
_MARGIN: Final = 1.5
# One pod that takes seconds says nothing about the next.
_MAX_COST: Final = 0.5


class Rejected(Exception):  # noqa: N818 -- an answer to the caller, not an error of the injector
    """A request that must not wait. ``reason`` is ``OVERLOAD`` or ``DEADLINE``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Waiter:
    """One request that waits, with the size of its body."""

    __slots__ = ("granted", "size")

    def __init__(self, size: int) -> None:
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.size = size


class _Waiters(deque[_Waiter]):
    """The requests of one namespace that wait, in their order of arrival."""

    bytes = 0


class AdmissionQueue:
    """The queue of one event loop.

    Args:
        max_waiting: how many requests may wait.
        max_bytes: how many bytes the bodies in memory, and those of the waiting requests, may have together.
        clock: returns seconds from any start; deadlines are in its time.
        cost: how many seconds a turn is expected to take, until some were measured.
        weight: how much the last turn counts in the average of them.
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
        # The first namespace is the next one to be served; one that has more requests goes to the end then.
        self._namespaces: dict[str, _Waiters] = {}
        self._count = 0
        self._bytes = 0
        self._busy = False
        self._granted_at = 0.0
        self._cost = cost
        self._weight = weight

    def waiting(self) -> int:
        """Return how many requests wait for their turn."""
        return self._count

    def hold(self, size: int, body: int = 0) -> bool:
        """Reserve ``size`` more bytes for a body that already has ``body`` bytes.

        A body may have at most as many bytes as are free, so that large ones are rejected first.

        Returns:
            Whether there is room. The bytes are reserved in either case, until ``release``.
        """
        fits = body + size <= self._max_bytes - self._held
        self._held += size
        return fits

    def release(self, size: int) -> None:
        """Give back bytes that ``hold`` reserved."""
        self._held -= size

    @asynccontextmanager
    async def turn(self, namespace: str, size: int, deadline: float = math.inf) -> AsyncIterator[None]:
        """Wait for the turn of a request. The turn ends with the block.

        Args:
            namespace: the namespace of the pod.
            size: bytes of the review.
            deadline: when the caller stops waiting, in seconds of ``clock``.

        Raises:
            Rejected: the queue is full, the namespace has its share of it, or the deadline cannot be met.
        """
        if self._busy:
            await self._wait(namespace, size, deadline)
        else:
            self._busy = True
            self._granted_at = self.clock()
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
        """Raise ``Rejected`` where a request must not wait behind ``waiters``, those of its namespace."""
        count, size_of_others = (0, 0) if waiters is None else (len(waiters), waiters.bytes)
        if count >= self._max_waiting - self._count:
            raise Rejected(OVERLOAD)
        if self._bytes and size_of_others + size > self._max_bytes - self._bytes:
            raise Rejected(OVERLOAD)
        left = (deadline - self.clock()) / _MARGIN
        # The exact place costs a look at each namespace, so it is only computed where the deadline may be missed.
        if (self._count + 1) * self._cost > left and (self._ahead(count) + 1) * self._cost > left:
            raise Rejected(DEADLINE)

    def _ahead(self, count: int) -> int:
        """Return how many requests go before the next one of a namespace that has ``count`` waiting."""
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
        """Give the turn to the next request, which runs in the next pass of the loop."""
        if not self._grant():
            # Requests that are ready in this pass of the loop must not run one after the other without any I/O between.
            asyncio.get_running_loop().call_soon(self._free)

    def _free(self) -> None:
        self._busy = self._grant()

    def _grant(self) -> bool:
        """Give the turn to the next namespace. Return False if nothing waits."""
        while self._namespaces:
            namespace = next(iter(self._namespaces))
            waiters = self._namespaces[namespace]
            waiter = waiters[0]
            self._remove(namespace, waiter)
            if waiters:
                del self._namespaces[namespace]
                self._namespaces[namespace] = waiters
            # The task of a request that was cancelled has not run since.
            if not waiter.granted.cancelled():
                self._granted_at = self.clock()
                waiter.granted.set_result(None)
                return True
        return False
