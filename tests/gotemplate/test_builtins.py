from __future__ import annotations

import pytest

from injector.gotemplate import builtins as b
from injector.gotemplate.errors import FuncError
from injector.gotemplate.values import Int64, Map, Pointer, Slice, Uint


def test_integers_of_any_sign_compare() -> None:
    assert b.eq(Int64(5), Uint(5))
    assert b.lt(Int64(-1), Uint(0))
    assert b.ge(Uint(7), 7)


def test_nil_pointers_equal_nil() -> None:
    assert b.eq(Pointer("*int64"), None)
    assert not b.eq(Pointer("*int64", Int64(1)), None)


def test_a_missing_entry_of_a_typed_map_is_its_zero_value() -> None:
    assert b.index(Map("string", "string", {"a": "x"}), "b") == ""


def test_a_byte_of_a_text_is_a_number() -> None:
    assert b.index("é", 0) == 0xC3


def test_a_part_of_a_typed_list_keeps_its_type() -> None:
    assert b.slice_(Slice("string", ["a", "b"]), 1).go_type == "[]string"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: b.eq(1, "1"), "incompatible types for comparison: int and string"),
        (lambda: b.lt([], 1), "invalid type for comparison"),
        (lambda: b.index([1], 5), "index out of range: 5"),
        (lambda: b.length_of(3), "len of type int"),
        (lambda: b.slice_("abc", 2, 1), "invalid slice index: 2 > 1"),
    ],
)
def test_faults_have_gos_words(call: object, text: str) -> None:
    with pytest.raises(FuncError, match=text):
        call()  # type: ignore[operator] # the table says object


def test_text_is_escaped_for_where_it_goes() -> None:
    assert b.html("<a>&'\"") == "&lt;a&gt;&amp;&#39;&#34;"
    assert b.urlquery("a b&c") == "a+b%26c"
    assert b.js("it's") == "it\\'s"
