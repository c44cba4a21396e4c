"""Admission queue: injections in worker threads, fair between tenants, with early rejection.

The event loop only reads requests and writes answers, so a slow pod never stops it. Python runs one thread at a time: several threads do
not inject faster, but they share the processor in slices of ``SWITCH_INTERVAL``, so that a quick pod need not wait for a slow one. A tenant
(a namespace, for one revision) has at most one thread, and a revision at most all but one. When a thread becomes free, the next turn is
that of the tenant whose injections took least time (start-time fair queueing). So nothing has to predict which pods are slow.

In a turn, a thread injects as many waiting pods of the tenant as it begins within ``TURN``, and hands all results to the event loop at
once. Each change between two threads takes time, so a busy server answers more requests than with turns of one pod. For the same reason,
the next turn is given to the thread that had the last one.

A request that does not fit is rejected at once, while the client has time to retry: client-go, and so the API server, retries 429 and 503
after ``Retry-After`` (k8s.io/client-go/rest, withRetry). A tenant may use at most as much of the queue as is still free (a dynamic
threshold): one tenant can take half of the queue, two a third each, and there is always room for the next one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from injector.settings import DEFAULTS
from injector.webhook.limits import MAX_BODIES, MAX_TENANTS, THREADS, TURN, TURN_REQUESTS

_T = TypeVar("_T")
_Result: TypeAlias = tuple[Any, BaseException | None]

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


class _Request(NamedTuple):
    """A request of the queue: see ``AdmissionQueue.run``. ``done`` gets its result."""

    done: asyncio.Future[Any]
    size: int
    deadline: float
    begin: Callable[[], Callable[[], Any] | None]


class _Turn(NamedTuple):
    """A turn in progress: when it began, the tenant's used time then, the requests that it may answer, and the thread."""

    began: float
    used: float
    requests: list[_Request]
    thread: Executor


class AdmissionQueue:
    """The queue of one event loop, and its threads.

    Args:
        max_waiting: maximum number of waiting requests.
        max_bytes: maximum bytes of the bodies of waiting requests.
        threads: maximum number of injections at a time.
        pool: runs the turns of all threads; None makes a pool for each thread.
        clock: returns seconds from any start; deadlines use the same clock.
    """

    def __init__(
        self,
        max_waiting: int = DEFAULTS.max_waiting,
        max_bytes: int = MAX_BODIES,
        *,
        threads: int = THREADS,
        pool: Executor | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.clock = clock
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._threads = threads
        # The thread that had the last turn is the last one: the processor's cache still has its memory.
        self._idle = [pool or ThreadPoolExecutor(1, f"injection-{number}") for number in range(threads)]
        # The waiting requests of each tenant, in order of arrival. Those of a turn wait until its end, which may come before they are
        # reached. Only its first does not wait.
        self._waiting: dict[Tenant, dict[asyncio.Future[Any], _Request]] = {}
        self._running: dict[Tenant, _Turn] = {}
        # The seconds that each tenant has used since the queue was idle. A tenant that comes later begins with ``_least``, those of the
        # tenant that had the last turn, so that it does not go first until it has caught up.
        self._used: dict[Tenant, float] = {}
        self._least = 0.0
        self._interval = _INTERVAL
        """The average time of a request: between the ends of two turns, divided by the requests that the later one reached."""
        self._last_end = 0.0

    def waiting(self) -> int:
        """Return the number of waiting requests."""
        return sum(map(len, self._waiting.values()))

    async def run(
        self, tenant: Tenant, size: int, begin: Callable[[], Callable[[], _T] | None], deadline: float = math.inf
    ) -> _T | None:
        """Inject in the turn of a request, and return the result.

        Args:
            tenant: whose turn it has to be.
            size: bytes of the review.
            begin: called when the turn begins, and again if it ends before the request is reached. Returns what a thread has to call,
                which must not use objects of the event loop, or None if that is no longer needed: then the result is None.
            deadline: when the client stops waiting, by ``clock``.

        Raises:
            Rejected: the queue is full, the tenant has used its share, or the deadline cannot be met.
        """
        if not self._may_run(tenant):
            self._check(self._waiting.get(tenant, {}), size, deadline)
        request = _Request(asyncio.get_running_loop().create_future(), size, deadline, begin)
        self._waiting.setdefault(tenant, {})[request.done] = request
        self._start_turns()
        try:
            result: _T | None = await request.done
        finally:
            self._remove(tenant, request)
            # The traceback of an error refers to this frame, and the request to the error. This cycle would keep the review.
            del request
        return result

    def _check(self, waiting: dict[asyncio.Future[Any], _Request], size: int, deadline: float) -> None:
        """Raise ``Rejected`` unless a request may wait behind ``waiting``, those of its tenant."""
        if len(waiting) >= self._max_waiting - self.waiting():
            raise Rejected(OVERLOAD)
        waiting_bytes = sum(map(_bytes_of, self._waiting.values()))
        if waiting_bytes and _bytes_of(waiting) + size > self._max_bytes - waiting_bytes:
            raise Rejected(OVERLOAD)
        remaining = (deadline - self.clock()) / _MARGIN
        # The tenants take turns: of each one, at most as many requests go before as there are of this one.
        ahead = sum(min(len(others), len(waiting) + 1) for others in self._waiting.values())
        if (ahead + 1) * self._interval > remaining:
            raise Rejected(DEADLINE)

    def _remove(self, tenant: Tenant, request: _Request) -> None:
        """Remove a request if it still waits."""
        waiting = self._waiting.get(tenant, {})
        waiting.pop(request.done, None)
        if not waiting:
            self._waiting.pop(tenant, None)

    def _may_run(self, tenant: Tenant) -> bool:
        """Return whether a thread is free for a request of this tenant."""
        if tenant in self._running or not self._idle:
            return False
        of_revision = sum(tenant.revision == other.revision for other in self._running)
        return of_revision < max(1, self._threads - 1)

    def _start_turns(self) -> None:
        """Give the free threads to the waiting tenants that have used least time."""
        while tenants := list(filter(self._may_run, self._waiting)):
            tenant = min(tenants, key=lambda tenant: max(self._least, self._used.get(tenant, 0.0)))
            waiting = self._waiting.pop(tenant)
            calls = self._begin(waiting)
            if waiting:
                self._waiting[tenant] = waiting  # to the end: tenants that have used the same time take turns
            if calls:
                self._start(tenant, calls)

    def _begin(self, waiting: dict[asyncio.Future[Any], _Request]) -> list[tuple[_Request, Callable[[], Any]]]:
        """Return the requests of a turn, with what a thread has to call. Remove those before them that need no thread."""
        calls: list[tuple[_Request, Callable[[], Any]]] = []
        for request in tuple(waiting.values()):
            outcome: _Result = None, None
            if self.clock() >= request.deadline:
                outcome = None, Rejected(DEADLINE)
            elif not request.done.cancelled():  # a cancelled request stays in the queue until its task runs
                outcome = _call(request.begin)
            call, error = outcome
            if call is None:
                del waiting[request.done]
                _answer(request, None, error)
                continue
            calls.append((request, call))
            if len(calls) == TURN_REQUESTS:
                break
        return calls

    def _start(self, tenant: Tenant, calls: list[tuple[_Request, Callable[[], Any]]]) -> None:
        now, requests = self.clock(), [request for request, _ in calls]
        run = partial(_call_all, [call for _, call in calls], self.clock)
        results, error = _call(partial(asyncio.get_running_loop().run_in_executor, self._idle[-1], run))
        if error is not None:  # the system has no thread
            for request in requests:
                self._remove(tenant, request)
                _answer(request, None, error)
            return
        self._remove(tenant, requests[0])
        if not self._running:
            self._last_end = now
        self._least = max(self._least, self._used.get(tenant, 0.0))
        self._running[tenant] = _Turn(now, self._least, requests, self._idle.pop())
        results.add_done_callback(partial(self._end, tenant))

    def _end(self, tenant: Tenant, finished: asyncio.Future[list[_Result]]) -> None:
        """End a turn: hand out its results, and start the next turns. The requests that it did not reach still wait."""
        now, turn, results = self.clock(), self._running.pop(tenant), finished.result()
        self._idle.append(turn.thread)
        for request, (result, error) in zip(turn.requests, results, strict=False):
            self._remove(tenant, request)
            _answer(request, result, error)
        interval = (now - self._last_end) / len(results)
        # The traceback of an error has the frames of the thread, which refer to the results. This cycle would keep the review.
        results.clear()
        self._interval += _WEIGHT * (min(interval, _MAX_INTERVAL) - self._interval)
        self._last_end = now
        self._used[tenant] = turn.used + now - turn.began
        if len(self._used) > MAX_TENANTS:
            del self._used[next(iter(self._used))]
        # After the tasks of these requests, which may put the answers of waiting ones into the cache.
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._start_turns()
        if not self._running:
            self._used.clear()


def _bytes_of(requests: dict[asyncio.Future[Any], _Request]) -> int:
    return sum(request.size for request in requests.values())


def _call(call: Callable[[], Any]) -> _Result:
    """Return the result of a call, or its error."""
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 -- the request gets it
        return None, error


def _call_all(calls: list[Callable[[], Any]], clock: Callable[[], float]) -> list[_Result]:
    """Make the first call, and those that begin within ``TURN``. Return the results."""
    end, results = clock() + TURN, list[_Result]()
    for call in calls:
        results.append(_call(call))
        if clock() >= end:
            break
    return results


def _answer(request: _Request, result: Any, error: BaseException | None) -> None:
    """Give a request its result or its error, unless its task was cancelled."""
    if request.done.cancelled():
        return
    if error is None:
        request.done.set_result(result)
    else:
        request.done.set_exception(error)
