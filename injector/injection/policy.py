"""Who is injected: Istio's injection policy as an ordered table of rules.

Follows ``injectRequired`` in pkg/kube/inject/inject.go (1.30.3); what older minors accept is in ``istio.behaviours``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from injector.istio.behaviours import Behaviours
    from injector.istio.config import Policy
    from injector.kube.selectors import Selector

INJECT: Final = "sidecar.istio.io/inject"
ENABLED: Final = "enabled"
DISABLED: Final = "disabled"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a pod is injected; ``reason`` is the rule that decided, ``detail`` what it saw."""

    inject: bool
    reason: str
    detail: str
    warning: str = ""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the rules look at."""

    policy: Policy
    behaviours: Behaviours
    spec: Mapping[str, Any]
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def injection_required(policy: Policy, behaviours: Behaviours, pod: Mapping[str, Any], namespace: str) -> Decision:
    """Decide whether ``pod`` gets a sidecar: the first rule with an opinion wins.

    ``namespace`` is the one the pod is created in. An illegal policy injects nothing, whatever the rules say.
    """
    meta = pod.get("metadata") or {}
    facts = _Facts(
        policy, behaviours, pod.get("spec") or {}, namespace, meta.get("labels") or {}, meta.get("annotations") or {}
    )
    decision = next(found for rule in RULES if (found := rule(facts)) is not None)
    warning = decision.warning or _invalid_value_warning(facts)
    return replace(decision, warning=warning) if warning else decision


def _host_network(facts: _Facts) -> Decision | None:
    if facts.spec.get("hostNetwork"):
        return Decision(inject=False, reason="host_network", detail="the pod uses the host's network")
    return None


def _ignored_namespace(facts: _Facts) -> Decision | None:
    if facts.namespace in facts.behaviours.ignored_namespaces:
        return Decision(
            inject=False, reason="ignored_namespace", detail=f"namespace {facts.namespace} is never injected"
        )
    return None


def _illegal_policy(facts: _Facts) -> Decision | None:
    if facts.policy.policy in (ENABLED, DISABLED):
        return None
    detail = f"policy {facts.policy.policy!r} is none of `{ENABLED}`, `{DISABLED}`: nothing is injected"
    return Decision(inject=False, reason="illegal_policy", detail=detail, warning=detail)


def _label_or_annotation(facts: _Facts) -> Decision | None:
    source, value = _asked(facts)
    wanted = facts.behaviours.wants_injection(value)
    if wanted is None:
        return None
    return Decision(inject=wanted, reason=source, detail=f"{source} {INJECT} is {value!r}")


def _never_selector(facts: _Facts) -> Decision | None:
    if facts.behaviours.selectors and _any_matches(facts.policy.never, facts.labels):
        return Decision(inject=False, reason="never_selector", detail="the pod's labels match neverInjectSelector")
    return None


def _any_matches(selectors: tuple[Selector, ...], labels: Mapping[str, str]) -> bool:
    # An empty selector would match everything; in Istio it matches nothing.
    return any(not selector.is_empty and selector.matches(labels) for selector in selectors)


def _always_selector(facts: _Facts) -> Decision | None:
    if facts.behaviours.selectors and _any_matches(facts.policy.always, facts.labels):
        return Decision(inject=True, reason="always_selector", detail="the pod's labels match alwaysInjectSelector")
    return None


def _asked(facts: _Facts) -> tuple[str, str]:
    if facts.behaviours.inject_label and INJECT in facts.labels:
        return "label", facts.labels[INJECT]
    return "annotation", facts.annotations.get(INJECT, "")


def _invalid_value_warning(facts: _Facts) -> str:
    source, value = _asked(facts)
    if not value or facts.behaviours.wants_injection(value) is not None:
        return ""
    return f"{source} {INJECT} has the value {value!r}; only `true` and `false` count, so the policy decides"


def _default(facts: _Facts) -> Decision | None:
    policy = facts.policy.policy
    return Decision(inject=policy == ENABLED, reason=f"policy_{policy}", detail=f"the policy is {policy}")


# Istio's order. An illegal policy overrides the label, the annotation and the selectors there, so it stands before them.
RULES: Final[tuple[Callable[[_Facts], Decision | None], ...]] = (
    _host_network,
    _ignored_namespace,
    _illegal_policy,
    _label_or_annotation,
    _never_selector,
    _always_selector,
    _default,
)
