from __future__ import annotations

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import (
    Spec,
    format_bool,
    format_bytes,
    format_complex,
    format_integer,
    format_real,
    format_string,
    hexadecimal,
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Spec(), "ab"),
        (Spec(width=4), "  ab"),
        (Spec(width=4, minus=True), "ab  "),
        (Spec(width=4, zero=True), "00ab"),
        (Spec(width=4, zero=True, minus=True), "ab  "),
        (Spec(precision=1), "a"),
    ],
)
def test_text_is_padded_and_cut(spec: Spec, expected: str) -> None:
    assert format_string("ab", "s", spec) == expected


@pytest.mark.parametrize(
    ("text", "spec", "expected"),
    [
        ("a`b", Spec(sharp=True), '"a`b"'),
        ("a\tb", Spec(sharp=True), "`a\tb`"),
        ("a\u200bb", Spec(sharp=True), "`a\u200bb`"),
        ("\ufeff", Spec(sharp=True), '"\\ufeff"'),
        ("\udcff", Spec(sharp=True), '"\\xff"'),
        ("é", Spec(plus=True), '"\\u00e9"'),
    ],
)
def test_a_string_is_quoted_raw_where_it_can_be(text: str, spec: Spec, expected: str) -> None:
    assert format_string(text, "q", spec) == expected


def test_bytes_in_hexadecimal_have_prefixes_where_the_flags_ask() -> None:
    assert format_bytes(b"hi", "x", Spec()) == "6869"
    assert format_bytes(b"hi", "X", Spec(space=True, sharp=True)) == "0X68 0X69"
    assert format_bytes(b"hi", "x", Spec(sharp=True, precision=1)) == "0x68"
    assert format_bytes(b"", "x", Spec(sharp=True, width=3)) == "   "


@pytest.mark.parametrize(
    ("number", "verb", "spec", "expected"),
    [
        (-5, "d", Spec(width=5, zero=True), "-0005"),
        (5, "d", Spec(plus=True, width=4), "  +5"),
        (5, "d", Spec(precision=3), "005"),
        (0, "d", Spec(precision=0, width=3), "   "),
        (8, "o", Spec(sharp=True), "010"),
        (8, "O", Spec(), "0o10"),
        (5, "b", Spec(sharp=True), "0b101"),
        (255, "X", Spec(sharp=True), "0XFF"),
        (0x2603, "c", Spec(), "☃"),
        (-1, "c", Spec(), "\ufffd"),
        (0xD800, "q", Spec(), "'\ufffd'"),
        (0x2603, "U", Spec(sharp=True), "U+2603 '☃'"),
        (-1, "U", Spec(), "U+FFFFFFFFFFFFFFFF"),
    ],
)
def test_an_integer_is_written_by_its_verb(number: int, verb: str, spec: Spec, expected: str) -> None:
    assert format_integer(number, verb, spec) == expected


def test_an_unsigned_integer_is_hexadecimal_in_gos_syntax() -> None:
    assert format_integer(10, "v", Spec(sharp_v=True), unsigned=True) == "0xa"
    assert hexadecimal(10, Spec(sharp=True), prefix=False) == "a"


@pytest.mark.parametrize(
    ("value", "verb", "spec", "expected"),
    [
        (1.5, "f", Spec(precision=2, width=7, zero=True), "0001.50"),
        (-1.5, "f", Spec(precision=2, width=7, zero=True), "-001.50"),
        (1.0, "v", Spec(space=True), " 1"),
        (float("nan"), "v", Spec(zero=True, width=5), "  NaN"),
        (float("inf"), "v", Spec(), "+Inf"),
        (float("inf"), "v", Spec(space=True), " Inf"),
        (2.0, "g", Spec(sharp=True), "2.00000"),
    ],
)
def test_a_float_is_written_by_its_verb(value: float, verb: str, spec: Spec, expected: str) -> None:
    assert format_real(value, verb, spec) == expected


def test_a_complex_number_has_two_parts_and_the_second_a_sign() -> None:
    assert format_complex(1 - 2j, "v", Spec()) == "(1-2i)"
    assert format_complex(1 + 2j, "f", Spec(precision=1, width=5)) == "(  1.0 +2.0i)"


def test_a_verb_that_there_is_not_gives_nothing() -> None:
    assert format_bool(True, "d", Spec()) is None
    assert format_string("x", "d", Spec()) is None
    assert format_integer(1, "s", Spec()) is None
    assert format_real(1.0, "d", Spec()) is None
    assert format_complex(1j, "d", Spec()) is None


@pytest.mark.parametrize("spec", [Spec(width=2_000_000), Spec(width=2_000_000, zero=True), Spec(precision=2_000_000)])
def test_an_absurd_width_is_refused(spec: Spec) -> None:
    with pytest.raises(FuncError, match="too large"):
        format_integer(1, "d", spec)
