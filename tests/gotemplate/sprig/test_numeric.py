from __future__ import annotations

import pytest

from injector.gotemplate.sprig import numeric
from tests.gotemplate.recorded import differences, sprig_cases

FUNCTIONS = (
    "atoi",
    "int",
    "int64",
    "float64",
    "toDecimal",
    "add1",
    "add",
    "sub",
    "div",
    "mod",
    "mul",
    "add1f",
    "addf",
    "subf",
    "divf",
    "mulf",
    "biggest",
    "max",
    "min",
    "maxf",
    "minf",
    "ceil",
    "floor",
    "round",
)


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []


# What Go 1.26 and sprig v3.3 answer; Python refuses to read that many digits.
@pytest.mark.parametrize(("sign", "expected"), [("", 2**63 - 1), ("+", 2**63 - 1), ("-", -(2**63))])
def test_a_number_of_thousands_of_digits_is_the_last_one_that_there_is(sign: str, expected: int) -> None:
    assert numeric.atoi(sign + "9" * 5000) == expected
    assert numeric.atoi(sign + "0" * 5000 + "7") == (-7 if sign == "-" else 7)


def test_a_text_of_thousands_of_digits_is_no_integer() -> None:
    assert (numeric.to_int("9" * 5000), numeric.to_int64("-" + "9" * 5000)) == (0, 0)
