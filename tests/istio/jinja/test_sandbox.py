"""The sandbox of Jinja templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jinja2
import pytest
from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError

from injector.gotemplate.budget import DEFAULT_BUDGET, Budget, Rendering, spend, use_meter
from injector.gotemplate.errors import Spent
from injector.istio.jinja.sandbox import Sandbox, TemplateFunction
from tests.cases import cases


@pytest.fixture(autouse=True)
def _rendering() -> Iterator[None]:
    with use_meter(Rendering(Budget(clock=lambda: 0.0))):
        yield


def _render(text: str, **values: Any) -> str:
    return Sandbox({"t": text, "lib": "{% set x = 1 %}{% set _y = 2 %}"}).load("t").render(values)


@cases("text", "expected")
def test_a_template_computes(text: str, expected: str) -> None:
    values = {"d": {"items": 1, "n": {"m": 1}}, "l": [1, 2, 3], "twice": TemplateFunction(lambda value: value * 2)}
    assert _render(text, **values) == expected


@cases("text")
def test_an_attribute_that_is_not_on_the_list_is_unsafe(text: str) -> None:
    with pytest.raises(SecurityError, match="is unsafe"):
        _render(text, d={}, f=TemplateFunction(len))


@cases("text", "error")
def test_operations_that_are_not_listed_are_refused(text: str, error: str) -> None:
    with pytest.raises((SecurityError, TypeError), match=error):
        _render(text, bare=lambda value: value)


@pytest.mark.parametrize("text", ["{{ n }}", "{{ n.a }}", "{{ n[1] }}", "{{ n[1:] }}", "{{ n() }}", "{% include n %}"])
def test_an_undefined_name_is_named(text: str) -> None:
    with pytest.raises(UndefinedError, match="'n' is undefined"):
        _render(text)


@cases("text")
def test_operations_take_steps(text: str) -> None:
    spend(DEFAULT_BUDGET.steps - 1)
    with pytest.raises(Spent, match="steps"):
        _render(text, l=[1], f=TemplateFunction(len))


@cases("text", "steps")
def test_each_expression_of_a_body_is_a_step_whenever_it_runs(text: str, steps: int) -> None:
    template = Sandbox({"t": text, "lib": "{{ 1 }}"}).load("t")
    rendering = Rendering(Budget(clock=lambda: 0.0))
    with use_meter(rendering):
        list(template.root_render_func(template.new_context({"l": [1, 2, 3], "yes": True, "no": False})))
    rendering.check()
    assert DEFAULT_BUDGET.steps - rendering.steps == steps


def test_nothing_is_evaluated_while_a_template_is_compiled() -> None:
    spend(DEFAULT_BUDGET.steps)
    template = Sandbox({}).from_string(
        "{{ 'a' * 9 ~ 1 }}{{ 1 == 1 }}{{ 'a' | upper | replace('a', 'b') }}{{ [1][0] }}{{ -1 }}"
    )

    with pytest.raises(Spent, match="steps"):
        template.render()


def test_renderings_do_not_share_imports() -> None:
    template = Sandbox({"t": "{% import 'lib' as lib %}", "lib": ""}).load("t")
    assert template._get_default_module() is not template._get_default_module()


def test_a_function_is_called_with_data() -> None:
    with pytest.raises(jinja2.TemplateRuntimeError, match="builtin_function_or_method is not data"):
        _render("{{ f(value) }}", f=TemplateFunction(print), value=len)


def test_there_is_no_autoescape() -> None:
    with pytest.raises(TemplateSyntaxError, match="the tag autoescape is not available"):
        Sandbox({"t": "{% autoescape true %}{% endautoescape %}"}).load("t")
