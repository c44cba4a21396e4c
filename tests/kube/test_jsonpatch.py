from __future__ import annotations

from typing import Any

import jsonpatch
import pytest

from injector.kube.jsonpatch import create_patch


def named(*names: str, **more: Any) -> list[dict[str, Any]]:
    """A list of objects of these names."""
    return [{"name": name, **more} for name in names]


def test_equal_documents_need_no_operation() -> None:
    assert create_patch({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}) == []


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (0, False), ("1", 1), (None, False), ([], {})])
def test_values_of_different_types_are_different(before: Any, after: Any) -> None:
    patch = create_patch({"a": [before]}, {"a": [after]})

    assert [(each["op"], each["path"], type(each["value"])) for each in patch] == [("replace", "/a/0", type(after))]


def test_keys_are_escaped_as_json_pointers_want_it() -> None:
    before = {"a/b": 1, "m~n": 1, "": 1}

    assert create_patch(before, {"a/b": 2, "~1": 3, "": 4}) == [
        {"op": "remove", "path": "/m~0n"},
        {"op": "replace", "path": "/a~1b", "value": 2},
        {"op": "add", "path": "/~01", "value": 3},
        {"op": "replace", "path": "/", "value": 4},
    ]


def test_containers_are_aligned_by_name() -> None:
    before = {"containers": named("app", "old", "side")}
    after = {"containers": [*named("istio-proxy", "app"), {"name": "side", "image": "x"}, *named("last")]}

    assert create_patch(before, after) == [
        {"op": "remove", "path": "/containers/1"},
        {"op": "add", "path": "/containers/0", "value": {"name": "istio-proxy"}},
        {"op": "add", "path": "/containers/2/image", "value": "x"},
        {"op": "add", "path": "/containers/3", "value": {"name": "last"}},
    ]


def test_ports_and_mounts_are_aligned_by_what_names_them() -> None:
    before = {
        "ports": [{"containerPort": 80}, {"containerPort": 90}],
        "volumeMounts": [{"name": "v", "mountPath": "/a"}],
    }
    after = {
        "ports": [{"containerPort": 70}, {"containerPort": 80}, {"containerPort": 90}],
        "volumeMounts": [{"name": "v", "mountPath": "/b"}, {"name": "v", "mountPath": "/a"}],
    }

    assert [each["path"] for each in create_patch(before, after)] == ["/ports/0", "/volumeMounts/0"]


def test_a_list_in_another_order_is_rewritten_in_place() -> None:
    before, after = named("a", "b", "c"), named("c", "b", "a")

    patch = create_patch(before, after)

    assert [each["path"] for each in patch] == ["/0/name", "/2/name"]
    assert jsonpatch.apply_patch(before, patch) == after


def test_what_a_plain_list_has_in_common_at_its_ends_is_left_alone() -> None:
    assert create_patch(["a", "b", "z"], ["a", "x", "y", "b", "z"]) == [
        {"op": "add", "path": "/1", "value": "x"},
        {"op": "add", "path": "/2", "value": "y"},
    ]
    assert create_patch(["a", "b", "c", "z"], ["a", "z"]) == [
        {"op": "remove", "path": "/2"},
        {"op": "remove", "path": "/1"},
    ]


def test_a_number_of_another_type_is_no_common_end() -> None:
    assert create_patch([1, {"a": [True]}], [1.0, {"a": [1]}]) == [
        {"op": "replace", "path": "/0", "value": 1.0},
        {"op": "replace", "path": "/1/a/0", "value": 1},
    ]


def test_a_document_of_another_type_is_replaced_as_a_whole() -> None:
    assert create_patch([], {}) == [{"op": "replace", "path": "", "value": {}}]


def test_operations_share_their_values_with_the_result() -> None:
    after = {"a": {"b": [1]}}

    assert create_patch({}, after)[0]["value"] is after["a"]


def test_thousands_of_variables_cost_one_operation_for_each_that_changed() -> None:
    before = {"env": [{"name": f"E{index}", "value": "x"} for index in range(2000)]}
    after = {
        "env": [{"name": "NEW"}, *({**each, "value": "y"} if each["name"] == "E7" else each for each in before["env"])]
    }

    assert create_patch(before, after) == [
        {"op": "add", "path": "/env/0", "value": {"name": "NEW"}},
        {"op": "replace", "path": "/env/8/value", "value": "y"},
    ]
