from __future__ import annotations

from injector.gotemplate.values import Int8, Int64, Map, NamedString, SizedInt, Slice, Uint64


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
