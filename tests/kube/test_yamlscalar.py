"""The whole table of scalars is held against Go in test_yamlread; here are the rules one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from injector.kube.yaml.read import BadScalarError, is_timestamp, json_key, resolve_plain, resolve_tagged

INT = "tag:yaml.org,2002:int"
FLOAT = "tag:yaml.org,2002:float"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("N", False),
        ("nO", "nO"),
        ("", None),
        ("~", None),
        ("0o17", 15),
        ("017", 15),
        ("08", 8.0),
        ("0b11", 3),
        ("-0x10", -16),
        ("1_000", 1000),
        ("1e3", 1000.0),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("-9223372036854775808", -(2**63)),
        ("1e400", "1e400"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_a_plain_scalar_has_gos_type(text: str, value: Any) -> None:
    resolved = resolve_plain(text)

    assert (type(resolved), resolved) == (type(value), value)


@pytest.mark.parametrize("text", ["1" * 10_000, "-" + "9" * 10_000, "0x" + "f" * 10_000, "0b" + "1" * 10_000])
def test_an_absurdly_long_number_is_a_text(text: str) -> None:
    assert resolve_plain(text) == text


def test_zeros_in_front_of_a_number_do_not_make_it_long() -> None:
    assert resolve_plain("0" * 10_000 + "17") == 15
    assert resolve_plain("0x" + "0" * 10_000 + "f") == 15


def test_infinities_have_their_sign() -> None:
    assert (resolve_plain(".inf"), resolve_plain("-.INF")) == (math.inf, -math.inf)


def test_a_tag_turns_an_integer_into_a_float_and_never_the_reverse() -> None:
    assert repr(resolve_tagged(FLOAT, "3")) == "3.0"
    with pytest.raises(BadScalarError, match=r"cannot decode `1\.5` as a !!int"):
        resolve_tagged(INT, "1.5")


def test_bytes_that_are_no_text_become_replacement_characters_one_by_one() -> None:
    assert resolve_tagged("tag:yaml.org,2002:binary", "4oI=") == "\ufffd\ufffd"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2001-1-2", True),
        ("2000-02-29", True),
        ("1900-02-29", False),
        ("2001-13-01", False),
        ("2001-12-14T21:59:43Z", True),
        ("2001-12-14 21:59:43.5", True),
        ("2001-12-14 21:59:43 +01:00", False),
        ("2001-12-14T21:59:60Z", False),
        ("20010101", False),
    ],
)
def test_dates_are_those_of_the_calendar(text: str, expected: bool) -> None:
    assert is_timestamp(text) is expected


def test_keys_that_json_has_no_text_for_are_refused() -> None:
    with pytest.raises(BadScalarError, match="unsupported map key of type: null"):
        json_key(None)
    with pytest.raises(BadScalarError, match="unsupported map key of type: uint64"):
        json_key(2**63)


def test_float_keys_have_the_precision_of_a_single() -> None:
    assert [json_key(key) for key in (3.14159265358979, 1e39, math.nan, 1000000.0)] == [
        "3.1415927",
        ".inf",
        ".nan",
        "1e+06",
    ]
