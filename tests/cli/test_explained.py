from __future__ import annotations

import json

import pytest
import yaml

from injector.cli.explain import Explained, explained_by, rendered
from injector.cli.route import Routed
from injector.injection.result import GUARDS
from injector.injection.tools.explain import Step, Trace
from injector.kube.pods import Created
from injector.revisions.build import build
from tests.factories import make_container, make_pod
from tests.revisions.fakes import make_raw

PRIVATE = "hunter2-hunter2"
STEPS = (Step("webhook", "passed", "called", "somewhere"), Step("tag", "passed", f"quotes {PRIVATE}", "tags"))


def workload() -> Created:
    container = make_container(env=[{"name": "TOKEN", "value": PRIVATE}])
    return Created("Pod", "shop", "web", make_pod("web", namespace="shop", containers=[container]))


def test_a_workload_that_reaches_a_revision_has_its_steps_after_those_of_the_way() -> None:
    found = explained_by(workload(), Routed(make_raw("1-24"), "prod", STEPS), build)

    assert (found.revision, found.tag, found.trace.outcome) == ("1-24", "prod", "injected")
    assert [step.step for step in found.trace.steps][:4] == ["webhook", "tag", "revision", "host_network"]


@pytest.mark.parametrize("guard", GUARDS)
def test_the_guard_of_the_trace_is_the_one_asked_for(guard: str) -> None:
    found = explained_by(workload(), Routed(make_raw("1-24"), "prod", STEPS), build, guard)

    assert [step.source for step in found.trace.steps if step.step == "guard"] == [f"--guard {guard}"]


def test_one_that_reaches_none_ends_on_the_way() -> None:
    trace = Trace(STEPS, "skipped", "no_webhook")

    assert explained_by(workload(), trace, build) == Explained(workload(), trace, None, None)


def test_the_text_is_a_line_for_each_step() -> None:
    found = Explained(workload(), Trace(STEPS, "injected", "policy_enabled"), "1-24", "prod")

    assert rendered([found], "text") == (
        "Pod shop/web: injected by 1-24 (policy_enabled)\n"
        "  webhook  passed  called  [somewhere]\n"
        "  tag      passed  quotes <hidden>  [tags]\n"
    )


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_the_data_has_no_value_of_the_users_variables(output: str) -> None:
    text = rendered([Explained(workload(), Trace(STEPS, "skipped", "no_webhook"), None, None)], output)

    (found,) = (json.loads(text) if output == "json" else yaml.safe_load(text))["workloads"]
    assert PRIVATE not in text
    assert (found["kind"], found["outcome"], found["revision"]) == ("Pod", "skipped", None)
    assert [step["verdict"] for step in found["steps"]] == ["passed", "passed"]
