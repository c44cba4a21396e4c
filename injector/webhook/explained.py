"""The decision of one injection inside its answer: as a warning for whoever creates the pod, and for the audit log.

Of a pod it has nothing but the names that were chosen by it: neither a value of a label or an annotation nor one of the
environment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from injector.injection.policy import INJECT

if TYPE_CHECKING:
    from injector.injection.result import Injected, Skipped
    from injector.kube.admission import Response
    from injector.revisions.registry import Resolved

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
