from __future__ import annotations

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig import lists
from tests.gotemplate.recorded import differences, sprig_cases

FUNCTIONS = (
    "tuple",
    "list",
    "sortAlpha",
    "concat",
    "append",
    "mustAppend",
    "push",
    "mustPush",
    "prepend",
    "mustPrepend",
    "first",
    "mustFirst",
    "rest",
    "mustRest",
    "last",
    "mustLast",
    "initial",
    "mustInitial",
    "reverse",
    "mustReverse",
    "uniq",
    "mustUniq",
    "compact",
    "mustCompact",
    "without",
    "mustWithout",
    "has",
    "mustHas",
    "slice",
    "mustSlice",
    "chunk",
    "mustChunk",
    "seq",
    "until",
    "untilStep",
    "deepEqual",
)


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []


def test_a_list_longer_than_any_output_is_refused_before_it_is_made() -> None:
    with pytest.raises(FuncError, match="too large"):
        lists.until(10**9)
