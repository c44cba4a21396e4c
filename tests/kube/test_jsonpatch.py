"""JSON patches that lead from one document to another."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest

from injector.kube.jsonpatch import create_patch
from tests.cases import cases


@cases("before", "after", "expected")
def test_a_patch_has_the_fewest_operations(before: Any, after: Any, expected: list[dict[str, Any]]) -> None:
    patch = create_patch(before, after)

    assert repr(patch) == repr(expected)
    assert jsonpatch.apply_patch(before, patch) == after


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (0, False), ("1", 1), (None, False), ([], {})])
def test_values_of_different_types_are_different(before: Any, after: Any) -> None:
    patch = create_patch({"a": [before]}, {"a": [after]})

    assert [(operation["op"], operation["path"], type(operation["value"])) for operation in patch] == [
        ("replace", "/a/0", type(after))
    ]


def test_operations_share_their_values_with_the_result() -> None:
    after = {"a": {"b": [1]}}

    assert create_patch({}, after)[0]["value"] is after["a"]


def test_thousands_of_variables_cost_one_operation_for_each_that_changed() -> None:
    before = {"env": [{"name": f"E{index}", "value": "x"} for index in range(2000)]}
    after = {
        "env": [
            {"name": "NEW"},
            *({**variable, "value": "y"} if variable["name"] == "E7" else variable for variable in before["env"]),
        ]
    }

    assert create_patch(before, after) == [
        {"op": "add", "path": "/env/0", "value": {"name": "NEW"}},
        {"op": "replace", "path": "/env/8/value", "value": "y"},
    ]
