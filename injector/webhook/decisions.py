"""Decisions about pods: how they are logged, and explained in responses by warnings and audit annotations.

Decisions have names of the pod, but no values of labels, annotations or the environment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ManifestError
from injector.injection.policy import REMEDIES
from injector.kube.admission import Broken, BrokenReviewError, Request, Response
from injector.metrics import Outcome
from injector.revisions.tags import workload_key
from injector.settings import DEFAULTS

if TYPE_CHECKING:
    from injector.injection.result import Injected, Skipped
    from injector.revisions.registry import Resolved
    from injector.webhook.answer import ReviewAnswer

_log = logging.getLogger(__name__)

FIELDS: Final = "fields"
"""The attribute of a log record with the fields for formatters."""

# Names of Kubernetes have at most 253 letters, uids 36. Longer values are cut.
_NAME: Final = 253
_UID: Final = 64
# The place of an internal error has one entry for each call.
_WHERE: Final = 600
# Thousands of refusals in a second are one log line for each reason.
_REFUSALS_INTERVAL: Final = 1.0
MAX_RECENT: Final = 20
"""How many different refusals the status shows. A workload that is refused again and again counts once."""

LOGGED: Final[Mapping[str, frozenset[Outcome]]] = {
    "none": frozenset(),
    "failures": frozenset({Outcome.FAILURE}),
    "skips": frozenset({Outcome.FAILURE, Outcome.SKIP}),
    "all": frozenset(Outcome),
}
"""The outcomes to log, by the value of ``--log-decisions``."""

FAULT: Final = "internal"
"""The reason of an internal error, which is always logged."""

_RECENT: Final = ("namespace", "owner", "reason", "revision", "tag", "at")
"""The fields of the log that ``/status.json`` has of a refusal."""

_WORDS: Final = {Outcome.SUCCESS: "injected", Outcome.SKIP: "skipped", Outcome.FAILURE: "denied"}


@dataclass
class Decisions:
    """Logs decisions, and remembers the last refusals for the status.

    ``logged`` are the outcomes to log. ``now`` returns the time.
    """

    logged: frozenset[Outcome] = LOGGED[DEFAULTS.log_decisions]
    now: Callable[[], float] = time.time
    _refusals: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Those that are not logged yet, by reason and HTTP status."""
    _is_waiting: bool = False
    _recent: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)

    def wants(self, outcome: Outcome) -> bool:
        """Return whether decisions of this kind are logged or remembered."""
        return outcome is Outcome.FAILURE or outcome in self.logged

    def recent(self) -> list[dict[str, Any]]:
        """Return the last refusals as JSON data, the newest first: one for each workload and cause, with their number."""
        return list(reversed(self._recent.values()))

    def log(self, answer: ReviewAnswer, seconds: float) -> None:
        """Log the decision of an answer, which took ``seconds``."""
        fields: dict[str, Any] = {
            "outcome": answer.outcome.value,
            "reason": answer.reason,
            "revision": answer.revision,
            "tag": answer.tag,
            **_target(answer.review),
            "ms": round(seconds * 1e3, 2),
            "at": answer.where[:_WHERE],
        }
        if answer.outcome is Outcome.FAILURE:
            self._remember(fields)
        if answer.outcome not in self.logged and answer.reason != FAULT:
            return
        values = {name: value for name, value in fields.items() if value != ""}
        _log.log(_level(answer), "%s", _WORDS[answer.outcome], extra={FIELDS: values})

    def log_refusal(self, reason: str, status: int) -> None:
        """Log a request that got an HTTP error; many in a second as one line with their number. Only on the event loop."""
        self._remember({"reason": reason, "at": f"HTTP status {status}"})
        if Outcome.FAILURE not in self.logged:
            return
        self._refusals[reason, status] += 1
        if not self._is_waiting:
            self._log_refusals()

    def _log_refusals(self) -> None:
        """Log the requests since the last time, and after an interval those that come until then."""
        self._is_waiting = bool(self._refusals)
        if self._is_waiting:
            asyncio.get_running_loop().call_later(_REFUSALS_INTERVAL, self._log_refusals)
        for (reason, status), count in self._refusals.items():
            fields = {"reason": reason, "status": status, "requests": count}
            _log.warning("%s", "turned away", extra={FIELDS: fields})
        self._refusals.clear()

    def _remember(self, fields: Mapping[str, Any]) -> None:
        row = {name: fields.get(name, "") for name in _RECENT}
        key = tuple(row.values())
        count = self._recent.pop(key, {"count": 0})["count"] + 1
        self._recent[key] = {**row, "count": count, "time": self.now()}
        if len(self._recent) > MAX_RECENT:
            del self._recent[next(iter(self._recent))]


def _level(answer: ReviewAnswer) -> int:
    if answer.outcome is not Outcome.FAILURE:
        return logging.INFO
    return logging.ERROR if answer.reason == FAULT else logging.WARNING


def _target(review: Request | Broken) -> dict[str, Any]:
    """Return the owner of the pod, and the uid of the review."""
    uid = {"uid": review.uid[:_UID]}
    if not isinstance(review, Request):
        return uid
    try:
        _, kind, name = workload_key(review.object, review.namespace)
    except (ManifestError, BrokenReviewError):  # the review may be answered before its pod is read
        kind = name = ""
    owner = f"{kind}/{name}"[:_NAME] if name else ""
    return {"namespace": review.namespace[:_NAME], "owner": owner, **uid}


# A pod can name any number of templates, and the audit log keeps the annotations of each request.
MAX_VALUE: Final = 256


@dataclass(frozen=True, slots=True)
class DecisionNotes:
    """Adds the decision to responses as a warning, as audit annotations, or both."""

    warns: bool
    audits: bool

    def note_injected(self, response: Response, result: Injected, resolved: Resolved) -> Response:
        """Add the revision that injected the pod."""
        facts = (("decision", "injected"), *_by(resolved), ("templates", ",".join(result.templates)))
        return self._add(response, f"injected by {_name_revision(resolved)}", facts)

    def note_skipped(self, response: Response, result: Skipped, resolved: Resolved) -> Response:
        """Add why the pod was skipped, and the remedy."""
        facts = (("decision", "skipped"), ("reason", result.reason), *_by(resolved))
        remedy = REMEDIES.get(result.reason, result.reason)
        return self._add(response, f"not injected by {_name_revision(resolved)}: {remedy}", facts)

    def note_refused(self, response: Response, reason: str, resolved: Resolved | None) -> Response:
        """Add the reason of a denial, whose text is in the message of the response."""
        by = () if resolved is None else _by(resolved)
        return self._add(response, "", (("decision", "refused"), ("reason", reason), *by))

    def _add(self, response: Response, warning: str, facts: tuple[tuple[str, str], ...]) -> Response:
        warnings = (warning, *response.warnings) if self.warns and warning else response.warnings
        audit = tuple((key, value[:MAX_VALUE]) for key, value in facts) if self.audits else ()
        return replace(response, warnings=warnings, audit=audit)


DECISION_NOTES: Final[dict[str, DecisionNotes | None]] = {
    "off": None,
    "warnings": DecisionNotes(warns=True, audits=False),
    "audit": DecisionNotes(warns=False, audits=True),
    "both": DecisionNotes(warns=True, audits=True),
}
"""By the value of ``--explain``."""


def _by(resolved: Resolved) -> tuple[tuple[str, str], ...]:
    revision = ("revision", resolved.revision.name)
    return (revision,) if resolved.tag is None else (revision, ("tag", resolved.tag))


def _name_revision(resolved: Resolved) -> str:
    reason = f", {resolved.reason}" if resolved.reason else ""
    tag = "" if resolved.tag is None else f" (tag {resolved.tag}{reason})"
    return f"revision {resolved.revision.name}{tag}"
