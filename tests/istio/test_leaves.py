from __future__ import annotations

from typing import Any

import pytest

from injector.istio.leaves import EXACT, Leaf, gather, inert, with_texts
from injector.kube.quantity import canonical_quantity


def tree() -> Leaf:
    """The names of a list's items, one label, and all of a probe."""
    item = Leaf(parts={"name": Leaf(), "probe": EXACT})
    return Leaf(parts={"labels": Leaf(parts={"app": Leaf()}), "items": Leaf(each=item)})


def held(value: Any, leaf: Leaf | None = None) -> tuple[list[Any], list[str]]:
    """The key of a value, and the texts in its slots."""
    key: list[Any] = []
    slots: dict[str, int] = {}
    gather(leaf or tree(), value, key, slots)
    return key, list(slots)


@pytest.mark.parametrize("text", ["web", "shop-1", "a", "x" * 63, "svc-9"])
def test_a_name_is_inert(text: str) -> None:
    assert inert(text)


@pytest.mark.parametrize(
    "text",
    ["", "A", "1", "1e3", "-a", "a-", "a b", "a_b", "a.b", "a/b", "é", "x" * 64, "true", "y", "null", None, 1, ["a"]],
)
def test_what_yaml_json_or_a_function_could_take_for_something_else_is_not(text: Any) -> None:
    assert not inert(text)


def test_objects_that_differ_in_what_is_not_read_have_one_key() -> None:
    one = {"labels": {"app": "web", "other": "x"}, "items": [{"name": "web", "image": "a"}]}
    two = {"labels": {"app": "web"}, "items": [{"name": "web", "image": "b"}], "more": True}

    assert held(one) == held(two)


def test_names_that_differ_are_in_the_slots_and_not_in_the_key() -> None:
    one = {"labels": {"app": "web"}, "items": [{"name": "web"}]}
    two = {"labels": {"app": "shop"}, "items": [{"name": "shop"}]}

    assert held(one)[0] == held(two)[0]
    assert (held(one)[1], held(two)[1]) == (["web"], ["shop"])


@pytest.mark.parametrize(
    "other",
    [
        {"labels": {"app": "web"}, "items": [{"name": "shop"}]},
        {"labels": {"app": "web"}, "items": [{"name": "web"}, {"name": "web"}]},
        {"labels": {"app": "web"}, "items": [{"name": "Web"}]},
        {"labels": {"app": "web"}, "items": [{"name": "web", "probe": {}}]},
        {"labels": {"app": "web"}, "items": []},
        {"labels": {"app": "web"}},
        {"labels": {}, "items": [{"name": "web"}]},
        {"items": [{"name": "web"}]},
    ],
)
def test_another_pattern_of_names_and_anything_else_that_is_read_makes_another_key(other: dict[str, Any]) -> None:
    assert held(other)[0] != held({"labels": {"app": "web"}, "items": [{"name": "web"}]})[0]


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), ("1", 1), ({}, []), (None, "null"), ("", None)])
def test_exact_values_of_different_types_are_different(one: Any, other: Any) -> None:
    assert held(one, EXACT) != held(other, EXACT)


def test_other_texts_go_into_the_slots_alone() -> None:
    value = {"labels": {"app": "web", "other": "web"}, "items": [{"name": "web", "image": "web", "probe": "web"}]}

    assert with_texts(tree(), value, {"web": "shop"}) == {
        "labels": {"app": "shop", "other": "web"},
        "items": [{"name": "shop", "image": "web", "probe": "web"}],
    }


def test_a_copy_grows_alone() -> None:
    leaf = tree()
    copy = leaf.copy()
    copy.part("more")
    copy.parts["items"].element().part("image")

    assert (copy == leaf, leaf) == (False, tree())
    assert Leaf(unit="m").copy() == Leaf(unit="m")


@pytest.mark.parametrize(("unit", "text"), [("m", "1m"), ("m", "250m"), ("m", "999m"), ("Mi", "64Mi")])
def test_a_quantity_below_a_thousand_that_go_writes_as_it_is_may_be_another_one(unit: str, text: str) -> None:
    assert held(text, Leaf(unit=unit)) == ([0], [text])
    assert canonical_quantity(text) == text


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        *(("m", text) for text in ("1000m", "01m", "0m", "1", "0.5", "64Mi", "web", "100m\n")),
        *(("Mi", text) for text in ("1024Mi", "1Gi", "100m", "", None)),
    ],
)
def test_every_other_quantity_counts_exactly(unit: str, text: Any) -> None:
    assert held(text, Leaf(unit=unit)) == ([text], [])


def test_a_quantity_where_a_name_is_expected_is_no_slot_and_keeps_its_text() -> None:
    tree = Leaf(parts={"label": Leaf(), "cpu": Leaf(unit="m")})
    value = {"label": "100m", "cpu": "100m"}

    assert held(value, tree) == ([b"{", "100m", 0], ["100m"])
    assert with_texts(tree, value, {"100m": "999m"}) == {"label": "100m", "cpu": "999m"}
