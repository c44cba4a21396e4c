"""Istio's injection policy as an ordered table of rules.

The first rule that decides wins (``injection_required``); ``verdicts`` applies all rules, for `explain`.

Follows ``injectRequired`` in pkg/kube/inject/inject.go (1.30.3); what older minors accept is in ``istio.behaviours``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from injector.istio.behaviours import Behaviours
    from injector.istio.config import Policy
    from injector.kube.selectors import Selector

INJECT: Final = "sidecar.istio.io/inject"
ENABLED: Final = "enabled"
DISABLED: Final = "disabled"


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """Whether a pod is injected; ``reason`` is the rule that decided, ``detail`` its sentence for people."""

    inject: bool
    reason: str
    detail: str
    warning: str = ""


class _Facts(NamedTuple):
    """The input of the rules."""

    policy: Policy
    behaviours: Behaviours
    spec: Mapping[str, Any]
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the policy.

    Attributes:
        step: its name in a trace.
        source: the part of the pod or of the revision's config that it reads, or Istio itself.
        decide: returns its decision; None if it does not apply.
        silence: returns why it does not apply, as a sentence for people.
    """

    step: str
    source: str
    decide: Callable[[_Facts], PolicyDecision | None]
    silence: Callable[[_Facts], str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one rule for a pod: a decision, or in ``silence`` why it does not apply."""

    rule: Rule
    decision: PolicyDecision | None
    silence: str = ""


def injection_required(
    policy: Policy, behaviours: Behaviours, pod: Mapping[str, Any], namespace: str
) -> PolicyDecision:
    """Decide whether ``pod``, which is created in ``namespace``, gets a sidecar."""
    facts = _facts(policy, behaviours, pod, namespace)
    decision = next(found for rule in RULES if (found := rule.decide(facts)) is not None)
    warning = decision.warning or _invalid_value_warning(facts)
    return replace(decision, warning=warning) if warning else decision


def verdicts(policy: Policy, behaviours: Behaviours, pod: Mapping[str, Any], namespace: str) -> tuple[Verdict, ...]:
    """Return the verdict of every rule on ``pod``, in order; the first decision counts."""
    facts = _facts(policy, behaviours, pod, namespace)
    decisions = [(rule, rule.decide(facts)) for rule in RULES]
    return tuple(Verdict(rule, found, rule.silence(facts) if found is None else "") for rule, found in decisions)


def _facts(policy: Policy, behaviours: Behaviours, pod: Mapping[str, Any], namespace: str) -> _Facts:
    meta = pod.get("metadata") or {}
    return _Facts(
        policy, behaviours, pod.get("spec") or {}, namespace, meta.get("labels") or {}, meta.get("annotations") or {}
    )


def _host_network(facts: _Facts) -> PolicyDecision | None:
    if facts.spec.get("hostNetwork"):
        return PolicyDecision(inject=False, reason="host_network", detail="the pod uses the host's network")
    return None


def _ignored_namespace(facts: _Facts) -> PolicyDecision | None:
    if facts.namespace in facts.behaviours.ignored_namespaces:
        return PolicyDecision(
            inject=False, reason="ignored_namespace", detail=f"namespace {facts.namespace} is never injected"
        )
    return None


def _illegal_policy(facts: _Facts) -> PolicyDecision | None:
    if facts.policy.policy in (ENABLED, DISABLED):
        return None
    detail = f"policy {facts.policy.policy!r} is neither `{ENABLED}` nor `{DISABLED}`: nothing is injected"
    return PolicyDecision(inject=False, reason="illegal_policy", detail=detail, warning=detail)


def _by_value(place: str) -> Callable[[_Facts], PolicyDecision | None]:
    def decide(facts: _Facts) -> PolicyDecision | None:
        source, value = _inject_value(facts)
        wanted = facts.behaviours.wants_injection(value) if source == place else None
        return (
            None
            if wanted is None
            else PolicyDecision(inject=wanted, reason=source, detail=f"{source} {INJECT} is {value!r}")
        )

    return decide


def _no_label(facts: _Facts) -> str:
    if INJECT not in facts.labels:
        return f"the pod has no label {INJECT}"
    return _invalid_value_warning(facts) or f"this Istio does not read the label {INJECT}"


def _no_annotation(facts: _Facts) -> str:
    if INJECT not in facts.annotations:
        return f"the pod has no annotation {INJECT}"
    if _inject_value(facts)[0] == "label":
        return f"the pod has the label {INJECT}, so the annotation is not read"
    return _invalid_value_warning(facts) or f"the annotation {INJECT} is empty"


def _never_selector(facts: _Facts) -> PolicyDecision | None:
    if facts.behaviours.selectors and _any_matches(facts.policy.never, facts.labels):
        return PolicyDecision(
            inject=False, reason="never_selector", detail="the pod's labels match neverInjectSelector"
        )
    return None


def _any_matches(selectors: tuple[Selector, ...], labels: Mapping[str, str]) -> bool:
    # An empty selector would match everything; in Istio it matches nothing.
    return any(not selector.is_empty and selector.matches(labels) for selector in selectors)


def _always_selector(facts: _Facts) -> PolicyDecision | None:
    if facts.behaviours.selectors and _any_matches(facts.policy.always, facts.labels):
        return PolicyDecision(
            inject=True, reason="always_selector", detail="the pod's labels match alwaysInjectSelector"
        )
    return None


def _inject_value(facts: _Facts) -> tuple[str, str]:
    if facts.behaviours.inject_label and INJECT in facts.labels:
        return "label", facts.labels[INJECT]
    return "annotation", facts.annotations.get(INJECT, "")


def _invalid_value_warning(facts: _Facts) -> str:
    source, value = _inject_value(facts)
    if not value or facts.behaviours.wants_injection(value) is not None:
        return ""
    return f"{source} {INJECT} has the value {value!r}; only `true` and `false` count, so the policy decides"


def _default(facts: _Facts) -> PolicyDecision | None:
    policy = facts.policy.policy
    return PolicyDecision(inject=policy == ENABLED, reason=f"policy_{policy}", detail=f"the policy is {policy}")


def _no_match(name: str) -> Callable[[_Facts], str]:
    def silence(facts: _Facts) -> str:
        if not facts.behaviours.selectors:
            return f"this Istio has no {name}"
        return f"the pod's labels match no selector of {name}"

    return silence


def _not_ignored(facts: _Facts) -> str:
    return f"namespace {facts.namespace} is not one of {', '.join(sorted(facts.behaviours.ignored_namespaces))}"


# Istio's order. An illegal policy overrides the label, the annotation and the selectors there, so it stands before them.
RULES: Final[tuple[Rule, ...]] = (
    Rule("host_network", "spec.hostNetwork", _host_network, lambda _: "the pod has its own network"),
    Rule("ignored_namespace", "Istio's own list", _ignored_namespace, _not_ignored),
    Rule("illegal_policy", "config: policy", _illegal_policy, lambda facts: f"{facts.policy.policy} is a policy"),
    Rule("label", f"metadata.labels[{INJECT}]", _by_value("label"), _no_label),
    Rule("annotation", f"metadata.annotations[{INJECT}]", _by_value("annotation"), _no_annotation),
    Rule("never_selector", "config: neverInjectSelector", _never_selector, _no_match("neverInjectSelector")),
    Rule("always_selector", "config: alwaysInjectSelector", _always_selector, _no_match("alwaysInjectSelector")),
    Rule("policy", "config: policy", _default, lambda _: "the policy always applies"),
)
