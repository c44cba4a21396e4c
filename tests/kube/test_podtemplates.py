"""The pod templates of workloads, and the pods that workloads create."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ManifestError
from injector.kube.pods import WorkloadMeta, workload_of
from injector.kube.podtemplates import (
    Created,
    created_pods,
    parse_rules,
    path_text,
    template_at,
    template_paths,
    unread_templates,
)
from tests.cases import cases
from tests.factories import make_container, make_pod


def other(kind: str, version: str, spec: Any) -> dict[str, Any]:
    """An object named x of a kind that Istio does not know. A text T in its spec stands for a pod template."""

    def filled(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: filled(value) for key, value in node.items()}
        if isinstance(node, list):
            return [filled(item) for item in node]
        return (
            {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [make_container()]}} if node == "T" else node
        )

    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": filled(spec)}


@cases("kind", "path")
def test_a_workloads_pod_template_is_found_by_its_kind(kind: Any, path: tuple[str, ...] | None) -> None:
    assert template_paths({"kind": kind, "apiVersion": "any/v9"}) == (() if path is None else (path,))


@cases("rules", "spec", "paths")
def test_a_rule_leads_to_pod_templates(rules: list[str], spec: dict[str, Any], paths: list[str]) -> None:
    obj, others = other("Foo", "example.com/v1", spec), parse_rules(rules)

    assert [path_text(path) for path in template_paths(obj, others)] == paths
    assert [pod.part for pod in created_pods(obj, "shop", others)] == (paths if len(paths) > 1 else [""])
    assert [message.partition(" at ")[2] for message in unread_templates(obj, others)] == []


@cases("rule", "spec", "says")
def test_a_rule_that_leads_to_no_pod_template_is_refused(rule: str, spec: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError) as raised:
        template_paths(other("Foo", "example.com/v1", spec), parse_rules([rule]))

    assert says in str(raised.value)


@cases("kind", "version", "spec", "messages")
def test_every_pod_template_of_an_unknown_kind_is_named(
    kind: str, version: str, spec: dict[str, Any], messages: list[str]
) -> None:
    assert list(unread_templates(other(kind, version, spec))) == messages


def test_a_pod_template_that_no_rule_leads_to_is_named() -> None:
    obj = other("Foo", "example.com/v1", {"a": {"template": "T"}, "b": {"template": "T"}})

    (message,) = unread_templates(obj, parse_rules(["Foo.example.com=spec.a.template"]))

    assert message == (
        "Foo x: no rule leads to its pod template at spec.b.template, which is not used; "
        "give --pod-template-path Foo.example.com=spec.b.template"
    )


def test_a_kind_of_another_group_with_the_name_of_a_known_kind_keeps_its_fields() -> None:
    obj = other("StatefulSet", "apps.kruise.io/v1beta1", {"template": "T", "scaleStrategy": {"maxUnavailable": 1}})

    assert [path_text(path) for path in template_paths(obj)] == ["spec.template"]
    assert template_paths(other("Job", "batch.volcano.sh/v1alpha1", {"tasks": [{"template": "T"}]})) == ()


def test_a_part_of_a_workload_is_found_by_its_path() -> None:
    obj = {"kind": "Deployment", "spec": {"template": {"metadata": {"name": "a"}}}}

    assert template_at(obj, ("spec", "template")) == {"metadata": {"name": "a"}}
    assert template_at(obj, ()) is obj


def workload_object(kind: str = "Deployment", **metadata: Any) -> dict[str, Any]:
    """A workload named web, of any kind."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [make_container()]}}
    spec: dict[str, Any] = {"template": template}
    if kind == "CronJob":
        spec = {"jobTemplate": {"metadata": {"labels": {"of": "job"}}, "spec": spec}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", **metadata}, "spec": spec}


def created(obj: dict[str, Any]) -> list[Created]:
    return list(created_pods(obj, "lent"))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"])
def test_a_pod_gets_its_templates_labels_and_belongs_to_its_workload_object(kind: str) -> None:
    (result,) = created(workload_object(kind, namespace="shop"))

    assert (result.kind, result.namespace, result.name, str(result)) == (kind, "shop", "web", f"{kind} shop/web")
    assert result.pod["metadata"]["labels"] == {"app": "web"}
    assert workload_of(result.pod) == WorkloadMeta("web", "shop", kind, "apps/v1")


def test_a_workload_without_a_namespace_is_created_in_the_one_lent() -> None:
    assert [(item.namespace, item.pod["metadata"]["namespace"]) for item in created(workload_object())] == [
        ("lent", "lent")
    ]


def test_a_bare_pod_stays_as_it_is_but_for_its_namespace() -> None:
    pod = make_pod(labels={"app": "a"}, annotations={"b": "c"})

    (result,) = created(pod)

    assert result.pod == {**pod, "metadata": {**pod["metadata"], "namespace": "lent"}}


def test_name_and_namespace_of_a_template_do_not_count() -> None:
    obj = workload_object(namespace="shop")
    obj["spec"]["template"]["metadata"] |= {"name": "other", "namespace": "other"}

    assert created(obj)[0].pod["metadata"].get("name") is None
    assert created(obj)[0].pod["metadata"]["namespace"] == "shop"


def test_a_list_gives_every_workload_in_it_and_other_kinds_give_nothing() -> None:
    items = [workload_object(), {"kind": "Service", "metadata": {"name": "s"}}, make_pod("p")]

    assert [str(item) for item in created({"kind": "List", "items": items})] == ["Deployment lent/web", "Pod lent/p"]
    assert created({"kind": "Service"}) == []
    assert created({}) == []


@cases("obj", "says")
def test_an_invalid_workload_is_refused(obj: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError) as raised:
        created(obj)

    assert says in str(raised.value)
