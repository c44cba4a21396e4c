"""Package strconv. Floats of JSON are compared with Go in test_json.py, those of YAML in tests/kube."""

from __future__ import annotations

import tracemalloc

import pytest

from injector.errors import DataError
from injector.golang.strconv import (
    format_float,
    format_g,
    go_float,
    is_alphanumeric,
    is_printable,
    name_of_non_finite,
    parse_float,
    parse_int,
    quote,
    unicode_point,
    unquote,
)
from tests.cases import cases


@cases("value", "json", "short")
def test_a_float_is_printed_as_json_and_as_gos_shortest_form(value: float, json: str, short: str) -> None:
    assert (go_float(value), format_g(value)) == (json, short)


def test_a_float32_has_fewer_digits() -> None:
    assert format_g(0.10000000149011612, bits=32) == "0.1"
    assert format_g(3.4028234663852886e38, bits=32) == "3.4028235e+38"


def test_a_number_that_is_not_finite_has_no_json() -> None:
    with pytest.raises(DataError, match="json: unsupported value: -Inf"):
        go_float(float("-inf"))
    assert name_of_non_finite(float("nan")) == "NaN"


@cases("value", "expected")
def test_the_shortest_form_is_that_of_go(value: float, expected: str) -> None:
    assert format_g(value) == expected


def test_a_float32_is_shortest_for_its_size() -> None:
    assert format_g(0.1, 32) == "0.1"
    assert format_g(16777216.0, 32) == "1.6777216e+07"


@cases("verb", "precision", "sharp", "expected")
def test_each_verb_formats_as_fmt_does(verb: str, precision: int | None, sharp: bool, expected: str) -> None:
    assert format_float(3.14159, verb, precision, 64, sharp=sharp)[: len(expected)] == expected


@cases("text", "expected")
def test_an_integer_is_read_in_gos_bases(text: str, expected: int | None) -> None:
    assert parse_int(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1e3", 1000.0), (".5", 0.5), ("0x1p4", 16.0), ("1e999", None), ("1.2.3", None)]
)
def test_a_float_is_read_in_gos_forms(text: str, expected: float | None) -> None:
    assert parse_float(text) == expected


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_of_thousands_of_digits_is_beyond_64_bits(sign: str) -> None:
    result = parse_int(sign + "9" * 5000)

    assert result is not None
    assert abs(result) >= 2**64
    assert (result < 0) == (sign == "-")
    assert parse_int(f"{sign}0x{'0' * 5000}7") == (-7 if sign else 7)


# Quadratic time would be half an hour.
@pytest.mark.parametrize("text", ["9" * 250_000 + "x", "0x" + "a" * 250_000, "." + "9" * 250_000 + "x"])
def test_long_digits_are_refused_in_linear_time(text: str) -> None:
    assert parse_float(text) is None


@cases("text", "expected", also=[("\udcff", '"\\xff"')])
def test_a_text_is_quoted_as_in_go(text: str, expected: str) -> None:
    assert quote(text) == expected


def test_quoting_for_ascii_escapes_the_rest() -> None:
    assert quote("☃😀", ascii_only=True) == '"\\u2603\\U0001f600"'


@pytest.mark.parametrize("char", ['"', "\x01", "\ue000"])
def test_a_long_text_is_quoted_in_little_memory(char: str) -> None:
    tracemalloc.start()
    quoted = quote(char * 200_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert quoted == f'"{quote(char)[1:-1] * 200_000}"'
    assert peak < 6 * len(quoted)


@pytest.mark.parametrize(
    ("text", "expected"), [('"a\\x41"', "aA"), ("`raw\\n`", "raw\\n"), ('"\\101"', "A"), ('"\\u00e9"', "é")]
)
def test_a_quoted_text_is_read_as_in_go(text: str, expected: str) -> None:
    assert unquote(text) == expected


@pytest.mark.parametrize("text", ['"', '"a', "'a'", '"\\q"', '"\\xZZ"', '"\\ud800"', '"a\nb"'])
def test_a_text_that_is_not_quoted_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        unquote(text)


def test_characters_have_gos_classes() -> None:
    assert is_alphanumeric("_")
    assert is_alphanumeric("é")
    assert not is_alphanumeric("☃")
    assert is_printable(" ")
    assert not is_printable("\u00a0")
    assert unicode_point("!") == "U+0021 '!'"
