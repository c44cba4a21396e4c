from __future__ import annotations

import pytest

from injector.golang.strconv import byte_length, byte_slice
from injector.gotemplate import values
from injector.gotemplate.values import Func, Int8, Int64, Map, NamedString, Pointer, SizedInt, Slice, Uint, Uint64


def test_sized_integers_are_integers_that_know_their_type() -> None:
    assert Int64(5) + 1 == 6
    assert Int64.go_type == "int64"
    assert {cls.go_type for cls in SizedInt.__subclasses__()} >= {Int8.go_type, Uint64.go_type}


def test_a_named_string_is_a_string() -> None:
    policy = NamedString("v1.DNSPolicy", "Default")
    assert policy == "Default"
    assert policy.go_type == "v1.DNSPolicy"


def test_typed_containers_name_their_types() -> None:
    assert Slice("string", ["a"]).go_type == "[]string"
    assert Map("string", "int", {"a": 1}).go_type == "map[string]int"
    assert Slice("string", nil=True).nil


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
    assert (values.type_of(value), values.kind_of(value)) == (go_type, kind)


@pytest.mark.parametrize(
    "value", [None, values.NO_VALUE, False, 0, 0.0, "", [], {}, Pointer("*int64"), Slice("string")]
)
def test_zero_and_empty_values_are_false(value: object) -> None:
    assert not value


def test_a_pointer_to_zero_is_true() -> None:
    assert bool(Pointer("*int64", Int64(0)))


def test_text_is_measured_in_bytes() -> None:
    assert byte_length("éx") == 3
    assert byte_slice("éx", 2, 3) == "x"
    assert byte_slice("éx", 0, 1) == "\udcc3"


def test_maps_are_walked_in_the_order_of_their_keys_bytes() -> None:
    assert [key for key, _ in values.sorted_items({"b": 1, "é": 2, "a": 3})] == ["a", "b", "é"]


@pytest.mark.parametrize(("go_type", "zero"), [("string", ""), ("interface {}", None), ("bool", False), ("int64", 0)])
def test_types_have_their_zero_values(go_type: str, zero: object) -> None:
    assert values.zero_of(go_type) == zero


def test_a_nil_pointer_ends_an_indirection() -> None:
    inner = Pointer("*int64")
    assert values.indirect(Pointer("**int64", inner)) == (inner, True)
    assert values.is_nil(inner)
