from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from injector.errors import AnnotationError, TemplateRenderError
from injector.injection.difference import KIND_OF_FIELD, KINDS, Difference, outcome_differences, pod_differences
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.revisions.build import build
from injector.revisions.embedded import embedded_source
from tests.factories import make_container, make_pod

INJECTED = Injected(make_pod(), [], ())
SKIPPED = Skipped("label", "the label says so")


def proxy(**fields: Any) -> dict[str, Any]:
    """A pod with a sidecar of these fields."""
    return make_pod(containers=[make_container("app"), make_container("istio-proxy", **fields)])


def seen(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str]]:
    """The kinds and paths of what differs."""
    return [(each.kind, each.path) for each in pod_differences(before, after)]


def test_equal_pods_do_not_differ() -> None:
    assert pod_differences(proxy(env=[{"name": "A", "value": "1"}]), proxy(env=[{"name": "A", "value": "1"}])) == []


PROXY = "spec.containers[istio-proxy]"


@pytest.mark.parametrize(
    ("before", "after", "kind", "path"),
    [
        ({"image": "a:1"}, {"image": "a:2"}, "image", "image"),
        ({}, {"imagePullPolicy": "Always"}, "image", "imagePullPolicy"),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}]}, "env", "env[A].value"),
        ({"env": [{"name": "B"}]}, {"env": [{"name": "A"}, {"name": "B"}]}, "env", "env[A]"),
        (
            {"env": [{"name": "A", "value": "1"}] * 2},
            {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
            "env",
            "env[A#2].value",
        ),
        ({"args": ["proxy", "-x"]}, {"args": ["-x", "proxy"]}, "args", "args"),
        ({"ports": [{"containerPort": 1}]}, {"ports": []}, "ports", "ports[1]"),
        (
            {"ports": [{"containerPort": 1, "protocol": "TCP"}]},
            {"ports": [{"containerPort": 1, "protocol": "TCP", "name": "x"}]},
            "ports",
            "ports[1/TCP].name",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/b"}, {"name": "v", "mountPath": "/a"}]},
            "volumes",
            "volumeMounts[/b]",
        ),
        (
            {"securityContext": {"capabilities": {"drop": ["ALL"]}}},
            {"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}},
            "security",
            "securityContext.capabilities.add",
        ),
        ({"resources": {"limits": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "2"}}}, "resources", "resources.limits.cpu"),
        (
            {"lifecycle": {"preStop": {"exec": {"command": ["a"]}}}},
            {"lifecycle": {"preStop": {"exec": {"command": ["b"]}}}},
            "other",
            "lifecycle.preStop.exec.command",
        ),
        ({"stdin": True}, {"stdin": 1}, "other", "stdin"),
    ],
)  # fmt: skip
def test_a_difference_has_the_kind_of_its_outermost_field(
    before: dict[str, Any], after: dict[str, Any], kind: str, path: str
) -> None:
    assert seen(proxy(**before), proxy(**after)) == [(kind, f"{PROXY}.{path}")]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (make_pod(), make_pod(hostNetwork=True), [("security", "spec.hostNetwork")]),
        (make_pod(), make_pod(volumes=[{"name": "v"}]), [("volumes", "spec.volumes")]),
        (make_pod(), make_pod(tolerations=[{"key": "a"}]), [("other", "spec.tolerations")]),
        (make_pod(), make_pod(labels={"a.b/c": "d"}), [("metadata", "metadata.labels")]),
        (make_pod(labels={}), make_pod(labels={"a.b/c": "d"}), [("metadata", "metadata.labels[a.b/c]")]),
        (make_pod(), proxy(), [("other", PROXY)]),
    ],
)
def test_what_a_pod_says_beside_its_containers_has_a_kind_too(
    before: dict[str, Any], after: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert seen(before, after) == expected


def test_both_values_are_told_and_none_where_there_is_none() -> None:
    assert pod_differences(proxy(image="a:1"), proxy(image="a:2", tty=True)) == [
        Difference("image", f"{PROXY}.image", "a:1", "a:2"),
        Difference("other", f"{PROXY}.tty", None, True),
    ]


def test_another_order_is_one_difference_and_what_came_between_is_another() -> None:
    before = make_pod(containers=[make_container("a"), make_container("b")])
    after = make_pod(containers=[make_container("b"), make_container("c"), make_container("a")])

    assert pod_differences(before, after) == [
        Difference("order", "spec.containers", ["a", "b"], ["b", "a"]),
        Difference("other", "spec.containers[c]", None, make_container("c")),
    ]


def test_items_without_a_name_are_told_apart_by_their_place() -> None:
    before = make_pod(volumes=[{"name": "t", "projected": {"sources": [{"configMap": {"name": "a"}}]}}])
    after = make_pod(volumes=[{"name": "t", "projected": {"sources": [{"configMap": {"name": "b"}}]}}])

    assert seen(before, after) == [("volumes", "spec.volumes[t].projected.sources[0].configMap.name")]


def pod_of(revision: str, *, host: str, volumes: list[str]) -> dict[str, Any]:
    """A pod that its revision left its name in, as Istio's templates do."""
    status = {"volumes": volumes, "revision": revision}
    env = [{"name": "CA_ADDR", "value": f"{host}.istio-system.svc:15012"}]
    return make_pod(
        labels={"istio.io/rev": revision},
        annotations={"istio.io/rev": revision, "sidecar.istio.io/status": json.dumps(status)},
        containers=[make_container("istio-proxy", env=env)],
    )


def test_the_name_of_its_own_revision_is_no_difference() -> None:
    before = pod_of("1-24", host="istiod-1-24", volumes=["a"])
    after = pod_of("default", host="istiod", volumes=["a"])

    assert pod_differences(before, after, ("1-24", "default")) == []
    assert {each.kind for each in pod_differences(before, after)} == {"metadata", "env"}


def test_the_name_of_another_revision_is_one() -> None:
    before = pod_of("1-24", host="istiod-1-24", volumes=["a"])
    after = pod_of("1-28", host="istiod-1-28", volumes=["a"])

    assert [each.path for each in pod_differences(before, after, ("1-24", "1-30"))] == [
        "metadata.annotations[istio.io/rev]",
        "metadata.annotations[sidecar.istio.io/status].revision",
        "metadata.labels[istio.io/rev]",
        "spec.containers[istio-proxy].env[CA_ADDR].value",
    ]


def test_equal_pods_do_not_differ_whoever_they_name() -> None:
    pod = pod_of("1-24", host="istiod-1-24", volumes=["a"])

    assert pod_differences(pod, deepcopy(pod), ("1-24", "1-30")) == []


def test_the_status_is_compared_member_by_member() -> None:
    before = pod_of("a", host="istiod", volumes=["x"])
    after = pod_of("b", host="istiod", volumes=["x", "y"])

    assert pod_differences(before, after, ("a", "b")) == [
        Difference("metadata", "metadata.annotations[sidecar.istio.io/status].volumes", ["x"], ["x", "y"])
    ]


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_a_status_that_is_no_object_is_compared_as_text(text: str) -> None:
    path = "metadata.annotations[sidecar.istio.io/status]"

    assert seen(
        make_pod(annotations={"sidecar.istio.io/status": text}),
        make_pod(annotations={"sidecar.istio.io/status": "x"}),
    ) == [("metadata", path)]


def test_comparing_changes_neither_pod() -> None:
    before, after = pod_of("a", host="x", volumes=[]), pod_of("b", host="y", volumes=["z"])
    kept = deepcopy((before, after))

    pod_differences(before, after, ("a", "b"))

    assert (before, after) == kept


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (INJECTED, INJECTED, []),
        (SKIPPED, Skipped("policy", "another reason"), []),
        (AnnotationError("a"), AnnotationError("b"), []),
        (INJECTED, SKIPPED, [Difference("decision", "", "injected", "skipped: label")]),
        (SKIPPED, INJECTED, [Difference("decision", "", "skipped: label", "injected")]),
        (
            INJECTED,
            TemplateRenderError("nil pointer", where="sidecar:3"),
            [Difference("error", "sidecar:3", "injected", "failed: TemplateRenderError")],
        ),
        (
            AnnotationError("bad", where="metadata.annotations[a]"),
            SKIPPED,
            [Difference("error", "metadata.annotations[a]", "failed: AnnotationError", "skipped: label")],
        ),
        (
            AnnotationError("bad", where="x"),
            KeyError("y"),
            [Difference("error", "x", "failed: AnnotationError", "failed: KeyError")],
        ),
    ],
)
def test_two_outcomes_differ_where_the_pod_gets_something_else(
    before: Injected | Skipped | Exception, after: Injected | Skipped | Exception, expected: list[Difference]
) -> None:
    assert outcome_differences(before, after) == expected


def test_every_kind_of_a_field_is_a_kind() -> None:
    assert set(KIND_OF_FIELD.values()) <= set(KINDS)


def test_the_revisions_of_the_project_differ_by_what_their_istio_minors_do() -> None:
    revisions = {raw.name: build(raw) for raw in embedded_source().read().revisions}
    stable, canary = (inject_pod(revisions[name], make_pod(), RequestFacts("shop")) for name in ("stable", "canary"))

    found = outcome_differences(stable, canary, ("stable", "canary"))

    assert ("image", "spec.containers[istio-proxy].image") in [(each.kind, each.path) for each in found]
    assert not any("istio.io/rev" in each.path or each.path.endswith(".revision") for each in found)
