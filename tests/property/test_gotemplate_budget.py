from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from injector.gotemplate import Budget, BudgetError, ExecError, ParseError, compile_template
from tests.property.templates import TEMPLATES

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 300), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abl"), inner, max_size=3)),
    max_leaves=10,
)

# A slow machine proves nothing.
TIMELESS = settings(deadline=None)


@dataclass
class Clock:
    """A clock that stands still, and counts how often it was looked at."""

    looks: int = field(default=0)

    def __call__(self) -> float:
        self.looks += 1
        return 0.0


@TIMELESS
@given(TEMPLATES, VALUES)
def test_a_template_renders_or_fails_as_templates_fail(text: str, data: Any) -> None:
    with contextlib.suppress(ExecError, ParseError):
        rendered = compile_template("t", text, funcs={}).execute(data, budget=Budget(clock=Clock()))
        assert len(rendered.encode("utf-8", "surrogateescape")) <= Budget().output


@TIMELESS
@given(TEMPLATES, VALUES, st.integers(0, 60))
def test_output_never_exceeds_its_budget(text: str, data: Any, size: int) -> None:
    with contextlib.suppress(ExecError, ParseError):
        rendered = compile_template("t", text, funcs={}).execute(data, budget=Budget(output=size, clock=Clock()))
        assert len(rendered.encode("utf-8", "surrogateescape")) <= size


@TIMELESS
@given(st.integers(1, 6), st.integers(0, 400))
def test_loops_inside_each_other_stop_when_the_steps_are_spent(depth: int, steps: int) -> None:
    text = "{{range 100000}}" * depth + "x" + "{{end}}" * depth
    template = compile_template("t", text, funcs={})
    with pytest.raises(BudgetError) as caught:
        template.execute(None, budget=Budget(steps=steps, clock=Clock()))
    assert caught.value.reason == f"the template's budget is spent: more than {steps} steps"


@settings(TIMELESS, max_examples=20)
@given(st.integers(1, 100), st.integers(1, 3))
def test_templates_that_call_each_other_stop(depth: int, calls: int) -> None:
    text = '{{define "x"}}' + '{{template "x"}}' * calls + '{{end}}{{template "x"}}'
    with pytest.raises(BudgetError) as caught:
        compile_template("t", text, funcs={}).execute(None, budget=Budget(depth=depth, clock=Clock()))
    assert caught.value.reason == f"the template's budget is spent: templates nested deeper than {depth}"
