from __future__ import annotations

import pytest

from injector.gotemplate import reflect as r
from injector.gotemplate.values import Func, Int64, Map, NamedString, Pointer, Slice, Uint


@pytest.mark.parametrize(
    ("value", "go_type", "kind"),
    [
        (None, "<nil>", "invalid"),
        (True, "bool", "bool"),
        (1, "int", "int"),
        (1.0, "float64", "float64"),
        ("s", "string", "string"),
        ([], "[]interface {}", "slice"),
        ({}, "map[string]interface {}", "map"),
        (Int64(1), "int64", "int64"),
        (Uint(1), "uint", "uint"),
        (NamedString("v1.DNSPolicy", "Default"), "v1.DNSPolicy", "string"),
        (Slice("string"), "[]string", "slice"),
        (Map("string", "string"), "map[string]string", "map"),
        (Pointer("*int64", Int64(1)), "*int64", "ptr"),
        (Func("f", "func() int", lambda: 1), "func() int", "func"),
    ],
)
def test_a_value_has_gos_type_and_kind(value: object, go_type: str, kind: str) -> None:
    assert (r.type_of(value), r.kind_of(value)) == (go_type, kind)


@pytest.mark.parametrize("value", [None, r.NO_VALUE, False, 0, 0.0, "", [], {}, Pointer("*int64"), Slice("string")])
def test_zero_and_empty_values_are_false(value: object) -> None:
    assert not r.is_true(value)


def test_a_pointer_to_zero_is_true() -> None:
    assert r.is_true(Pointer("*int64", Int64(0)))


def test_text_is_measured_in_bytes() -> None:
    assert r.byte_length("éx") == 3
    assert r.byte_slice("éx", 2, 3) == "x"
    assert r.byte_slice("éx", 0, 1) == "\udcc3"


def test_maps_are_walked_in_the_order_of_their_keys_bytes() -> None:
    assert [key for key, _ in r.sorted_items({"b": 1, "é": 2, "a": 3})] == ["a", "b", "é"]


@pytest.mark.parametrize(("go_type", "zero"), [("string", ""), ("interface {}", None), ("bool", False), ("int64", 0)])
def test_types_have_their_zero_values(go_type: str, zero: object) -> None:
    assert r.zero_of(go_type) == zero


def test_a_nil_pointer_ends_an_indirection() -> None:
    inner = Pointer("*int64")
    assert r.indirect(Pointer("**int64", inner)) == (inner, True)
    assert r.is_nil(inner)
