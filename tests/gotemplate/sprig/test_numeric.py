from __future__ import annotations

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
