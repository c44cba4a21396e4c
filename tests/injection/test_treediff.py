from __future__ import annotations

from typing import Any

import pytest

from injector.injection.tools.podchanges import ABSENT, HIDDEN, Difference, differences, entries, order_difference


def found(old: Any, new: Any, path: str = "x", **options: Any) -> list[tuple[str, Any, Any]]:
    """The differences that are none of order."""
    return [(each.path, each.old, each.new) for each in differences(path, old, new, **options) if not each.order]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("x.a", 1, 2)]),
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 1}}, [("x.a.b", 1, 2)]),
        ({"a": 1}, {}, [("x.a", 1, ABSENT)]),
        ({}, {"a": None}, [("x.a", ABSENT, None)]),
        ({"istio.io/rev": "a"}, {"istio.io/rev": "b"}, [("x[istio.io/rev]", "a", "b")]),
        ({"a": 1}, {"a": {"b": 1}}, [("x.a", 1, {"b": 1})]),
        ([1, 2, 3], [1, 3], [("x", [2], ABSENT)]),
        (["--log", "a", "--x"], ["--log", "b", "--x", "--y"], [("x", ["a"], ["b"]), ("x", ABSENT, ["--y"])]),
        ([{"name": "a", "v": 1}], [{"name": "b"}, {"name": "a", "v": 2}], [("x[a].v", 1, 2), ("x[b]", ABSENT, {"name": "b"})]),
        ([{"k": 1}], [{"k": 2}], [("x", [{"k": 1}], [{"k": 2}])]),
        ('{"a": 1}', '{"a": 2}', [("x.a", 1, 2)]),
        ('{"a":1}', '{"a": 1}', [("x", '{"a":1}', '{"a": 1}')]),
        ("{a", "{b", [("x", "{a", "{b")]),
    ],
)  # fmt: skip
def test_trees_differ_leaf_by_leaf(old: Any, new: Any, expected: list[tuple[str, Any, Any]]) -> None:
    assert found(old, new) == expected


@pytest.mark.parametrize(
    ("path", "entry", "name"),
    [
        ("c.ports", {"containerPort": 80, "protocol": "TCP"}, "80/TCP"),
        ("c.ports", {"containerPort": 80}, "80"),
        ("c.volumeMounts", {"name": "data", "mountPath": "/data"}, "/data"),
        ("spec.volumes", {"name": "data"}, "data"),
        ("spec.hostAliases", {"ip": "1.2.3.4"}, "1.2.3.4"),
    ],
)
def test_entries_of_a_list_are_told_by_what_names_them(path: str, entry: dict[str, Any], name: str) -> None:
    assert found([{**entry, "x": 1}], [{**entry, "x": 2}], path) == [(f"{path}[{name}].x", 1, 2)]


def test_the_same_entries_in_another_order_are_one_difference() -> None:
    old = [{"name": name} for name in "abcd"]
    new = [{"name": name} for name in "acbd"]

    assert list(differences("x", old, new)) == [Difference("x", ["b", "c"], ["c", "b"], order=True)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("abc", "abc", None),
        ("abc", "axbc", None),
        ("abc", "", None),
        ("ab", "ba", ("ab", "ba")),
        ("xabcdy", "xdabcy", ("abcd", "dabc")),
        ("ab", "bxa", ("ab", "ba")),
    ],
)
def test_order_is_shown_from_the_first_to_the_last_out_of_place(
    old: str, new: str, expected: tuple[str, str] | None
) -> None:
    moved = order_difference("x", old, new)

    assert (moved and ("".join(moved.old), "".join(moved.new))) == expected


def test_an_opaque_key_differs_without_its_values() -> None:
    old, new = {"a": "one", "b": {"a": "s"}}, {"a": "two", "b": {}}

    assert found(old, new, opaque={"a"}) == [("x.a", HIDDEN, HIDDEN), ("x.b.a", HIDDEN, ABSENT)]


def test_further_entries_of_one_name_are_counted() -> None:
    assert entries(["a", "b", "a", "a"], str) == {"a": "a", "b": "b", "a#2": "a", "a#3": "a"}


def test_nothing_prints_as_what_it_is() -> None:
    assert repr(ABSENT) == "ABSENT"
