from __future__ import annotations

from typing import Any

import pytest

from injector.injection.shape import difference, shown

POD = {"spec": {"containers": [{"name": "a", "image": "i", "securityContext": {"capabilities": {"add": ["X"]}}}]}}


def changed(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{**POD["spec"]["containers"][0], **container}]}}


@pytest.mark.parametrize(
    "other",
    [POD, changed(image="another"), changed(name="'a")],
    ids=["the same", "another text", "a name with a quote"],
)
def test_a_text_may_be_another_where_a_value_stands(other: Any) -> None:
    assert difference(other, POD, frozenset({"i"})) is None


def test_a_text_that_no_value_stands_in_is_what_the_template_says() -> None:
    assert difference(changed(image="another"), POD, frozenset({"value"})) == ("spec", "containers", 0, "image")
    assert difference(changed(image="i'"), POD) is None


@pytest.mark.parametrize(
    ("other", "place"),
    [
        (changed(name="b"), "spec.containers[0].name"),
        (changed(image=None), "spec.containers[0].image"),
        (changed(args=[]), "spec.containers[0]"),
        (changed(securityContext={"capabilities": {"add": ["Y"]}}), "spec.containers[0].securityContext"),
        (changed(securityContext={"capabilities": {"add": ["X", "X"]}}), "spec.containers[0].securityContext"),
        ({"spec": {"containers": [*POD["spec"]["containers"], {}]}}, "spec.containers"),
        ({"spec": POD["spec"], "metadata": {}}, ""),
        ([], ""),
    ],
)
def test_keys_lengths_names_types_and_rights_do(other: Any, place: str) -> None:
    found = difference(other, POD, frozenset({"X", "a"}))

    assert found is not None
    assert shown(found) == place


@pytest.mark.parametrize(
    ("real", "meant", "same"), [(True, False, False), (1, 2, False), (1, 1, True), (1, True, False)]
)
def test_numbers_and_booleans_are_equal(real: Any, meant: Any, *, same: bool) -> None:
    assert (difference({"a": real}, {"a": meant}) is None) is same


def test_keys_that_a_value_stands_in_are_paired() -> None:
    assert difference({"a": 1, "it's": {"b": 1}}, {"a": 1, "itxs": {"b": 1}}) is None
    assert difference({"a": 1, "it's": {"b": 1}}, {"a": 1, "itxs": {"b": 2}}) == ("itxs", "b")
    assert difference({"a": 1, "b": 1}, {"a": 1, "c": 1}) == ()


def test_a_path_is_shown_up_to_what_may_be_of_a_value() -> None:
    assert shown((0, "metadata", "annotations", "secret", 0)) == "metadata.annotations"
