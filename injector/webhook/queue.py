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
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from injector.settings import DEFAULTS

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all bodies in memory: a quarter of the memory limit in ``deploy/``."""

OVERLOAD: Final = "overload"
DEADLINE: Final = "deadline"
_REJECTIONS: Final = {
    OVERLOAD: (429, "too many requests are waiting: try again"),
    DEADLINE: (503, "too many requests are waiting to answer this one before its timeout: try again"),
}
"""Status and message for each reason."""

_COST: Final = 0.005
# So the last dozen requests make up half of the average.
_WEIGHT: Final = 0.06
# Turns vary, and the client has to read the response before its deadline.
_MARGIN: Final = 1.5
# One very slow pod does not predict the next.
_MAX_COST: Final = 0.5


class Refusal(Exception):  # noqa: N818 -- a response to the client, not an error of the injector
    """A request without a known uid gets an HTTP status; ``retry`` adds Retry-After."""

    def __init__(self, status: int, reason: str, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry = retry


class Rejected(Refusal):
    """The queue rejects a request, for the reason ``OVERLOAD`` or ``DEADLINE``."""

    def __init__(self, reason: str) -> None:
        status, message = _REJECTIONS[reason]
        super().__init__(status, reason, message, retry=True)


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
        max_waiting: int = DEFAULTS.max_waiting,
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
        # The waiting requests of each namespace in order of arrival: the futures of their turns, with the sizes of their bodies. The
        # namespaces are in round robin order: the first one gets the next turn, and moves to the end if it has more requests.
        self._namespaces: dict[str, dict[asyncio.Future[None], int]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._granted_at = 0.0
        self._cost = cost
        self._weight = weight

    def waiting(self) -> int:
        """Return the number of waiting requests."""
        return sum(map(len, self._namespaces.values()))

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
        self._check(self._namespaces.get(namespace, {}), size, deadline)
        waiters = self._namespaces.setdefault(namespace, {})
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters[granted] = size
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._end_turn()
            elif granted in waiters:
                self._remove(namespace, granted)
            raise

    def _check(self, waiters: dict[asyncio.Future[None], int], size: int, deadline: float) -> None:
        """Raise ``Rejected`` unless a request may wait behind ``waiters``, those of its namespace."""
        if len(waiters) >= self._max_waiting - self.waiting():
            raise Rejected(OVERLOAD)
        waiting_bytes = sum(sum(sizes.values()) for sizes in self._namespaces.values())
        if waiting_bytes and sum(waiters.values()) + size > self._max_bytes - waiting_bytes:
            raise Rejected(OVERLOAD)
        remaining = (deadline - self.clock()) / _MARGIN
        # The namespaces take turns: of each one, at most as many requests go before as there are of this one.
        ahead = sum(min(len(waiting), len(waiters) + 1) for waiting in self._namespaces.values())
        if (ahead + 1) * self._cost > remaining:
            raise Rejected(DEADLINE)

    def _remove(self, namespace: str, granted: asyncio.Future[None]) -> None:
        waiters = self._namespaces[namespace]
        del waiters[granted]
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
            granted = next(iter(waiters))
            self._remove(namespace, granted)
            if waiters:
                self._namespaces[namespace] = self._namespaces.pop(namespace)
            # A cancelled request stays in the queue until its task runs.
            if not granted.cancelled():
                self._granted_at = self.clock()
                granted.set_result(None)
                return True
        return False
