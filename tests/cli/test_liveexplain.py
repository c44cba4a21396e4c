from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from injector.cli.clusterview import Sources, Target, read_surroundings, read_target
from injector.cli.explain import explain_live, labels_of
from injector.cluster.reader import DEPLOYMENTS, PODS
from injector.errors import DataError
from tests.cli.clusters import HOME, cluster, deployment, labelled, owned, revision, tag

if TYPE_CHECKING:
    from injector.cli.explain import LiveExplanation

OBJECTS = (
    *revision("1-24", "1.24.6"),
    *revision("broken", "1.24.6", config="templates: {sidecar: '{{ .x'}"),
    tag("prod", "1-24"),
    labelled("shop", "prod"),
    labelled("lost", "gone"),
    labelled("bad", "broken"),
    owned("web", "shop"),
    owned("web", "lost"),
    owned("web", "bad"),
    deployment("web", "shop"),
)
SOURCES = Sources(None, HOME)


def explanation(wanted: Target | str, *more: dict[str, Any]) -> LiveExplanation:
    return asyncio.run(explain_live(cluster(*OBJECTS, *more), SOURCES, wanted))


def test_a_pod_has_what_becomes_of_the_call_after_the_webhook() -> None:
    (found,) = explanation(Target(PODS, "web-abc-1", "shop")).explained

    assert (str(found.workload), found.revision, found.tag) == ("Pod shop/web-abc-1", "1-24", "prod")
    assert [step.step for step in found.trace.steps][:6] == [
        "webhook",
        "failure_policy",
        "ca_bundle",
        "endpoints",
        "tag",
        "revision",
    ]
    assert found.trace.outcome == "injected"


def test_a_deployment_is_explained_by_its_template() -> None:
    (found,) = explanation(Target(DEPLOYMENTS, "web", "shop")).explained

    assert (str(found.workload), found.revision) == ("Deployment shop/web", "1-24")


def test_the_guard_is_the_one_asked_for() -> None:
    warning = replace(SOURCES, guard="warn")
    (found,) = asyncio.run(explain_live(cluster(*OBJECTS), warning, Target(PODS, "web-abc-1", "shop"))).explained

    assert [step.source for step in found.trace.steps if step.step == "guard"] == ["--guard warn"]


def test_a_pod_that_no_webhook_is_called_for_ends_there() -> None:
    (found,) = explanation(Target(PODS, "web-abc-1", "lost")).explained

    assert [step.step for step in found.trace.steps] == ["webhook", "result"]
    assert "names `gone`, which is not served" in found.trace.steps[0].detail


def test_a_namespace_is_all_of_its_workloads_and_an_empty_one_is_noted() -> None:
    found = explanation("shop", deployment("idle", "shop"))

    assert [str(each.workload) for each in found.explained] == ["Deployment shop/idle", "Deployment shop/web"]
    assert explanation("empty", labelled("empty", "prod")).notes == ("there is no workload in namespace empty",)


def test_a_revision_that_cannot_be_used_is_the_error() -> None:
    with pytest.raises(DataError, match="istio-sidecar-injector-broken"):
        explanation(Target(PODS, "web-abc-1", "bad"))


def test_the_labels_of_a_workload_are_its_pods_and_its_namespaces() -> None:
    reader = cluster(*OBJECTS)
    around = asyncio.run(read_surroundings(reader, SOURCES, None))
    found = labels_of(asyncio.run(read_target(reader, Target(PODS, "web-abc-1", "shop"))), around)

    assert found.namespace["istio.io/rev"] == "prod"
    assert found.pod["app"] == "web"
    assert found.workload == ("shop", "Deployment", "web")
