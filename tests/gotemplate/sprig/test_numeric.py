"""Sprig's conversions of numbers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig import numeric
from tests.cases import cases


# What Go 1.26 and sprig v3.3 answer; Python refuses to read that many digits.
@pytest.mark.parametrize(("sign", "expected"), [("", 2**63 - 1), ("+", 2**63 - 1), ("-", -(2**63))])
def test_a_number_of_thousands_of_digits_is_the_last_one_that_there_is(sign: str, expected: int) -> None:
    assert numeric.atoi(sign + "9" * 5000) == expected
    assert numeric.atoi(sign + "0" * 5000 + "7") == (-7 if sign == "-" else 7)


def test_a_text_of_thousands_of_digits_is_no_integer() -> None:
    assert (numeric.to_int("9" * 5000), numeric.to_int64("-" + "9" * 5000)) == (0, 0)


# What Go 1.26 answers.
@cases("text", "expected")
def test_a_float_may_be_written_by_its_name(text: str, expected: str) -> None:
    assert str(numeric.to_float64(text)) == expected


@pytest.mark.parametrize(("value", "name"), [("NaN", "NaN"), ("inf", "+Inf"), (float("-inf"), "-Inf")])
def test_decimals_are_made_of_finite_numbers(value: Any, name: str) -> None:
    for compute in (numeric.FUNCTIONS["addf"].call, numeric.FUNCTIONS["mulf"].call, numeric.FUNCTIONS["divf"].call):
        with pytest.raises(FuncError, match=re.escape(f"Cannot create a Decimal from {name}")):
            compute(1, value)


# What Go 1.26 answers.
@cases("values", "largest", "smallest")
def test_what_is_no_number_is_the_largest_and_the_smallest_but_for_infinity(
    values: tuple[Any, ...], largest: str, smallest: str
) -> None:
    assert (str(numeric.maxf(*values)), str(numeric.minf(*values))) == (largest, smallest)
