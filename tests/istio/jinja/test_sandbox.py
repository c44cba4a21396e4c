from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jinja2
import pytest
from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError

from injector.istio.jinja.budget import MAX_STEPS, BudgetSpentError, JinjaBudget, spending, tick
from injector.istio.jinja.sandbox import Sandbox, TemplateFunction

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _rendering() -> Iterator[None]:
    with spending(JinjaBudget(lambda: 0.0)):
        yield


def _render(text: str, **values: Any) -> str:
    return Sandbox({"t": text, "lib": "{% set x = 1 %}{% set _y = 2 %}"}).load("t").render(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ d.items }}{{ d['items'] }}{{ d.n.m }}", "111"),
        ("{{ l[0] }}{{ l[-1] }}{{ 'abc'[1] }}{{ (1, 2)[1] }}", "13b2"),
        ("{{ l[1:] }}{{ l[::-1] }}{{ 'abc'[:2] }}{{ (1, 2)[:1] }}", "[2, 3][3, 2, 1]ab(1,)"),
        ("{{ 1 < 2 < 3 }}{{ 1 in l }}{{ 1 not in l }}{{ l == l }}{{ l != l }}", "TrueTrueFalseTrueFalse"),
        ("{{ {1: 'a', 'b': 2}[1] }}", "a"),
        ("{{ 'a' ~ 1 ~ none ~ l }}", "a1None[1, 2, 3]"),
        ("{{ 7 + 2 }} {{ 7 - 2 }} {{ 7 * 2 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ 7 % 2 }} {{ -7 }}", "9 5 14 3.5 3 1 -7"),
        ("{{ 'a' + 'b' }}{{ [1] + [2] }}{{ (1,) + (2,) }}{{ 2 * 'ab' }}{{ [0] * 2 }}", "ab[1, 2](1, 2)abab[0, 0]"),
        ("{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{% else %}none{% endfor %}", "1223"),
        ("{% for x in [] %}{% else %}none{% endfor %}", "none"),
        (
            "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(1) }}{{ loop.length }}{% endfor %}",
            "aTrue3bFalse3aFalse3",
        ),
        ("{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}", "123"),
        ("{% import 'lib' as lib %}{{ lib.x }}", "1"),
        ("{% block b %}b{% endblock %}{{ self.b() }}", "bb"),
        (
            "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 3, 4, c=5) }}",
            "13(4,){'c': 5}",
        ),
        ("{% macro m() %}[{{ caller(1) }}]{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}", "[1]"),
        ("{{ twice(2) }}{{ twice(value=3) }}", "46"),
    ],
)
def test_a_template_computes(text: str, expected: str) -> None:
    values = {"d": {"items": 1, "n": {"m": 1}}, "l": [1, 2, 3], "twice": TemplateFunction(lambda value: value * 2)}
    assert _render(text, **values) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'a'.upper }}",
        "{{ d.keys }}",
        "{{ d['keys'] }}",
        "{{ f.anything }}",
        "{{ f['_call'] }}",
        "{% for x in [1] %}{{ loop._iterator }}{% endfor %}",
        "{% for x in [1] %}{{ loop['__next__'] }}{% endfor %}",
        "{% import 'lib' as lib %}{{ lib._body_stream }}",
        "{% import 'lib' as lib %}{{ lib.__html__ }}",
        "{% macro m() %}{% endmacro %}{{ m.arguments }}",
        "{% block b %}{{ self.b.name }}{% endblock %}",
    ],
)
def test_an_attribute_that_is_not_on_the_list_is_unsafe(text: str) -> None:
    with pytest.raises(SecurityError, match="is unsafe"):
        _render(text, d={}, f=TemplateFunction(len))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{{ {}[(1,)] }}", "tuple is not a key"),
        ("{{ {}[:1] }}", "dict has no slices"),
        ("{{ 1() }}", "int cannot be called"),
        ("{{ bare(1) }}", "function cannot be called"),
        ("{{ 2 ** 2 }}", r"the operator \*\* is not available"),
        ("{{ '%s' % 2 }}", "formatting with % is not available"),
        ("{% import 5 as x %}", "int is not a template name"),
    ],
)
def test_operations_that_are_not_listed_are_refused(text: str, error: str) -> None:
    with pytest.raises((SecurityError, TypeError), match=error):
        _render(text, bare=lambda value: value)


@pytest.mark.parametrize("text", ["{{ n }}", "{{ n.a }}", "{{ n[1] }}", "{{ n[1:] }}", "{{ n() }}", "{% include n %}"])
def test_an_undefined_name_is_named(text: str) -> None:
    with pytest.raises(UndefinedError, match="'n' is undefined"):
        _render(text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ 1 + 1 }}",
        "{{ 1 - 1 }}",
        "{{ 'a' ~ 'b' }}",
        "{{ 1 == 1 }}",
        "{{ l[0] }}",
        "{{ l[:1] }}",
        "{{ f(1) }}",
        "{{ {1: 2} }}",
        "{% macro m() %}{% endmacro %}{{ m() }}",
        "{% for x in l %}{% endfor %}{{ 1 }}",
        "{% block b %}{% endblock %}{{ self.b() }}",
        "{% include 'lib' %}{% import 'lib' as lib %}",
    ],
)
def test_operations_take_steps(text: str) -> None:
    tick(MAX_STEPS - 1)
    with pytest.raises(BudgetSpentError, match="steps"):
        _render(text, l=[1], f=TemplateFunction(len))


def test_nothing_is_evaluated_while_a_template_is_compiled() -> None:
    tick(MAX_STEPS)
    template = Sandbox({}).from_string(
        "{{ 'a' * 9 ~ 1 }}{{ 1 == 1 }}{{ 'a' | upper | replace('a', 'b') }}{{ [1][0] }}{{ -1 }}"
    )

    with pytest.raises(BudgetSpentError, match="steps"):
        template.render()


def test_renderings_do_not_share_imports() -> None:
    template = Sandbox({"t": "{% import 'lib' as lib %}", "lib": ""}).load("t")
    assert template._get_default_module() is not template._get_default_module()


def test_a_function_is_called_with_data() -> None:
    with pytest.raises(jinja2.TemplateRuntimeError, match="builtin_function_or_method is not data"):
        TemplateFunction(print)(len)


def test_there_is_no_autoescape() -> None:
    with pytest.raises(TemplateSyntaxError, match="the tag autoescape is not available"):
        Sandbox({"t": "{% autoescape true %}{% endautoescape %}"}).load("t")
