"""The log of decisions: one line for each request that is worth one, with names, the reason and the time it took.

What a pod holds is never in it: no value of an annotation or a variable. Names come from a request whose object nobody
has validated yet, so they are cut here, and escaped by whoever writes the line.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ManifestError
from injector.kube.admission import Request
from injector.metrics import UNKNOWN, Outcome
from injector.revisions.weights import workload_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from injector.kube.admission import Broken

_log = logging.getLogger(__name__)

FIELDS: Final = "fields"
"""The attribute of a log record that has what a formatter may show by name."""

# The longest name of Kubernetes has 253 letters, a uid 36; of what is longer the beginning tells enough.
_NAME: Final = 253
_UID: Final = 64
# The trace of a fault has a place for each call.
_WHERE: Final = 600
# A server that refuses thousands in a second says so once in it.
_TURNED_AWAY_EVERY: Final = 1.0

LOGGED: Final[Mapping[str, frozenset[Outcome]]] = {
    "none": frozenset(),
    "failures": frozenset({Outcome.FAILURE}),
    "skips": frozenset({Outcome.FAILURE, Outcome.SKIP}),
    "all": frozenset(Outcome),
}
"""Which outcomes are logged, by the value of ``--log-decisions``."""

FAULT: Final = "internal"
"""The reason of a failure that is the injector's own fault: it is always logged."""

_WORDS: Final = {Outcome.SUCCESS: "injected", Outcome.SKIP: "skipped", Outcome.FAILURE: "denied"}


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one review; ``where`` is the place of an error."""

    review: Request | Broken
    outcome: Outcome
    reason: str = ""
    revision: str = UNKNOWN
    tag: str = ""
    where: str = ""


class Decisions:
    """Logs decisions.

    Args:
        logged: the outcomes that get a line.
        clock: tells the seconds, from any start.
    """

    def __init__(
        self, logged: frozenset[Outcome] = LOGGED["skips"], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logged = logged
        self._clock = clock
        self._turned_away: dict[str, int] = {}
        self._told = float("-inf")

    def wants(self, outcome: Outcome, reason: str) -> bool:
        """Tell whether decisions of this kind get a line: asked before one is put together."""
        return outcome in self._logged or reason == FAULT

    def tell(self, decision: Decision, seconds: float) -> None:
        """Log one decision, which took ``seconds``."""
        fields = {
            "outcome": decision.outcome.value,
            "reason": decision.reason,
            "revision": decision.revision,
            "tag": decision.tag,
            **_asked_for(decision.review),
            "ms": round(seconds * 1e3, 2),
            "at": decision.where[:_WHERE],
        }
        told = {name: value for name, value in fields.items() if value != ""}
        _log.log(_level(decision), "%s", _WORDS[decision.outcome], extra={FIELDS: told})

    def turned_away(self, reason: str, status: int) -> None:
        """Log that a request was answered by its HTTP status alone; of many in a second, how many."""
        if Outcome.FAILURE not in self._logged:
            return
        self._turned_away[reason] = self._turned_away.get(reason, 0) + 1
        now = self._clock()
        if now - self._told < _TURNED_AWAY_EVERY:
            return
        self._told = now
        for each, count in self._turned_away.items():
            last = {"status": status} if each == reason else {}
            _log.warning("%s", "turned away", extra={FIELDS: {"reason": each, **last, "requests": count}})
        self._turned_away.clear()


def _level(decision: Decision) -> int:
    if decision.outcome is not Outcome.FAILURE:
        return logging.INFO
    return logging.ERROR if decision.reason == FAULT else logging.WARNING


def _asked_for(review: Request | Broken) -> dict[str, Any]:
    """Return whose pod it is, and the uid of the question."""
    uid = {"uid": review.uid[:_UID]}
    if not isinstance(review, Request):
        return uid
    try:
        _, kind, name = workload_key(review.object, review.namespace)
    except ManifestError:
        kind = name = ""
    owner = f"{kind}/{name}"[:_NAME] if name else ""
    return {"namespace": review.namespace[:_NAME], "owner": owner, **uid}
