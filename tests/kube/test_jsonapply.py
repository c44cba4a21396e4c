from __future__ import annotations

import copy
from typing import Any

import pytest

from injector.kube.jsonapply import patched

POD: dict[str, Any] = {"spec": {"containers": [{"name": "a", "env": [1]}], "volumes": []}, "metadata": {"a/b~": "c"}}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/spec/containers/0", "value": {"name": "b"}}, ("spec", "containers", 0, "name", "b")),
        ({"op": "add", "path": "/spec/containers/0/image", "value": "i"}, ("spec", "containers", 0, "image", "i")),
        ({"op": "replace", "path": "/spec/containers/0/env/0", "value": 2}, ("spec", "containers", 0, "env", [2])),
        ({"op": "replace", "path": "/metadata/a~1b~0", "value": "d"}, ("metadata", "a/b~", "d")),
        ({"op": "remove", "path": "/spec/containers/0", "value": None}, ("spec", "containers", [])),
    ],
)
def test_an_operation_changes_what_it_names(operation: dict[str, Any], expected: tuple[Any, ...]) -> None:
    *path, value = expected
    found = patched(POD, [operation])
    for key in path:
        found = found[key]

    assert found == value


def test_the_document_stays_as_it_is_and_shares_what_is_not_touched() -> None:
    before = copy.deepcopy(POD)
    found = patched(POD, [{"op": "add", "path": "/spec/x", "value": 1}, {"op": "add", "path": "/spec/y", "value": 2}])

    assert before == POD
    assert found["spec"]["containers"] is POD["spec"]["containers"]
    assert (found["spec"]["x"], found["spec"]["y"]) == (1, 2)


def test_a_value_that_was_added_is_not_changed_by_what_follows() -> None:
    added: dict[str, Any] = {"env": []}
    found = patched({}, [{"op": "add", "path": "/c", "value": added}, {"op": "add", "path": "/c/env/0", "value": 1}])

    assert (found, added) == ({"c": {"env": [1]}}, {"env": []})
