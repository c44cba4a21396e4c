"""The API server's own answers to these cases are compared in tests/e2e/test_invalid_pods.py."""

from __future__ import annotations

from typing import Any

import pytest

from injector.kube.podvalidation import new_faults
from tests.cases import cases
from tests.factories import make_container, make_pod
from tests.kube.podcases import merged, plain_pod, with_added


def texts(pod: dict[str, Any], before: dict[str, Any]) -> list[str]:
    return [f"{fault.where}: {fault.what}" for fault in new_faults(pod, before)]


@cases("added", "faults")
def test_a_fault_of_an_injection_is_found(added: dict[str, Any], faults: list[str]) -> None:
    results = texts(with_added(added), plain_pod())

    assert [text[: len(fault)] for text, fault in zip(results, faults, strict=True)] == faults


@cases("before", "after", "faults")
def test_a_merge_that_makes_a_pod_invalid_is_found(
    before: dict[str, Any], after: dict[str, Any], faults: list[str]
) -> None:
    pod, injected = merged(before, after)

    assert texts(injected, pod) == faults


@cases("added")
def test_an_injection_that_kubernetes_accepts_has_no_fault(added: dict[str, Any]) -> None:
    assert texts(with_added(added), plain_pod()) == []


def test_all_faults_are_found() -> None:
    pod = with_added({"containers": [{"name": "a"}, {"name": "a"}], "volumes": [{"name": "_"}]})

    assert [fault.where for fault in new_faults(pod, plain_pod())] == [
        "spec.volumes[_].name",
        "spec.containers[a].image",
        "spec.containers[a].name",
    ]


def test_a_pod_needs_a_container() -> None:
    assert texts(make_pod(containers=[]), make_pod()) == ["spec.containers: Required value"]


def test_annotations_have_a_common_limit() -> None:
    longest = {"a": "x" * (2**18 - 1)}

    assert texts(make_pod(annotations=longest), make_pod()) == []
    assert texts(make_pod(annotations={**longest, "b": ""}), make_pod(annotations=longest)) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


def test_a_fault_that_the_pod_had_before_is_left_to_the_api_server() -> None:
    broken = {"name": "app", "env": [{"value": "a"}], "volumeMounts": [{"name": "gone", "mountPath": "/gone"}]}
    before = make_pod(labels={"a": "b c"}, containers=[broken, broken])
    after = make_pod(labels={"a": "b c"}, containers=[{**broken, "workingDir": "/"}, broken, make_container("proxy")])

    assert texts(after, before) == []
    assert len(new_faults(after, make_pod())) == 5


def test_only_a_missing_volume_depends_on_the_pod() -> None:
    added = {"containers": [{"name": "a", "volumeMounts": [{"name": "gone", "mountPath": "/gone"}]}]}

    assert [fault.is_missing_volume for fault in new_faults(with_added(added), plain_pod())] == [False, True]


@pytest.mark.parametrize("name", ["a", "A" * 40, "a" * 600])
def test_an_answer_does_not_depend_on_earlier_ones(name: str) -> None:
    added = {"containers": [{"name": name, "image": "a", "env": [{"name": name}]}]}
    first = texts(with_added(added), plain_pod())
    for number in range(3000):
        new_faults(with_added({"volumes": [{"name": f"v{number}"}]}), plain_pod())

    assert texts(with_added(added), plain_pod()) == first
