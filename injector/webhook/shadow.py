"""Shadows: a tag's candidate revision injects the same pods off the hot path, and the differences are counted.

An admission is offered once its answer is sent. One worker takes them from a short queue, injects and compares in a
thread, and rests between two: what admissions need comes first, so a full queue drops what is offered, and counts it.
Of a pod nothing is kept but the kinds and places of differences.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.errors import InjectorError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, Skipped
from injector.injection.tools.podchanges import Change, changes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from injector.injection.result import RequestFacts
    from injector.istio.revision import Revision
    from injector.metrics import Metrics

_log = logging.getLogger(__name__)

# A thread takes the interpreter from the event loop for 5 ms at a time: resting four times as long as it worked, the
# shadow has at most a fifth of one core.
REST: Final = 4.0
# A deployment of a hundred pods is seen in full; what is waiting holds its pods in memory, some ten times the bytes
# that came in.
MAX_WAITING: Final = 100
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
# Of each kind, so that a hundred variables do not hide the one capability.
KEPT_PLACES: Final = 3
# A path holds names from the pod, which are as long as their author likes.
_SHOWN_PATH: Final = 200
DECISION: Final = "decision"
ERROR: Final = "error"
"""The kind of a candidate that fails, or of a comparison that does: beside those of ``podchanges``."""
_SHOWN_VALUES: Final = (ERROR, DECISION)
"""Kinds whose values are words of the injector and not of a pod."""

Outcome: TypeAlias = Injected | Skipped | Exception
"""How one injection ended."""

SAME: Final = "same"
DIFFERENT: Final = "different"


@dataclass(frozen=True, slots=True)
class Admission:
    """One admission through a tag with a shadow: the pod, what the served revision made of it, and who else is to try.

    ``facts`` are the candidate's; ``size`` is that of the review in bytes.
    """

    tag: str
    served: Revision
    candidate: Revision
    pod: dict[str, Any]
    facts: RequestFacts
    outcome: Outcome
    size: int


@dataclass(slots=True)
class Tally:
    """What the shadow of one tag came to, for one candidate as it was loaded.

    ``outcomes`` and ``kinds`` count admissions: one with three differing variables is one of kind ``env``. ``last``
    holds the last few differences of each kind by path, the newest at the end.
    """

    revision: str
    fingerprint: str
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    last: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)

    def add(self, found: list[Change]) -> tuple[str, set[str]]:
        """Count one admission, and return its outcome and the kinds of its differences."""
        kinds = {each.kind for each in found}
        outcome = ERROR if ERROR in kinds else DIFFERENT if kinds else SAME
        self.outcomes[outcome] += 1
        self.kinds.update(kinds)
        for each in found:
            places = self.last.setdefault(each.kind, {})
            places.pop(each.path, None)
            places[each.path] = _shown(each)
            if len(places) > KEPT_PLACES:
                del places[next(iter(places))]
        return outcome, kinds

    def shown(self) -> dict[str, Any]:
        """Return it as JSON data, without anything that a pod holds but names."""
        return {
            "requests": dict(sorted(self.outcomes.items())),
            "differences": dict(sorted(self.kinds.items())),
            "last": [each for _, places in sorted(self.last.items()) for each in reversed(places.values())],
        }


def _shown(found: Change) -> dict[str, str]:
    shown = {"kind": found.kind, "path": found.path[:_SHOWN_PATH]}
    return shown | {"before": found.old, "after": found.new} if found.kind in _SHOWN_VALUES else shown


class Shadows:
    """Takes admissions and counts how the candidates' results differ."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.perf_counter,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._pause = pause
        self._waiting: asyncio.Queue[Admission] = asyncio.Queue(MAX_WAITING)
        self._waiting_bytes = 0
        self._works = False
        self._tallies: dict[str, Tally] = {}
        self.dropped = 0

    def offer(self, admission: Admission) -> None:
        """Take an admission, or drop it where too much is waiting; without ``run`` nothing is taken."""
        if not self._works:
            return
        # One that is larger than the limit by itself still gets in where nothing else waits.
        too_much = self._waiting_bytes and self._waiting_bytes + admission.size > MAX_WAITING_BYTES
        if too_much or self._waiting.full():
            self.dropped += 1
            self._metrics.shadow_dropped()
            return
        self._waiting_bytes += admission.size
        self._waiting.put_nowait(admission)

    def tally(self, tag: str, candidate: Revision) -> Tally:
        """Return what the shadow of a tag came to with this candidate as it is loaded now."""
        found = self._tallies.get(tag)
        if found is None or (found.revision, found.fingerprint) != (candidate.name, candidate.fingerprint):
            return Tally(candidate.name, candidate.fingerprint)
        return found

    async def run(self) -> None:
        """Work until cancelled. Without it nothing is taken."""
        self._works = True
        try:
            await self._work()
        finally:
            self._works = False

    async def _work(self) -> None:
        while True:
            admission = await self._waiting.get()
            self._waiting_bytes -= admission.size
            began = self._clock()
            try:
                self._count(admission, await _compared(admission))
            except Exception as error:  # noqa: BLE001 -- the loop of the task: the worker goes on with the next admission
                _log_fault(admission, error)
            await self._pause(REST * (self._clock() - began))

    def _count(self, admission: Admission, found: list[Change]) -> None:
        tally = self._tallies[admission.tag] = self.tally(admission.tag, admission.candidate)
        outcome, kinds = tally.add(found)
        self._metrics.shadowed(admission.tag, admission.candidate.name, outcome, kinds)


async def _compared(admission: Admission) -> list[Change]:
    try:
        return await asyncio.to_thread(differences_of, admission)
    except Exception as error:  # noqa: BLE001 -- the loop of the task: the next admission deserves its turn
        _log_fault(admission, error)
        return [Change(ERROR, "", "compared", f"failed: {type(error).__name__}")]


def _log_fault(admission: Admission, error: Exception) -> None:
    """Log the class of an error alone: its text, and that of a traceback, can quote the pod."""
    _log.error("shadow: cannot compare: tag=%s error=%s", admission.tag, type(error).__name__)


def differences_of(admission: Admission) -> list[Change]:
    """Inject with the candidate, and return the differences.

    Two skips are equal whatever their reasons, and so are two errors of one class: the pod gets the same from both.
    """
    served, candidate, before = admission.served, admission.candidate, admission.outcome
    try:
        after: Outcome = inject_pod(candidate, admission.pod, admission.facts)
    except Exception as error:  # noqa: BLE001 -- what a candidate fails with is what the shadow is there to tell
        after = error
    if isinstance(before, Injected) and isinstance(after, Injected):
        return list(changes(before, after, admission.pod, (served.written, candidate.written)))
    if isinstance(before, Exception) or isinstance(after, Exception):
        alike = type(before) is type(after)
        return [] if alike else [Change(ERROR, _place(after) or _place(before), _said(before), _said(after))]
    alike = isinstance(before, Skipped) and isinstance(after, Skipped)
    return [] if alike else [Change(DECISION, "", _said(before), _said(after))]


def _said(outcome: Outcome) -> str:
    """Return how an injection ended in words that hold nothing of the pod."""
    if isinstance(outcome, Injected):
        return "injected"
    return f"skipped: {outcome.reason}" if isinstance(outcome, Skipped) else f"failed: {type(outcome).__name__}"


def _place(outcome: Outcome) -> str:
    return outcome.where if isinstance(outcome, InjectorError) else ""
