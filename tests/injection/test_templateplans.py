from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import AnnotationError
from injector.injection.result import Injected, RequestFacts
from injector.injection.templateplans import CONFIGS, COST, TemplatePlans, template_plans_of
from injector.kube.pods import WorkloadMeta
from injector.revisions.build import build
from tests.factories import make_pod
from tests.revisions.fakes import make_raw

if TYPE_CHECKING:
    from injector.istio.revision import Revision

PROXY_CONFIG = "proxy.istio.io/config"


def template(name: str = "web", **annotations: str) -> dict[str, Any]:
    """A pod template: a pod without a name."""
    pod = make_pod(labels={"app": name}, annotations=annotations)
    return {"metadata": {k: v for k, v in pod["metadata"].items() if v and k != "name"}, "spec": pod["spec"]}


def by_pipeline(plans: TemplatePlans, pod: dict[str, Any], times: int = 1) -> int:
    """How many of so many injections of a pod the pipeline did."""
    done: list[int] = []

    def inject() -> Injected:
        done.append(1)
        return Injected({**pod, "spec": {**pod["spec"], "hostname": "injected"}}, [], ("sidecar",))

    for _ in range(times):
        plans.injected(pod, WorkloadMeta("web", "shop", "Deployment", "apps/v1"), RequestFacts(), inject)
    return len(done)


def revision_of(minor: int) -> Revision:
    """A revision of Istio 1.``minor``."""
    return build(make_raw(settings={"istioVersion": f"1.{minor}"}))


def test_the_plans_of_a_revision_go_with_it() -> None:
    first, second = revision_of(30), revision_of(30)

    assert template_plans_of(first) is template_plans_of(first)
    assert template_plans_of(first) is not template_plans_of(second)


def test_a_plan_that_does_not_give_what_the_pipeline_gave_is_not_kept() -> None:
    assert by_pipeline(template_plans_of(revision_of(30)), template(), COST + 5) == COST + 5


def test_older_templates_see_all_of_the_workloads_metadata_and_get_no_plan() -> None:
    plans = template_plans_of(revision_of(21))

    assert by_pipeline(plans, template(), COST + 5) == COST + 5
    assert plans.known == 0


def test_proxy_configs_are_told_apart_and_the_oldest_forgotten() -> None:
    plans = template_plans_of(revision_of(30))
    for number in range(CONFIGS + 3):
        by_pipeline(plans, template(**{PROXY_CONFIG: f"concurrency: {number}"}))

    assert plans.known == CONFIGS


def test_a_proxy_config_that_is_none_is_an_error() -> None:
    with pytest.raises(AnnotationError):
        by_pipeline(template_plans_of(revision_of(30)), template(**{PROXY_CONFIG: "["}))
