from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ManifestError
from injector.kube.pods import Created, WorkloadMeta, created_pods, workload_of
from tests.factories import make_container, make_pod


def workload(kind: str = "Deployment", **metadata: Any) -> dict[str, Any]:
    """A workload named web, of any kind."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [make_container()]}}
    spec: dict[str, Any] = {"template": template}
    if kind == "CronJob":
        spec = {"jobTemplate": {"metadata": {"labels": {"of": "job"}}, "spec": spec}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", **metadata}, "spec": spec}


def created(obj: dict[str, Any]) -> list[Created]:
    return list(created_pods(obj, "lent"))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"])
def test_a_pod_gets_its_templates_labels_and_belongs_to_its_workload(kind: str) -> None:
    (found,) = created(workload(kind, namespace="shop"))

    assert (found.kind, found.namespace, found.name, str(found)) == (kind, "shop", "web", f"{kind} shop/web")
    assert found.pod["metadata"]["labels"] == {"app": "web"}
    assert workload_of(found.pod) == WorkloadMeta("web", "shop", kind, "apps/v1")


def test_a_workload_without_a_namespace_is_created_in_the_one_lent() -> None:
    assert [(each.namespace, each.pod["metadata"]["namespace"]) for each in created(workload())] == [("lent", "lent")]


def test_a_bare_pod_stays_as_it_is_but_for_its_namespace() -> None:
    pod = make_pod(labels={"app": "a"}, annotations={"b": "c"})

    (found,) = created(pod)

    assert found.pod == {**pod, "metadata": {**pod["metadata"], "namespace": "lent"}}


def test_name_and_namespace_of_a_template_do_not_count() -> None:
    obj = workload(namespace="shop")
    obj["spec"]["template"]["metadata"] |= {"name": "other", "namespace": "other"}

    assert created(obj)[0].pod["metadata"].get("name") is None
    assert created(obj)[0].pod["metadata"]["namespace"] == "shop"


def test_a_list_gives_every_workload_in_it_and_other_kinds_give_nothing() -> None:
    items = [workload(), {"kind": "Service", "metadata": {"name": "s"}}, make_pod("p")]

    assert [str(each) for each in created({"kind": "List", "items": items})] == ["Deployment lent/web", "Pod lent/p"]
    assert created({"kind": "Service"}) == []
    assert created({}) == []


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        ({"kind": "Deployment", "metadata": {"name": "a"}}, "spec.template is required value"),
        ({"kind": "List", "items": ["a"]}, "an item of the List is not an object"),
        ({"kind": "Pod", "spec": {"containers": "none"}}, "containers"),
    ],
)
def test_what_is_no_workload_is_refused(obj: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError) as raised:
        created(obj)

    assert says in str(raised.value)
