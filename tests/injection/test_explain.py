"""The steps of a decision, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from injector.errors import ManifestError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.injection.tools.explain import Decision, Step, conclude, explain_pod, refuse
from tests.cases import cases
from tests.factories import make_container, make_pod
from tests.revisions.fakes import CONFIG, FACTS, facts_with, revision_of

INJECT = "sidecar.istio.io/inject"
RULES = (
    "host_network",
    "ignored_namespace",
    "illegal_policy",
    "label",
    "annotation",
    "never_selector",
    "always_selector",
    "policy",
)


def traced(config: str = CONFIG, minor: int = 30, **pod: Any) -> Decision:
    return explain_pod(revision_of(minor, config), make_pod(**pod), FACTS)


def step_of(trace: Decision, name: str) -> Step:
    return next(step for step in trace.steps if step.step == name)


def test_an_injected_pod_goes_through_every_step() -> None:
    trace = traced()

    assert [step.step for step in trace.steps] == [*RULES, "validation", "templates", "guard", "pod_security", "result"]
    assert (trace.outcome, trace.reason) == ("injected", "policy_enabled")
    assert [(step.step, step.verdict) for step in trace.steps if step.verdict != "passed"] == [
        ("policy", "inject"),
        ("result", "inject"),
    ]
    assert step_of(trace, "result").detail == "injected: istio-proxy (proxy:1.24.6)"


TO_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
AS_ROOT = {**TO_RESTRICTED, "runAsUser": 0}
LOW = "the pod passes only privileged, with and without the sidecar"
WORSE = "the injected pod passes baseline, and passed restricted before"
ROOT = "runAsUser=0 (istio-proxy)"
UNSET = (
    "allowPrivilegeEscalation != false (istio-proxy), unrestricted capabilities (istio-proxy), "
    "runAsNonRoot != true (istio-proxy), seccompProfile (istio-proxy)"
)
VIOLATES = 'violates PodSecurity "restricted:latest":'
HINT = "change the pod or the template, or the namespace's label pod-security.kubernetes.io/enforce"


@pytest.mark.parametrize(
    ("context", "sidecar", "mode", "verdict", "detail"),
    [
        (TO_RESTRICTED, TO_RESTRICTED, "enforce", "passed", "the pod passes restricted, with and without the sidecar"),
        (TO_RESTRICTED, {}, "audit", "passed", f"{WORSE}; for restricted: {UNSET}"),
        ({"privileged": True}, {}, "audit", "passed", f"{LOW}; for baseline: privileged (app)"),
        (TO_RESTRICTED, AS_ROOT, "warn", "warning", f"{WORSE}; for restricted: {ROOT}; {VIOLATES} {ROOT}"),
        (TO_RESTRICTED, AS_ROOT, "enforce", "refuse", f"{VIOLATES} {ROOT}: the API server would refuse the injected pod; {HINT}"),
    ],
)  # fmt: skip
def test_pod_security_is_a_step(
    context: dict[str, Any], sidecar: dict[str, Any], mode: str, verdict: str, detail: str
) -> None:
    revision = revision_of(config=CONFIG + f"        securityContext: {json.dumps(sidecar)}\n")
    pod = make_pod(containers=[make_container(securityContext=context)])

    trace = explain_pod(revision, pod, FACTS, {f"pod-security.kubernetes.io/{mode}": "restricted"})

    step = step_of(trace, "pod_security")
    assert (step.verdict, step.detail) == (verdict, detail)
    assert trace.outcome == ("refused" if verdict == "refuse" else "injected")


def test_a_pod_left_alone_ends_at_the_rules_and_later_opinions_are_overruled() -> None:
    trace = traced(labels={INJECT: "false"})

    assert (trace.outcome, trace.reason) == ("skipped", "label")
    assert [step.step for step in trace.steps] == [*RULES, "result"]
    assert step_of(trace, "label").verdict == "skip"
    assert step_of(trace, "policy") == Step(
        "policy", "overruled", "the policy is enabled; label decided before", f"{revision_of().origin}: config: policy"
    )


@pytest.mark.parametrize("policy", ["enabled", "disabled", "odd"])
@pytest.mark.parametrize("label", [None, "true", "false", "odd"])
@pytest.mark.parametrize("minor", [9, 30])
def test_the_trace_ends_as_the_injection_does(policy: str, label: str | None, minor: int) -> None:
    revision = revision_of(minor, CONFIG.replace("enabled", policy))
    pod = make_pod(labels={} if label is None else {INJECT: label})

    result, trace = inject_pod(revision, pod, FACTS), explain_pod(revision, pod, FACTS)

    assert isinstance(result, Injected) == (trace.outcome == "injected")
    if isinstance(result, Skipped):
        assert (trace.outcome, trace.reason) == ("skipped", result.reason)


def test_the_proxy_config_resources_that_apply_are_named_in_their_order() -> None:
    facts = facts_with({"concurrency": 1}, {"selector": {"matchLabels": {"app": "web"}}})
    revision = revision_of(facts=facts)

    def resources_of(**pod: Any) -> list[str]:
        trace = explain_pod(revision, make_pod(**pod), FACTS)
        return [step.detail for step in trace.steps if step.step == "proxy_configs"]

    assert resources_of() == ["shop/a: each overrides the ones before it"]
    assert resources_of(labels={"app": "web"}, annotations={"proxy.istio.io/config": "{}"}) == [
        "shop/a, the annotation proxy.istio.io/config, shop/b: each overrides the ones before it"
    ]
    assert resources_of(namespace="other") == []


def test_a_refused_annotation_ends_it_at_the_validation() -> None:
    trace = traced(annotations={"sidecar.istio.io/proxyCPU": "odd!"})

    assert (trace.outcome, trace.reason) == ("refused", "validation")
    assert [step.verdict for step in trace.steps[-2:]] == ["refuse", "refuse"]
    assert "invalid value 'odd!' for annotation 'sidecar.istio.io/proxyCPU'" in step_of(trace, "validation").detail
    assert "\n" not in step_of(trace, "validation").detail


def test_annotations_in_order_are_named() -> None:
    trace = traced(annotations={"sidecar.istio.io/proxyCPU": "1"})

    assert step_of(trace, "validation").detail == "in order: sidecar.istio.io/proxyCPU"


def test_a_template_that_is_not_there_ends_it_at_the_templates() -> None:
    trace = traced(annotations={"inject.istio.io/templates": "sidecar,nope"})

    assert (trace.outcome, trace.reason) == ("refused", "templates")
    assert 'requested template "nope" not found' in step_of(trace, "templates").detail
    assert step_of(trace, "templates").source == "metadata.annotations[inject.istio.io/templates]"


def test_a_template_that_fails_ends_it_at_the_render() -> None:
    trace = traced(CONFIG.replace(".Values.global.tag", ".Nope"))

    assert (trace.outcome, trace.reason) == ("refused", "render")
    assert step_of(trace, "templates").verdict == "passed"


def test_a_pod_that_becomes_invalid_is_refused_with_the_fault() -> None:
    trace = traced(f"{CONFIG}      - name: app\n        image: ''\n", containers=[{"name": "other", "image": "a"}])

    step = step_of(trace, "pod_validation")
    assert (trace.outcome, trace.reason, step.verdict) == ("refused", "pod_validation", "refuse")
    assert step.detail.startswith("spec.containers[app].image: Required value: the API server would refuse")


def test_aliases_are_shown_as_what_they_stand_for() -> None:
    config = CONFIG.replace("templates:", "aliases: {all: [sidecar, more]}\ntemplates:\n  more: ''")

    trace = traced(config, annotations={"inject.istio.io/templates": "all"})

    assert step_of(trace, "templates").detail == "sidecar, more"


APPENDED = "policy: enabled\ntemplate: |\n  containers:\n  - name: istio-proxy\n    image: proxy\n"


def test_the_one_template_of_old_minors_is_named_by_its_key() -> None:
    trace = traced(APPENDED, 8)

    assert trace.outcome == "injected"
    assert step_of(trace, "templates").source.endswith(": config: template")


def test_a_pod_that_gets_no_further_container_says_so() -> None:
    trace = traced(containers=[make_container(), make_container("istio-proxy", image="auto")])

    assert step_of(trace, "result").detail == "injected: no container that the pod did not have"


def test_a_container_without_a_name_is_not_one_that_was_added() -> None:
    nameless = {key: value for key, value in make_container("app").items() if key != "name"}

    trace = traced(APPENDED, 8, containers=[nameless])

    assert step_of(trace, "result").detail == "injected: istio-proxy (proxy)"


def test_what_is_no_pod_is_no_matter_of_a_trace() -> None:
    with pytest.raises(ManifestError):
        traced(hostNetwork="perhaps")


def test_steps_before_come_before() -> None:
    first = Step("tag", "passed", "", "")

    assert conclude("skipped", "why", "text", "place").after(first) == Decision(
        (first, Step("result", "skip", "text", "place")), "skipped", "why"
    )
    assert refuse("tag", "a\n b", "here").steps[0] == Step("tag", "refuse", "a b", "here")


@cases("guard", "verdict", "detail")
def test_the_guard_is_a_step(guard: str, verdict: str, detail: str) -> None:
    config = CONFIG.replace("{{ .Values.global.tag }}", "{{ .ObjectMeta.Labels.a }}")
    pod = make_pod(labels={"a": "x" + "\n  - name: other\n    image: other"})

    step = step_of(explain_pod(revision_of(config=config), pod, RequestFacts("shop", guard=guard)), "guard")

    assert (step.verdict, step.source) == (verdict, f"--guard {guard}")
    assert detail in step.detail
