"""Recorded from Go 1.26 with k8s.io/api v0.35.3 and sigs.k8s.io/yaml v1.6.0 by recorder/typed."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest

from injector.errors import DataError, ManifestError
from injector.kube.typed import (
    go_encode,
    go_struct_json,
    normalise,
    prune,
    zero_json,
)
from injector.kube.yaml import load_yaml
from tests.cases import cases
from tests.factories import make_container, make_pod
from tests.kube.recorded import recorded, result_of
from tests.property.mutations import mutated

CASES = recorded("typed", more_than=250)
OURS = "parsing time "
"""Times that are none: Go says what it would have read instead."""


def written(case: dict[str, Any]) -> Any:
    """What we make of a case, encoded as Go encodes it, or the error."""
    from_yaml, type_name = "yaml" in case, case["type"]

    def read_and_written() -> str:
        value = load_yaml(case["yaml"]) if from_yaml else case["json"]
        return go_struct_json(normalise(value, type_name, keep_unknown=False, coerce=from_yaml), type_name)

    return result_of(read_and_written)


def test_what_go_reads_is_written_as_go_writes_it() -> None:
    wanted = {case["name"]: case["result"] for case in CASES if "error" not in case}

    assert {case["name"]: written(case) for case in CASES if "error" not in case} == wanted


def test_what_go_refuses_is_refused_in_its_words() -> None:
    refused = [case for case in CASES if "error" in case and "json" in case and OURS not in case["error"]]

    assert {case["name"]: written(case) for case in refused} == {
        case["name"]: f"error: {case['error']}" for case in refused
    }


def test_manifests_and_times_that_go_refuses_are_refused() -> None:
    refused = [case for case in CASES if "error" in case and ("yaml" in case or OURS in case["error"])]

    assert len(refused) > 20
    assert [case["name"] for case in refused if not written(case).startswith("error: ")] == []


def test_unknown_fields_are_kept_unless_the_caller_says_otherwise() -> None:
    pod = {"spec": {"new": {"a": None}, "containers": [{"name": "a", "x": []}]}}

    assert normalise(pod, "v1.Pod") is pod
    assert normalise(pod, "v1.Pod", keep_unknown=False) == {"spec": {"containers": [{"name": "a"}]}}


def test_unchanged_parts_are_the_same_objects() -> None:
    containers = [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}]
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers, "hostNetwork": False}}

    result = normalise(pod, "v1.Pod")

    assert result == {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    assert result["metadata"] is pod["metadata"]
    assert result["spec"]["containers"] is containers


@cases("pod", "where", "what", "hint")
def test_an_error_says_where_what_and_what_to_do(pod: dict[str, Any], where: str, what: str, hint: str) -> None:
    with pytest.raises(ManifestError) as caught:
        normalise(pod, "v1.Pod")

    assert (caught.value.where, caught.value.what, caught.value.hint) == (where, what, hint)


RESOURCES = {"limits": {"cpu": "100m", "memory": "1Gi"}}


@cases("value", "type_name")
def test_a_canonical_value_is_returned_itself(value: Any, type_name: str) -> None:
    assert normalise(value, type_name) is value


@cases("value", "type_name", "expected")
def test_a_value_that_go_would_change_is_changed_and_the_given_one_is_not(
    value: Any, type_name: str, expected: Any
) -> None:
    before = deepcopy(value)

    result = normalise(value, type_name)

    assert (list(result), repr(result)) == (list(expected), repr(expected))
    assert repr(value) == repr(before)


def test_mutated_pods_normalise_to_what_they_normalise_to_again() -> None:
    probe = {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5}
    container = make_container(resources=RESOURCES, readinessProbe=probe, env=[{"name": "A", "value": "b"}])
    pod = make_pod(labels={"app": "web"}, annotations={"a": "b"}, containers=[container], volumes=[{"name": "v"}])
    dice = Random(1)  # noqa: S311 -- nothing secret
    changed = 0
    for _ in range(2000):
        value = mutated(pod, dice)
        before = repr(value)
        try:
            once = normalise(value, "v1.Pod")
        except DataError:
            continue
        assert repr(value) == before
        assert normalise(once, "v1.Pod") is once
        assert (once is value) == (repr(once) == before)
        changed += once is not value
    assert changed > 100


def test_an_integer_has_the_range_of_its_type() -> None:
    assert [normalise(value, "int32") for value in (2**31 - 1, -(2**31), 5.0)] == [2**31 - 1, -(2**31), 5]


def test_old_libraries_print_the_creation_timestamp_too() -> None:
    assert go_encode({}, "v1.Namespace", creation_timestamp=True)["metadata"] == {"creationTimestamp": None}


@cases("value", "type_name", "text")
def test_fields_are_in_gos_order_and_map_keys_sorted_and_unknown_fields_last(
    value: dict[str, Any], type_name: str, text: str
) -> None:
    assert go_struct_json(value, type_name) == text


def test_a_type_has_a_zero_value() -> None:
    names = ("v1.Pod", "v1.DNSPolicy", "*int64", "[]string", "resource.Quantity")
    assert [zero_json(name) for name in names] == [{}, "", None, None, "0"]


RESTART = frozenset({("v1.Container", "restartPolicy")})


@cases("value", "expected")
def test_fields_that_the_types_do_not_have_are_removed(value: dict[str, Any], expected: dict[str, Any]) -> None:
    assert prune(value, "v1.Pod") == expected


def test_a_newer_field_is_removed_only_where_it_is_missing() -> None:
    container = {"name": "a", "restartPolicy": "Always"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}

    assert prune(pod, "v1.Pod") is pod
    assert prune(pod, "v1.Pod", RESTART) == {"spec": {"restartPolicy": "Never", "containers": [{"name": "a"}]}}


def test_a_field_is_found_in_any_case_as_go_finds_it() -> None:
    pod = {"Spec": {"Containers": [{"NAME": "a", "restartpolicy": "Always"}]}}

    assert prune(pod, "v1.Pod", RESTART) == {"Spec": {"Containers": [{"NAME": "a"}]}}


def test_directives_of_strategic_merge_stay() -> None:
    pod = {"spec": {"containers": [{"$patch": "delete", "name": "a"}], "$setElementOrder/containers": [{"name": "a"}]}}

    assert prune(pod, "v1.Pod") is pod


@pytest.mark.parametrize("value", [None, "text", 5, [], {"spec": "text"}, {"spec": {"containers": {"a": 1}}}])
def test_a_value_of_another_kind_is_left_for_the_decoder_to_refuse(value: Any) -> None:
    assert prune(value, "v1.Pod") is value
