from __future__ import annotations

from typing import TYPE_CHECKING

from injector.gotemplate.sprig.randoms import Expander
from tests.gotemplate.recorded import differences, sprig_cases

if TYPE_CHECKING:
    import pytest

FUNCTIONS = (
    "env",
    "expandenv",
)


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []


def test_variables_come_from_the_mapping_given_and_from_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the process")
    assert Expander({"A": "1"}).expand("$A ${A} $SECRET ${B}$$") == "1 1  "
