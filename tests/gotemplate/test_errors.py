from __future__ import annotations

from injector.errors import TemplateRenderError
from injector.gotemplate.errors import (
    BudgetError,
    ExecError,
    ParseError,
)


def test_errors_read_as_gos_and_are_the_applications() -> None:
    parse = ParseError("t", 3, "unexpected EOF")
    execution = ExecError("inner", "t", 1, 2, ".x", "no")
    assert str(parse) == "template: t:3: unexpected EOF"
    assert str(execution) == 'template: t:1:2: executing "inner" at <.x>: no'
    assert isinstance(parse, TemplateRenderError)
    assert issubclass(BudgetError, ExecError)
