"""The matchConditions of webhooks: CEL expressions that a pod must meet before the API server calls the webhook.

The library ``cel-expr-python`` is optional. Without it, and for functions that only the API server has, a condition is not evaluated.
Follows k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go (v0.35).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

MET: Final = "met"
UNMET: Final = "unmet"
FAULT: Final = "fault"
NOT_EVALUATED: Final = "not evaluated"
"""The verdicts: all conditions hold, one is false, one fails and none is false, or they cannot be evaluated here."""

_SET_LATER: Final = re.compile(
    r"\b(?:userInfo|uid|options|creationTimestamp|status|ownerReferences|generateName"
    r"|pod-template-hash|controller-revision-hash|job-name|batch\.kubernetes\.io|apps\.kubernetes\.io|statefulset\.kubernetes\.io"
    r"|serviceAccount|serviceAccountName|tolerations|priority|priorityClassName|preemptionPolicy|imagePullSecrets|nodeSelector"
    r"|volumes|volumeMounts|imagePullPolicy|terminationMessagePath|terminationMessagePolicy|resources|protocol|mode|defaultMode"
    r"|successThreshold|failureThreshold|timeoutSeconds|periodSeconds|scheme|overhead|runtimeClassName)\b"
)
"""Names of fields that are not known here, or that the API server, its plugins or a controller may set before the webhooks."""
_DEFAULTS: Final[Mapping[str, Any]] = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "securityContext": {},
    "enableServiceLinks": True,
}
"""The defaults of the API server for every pod (pkg/apis/core/v1/defaults.go, 1.35)."""


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """The verdict of all conditions of a webhook, and the condition that decides with the reason."""

    verdict: str
    detail: str = ""


def evaluate_conditions(conditions: Sequence[tuple[str, str]], pod: Mapping[str, Any]) -> ConditionResult:
    """Evaluate conditions, each a name and an expression, as the API server does when the pod is created."""
    if not conditions:
        return ConditionResult(MET)
    results = [_evaluate(name, expression, pod) for name, expression in conditions]
    for verdict in (UNMET, NOT_EVALUATED, FAULT):
        for result in results:
            if result.verdict == verdict:
                return result
    return ConditionResult(MET, f"its matchConditions are met: {', '.join(name for name, _ in conditions)}")


def _evaluate(name: str, expression: str, pod: Mapping[str, Any]) -> ConditionResult:
    unknown = _SET_LATER.search(expression)
    if unknown is not None:
        detail = f"its matchCondition {name} is not evaluated: it reads {unknown[0]}, which is not known here"
        return ConditionResult(NOT_EVALUATED, detail)
    try:
        compiled = _compile(expression)
    except ImportError:
        detail = "its matchConditions are not evaluated: the package cel-expr-python is not installed"
        return ConditionResult(NOT_EVALUATED, detail)
    except RuntimeError:  # the library's error for every expression that it does not take
        return ConditionResult(NOT_EVALUATED, f"its matchCondition {name} is not evaluated: only the API server can")
    result = compiled.eval(data={"object": _as_admitted(pod), "oldObject": None, "request": _request_of(pod)})
    value = result.value()
    if isinstance(value, bool):
        return ConditionResult(MET) if value else ConditionResult(UNMET, f"its matchCondition {name} is false")
    return ConditionResult(FAULT, f"its matchCondition {name} fails: {value}")


@lru_cache(maxsize=256)
def _compile(expression: str) -> Any:
    from cel_expr_python import cel  # noqa: PLC0415 -- optional, and 14 MB
    from cel_expr_python.ext import ext_optional, ext_strings  # noqa: PLC0415 -- as above

    variables = dict.fromkeys(("object", "oldObject", "request"), cel.Type.DYN)
    environment = cel.NewEnv(variables=variables, extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()])
    return environment.compile(expression)


def _as_admitted(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod with the defaults of the API server. A name that has to be generated is not there yet."""
    meta = dict(pod.get("metadata") or {})
    if meta.get("generateName"):
        meta.pop("name", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**_DEFAULTS, **(pod.get("spec") or {})}}


def _request_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the AdmissionRequest of a pod, which leaves out empty texts."""
    meta = pod.get("metadata") or {}
    kind, resource = {"group": "", "version": "v1", "kind": "Pod"}, {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "namespace": meta.get("namespace", ""),
        "name": "" if meta.get("generateName") else meta.get("name", ""),
        "operation": "CREATE",
        "dryRun": False,
    }
    return {key: value for key, value in request.items() if value != ""}
