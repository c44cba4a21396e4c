from __future__ import annotations

from tests.gotemplate.recorded import differences, sprig_cases

FUNCTIONS = (
    "default",
    "empty",
    "coalesce",
    "all",
    "any",
    "fromJson",
    "toJson",
    "toPrettyJson",
    "toRawJson",
    "mustToJson",
    "mustToPrettyJson",
    "mustToRawJson",
    "ternary",
    "typeOf",
    "typeIs",
    "typeIsLike",
    "kindOf",
    "kindIs",
    "fail",
)


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []
