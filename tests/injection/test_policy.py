"""The policy: which pods are injected, and the reason if not."""

from __future__ import annotations

from typing import Any

import pytest

from injector.injection.policy import PolicyDecision, Verdict, injection_required, verdicts
from injector.istio.behaviours import NEWEST, Minor, behaviours_of
from injector.istio.config import Policy, parse_inject_config
from injector.kube.selectors import Selector
from tests.cases import cases
from tests.factories import make_pod

INJECT = "sidecar.istio.io/inject"
NEVER = Selector.compile({"matchLabels": {"never": "me"}})
ALWAYS = Selector.compile({"matchExpressions": [{"key": "always", "operator": "Exists"}]})
ALL = Selector.compile({})


def _decided(
    policy: Policy,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    namespace: str = "shop",
    minor: Minor = NEWEST,
    **spec: Any,
) -> PolicyDecision:
    pod = make_pod(labels=labels, annotations=annotations, **spec)
    return injection_required(policy, behaviours_of(minor), pod, namespace)


@cases("policy", "annotation", "never", "always", "inject", "reason")
def test_the_annotation_decides_before_never_before_always_before_the_policy(
    *, policy: str, annotation: str | None, never: bool, always: bool, inject: bool, reason: str
) -> None:
    labels = {"app": "hello", **({"never": "me"} if never else {}), **({"always": "me"} if always else {})}
    annotations = {} if annotation is None else {INJECT: annotation}
    decision = _decided(Policy(policy, (NEVER,), (ALWAYS,)), labels=labels, annotations=annotations)
    assert (decision.inject, decision.reason, decision.warning) == (inject, reason, "")


@cases("policy", "pod", "minor", "expected")
def test_a_pod_is_injected_or_not_for_the_first_reason_that_applies(
    policy: str, pod: dict[str, Any], minor: Minor, expected: tuple[bool, str, str]
) -> None:
    decision = _decided(Policy(policy, (ALL, NEVER), (ALL, ALWAYS)), minor=minor, **pod)

    assert (decision.inject, decision.reason, decision.warning) == expected


@cases("namespace", "minor", "inject")
def test_kubernetes_own_namespaces_are_ignored_whatever_the_pod_asks(
    namespace: str, minor: Minor, inject: bool
) -> None:
    decision = _decided(Policy("enabled"), annotations={INJECT: "true"}, namespace=namespace, minor=minor)
    assert (decision.inject, decision.reason) == (inject, "annotation" if inject else "ignored_namespace")


def test_the_namespace_is_the_one_of_the_request_and_not_the_pods_own() -> None:
    pod = make_pod(namespace="kube-system")
    assert injection_required(Policy("enabled"), behaviours_of(NEWEST), pod, "shop").inject


@pytest.mark.parametrize("policy", ["", "Enabled", "on", "off"])
@pytest.mark.parametrize("wanted", ["true", "false", "", "maybe"])
def test_an_illegal_policy_injects_nothing_and_warns(policy: str, wanted: str) -> None:
    labels = {"always": "me"}
    decision = _decided(Policy(policy, always=(ALWAYS,)), labels=labels, annotations={INJECT: wanted})
    assert (decision.inject, decision.reason) == (False, "illegal_policy")
    assert decision.warning == f"policy {policy!r} is neither `enabled` nor `disabled`: nothing is injected"


@cases("policy", "value", "minor", "inject")
def test_since_1_27_only_true_and_false_override_the_policy(
    policy: str, value: str, minor: Minor, inject: bool
) -> None:
    assert _decided(Policy(policy), annotations={INJECT: value}, minor=minor).inject is inject


def test_one_of_several_selectors_is_enough() -> None:
    policy = Policy("enabled", never=(ALL, Selector.compile({"matchLabels": {"x": "y"}}), NEVER))
    assert _decided(policy, labels={"never": "me"}).reason == "never_selector"


def test_a_selector_of_the_config_that_kubernetes_refuses_is_passed_over() -> None:
    config = parse_inject_config(
        """
        policy: enabled
        templates: {sidecar: ""}
        neverInjectSelector:
        - matchExpressions: [{key: never, operator: Perhaps}]
        - matchLabels: {never: me}
        """
    )
    assert _decided(config.policy, labels={"never": "not me"}).reason == "policy_enabled"
    assert _decided(config.policy, labels={"never": "me"}).reason == "never_selector"


def test_a_pod_without_metadata_and_spec_follows_the_policy() -> None:
    decision = injection_required(Policy("enabled"), behaviours_of(NEWEST), {"metadata": None, "spec": None}, "shop")
    assert decision == PolicyDecision(inject=True, reason="policy_enabled", detail="the policy is enabled")


@pytest.mark.parametrize(
    ("policy", "labels", "detail"),
    [
        (Policy("enabled"), {INJECT: "true"}, f"label {INJECT} is 'true'"),
        (Policy("disabled"), {}, "the policy is disabled"),
        (Policy("enabled", never=(NEVER,)), {"never": "me"}, "the pod's labels match neverInjectSelector"),
        (Policy("disabled", always=(ALWAYS,)), {"always": ""}, "the pod's labels match alwaysInjectSelector"),
    ],
)
def test_the_detail_says_what_the_rule_saw(policy: Policy, labels: dict[str, str], detail: str) -> None:
    assert _decided(policy, labels=labels).detail == detail


def _verdicts(policy: Policy, minor: Minor = NEWEST, namespace: str = "shop", **pod: Any) -> list[Verdict]:
    return list(verdicts(policy, behaviours_of(minor), make_pod(**pod), namespace))


def test_every_rule_gives_its_verdict_in_the_order_of_the_table() -> None:
    results = _verdicts(Policy("enabled"))

    assert [verdict.step for verdict in results] == [
        "host_network",
        "ignored_namespace",
        "illegal_policy",
        "label",
        "annotation",
        "never_selector",
        "always_selector",
        "policy",
    ]
    assert all(verdict.decision is not None or verdict.silence for verdict in results)


@pytest.mark.parametrize("policy", ["enabled", "disabled", "odd"])
@pytest.mark.parametrize("labels", [{}, {INJECT: "true"}, {INJECT: "maybe"}, {"never": "me"}, {"always": "me"}])
@pytest.mark.parametrize("annotations", [{}, {INJECT: "false"}])
@pytest.mark.parametrize("minor", [(1, 0), (1, 10), NEWEST])
@pytest.mark.parametrize("namespace", ["shop", "kube-system"])
def test_the_first_verdict_with_a_decision_is_the_decision(
    policy: str, labels: dict[str, str], annotations: dict[str, str], minor: Minor, namespace: str
) -> None:
    rules = Policy(policy, (NEVER,), (ALWAYS,))
    results = _verdicts(rules, minor, namespace, labels=labels, annotations=annotations)
    first = next(verdict.decision for verdict in results if verdict.decision is not None)

    decided = _decided(rules, labels=labels, annotations=annotations, minor=minor, namespace=namespace)

    assert (first.inject, first.reason, first.detail) == (decided.inject, decided.reason, decided.detail)


@cases("minor", "pod", "step", "says")
def test_a_rule_that_does_not_apply_says_why(minor: Minor, pod: dict[str, Any], step: str, says: str) -> None:
    result = next(verdict for verdict in _verdicts(Policy("enabled"), minor, **pod) if verdict.step == step)

    assert result.decision is None
    assert says in result.silence
