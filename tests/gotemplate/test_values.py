"""Go's types and kinds of values."""

from __future__ import annotations

import pytest

from injector.gotemplate import values
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
    assert (values.type_of(value), values.kind_of(value)) == (go_type, kind)


def test_a_pointer_to_zero_is_true() -> None:
    assert bool(Pointer("*int64", Int64(0)))
