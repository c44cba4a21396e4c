from __future__ import annotations

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig import regex
from tests.gotemplate.recorded import differences, sprig_cases

FUNCTIONS = (
    "regexMatch",
    "mustRegexMatch",
    "regexFindAll",
    "mustRegexFindAll",
    "regexFind",
    "mustRegexFind",
    "regexReplaceAll",
    "mustRegexReplaceAll",
    "regexReplaceAllLiteral",
    "mustRegexReplaceAllLiteral",
    "regexSplit",
    "mustRegexSplit",
    "regexQuoteMeta",
)


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []


def test_an_expression_that_backtracks_elsewhere_takes_linear_time_here() -> None:
    assert regex.match("^(a+)+$", "a" * 5000 + "b") is False


def test_a_replacement_may_not_grow_beyond_any_output() -> None:
    with pytest.raises(FuncError, match="too large"):
        regex.replace_all("", "x" * 2000, "y" * 2000)
