"""Istio's injection policy as rules in their order.

The first rule that decides wins (``injection_required``); ``verdicts`` applies all rules, for `explain`.

Follows ``injectRequired`` in pkg/kube/inject/inject.go (1.30.3); what older minors accept is in ``istio.behaviours``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from injector.injection import containers as c
from injector.istio.labels import INJECT_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from injector.istio.behaviours import Behaviours
    from injector.istio.config import Policy

ENABLED: Final = "enabled"
DISABLED: Final = "disabled"


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """Whether a pod is injected; ``reason`` is the rule that decided, ``detail`` its sentence for people."""

    inject: bool
    reason: str
    detail: str
    warning: str = ""


class Verdict(NamedTuple):
    """The result of one rule for a pod; ``decision`` is None if the rule does not apply, and ``silence`` says why, for people.

    ``step`` is the rule's name in a trace. ``source`` is the part of the pod or of the revision's config that it reads, or Istio itself.
    """

    step: str
    source: str
    silence: str
    decision: PolicyDecision | None


REMEDIES: Final[dict[str, str]] = {
    "host_network": "it uses the host's network; without hostNetwork it would get a sidecar",
    "ignored_namespace": "Istio never injects this namespace; create the pod in another one",
    "illegal_policy": "the revision's policy is neither `enabled` nor `disabled`; correct its config",
    "label": f"its label {INJECT_LABEL} says so; set it to `true` for a sidecar",
    "annotation": f"its annotation {INJECT_LABEL} says so; set the label of that name to `true`",
    "never_selector": "labels match neverInjectSelector; change them or the revision's config",
    "policy_disabled": f"the policy is `disabled`; set the label {INJECT_LABEL} to `true` for a sidecar",
}
"""The explanation and remedy for each reason of a skip."""


def injection_required(
    policy: Policy, behaviours: Behaviours, pod: Mapping[str, Any], namespace: str
) -> PolicyDecision:
    """Decide whether ``pod``, which is created in ``namespace``, gets a sidecar."""
    return next(filter(None, _decisions(policy, behaviours, pod, namespace)))


def _decisions(
    policy: Policy, behaviours: Behaviours, pod: Mapping[str, Any], namespace: str
) -> Iterator[PolicyDecision | None]:
    """Yield the decision of every rule on ``pod``, in Istio's order; None for a rule that does not apply."""
    labels = c.labels_of(pod)
    place, value = _request_of(behaviours, pod)
    wanted, invalid = behaviours.wants_injection(value), _invalid(behaviours, place, value)

    def skip(reason: str, detail: str, warning: str = invalid) -> PolicyDecision:
        return PolicyDecision(inject=False, reason=reason, detail=detail, warning=warning)

    is_on_host = (pod.get("spec") or {}).get("hostNetwork")
    yield skip("host_network", "the pod uses the host's network") if is_on_host else None

    is_ignored = namespace in behaviours.ignored_namespaces
    yield skip("ignored_namespace", f"namespace {namespace} is never injected") if is_ignored else None

    # An illegal policy overrides the label, the annotation and the selectors in Istio, so it comes before them.
    if policy.policy in (ENABLED, DISABLED):
        yield None
    else:
        fault = f"policy {policy.policy!r} is neither `{ENABLED}` nor `{DISABLED}`: nothing is injected"
        yield skip("illegal_policy", fault, fault)

    stated = None if wanted is None else PolicyDecision(wanted, place, f"{place} {INJECT_LABEL} is {value!r}", invalid)
    yield stated if place == "label" else None
    yield stated if place == "annotation" else None

    for name, selectors, inject in (("never", policy.never, False), ("always", policy.always, True)):
        # An empty selector would match everything; in Istio it matches nothing.
        matches = behaviours.selectors and any(
            not selector.is_empty and selector.matches(labels) for selector in selectors
        )
        detail = f"the pod's labels match {name}InjectSelector"
        yield PolicyDecision(inject, f"{name}_selector", detail, invalid) if matches else None

    is_enabled = policy.policy == ENABLED
    yield PolicyDecision(is_enabled, f"policy_{policy.policy}", f"the policy is {policy.policy}", invalid)


def _request_of(behaviours: Behaviours, pod: Mapping[str, Any]) -> tuple[str, str]:
    """Return where a pod may ask for injection or refuse it, and the value there."""
    labels = c.labels_of(pod)
    if behaviours.inject_label and INJECT_LABEL in labels:
        return "label", labels[INJECT_LABEL]
    return "annotation", c.annotations_of(pod).get(INJECT_LABEL, "")


def _invalid(behaviours: Behaviours, place: str, value: str) -> str:
    """Return the warning about a value that neither asks for injection nor refuses it."""
    if not value or behaviours.wants_injection(value) is not None:
        return ""
    return f"{place} {INJECT_LABEL} has the value {value!r}; only `true` and `false` count, so the policy decides"


def verdicts(policy: Policy, behaviours: Behaviours, pod: Mapping[str, Any], namespace: str) -> Iterator[Verdict]:
    """Yield the verdict of every rule on ``pod``, in Istio's order; the first decision counts."""
    place, value = _request_of(behaviours, pod)
    invalid = _invalid(behaviours, place, value)
    no_label = invalid or f"this Istio does not read the label {INJECT_LABEL}"
    if INJECT_LABEL not in c.labels_of(pod):
        no_label = f"the pod has no label {INJECT_LABEL}"
    no_annotation = invalid or f"the annotation {INJECT_LABEL} is empty"
    if INJECT_LABEL not in c.annotations_of(pod):
        no_annotation = f"the pod has no annotation {INJECT_LABEL}"
    elif place == "label":
        no_annotation = f"the pod has the label {INJECT_LABEL}, so the annotation is not read"
    others = f"namespace {namespace} is not one of {', '.join(sorted(behaviours.ignored_namespaces))}"
    no_selector = "the pod's labels match no selector of {}" if behaviours.selectors else "this Istio has no {}"
    never, always = "neverInjectSelector", "alwaysInjectSelector"
    rules = (
        ("host_network", "spec.hostNetwork", "the pod has its own network"),
        ("ignored_namespace", "Istio's own list", others),
        ("illegal_policy", "config: policy", f"{policy.policy} is a policy"),
        ("label", f"metadata.labels[{INJECT_LABEL}]", no_label),
        ("annotation", f"metadata.annotations[{INJECT_LABEL}]", no_annotation),
        ("never_selector", f"config: {never}", _with_faults(no_selector.format(never), policy, never)),
        ("always_selector", f"config: {always}", _with_faults(no_selector.format(always), policy, always)),
        ("policy", "config: policy", "the policy always applies"),
    )
    for rule, decision in zip(rules, _decisions(policy, behaviours, pod, namespace), strict=True):
        yield Verdict(*rule, decision)


def _with_faults(text: str, policy: Policy, key: str) -> str:
    """Return a text with the faults of the selectors of a key."""
    return "; ".join((text, *(fault for place, fault in policy.faults if place == key)))
