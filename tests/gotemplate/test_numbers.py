from __future__ import annotations

import pytest

from injector.gotemplate.numbers import complex_kinds, number_kinds, parse_float, parse_int, rune_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("1_000", 1000),
        ("-7", -7),
        ("08", None),
        ("1__0", None),
        ("x", None),
    ],
)
def test_integers_have_gos_bases(text: str, expected: int | None) -> None:
    assert parse_int(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1e3", 1000.0), (".5", 0.5), ("0x1p4", 16.0), ("1e999", None), ("1.2.3", None)]
)
def test_floats_have_gos_forms(text: str, expected: float | None) -> None:
    assert parse_float(text) == expected


def test_a_number_is_of_every_kind_that_holds_it() -> None:
    assert number_kinds("5") == (5, 5, 5.0, None)
    assert number_kinds("-5") == (-5, None, -5.0, None)
    assert number_kinds("1.5") == (None, None, 1.5, None)
    assert complex_kinds("1+2i") == (None, None, None, 1 + 2j)


def test_an_integer_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="integer overflow"):
        number_kinds("99999999999999999999")


def test_a_character_is_its_code() -> None:
    assert rune_of("'a'") == 97
    assert rune_of("'\u00e9'") == 233
    with pytest.raises(ValueError, match="malformed character constant"):
        rune_of("'ab'")


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_of_thousands_of_digits_is_beyond_64_bits(sign: str) -> None:
    found = parse_int(sign + "9" * 5000)

    assert found is not None
    assert abs(found) >= 2**64
    assert (found < 0) == (sign == "-")
    assert parse_int(f"{sign}0x{'0' * 5000}7") == (-7 if sign else 7)


# In the square of their number, digits would take half an hour.
@pytest.mark.parametrize("text", ["9" * 250_000 + "x", "0x" + "a" * 250_000, "." + "9" * 250_000 + "x"])
def test_digits_that_are_no_number_are_refused_in_the_time_of_their_length(text: str) -> None:
    assert parse_float(text) is None
