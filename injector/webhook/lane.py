"""Injections aside: those of revisions that take long, in a thread of their own, one at a time, which gives way to the event loop.

An injection holds whoever runs it. On the event loop a template that takes half a second, which is what its budget allows, would hold up
the pods of all revisions. So a revision whose injections were slow goes into this lane until they no longer are. The lane
works while the loop has nothing to do, and at least a little; what does not fit into it is told to come back, as under overload.
"""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from injector.errors import PausedError, TemplateRenderError
from injector.injection.result import Injected, Skipped
from injector.istio.workclock import giving_way
from injector.webhook.admittance import DEADLINE, OVERLOAD
from injector.webhook.idle import Loop
from injector.webhook.pace import SLOW, Pace
from injector.webhook.reading import turned_away

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from injector.injection.result import RequestFacts
    from injector.istio.revision import Revision
    from injector.kube.admission import Request

    Inject: TypeAlias = "Callable[[Revision, dict[str, object], RequestFacts], Injected | Skipped]"

_T = TypeVar("_T")

Ended: TypeAlias = Injected | Skipped | Exception
"""How one injection ended."""

# As many as an API server has on their way, twenty times over the half second that one may take: most of them would be late.
MAX_WAITING: Final = 200
# Twenty times what most reviews have: such a pod takes tens of milliseconds, whoever injects it.
LARGE: Final = 256 * 1024
# What was decoded of a body takes some ten times its bytes.
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
# The interpreter goes from one thread to another each 5 ms by default; a request gives it away, and has to get it back, some six times.
SWITCH: Final = 0.0001
# How long the lane waits for the loop each time that it looks, which is every quarter of a millisecond or so.
NAP: Final = 0.0005
MOST_NAPS: Final = 10
_FIRST_GUESS: Final = 0.02
_WEIGHT: Final = 0.3


@dataclass(frozen=True, slots=True)
class Job:
    """One injection: how, by which revision, of which review, with what is known beside; and the bytes that it came as."""

    inject: Inject
    revision: Revision
    review: Request
    facts: RequestFacts
    body: bytes

    def run(self) -> tuple[Ended, float]:
        """Inject; return how that ended, and how long this thread worked for it."""
        began = time.thread_time()
        try:
            ended: Ended = self.inject(self.revision, self.review.object, self.facts)
        except Exception as error:  # noqa: BLE001 -- the request edge: a fault of ours is answered and counted too
            ended = error
        return ended, time.thread_time() - began


@dataclass
class Lane:
    """Injects on the event loop where that is quick, and aside where it was not. It belongs to one event loop.

    ``after`` is done in the lane's thread after each injection, and ``clock`` tells the seconds, from any start.
    """

    after: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    _paces: dict[str, Pace] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _waiting: int = 0
    _bytes: int = 0
    _cost: float = _FIRST_GUESS
    _thread: ThreadPoolExecutor | None = None

    def waiting(self) -> int:
        """Return how many are injected aside, or wait for it."""
        return self._waiting

    def takes(self, revision: Revision, size: int = 0) -> bool:
        """Tell whether a review of so many bytes goes aside, by its size or by its revision."""
        return size > LARGE or self._pace(revision).aside(self.clock())

    def here(self, job: Job) -> Ended:
        """Inject on the thread that asks, and learn how long it took."""
        ended, seconds = job.run()
        self._learn(self._pace(job.revision), job, ended, seconds)
        return ended

    async def aside(self, job: Job, due: float) -> Ended:
        """Inject in the lane, once those before have been; ``due`` is when nobody waits for the answer any more.

        Raises:
            Refusal: too many wait, or the time is up.
        """
        pace = self._pace(job.revision)
        try:
            pace.check(job.revision, job.review.namespace, self.clock())
            if reason := self._refusal(job, due):
                raise turned_away(reason)
            with self._queued(pace, job):
                async with self._turn:
                    if self.clock() >= due:
                        raise turned_away(DEADLINE)
                    pace.begin(job.revision, job.review.namespace, self.clock())
                    began = self.clock()
                    ended, seconds = await self._in_thread(pace, job)
                    self._cost += _WEIGHT * (self.clock() - began - self._cost)
        except PausedError as error:
            return error
        self._learn(pace, job, ended, seconds)
        return ended

    def _pace(self, revision: Revision) -> Pace:
        pace = self._paces.get(revision.name)
        if pace is None or pace.fingerprint != revision.fingerprint:
            pace = self._paces[revision.name] = Pace(revision.fingerprint)
        return pace

    def _learn(self, pace: Pace, job: Job, ended: Ended, seconds: float) -> None:
        now = self.clock()
        pace.took(seconds, now)
        if not isinstance(ended, Exception):
            pace.injected(job.review.namespace)
        elif isinstance(ended, TemplateRenderError) and seconds >= SLOW:
            pace.spent(job.review.namespace, now)

    def _refusal(self, job: Job, due: float) -> str:
        if self._waiting >= MAX_WAITING or (self._waiting and self._bytes + len(job.body) > MAX_WAITING_BYTES):
            return OVERLOAD
        # Twice what it takes on the average: who waits for an answer that comes late has waited in vain.
        return DEADLINE if self.clock() + 2 * self._waiting * self._cost > due else ""

    @contextmanager
    def _queued(self, pace: Pace, job: Job) -> Iterator[None]:
        self._waiting += 1
        self._bytes += len(job.body)
        pace.jobs += 1
        try:
            yield
        finally:
            self._waiting -= 1
            self._bytes -= len(job.body)
            pace.jobs -= 1

    async def _in_thread(self, pace: Pace, job: Job) -> tuple[Ended, float]:
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "lane")
        ended = loop.run_in_executor(self._thread, self._beside, job.run, loop)
        # What was remembered of a revision belongs to one thread at a time, so it stays aside until this is done too.
        pace.jobs += 1
        loop.run_in_executor(self._thread, self._beside, self.after, loop).add_done_callback(lambda _: pace.done())
        return await ended

    @staticmethod
    def _beside(work: Callable[[], _T], loop: asyncio.AbstractEventLoop) -> _T:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        try:
            with giving_way(partial(_give_way, loop)):
                return work()
        finally:
            sys.setswitchinterval(usual)


def _give_way(loop: asyncio.AbstractEventLoop) -> None:
    """Let an event loop work as long as it has anything to do, up to a bound."""
    for _ in range(MOST_NAPS):
        if not isinstance(loop, Loop) or loop.idle:
            return
        time.sleep(NAP)
