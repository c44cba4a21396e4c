"""Injection by plan where there is one, else by the pipeline; what came by the pipeline may be worth a plan.

Making a plan takes some three injections, so it is not done while a request waits: ``learn`` does it afterwards.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.injection import containers as c
from injector.injection.pipeline import inject_pod
from injector.injection.planning import learn
from injector.injection.plans import KINDS, Asked, Plans
from injector.injection.result import Injected, Planned
from injector.kube.serial import dump_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.injection.result import RequestFacts, Skipped
    from injector.istio.revision import Revision

_KEPT: Final = "plans"
_WAITING: Final = 64
WAITING_BYTES: Final = 1024 * 1024
"""Of the JSON of the pods that plans are to be made of; decoded, and injected, they take some ten times that."""
LARGEST: Final = 1_500
"""Variables of a pod beyond which no plan is made: that would hold the event loop for more than 20 ms."""
# Plans are for the requests to come: making them may take half of the time, so that a flood of pods of ever new kinds is not
# held up more than that.
REST: Final = 1.0


@dataclass(frozen=True, slots=True)
class Lesson:
    """A pod, how it was injected, by which revision's plans it will be known, and the bytes of its JSON."""

    plans: Plans
    wanted: Asked
    facts: RequestFacts
    result: Injected
    size: int


@dataclass
class Planner:
    """Injects by the plans of whatever revision is asked for. It belongs to the thread that answers requests."""

    clock: Callable[[], float] = time.monotonic
    _lessons: deque[Lesson] = field(default_factory=deque)
    _bytes: int = 0
    _rests_until: float = 0.0

    def inject(self, revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> Injected | Planned | Skipped:
        """Inject ``pod`` as ``inject_pod`` does, by a plan if there is one.

        Raises:
            DataError: as ``inject_pod``.
        """
        plans = plans_of(revision)
        wanted = plans.ask(pod, facts) if plans.possible else None
        plan = None if wanted is None else plans.find(wanted)
        if wanted is not None and plan is not None:
            return Planned(plan.patch(wanted.texts), plan.templates, plan.warnings)
        result = inject_pod(revision, pod, facts)
        # A pod that the guard warns of is looked at, and counted, each time.
        if wanted is None or not isinstance(result, Injected) or result.findings or not _is_small(pod):
            return result
        if plans.worth(wanted):
            self._note(Lesson(plans, wanted, facts, result, len(dump_json(pod))))
        return result

    def _note(self, lesson: Lesson) -> None:
        """Let a lesson wait for its turn, in the place of the oldest ones if there is no room."""
        if lesson.size > WAITING_BYTES:
            return
        self._lessons.append(lesson)
        self._bytes += lesson.size
        while len(self._lessons) > _WAITING or self._bytes > WAITING_BYTES:
            self._bytes -= self._lessons.popleft().size

    @property
    def eager(self) -> bool:
        """Whether there is a plan to make, and it is time."""
        return bool(self._lessons) and self.clock() >= self._rests_until

    def learn(self) -> None:
        """Make the plan that was asked for last."""
        began = self.clock()
        lesson = self._lessons.pop()
        self._bytes -= lesson.size
        try:
            learn(lesson.plans, lesson.wanted, lesson.facts, lesson.result)
        finally:
            ended = self.clock()
            self._rests_until = ended + REST * (ended - began)


def _is_small(pod: dict[str, Any]) -> bool:
    return sum(len(item.get("env", ())) for kind in KINDS for item in c.containers_of(pod, kind)) <= LARGEST


def plans_of(revision: Revision) -> Plans:
    """Return the plans of a revision, which go with it."""
    plans: Plans | None = revision.kept.get(_KEPT)
    if plans is None:
        plans = revision.kept[_KEPT] = Plans(revision)
    return plans
