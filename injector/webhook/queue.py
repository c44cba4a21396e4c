"""Admission queue: injections in worker threads, fair between tenants, with early rejection.

The event loop only reads requests and writes answers, so a slow pod never stops it. Python runs one thread at a time: several threads do
not inject faster, but they share the processor in slices of ``SWITCH_INTERVAL``, so that a quick pod need not wait for a slow one. A tenant
(a namespace, for one revision) has at most one thread, and a revision at most all but one. When a thread becomes free, the next request
is that of the tenant whose injections took least time (start-time fair queueing). So nothing has to predict which pods are slow.

A request that does not fit is rejected at once, while the client has time to retry: client-go, and so the API server, retries 429 and 503
after ``Retry-After`` (k8s.io/client-go/rest, withRetry). A tenant may use at most as much of the queue as is still free (a dynamic
threshold): one tenant can take half of the queue, two a third each, and there is always room for the next one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar

from injector.settings import DEFAULTS
from injector.webhook.limits import MAX_BODIES, MAX_TENANTS, THREADS

_T = TypeVar("_T")

OVERLOAD: Final = "overload"
DEADLINE: Final = "deadline"
_REJECTIONS: Final = {
    OVERLOAD: (429, "too many requests are waiting: try again"),
    DEADLINE: (503, "too many requests are waiting to answer this one before its timeout: try again"),
}
"""Status and message for each reason."""

_INTERVAL: Final = 0.005
# So the last dozen turns make up half of the average.
_WEIGHT: Final = 0.06
# Turns vary, and the client has to read the response before its deadline.
_MARGIN: Final = 1.5
# One very slow pod does not predict the next.
_MAX_INTERVAL: Final = 0.5


class Refusal(Exception):  # noqa: N818 -- a response to the client, not an error of the injector
    """A request that gets an HTTP status in place of an AdmissionReview, because no uid is known; ``retry`` adds Retry-After.

    It is not an InjectorError: those are answered with a review that has the uid, and have a place and a remedy for the user.
    """

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


class Tenant(NamedTuple):
    """The requests of one namespace for one revision."""

    revision: str
    namespace: str


class _Turn(NamedTuple):
    """A turn in progress: the time of its start, and the tenant's used time at its start."""

    began: float
    used: float


class AdmissionQueue:
    """The queue of one event loop, and its threads.

    Args:
        max_waiting: maximum number of waiting requests.
        max_bytes: maximum bytes of the bodies of waiting requests.
        threads: maximum number of injections at a time.
        clock: returns seconds from any start; deadlines use the same clock.
    """

    def __init__(
        self,
        max_waiting: int = DEFAULTS.max_waiting,
        max_bytes: int = MAX_BODIES,
        *,
        threads: int = THREADS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.clock = clock
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "injection")
        # The waiting requests of each tenant in order of arrival: the futures of their turns, with the sizes of their bodies.
        self._waiting: dict[Tenant, dict[asyncio.Future[None], int]] = {}
        self._running: dict[Tenant, _Turn] = {}
        # The seconds that each tenant has used since the queue was idle. A tenant that comes later begins with ``_least``, those of the
        # tenant that had the last turn, so that it does not go first until it has caught up.
        self._used: dict[Tenant, float] = {}
        self._least = 0.0
        self._interval = _INTERVAL
        """The average time between the ends of two turns."""
        self._last_end = 0.0

    def waiting(self) -> int:
        """Return the number of waiting requests."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, tenant: Tenant, size: int, deadline: float = math.inf) -> AsyncIterator[None]:
        """Wait for the turn of a request, which lasts until the end of the block.

        ``size`` is that of the review in bytes, and ``deadline`` is when the client stops waiting, by ``clock``.

        Raises:
            Rejected: the queue is full, the tenant has used its share, or the deadline cannot be met.
        """
        if self._may_run(tenant):
            self._start(tenant)
        else:
            await self._wait(tenant, size, deadline)
        try:
            if self.clock() >= deadline:
                raise Rejected(DEADLINE)
            yield
        finally:
            self._end(tenant)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run ``work``, which must not use objects of the event loop, in a thread within a ``turn``, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def _wait(self, tenant: Tenant, size: int, deadline: float) -> None:
        self._check(self._waiting.get(tenant, {}), size, deadline)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, {})[granted] = size
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._end(tenant)
            else:
                self._remove(tenant, granted)
            raise

    def _check(self, waiting: dict[asyncio.Future[None], int], size: int, deadline: float) -> None:
        """Raise ``Rejected`` unless a request may wait behind ``waiting``, those of its tenant."""
        if len(waiting) >= self._max_waiting - self.waiting():
            raise Rejected(OVERLOAD)
        waiting_bytes = sum(sum(sizes.values()) for sizes in self._waiting.values())
        if waiting_bytes and sum(waiting.values()) + size > self._max_bytes - waiting_bytes:
            raise Rejected(OVERLOAD)
        remaining = (deadline - self.clock()) / _MARGIN
        # The tenants take turns: of each one, at most as many requests go before as there are of this one.
        ahead = sum(min(len(others), len(waiting) + 1) for others in self._waiting.values())
        if (ahead + 1) * self._interval > remaining:
            raise Rejected(DEADLINE)

    def _remove(self, tenant: Tenant, granted: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(tenant, {})
        waiting.pop(granted, None)
        if not waiting:
            self._waiting.pop(tenant, None)

    def _may_run(self, tenant: Tenant) -> bool:
        """Return whether a thread is free for a request of this tenant."""
        if tenant in self._running or len(self._running) >= self._threads:
            return False
        of_revision = sum(tenant.revision == other.revision for other in self._running)
        return of_revision < max(1, self._threads - 1)

    def _start(self, tenant: Tenant) -> None:
        now = self.clock()
        if not self._running:
            self._last_end = now
        self._least = max(self._least, self._used.get(tenant, 0.0))
        self._running[tenant] = _Turn(now, self._least)

    def _end(self, tenant: Tenant) -> None:
        """End a turn, and give the free thread to the next request."""
        now, turn = self.clock(), self._running.pop(tenant)
        self._interval += _WEIGHT * (min(now - self._last_end, _MAX_INTERVAL) - self._interval)
        self._last_end = now
        self._used[tenant] = turn.used + now - turn.began
        if len(self._used) > MAX_TENANTS:
            del self._used[next(iter(self._used))]
        while self._grant():
            pass
        if not self._running:
            self._used.clear()

    def _grant(self) -> bool:
        """Give a thread to the waiting tenant that has used least time. Return False if none may run."""
        tenants = filter(self._may_run, self._waiting)
        tenant = min(tenants, key=lambda tenant: max(self._least, self._used.get(tenant, 0.0)), default=None)
        if tenant is None:
            return False
        waiting = self._waiting.pop(tenant)
        granted = next(iter(waiting))
        del waiting[granted]
        if waiting:
            self._waiting[tenant] = waiting  # to the end: tenants that have used the same time take turns
        # A cancelled request stays in the queue until its task runs.
        if not granted.cancelled():
            self._start(tenant)
            granted.set_result(None)
        return True
