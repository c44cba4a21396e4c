"""Slow injections: one worker thread for requests that are predicted to be slow, so that they do not block the event loop.

The prediction uses the size of the review, and the average duration of injections for the same revision and namespace. So a slow pod
delays only pods of its own namespace and revision. The average rises fast and falls slowly: one slow pod is enough to offload a namespace,
and pods that were quick for a while bring it back. The thread has its own fair queue (``webhook.queue``). Python runs one thread at a time,
so the thread rests while requests wait for the event loop. It does not rest longer: on a slow machine, quick pods may be predicted to be
slow.

If a template exceeds its budget several times in a row for the pods of one namespace, it is paused for that namespace, with exponential
back-off. The cause may be a pod as well as the template, so other namespaces are not paused.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from injector.errors import PausedError, TemplateBudgetError
from injector.webhook.queue import DEADLINE, AdmissionQueue, Rejected

if TYPE_CHECKING:
    from injector.istio.revision import Revision

_T = TypeVar("_T")
_Key: TypeAlias = tuple[str, str, str]
"""Name and fingerprint of a revision, and a namespace."""

SLOW: Final = 0.015
"""Average CPU seconds from which injections are slow. Istio's templates take a fifth of it."""
WEIGHT: Final = 0.5
"""Weight of the last injection in the average, if it took longer than the average."""
QUICK_WEIGHT: Final = 0.1
"""The same for an injection that took less than the average, so that a namespace with one slow pod among ten quick ones stays slow."""
LARGE: Final = 256 * 1024
"""Bytes from which a review is predicted to be slow: twenty times the usual size."""
REST_PER_SECOND: Final = 9.0
"""The longest rest of the thread after an injection, as a multiple of its CPU time."""

FAILURES_TO_PAUSE: Final = 3
FIRST_PAUSE: Final = 1.0
MAX_PAUSE: Final = 60.0
"""The retry interval of the ReplicaSet controller after several failures."""

MAX_WAITING: Final = 200
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
"""Decoded reviews take about ten times as much memory."""
MAX_RECORDS: Final = 4096
"""Maximum number of pairs of a revision and a namespace to remember."""


@dataclass(slots=True)
class _Record:
    """The recent injections for one revision and namespace."""

    average: float = 0.0
    failures: int = 0
    paused_for: float = 0.0
    paused_until: float = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether the next injection is predicted to be slow."""
        return self.average >= SLOW

    def add(self, seconds: float) -> None:
        """Add the CPU seconds of an injection to the average."""
        self.average += (WEIGHT if seconds > self.average else QUICK_WEIGHT) * (seconds - self.average)


class SlowPool:
    """The worker thread and the prediction. It belongs to one event loop.

    ``others`` is the queue of the requests that the event loop injects itself. Deadlines use its clock.
    """

    def __init__(self, others: AdmissionQueue, *, cpu_clock: Callable[[], float] = time.thread_time) -> None:
        self._queue = AdmissionQueue(MAX_WAITING, MAX_WAITING_BYTES, clock=others.clock, cost=0.1, weight=0.3)
        self._others = others
        self._clock = others.clock
        self._cpu_clock = cpu_clock
        self._records: OrderedDict[_Key, _Record] = OrderedDict()
        self._rests_until = 0.0
        self._running = 0
        self._thread: ThreadPoolExecutor | None = None

    def waiting(self) -> int:
        """Return the number of requests in, or waiting for, the thread."""
        return self._running

    def should_offload(self, revision: Revision, namespace: str, size: int) -> bool:
        """Return whether a review of ``size`` bytes is predicted to be slow.

        A new namespace is offloaded once if the revision is slow for at least two others: the revision itself may be slow, and would
        block the event loop once for each further namespace.
        """
        if size > LARGE:
            return True
        key = _key(revision, namespace)
        record = self._records.get(key)
        if record is not None:
            return record.is_slow
        return sum(record_key[:2] == key[:2] and other.is_slow for record_key, other in self._records.items()) > 1

    def run_inline(self, revision: Revision, namespace: str, work: Callable[[], _T]) -> _T:
        """Run ``work``, which injects a pod, on the calling thread, and return its result.

        Raises:
            PausedError: the template is paused for this namespace.
        """
        self._check(revision, namespace)
        return self._learn(revision, namespace, *_time_call(work, self._cpu_clock))

    @asynccontextmanager
    async def turn(self, revision: Revision, namespace: str, size: int, deadline: float) -> AsyncIterator[None]:
        """Wait for the turn of a request for the worker thread, which lasts until the end of the block.

        ``size`` is that of the review in bytes, and ``deadline`` is when the client stops waiting, by ``clock``.

        Raises:
            PausedError: the template is paused for this namespace.
            Rejected: the queue is full, or the deadline cannot be met.
        """
        self._check(revision, namespace)
        self._running += 1
        try:
            async with self._queue.turn(f"{revision.name}/{namespace}", size, deadline):
                await self._rest()
                if self._clock() >= deadline:
                    raise Rejected(DEADLINE)
                self._check(revision, namespace)
                yield
        finally:
            self._running -= 1

    async def run_in_thread(self, revision: Revision, namespace: str, work: Callable[[], _T]) -> _T:
        """Run ``work``, which injects a pod, in the worker thread within a ``turn``, and return its result.

        ``work`` must not use objects of the event loop.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "slow")
        loop = asyncio.get_running_loop()
        outcome, seconds = await loop.run_in_executor(self._thread, _time_call, work, self._cpu_clock)
        self._rests_until = self._clock() + REST_PER_SECOND * seconds
        return self._learn(revision, namespace, outcome, seconds)

    async def _rest(self) -> None:
        remaining = self._rests_until - self._clock()
        if remaining > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._others.idle()

    def _record(self, revision: Revision, namespace: str) -> _Record:
        key = _key(revision, namespace)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _Record()
            if len(self._records) > MAX_RECORDS:
                self._records.popitem(last=False)
        else:
            self._records.move_to_end(key)
        return record

    def _learn(self, revision: Revision, namespace: str, outcome: _T | Exception, seconds: float) -> _T:
        """Note how an injection went. Return its result, or raise its error."""
        record = self._record(revision, namespace)
        record.add(seconds)
        if not isinstance(outcome, Exception):
            record.failures, record.paused_for = 0, 0.0
            return outcome
        if isinstance(outcome, TemplateBudgetError) and seconds >= SLOW:
            record.failures += 1
            if record.failures >= FAILURES_TO_PAUSE:
                record.paused_for = min(MAX_PAUSE, 2 * record.paused_for) or FIRST_PAUSE
                record.paused_until = self._clock() + record.paused_for
        raise outcome

    def _check(self, revision: Revision, namespace: str) -> None:
        """Raise ``PausedError`` while the template is paused for this namespace."""
        record = self._records.get(_key(revision, namespace))
        if record is None or not record.paused_for:
            return
        remaining = record.paused_until - self._clock()
        if remaining > 0:
            raise PausedError(
                f"its templates took too long {record.failures} times in a row for pods of this namespace; "
                f"the next try is in {remaining:.0f} s",
                where=f"revision {revision.name}",
                hint="correct the template or the pods, as said in the messages before this one",
            )


def _key(revision: Revision, namespace: str) -> _Key:
    return revision.name, revision.fingerprint, namespace


def _time_call(work: Callable[[], _T], cpu_clock: Callable[[], float]) -> tuple[_T | Exception, float]:
    """Return the result or the error of ``work``, and its CPU seconds."""
    began = cpu_clock()
    try:
        outcome: _T | Exception = work()
    except Exception as error:  # noqa: BLE001 -- ``_learn`` raises it
        outcome = error
    return outcome, cpu_clock() - began
