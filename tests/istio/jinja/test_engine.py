"""Jinja templates: compiled, rendered, and errors with their line."""

from __future__ import annotations

import copy
import itertools
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from injector.errors import TemplateBudgetError, TemplateRenderError
from injector.gotemplate.budget import DEFAULT_BUDGET
from injector.istio.behaviours import NEWEST
from injector.istio.jinja.engine import JinjaTemplate, compile_jinja_templates
from injector.istio.template import TemplateData
from tests.cases import cases
from tests.factories import make_pod, make_template_data

MAX_SIZE = 2**20

SPENT = "the template's budget is spent: "
STEPS = f"more than {DEFAULT_BUDGET.steps} steps"
BITS = "an integer of more than 256 bits"
BIG = "{% set x = 'a' * 1000000 %}"
KEYS = "{% set keys %}{% for i in range(3000) %}'{{ i * 99999999 }}': 1, {% endfor %}{% endset %}"
WIDE = "{% set a = (0,) %}" + "{% set a = (a, a) %}" * 60
"""A tuple of 2**60 numbers, in the memory of sixty."""
VALUES: dict[str, Any] = {"a": {"b": [1.0, 2.0]}, "text": "x", "items": "own"}


def _data(values: dict[str, Any] | None = None) -> TemplateData:
    pod = make_pod(annotations={"note": "<n>"}, labels={"app": "cart"})
    return make_template_data(pod, Values=VALUES if values is None else values)


def _template(text: str, **others: str) -> JinjaTemplate:
    """A template for which no time passes."""
    template = compile_jinja_templates({"sidecar": text, **others}, NEWEST)["sidecar"]
    assert isinstance(template, JinjaTemplate)
    return replace(template, clock=lambda: 0.0)


def _render(text: str, **others: str) -> str:
    return _template(text, **others).render(_data())


def _refusal(text: str, **others: str) -> TemplateRenderError:
    with pytest.raises(TemplateRenderError) as caught:
        _render(text, **others)
    return caught.value


@cases("text", "expected")
def test_a_template_renders(text: str, expected: str) -> None:
    assert _render(text) == expected


@cases("text", "expected")
def test_a_template_uses_the_others_of_its_config(text: str, expected: str) -> None:
    others = {
        "part": "part of {{ revision }}",
        "lib": "{% macro plain(x) %}<{{ x }}>{% endmacro %}"
        "{% macro counted(x) %}{% for i in x %}{{ i }}{% endfor %}{% endmacro %}"
        "{% macro added(x, y) %}{{ x + y }}{% endmacro %}{% set text = 't' %}",
        "base": "base {% block b %}our{% endblock %}",
    }
    assert _render(text, **others) == expected


@cases("text")
def test_no_attribute_or_method_of_a_python_object_is_reachable(text: str) -> None:
    refused = _refusal(text)
    assert "is unsafe" in refused.what
    assert refused.where == "template sidecar, line 1"


@cases(
    "text",
    "what",
    also=[
        ("{% for i in range(9999) if i < 0 %}{% endfor %}" * 21, SPENT + STEPS),
        (
            "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}" + "{% call m() %}" * 20 + "{% endcall %}" * 20,
            SPENT + STEPS,
        ),
        (
            "".join(
                f"{{% block b{n} %}}{{{{ self.b{n + 1}() * 2 }}}}{{{{ self.b{n + 1}() }}}}{{% endblock %}}"
                for n in range(40)
            )
            + "{% block b40 %}{% endblock %}",
            SPENT + STEPS,
        ),
        ("{% set x = 9 %}" + "{% set x = x * x %}" * 60, SPENT + BITS),
        ("{% set x = 1 %}" + "{% set x = x + x %}" * 300, SPENT + BITS),
    ],
)
def test_a_template_that_asks_for_too_much_is_refused(text: str, what: str) -> None:
    assert _refusal(text.replace("<big>", BIG).replace("<wide>", WIDE).replace("<keys>", KEYS)).what == what


@cases("text")
def test_the_data_cannot_be_changed(text: str) -> None:
    values = copy.deepcopy(VALUES)
    with pytest.raises(TemplateRenderError, match=r"is unsafe|cannot assign attribute|unknown tag 'do'"):
        compile_jinja_templates({"sidecar": text}, NEWEST)["sidecar"].render(_data(values))
    assert values == VALUES


def test_variables_do_not_outlive_a_rendering() -> None:
    template = compile_jinja_templates({"sidecar": "{{ revision }}{% set revision = 'x' %}{{ revision }}"}, NEWEST)
    assert [template["sidecar"].render(_data()) for _ in range(2)] == ["canaryx", "canaryx"]


@pytest.mark.parametrize("form", ["include '{}'", "import '{}' as x", "from '{}' import x", "extends '{}'"])
def test_templates_cannot_read_files(form: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{% macro x() %}secret{% endmacro %}")
    for name in (str(secret), f"../../../../../..{secret}"):
        assert _refusal("{% " + form.format(name) + " %}").what == name


def test_a_value_and_an_output_may_be_as_long_as_the_limit() -> None:
    assert len(_render(f"{{{{ 'a' * {MAX_SIZE} }}}}")) == MAX_SIZE


def test_an_output_is_counted_in_bytes_over_all_its_parts() -> None:
    text = "{% set x = 'é' * 1000 %}{% for i in range(1000) %}{{ x }}{% endfor %}"
    assert _refusal(text).what.startswith("the template's budget is spent: a value of 1088000 bytes")


def test_each_rendering_has_its_own_steps() -> None:
    template = _template("{% for i in range(99999) %}{% endfor %}")
    assert [template.render(_data()) for _ in range(3)] == ["", "", ""]


def test_the_clock_of_a_rendering_is_cpu_time() -> None:
    template = compile_jinja_templates({"sidecar": ""}, NEWEST)["sidecar"]

    assert isinstance(template, JinjaTemplate)
    assert template.clock is time.thread_time


@pytest.mark.parametrize(("a_look", "refused"), [(DEFAULT_BUDGET.seconds / 40, False), (0.05, True)])
def test_a_rendering_ends_when_its_time_is_over(a_look: float, refused: bool) -> None:
    template = _template("{% for i in range(70000) %}{% endfor %}")
    ticks = itertools.count(0.0, a_look)
    timed = replace(template, clock=lambda: next(ticks))
    if not refused:
        assert timed.render(_data()) == ""
        return
    with pytest.raises(TemplateBudgetError) as caught:
        timed.render(_data())
    assert caught.value.what == f"the template's budget is spent: more than {DEFAULT_BUDGET.seconds:g} s"


@cases("text")
def test_an_imported_template_spends_the_budget_of_the_importing_one(text: str) -> None:
    lib = "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
    endless = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"
    assert _refusal(text, lib=lib, endless=endless).what == SPENT + STEPS


def test_an_error_names_the_imported_template_it_occurs_in() -> None:
    refused = _refusal("{% import 'lib' as l %}\n{{ l.m() }}", lib="\n\n{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}")
    assert refused.where == "template lib, line 4"


def test_an_imported_template_is_counted_in_each_rendering() -> None:
    loop = "{% for i in range(99999) %}{% endfor %}"
    template = _template("{% import 'lib' as l %}" + loop + "{{ 1 + 1 }}", lib=loop)
    for _ in range(2):
        with pytest.raises(TemplateRenderError, match=STEPS):
            template.render(_data())


@pytest.mark.parametrize("name", ["_budget", "_counted", "environment", "concat"])
def test_templates_cannot_access_the_budget_by_name(name: str) -> None:
    assert _refusal("{{ " + name + " }}").what == f"'{name}' is undefined"
    assert _render("{% set " + name + " = 1 %}{% for x in [1, 2] %}{{ (x + 1) ~ '' }}{% endfor %}") == "23"
    assert _refusal("{{ 'a' | " + name + " }}").what == f"No filter named '{name}'."


@pytest.mark.parametrize("error", [MemoryError(), SystemError("s"), AssertionError(), OSError("o")])
def test_every_error_of_a_rendering_is_a_render_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise error

    template = _template("a\n{{ [1] | join }}")
    monkeypatch.setattr("injector.istio.jinja.filters.join_counted", fail)
    with pytest.raises(TemplateRenderError) as caught:
        template.render(_data())
    assert caught.value.where == "template sidecar, line 2"
    assert caught.value.what in (
        "not enough memory",
        "s",
        "generator raised StopIteration",
        "AssertionError",
        "o",
    )


def test_a_long_error_is_cut() -> None:
    assert _refusal("{{ annotations['a' * 1000000] }}").what == "'dict object' has no attribute '" + "a" * 468 + "..."


def test_an_error_is_valid_unicode() -> None:
    assert _refusal("{% include '\"\\\\ud800\"' | fromjson %}").what == "\\ud800"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "nested too deeply"),
        ("{{ " + "9" * 5000 + " }}", "Exceeds the limit"),
        ("{% if 1 %}" * 200 + "{% endif %}" * 200, "too many levels of indentation"),
        ("{% for i in [1] %}{{ label('a', _loop_vars=1) }}{% endfor %}", "keyword argument repeated"),
    ],
)
def test_a_template_that_python_cannot_compile_is_refused(text: str, what: str) -> None:
    refused = _refusal(text)
    assert refused.what.startswith(what)
    assert refused.where == "template sidecar"


@cases("text", "what")
def test_an_error_has_its_template_and_line(text: str, what: str) -> None:
    refused = _refusal("a\n\n" + text)
    assert (refused.what, refused.where) == (what, "template sidecar, line 3")
    assert refused.hint == "correct the template, or the annotation it reads"


@cases("text", "what")
def test_a_template_that_does_not_parse_is_refused_when_it_is_compiled(text: str, what: str) -> None:
    with pytest.raises(TemplateRenderError) as caught:
        compile_jinja_templates({"good": "", "bad": "a\n" + text}, NEWEST)
    assert (caught.value.what, caught.value.where) == (what, "template bad, line 2")


def test_nothing_is_escaped_as_html() -> None:
    assert _render("{{ '<&>' }}") == "<&>"


def test_an_error_of_an_annotation_names_the_annotation() -> None:
    assert _refusal("{{ named_entries('note') }}").what.startswith("metadata.annotations[note]: json: line 1: ")
