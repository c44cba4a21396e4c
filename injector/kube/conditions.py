"""The matchConditions of webhooks: CEL expressions that a pod must meet before the API server calls the webhook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MET: Final = "met"
UNMET: Final = "unmet"
FAULT: Final = "fault"
NOT_EVALUATED: Final = "not evaluated"
"""The verdicts: all conditions hold, one is false, one fails and none is false, or they cannot be evaluated here."""


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """The verdict of all conditions of a webhook, and the condition that decides with the reason."""

    verdict: str
    detail: str = ""


def evaluate_conditions(conditions: Sequence[tuple[str, str]], pod: Mapping[str, Any]) -> ConditionResult:
    """Evaluate conditions, each a name and an expression, as the API server does when the pod is created."""
    del pod
    if not conditions:
        return ConditionResult(MET)
    return ConditionResult(NOT_EVALUATED, "its matchConditions are not evaluated here")
