from __future__ import annotations

from tests.gotemplate.recorded import differences, sprig_cases

FUNCTIONS = (
    "semver",
    "semverCompare",
)


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []
