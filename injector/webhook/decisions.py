"""Decisions: the log line of each request, and the decision inside its answer, as a warning and for the audit log.

Both have only the names that were chosen for a pod: no value of a label, an annotation or the environment.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ManifestError
from injector.injection.policy import INJECT
from injector.kube.admission import Request
from injector.metrics import UNKNOWN, Outcome
from injector.revisions.tags import workload_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from injector.injection.result import Injected, Skipped
    from injector.kube.admission import Broken, Response
    from injector.revisions.registry import Resolved

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


# The audit log keeps what it is given, for every request: a pod can name as many templates as its annotation is long.
MAX_VALUE: Final = 256

REMEDIES: Final[dict[str, str]] = {
    "host_network": "it uses the host's network; without hostNetwork it gets a sidecar",
    "ignored_namespace": "Istio never injects this namespace; create the pod in another one",
    "illegal_policy": "the revision's policy is neither `enabled` nor `disabled`; correct its config",
    "label": f"its label {INJECT} says so; set it to `true` for a sidecar",
    "annotation": f"its annotation {INJECT} says so; set the label of that name to `true`",
    "never_selector": "labels match neverInjectSelector; change them or the revision's config",
    "policy_disabled": f"the policy is `disabled`; set the label {INJECT} to `true` for a sidecar",
}
"""By the reason of a skip: why, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Adds the decision to answers, as a warning, as audit annotations, or as both."""

    warns: bool
    audits: bool

    def injected(self, response: Response, result: Injected, resolved: Resolved) -> Response:
        """Return the answer with which revision injected the pod."""
        facts = (("decision", "injected"), *_by(resolved), ("templates", ",".join(result.templates)))
        return self._added(response, f"injected by {_named(resolved)}", facts)

    def skipped(self, response: Response, result: Skipped, resolved: Resolved) -> Response:
        """Return the answer with why the pod was left alone, and what to do."""
        facts = (("decision", "skipped"), ("reason", result.reason), *_by(resolved))
        remedy = REMEDIES.get(result.reason, result.reason)
        return self._added(response, f"not injected by {_named(resolved)}: {remedy}", facts)

    def refused(self, response: Response, reason: str, resolved: Resolved | None) -> Response:
        """Return the answer with the reason of a refusal; its message has the words."""
        by = () if resolved is None else _by(resolved)
        return self._added(response, "", (("decision", "refused"), ("reason", reason), *by))

    def _added(self, response: Response, warning: str, facts: tuple[tuple[str, str], ...]) -> Response:
        warnings = (warning, *response.warnings) if self.warns and warning else response.warnings
        audit = tuple((key, value[:MAX_VALUE]) for key, value in facts) if self.audits else ()
        return replace(response, warnings=warnings, audit=audit)


EXPLAINED: Final[dict[str, Explained | None]] = {
    "off": None,
    "warnings": Explained(warns=True, audits=False),
    "audit": Explained(warns=False, audits=True),
    "both": Explained(warns=True, audits=True),
}
"""By the value of ``--explain``."""


def _by(resolved: Resolved) -> tuple[tuple[str, str], ...]:
    revision = ("revision", resolved.revision.name)
    return (revision,) if resolved.tag is None else (revision, ("tag", resolved.tag))


def _named(resolved: Resolved) -> str:
    tag = "" if resolved.tag is None else f" (tag {resolved.tag})"
    return f"revision {resolved.revision.name}{tag}"
