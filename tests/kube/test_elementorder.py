"""The orders of whole merges are held against Go in test_strategicpatch; here are the rules one by one."""

from __future__ import annotations

import pytest

from injector.errors import ManifestError
from injector.kube.strategicpatch import merge_key_of, ordered, partitioned, same_element_kind, validated_order


def test_the_patchs_items_come_first_where_the_original_does_not_know_them() -> None:
    assert ordered(["x", "b"], ["a", "c"], ["x", "b"], ["a", "b", "c"], "") == ["x", "a", "b", "c"]


def test_items_that_no_order_knows_are_turned_around_as_gos_sort_does() -> None:
    assert ordered([], ["a", "b", "c"], [], [], "") == ["c", "b", "a"]


def test_a_list_is_split_by_the_merge_key() -> None:
    items = [{"name": "a"}, {"name": "b", "x": 1}]

    assert partitioned(items, [{"name": "b"}], "name") == ([items[1]], [items[0]])


def test_true_is_not_1_as_a_merge_key() -> None:
    assert merge_key_of({"k": True}, "k") != merge_key_of({"k": 1}, "k")
    assert merge_key_of({"k": 1.0}, "k") == merge_key_of({"k": 1}, "k")


def test_elements_of_all_lists_have_one_type() -> None:
    assert same_element_kind([1], [2.5]) is float
    assert same_element_kind([], []) is None
    with pytest.raises(ManifestError, match="list element types are not identical: str, bool"):
        same_element_kind(["a"], [True])
    with pytest.raises(ManifestError, match="lists of lists are not supported"):
        same_element_kind([["a"]])


def test_the_patch_must_keep_the_order_that_it_sets() -> None:
    validated_order(["a", "c"], ["a", "b", "c"], "")
    with pytest.raises(ManifestError, match="doesn't match"):
        validated_order(["c", "a"], ["a", "b", "c"], "")
