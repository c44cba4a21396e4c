"""Istio's injection policy as rules in their order.

The first rule that decides wins (``injection_required``); ``verdicts`` applies all rules, for `explain`.

Follows ``injectRequired`` in pkg/kube/inject/inject.go (1.30.3); what older minors accept is in ``istio.behaviours``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from injector.injection import containers as c

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from injector.istio.behaviours import Behaviours
    from injector.istio.config import Policy

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


class Verdict(NamedTuple):
    """The result of one rule for a pod.

    Attributes:
        step: the rule's name in a trace.
        source: the part of the pod or of the revision's config that it reads, or Istio itself.
        silence: why it does not apply, as a sentence for people; not read if it decides.
        decision: None if it does not apply.
    """

    step: str
    source: str
    silence: str
    decision: PolicyDecision | None


def injection_required(
    policy: Policy, behaviours: Behaviours, pod: Mapping[str, Any], namespace: str
) -> PolicyDecision:
    """Decide whether ``pod``, which is created in ``namespace``, gets a sidecar."""
    return next(found for *_, found in verdicts(policy, behaviours, pod, namespace) if found is not None)


def verdicts(policy: Policy, behaviours: Behaviours, pod: Mapping[str, Any], namespace: str) -> Iterator[Verdict]:
    """Yield the verdict of every rule on ``pod``, in Istio's order; the first decision counts."""
    labels, annotations = c.labels_of(pod), c.annotations_of(pod)
    by_label = behaviours.inject_label and INJECT in labels
    place, value = ("label", labels[INJECT]) if by_label else ("annotation", annotations.get(INJECT, ""))
    wanted = behaviours.wants_injection(value)
    invalid = ""
    if value and wanted is None:
        invalid = f"{place} {INJECT} has the value {value!r}; only `true` and `false` count, so the policy decides"

    def decided(reason: str, detail: str, *, inject: bool = False, warning: str = invalid) -> PolicyDecision:
        return PolicyDecision(inject, reason, detail, warning)

    def by_value(source: str) -> PolicyDecision | None:
        if source != place or wanted is None:
            return None
        return decided(place, f"{place} {INJECT} is {value!r}", inject=wanted)

    is_on_host = (pod.get("spec") or {}).get("hostNetwork")
    on_host = decided("host_network", "the pod uses the host's network") if is_on_host else None
    yield Verdict("host_network", "spec.hostNetwork", "the pod has its own network", on_host)

    is_ignored = namespace in behaviours.ignored_namespaces
    ignored = decided("ignored_namespace", f"namespace {namespace} is never injected") if is_ignored else None
    others = f"namespace {namespace} is not one of {', '.join(sorted(behaviours.ignored_namespaces))}"
    yield Verdict("ignored_namespace", "Istio's own list", others, ignored)

    # An illegal policy overrides the label, the annotation and the selectors in Istio, so it comes before them.
    fault = f"policy {policy.policy!r} is neither `{ENABLED}` nor `{DISABLED}`: nothing is injected"
    is_legal = policy.policy in (ENABLED, DISABLED)
    illegal = None if is_legal else decided("illegal_policy", fault, warning=fault)
    yield Verdict("illegal_policy", "config: policy", f"{policy.policy} is a policy", illegal)

    silence = invalid or f"this Istio does not read the label {INJECT}"
    if INJECT not in labels:
        silence = f"the pod has no label {INJECT}"
    yield Verdict("label", f"metadata.labels[{INJECT}]", silence, by_value("label"))

    silence = invalid or f"the annotation {INJECT} is empty"
    if INJECT not in annotations:
        silence = f"the pod has no annotation {INJECT}"
    elif by_label:
        silence = f"the pod has the label {INJECT}, so the annotation is not read"
    yield Verdict("annotation", f"metadata.annotations[{INJECT}]", silence, by_value("annotation"))

    for name, selectors, inject in (("never", policy.never, False), ("always", policy.always, True)):
        key = f"{name}InjectSelector"
        silence = f"the pod's labels match no selector of {key}" if behaviours.selectors else f"this Istio has no {key}"
        # An empty selector would match everything; in Istio it matches nothing.
        matches = any(not each.is_empty and each.matches(labels) for each in selectors)
        found = decided(f"{name}_selector", f"the pod's labels match {key}", inject=inject)
        yield Verdict(
            f"{name}_selector", f"config: {key}", silence, found if behaviours.selectors and matches else None
        )

    default = decided(f"policy_{policy.policy}", f"the policy is {policy.policy}", inject=policy.policy == ENABLED)
    yield Verdict("policy", "config: policy", "the policy always applies", default)
