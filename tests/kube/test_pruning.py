from __future__ import annotations

from typing import Any

import pytest

from injector.kube.pruning import pruned

RESTART = frozenset({("v1.Container", "restartPolicy")})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"spec": {"nope": 1, "containers": []}}, {"spec": {"containers": []}}),
        ({"spec": {"containers": [{"name": "a", "nope": 1}]}}, {"spec": {"containers": [{"name": "a"}]}}),
        ({"spec": {"volumes": [{"emptyDir": {"nope": 1}}]}}, {"spec": {"volumes": [{"emptyDir": {}}]}}),
        ({"spec": {"securityContext": {"privileged": True}}}, {"spec": {"securityContext": {}}}),
        ({"metadata": {"annotations": {"nope": "1"}}}, {"metadata": {"annotations": {"nope": "1"}}}),
    ],
)
def test_what_the_types_do_not_know_goes(value: dict[str, Any], expected: dict[str, Any]) -> None:
    assert pruned(value, "v1.Pod") == expected


def test_a_field_that_is_newer_goes_where_it_is_missing_alone() -> None:
    container = {"name": "a", "restartPolicy": "Always"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}

    assert pruned(pod, "v1.Pod") is pod
    assert pruned(pod, "v1.Pod", RESTART) == {"spec": {"restartPolicy": "Never", "containers": [{"name": "a"}]}}


def test_a_field_is_found_in_any_case_as_go_finds_it() -> None:
    pod = {"Spec": {"Containers": [{"NAME": "a", "restartpolicy": "Always"}]}}

    assert pruned(pod, "v1.Pod", RESTART) == {"Spec": {"Containers": [{"NAME": "a"}]}}


def test_directives_of_strategic_merge_stay() -> None:
    pod = {"spec": {"containers": [{"$patch": "delete", "name": "a"}], "$setElementOrder/containers": [{"name": "a"}]}}

    assert pruned(pod, "v1.Pod") is pod


@pytest.mark.parametrize("value", [None, "text", 5, [], {"spec": "text"}, {"spec": {"containers": {"a": 1}}}])
def test_what_is_of_another_kind_is_left_for_the_decoder_to_refuse(value: Any) -> None:
    assert pruned(value, "v1.Pod") is value
