from __future__ import annotations

from random import Random
from typing import Any

import pytest

from injector.errors import DataError
from injector.kube.canonical import is_canonical, normalised
from injector.kube.typed import normalise
from tests.factories import make_container, make_pod
from tests.property.mutations import mutated

RESOURCES = {"limits": {"cpu": "100m", "memory": "1Gi"}}


def unchanged(value: Any, type_name: str) -> bool:
    """What ``normalise`` says of it."""
    try:
        return normalise(value, type_name) is value
    except DataError:
        return False


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        ({"containers": [make_container(resources=RESOURCES)]}, "v1.PodSpec"),
        ({"containers": [make_container(ports=[{"containerPort": 80}])]}, "v1.PodSpec"),
        ({"labels": {"app": "web"}, "creationTimestamp": "2026-01-02T03:04:05Z"}, "v1.ObjectMeta"),
        ({"labels": {"app": ""}}, "v1.ObjectMeta"),
        ({"futureField": {"kept": None}}, "v1.ObjectMeta"),
        ({"httpGet": {"path": "/", "port": "http"}}, "v1.Probe"),
        ("100m", "resource.Quantity"),
        ({"runAsUser": 0, "runAsNonRoot": False}, "v1.SecurityContext"),
    ],
)
def test_what_go_writes_is_canonical(value: Any, type_name: str) -> None:
    assert is_canonical(value, type_name)
    assert unchanged(value, type_name)


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (None, "v1.PodSpec"),
        ([], "v1.PodSpec"),
        ({"containers": None}, "v1.PodSpec"),
        ({"containers": [None]}, "v1.PodSpec"),
        ({"Containers": []}, "v1.PodSpec"),
        ({"containers": [make_container(env=[])]}, "v1.PodSpec"),
        ({"containers": [make_container(resources={"limits": {"cpu": "1000m"}})]}, "v1.PodSpec"),
        ({"containers": [make_container(resources={"limits": {"cpu": 1}})]}, "v1.PodSpec"),
        ({"containers": [make_container(resources={"limits": {"cpu": "much"}})]}, "v1.PodSpec"),
        ({"containers": [make_container(ports=[{"containerPort": 2**31}])]}, "v1.PodSpec"),
        ({"containers": [make_container(ports=[{"containerPort": "80"}])]}, "v1.PodSpec"),
        ({"containers": [make_container(ports=[{"containerPort": 80.0}])]}, "v1.PodSpec"),
        ({"hostNetwork": False}, "v1.PodSpec"),
        ({"labels": {"app": 1}}, "v1.ObjectMeta"),
        ({"labels": {"app": None}}, "v1.ObjectMeta"),
        ({"creationTimestamp": "2026-01-02T03:04:05+01:00"}, "v1.ObjectMeta"),
        ({"httpGet": {"path": "/"}}, "v1.Probe"),
        ({"httpGet": {"port": 8080.5}}, "v1.Probe"),
    ],
)
def test_what_go_changes_or_refuses_is_not(value: Any, type_name: str) -> None:
    assert not is_canonical(value, type_name)
    assert value is None or not unchanged(value, type_name)


def test_it_says_what_normalising_says_of_pods_changed_at_any_leaf() -> None:
    probe = {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5}
    container = make_container(resources=RESOURCES, readinessProbe=probe, env=[{"name": "A", "value": "b"}])
    pod = make_pod(labels={"app": "web"}, annotations={"a": "b"}, containers=[container], volumes=[{"name": "v"}])
    dice = Random(1)  # noqa: S311 -- nothing secret
    changed = [mutated(pod, dice) for _ in range(2000)]
    said = [is_canonical(each["spec"], "v1.PodSpec") for each in changed if "spec" in each]

    assert said == [unchanged(each["spec"], "v1.PodSpec") for each in changed if "spec" in each]
    assert set(said) == {True, False}


def test_only_what_is_not_canonical_is_made_anew() -> None:
    spec = {"containers": [make_container(env=[{"name": "A", "value": "1"}])]}
    odd = {"containers": [make_container(env=[{"name": "A", "value": 1}])]}

    assert normalised(spec, "v1.PodSpec") is spec
    assert normalised(odd, "v1.PodSpec", coerce=True) == spec
    with pytest.raises(DataError, match="cannot unmarshal number"):
        normalised(odd, "v1.PodSpec")
