"""Compiled templates give Go's results and errors."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from functools import cache

import pytest

from injector.gotemplate import Budget, BudgetError, ExecError, Func, FuncError, ParseError, compile_template
from injector.gotemplate.budget import DEFAULT_BUDGET
from tests.gotemplate.recorded import differences, recorded_cases, typed_differences, wrong_answers
from tests.needs import CORPUS
from tests.sizes import LONG

SHARED = CORPUS / "gotemplate.json"


def test_the_language_is_gos() -> None:
    assert differences(recorded_cases("language"), "language") == []


def test_a_template_runs_on_values_of_every_type_as_in_go() -> None:
    assert typed_differences(lambda case: "printf" not in case["template"]) == []


def test_templates_that_nobody_would_write_are_answered_as_in_go() -> None:
    assert typed_differences(lambda _: True, "random") == []


@pytest.mark.needs("corpus")
def test_the_shared_cases_are_answered_as_go_answers_them() -> None:
    recorded = json.loads(SHARED.read_text("utf-8"))
    assert wrong_answers(recorded["cases"], recorded["data"]) == []


def render(source: str, data: object = None, budget: Budget = DEFAULT_BUDGET, **functions: Func) -> str:
    return compile_template("t", source, funcs=functions).execute(data, budget=budget)


def test_a_loop_stops_when_its_steps_are_spent() -> None:
    with pytest.raises(BudgetError, match=r"t:2:.*more than 1000 steps"):
        render("\n{{ range 100000000 }}{{ end }}", budget=Budget(steps=1000))


_CALLS = (
    "{{ define `u` }}<{{ .a }}{{ range .l }}{{ . }}{{ else }}-{{ end }}>{{ end }}{{ if .no }}{{ template `u` . }}{{ end }}"
    "{{ template `u` . }}{{ range .l }}{{ template `u` $ }}{{ end }}{{ with .d }}{{ template `u` . }}{{ template `u` $ }}{{ end }}"
)


@pytest.mark.parametrize(("no", "first"), [(False, ""), (True, "<1xy>")])
def test_a_template_that_is_called_again_writes_its_text_again(no: bool, first: str) -> None:
    assert render(_CALLS, {"a": 1, "l": ["x", "y"], "no": no, "d": {"a": 2}}) == f"{first}<1xy><1xy><1xy><2-><1xy>"


def test_a_template_that_is_called_again_runs_again() -> None:
    numbers = iter("12")
    number = Func("number", "func() string", lambda: next(numbers), hermetic=False)
    assert (
        render("{{ define `u` }}{{ number }}{{ end }}{{ template `u` . }}{{ template `u` . }}", number=number) == "12"
    )


def test_a_template_that_is_called_again_takes_its_steps_again() -> None:
    doubled = "".join(
        f"{{{{ define `{level}` }}}}{f'{{{{ template `{level + 1}` . }}}}' * 2 if level < 30 else 'a{{ 1 }}'}{{{{ end }}}}"
        for level in range(31)
    )
    with pytest.raises(BudgetError, match="more than 200000 steps"):
        render(f"{doubled}{{{{ template `0` . }}}}")


def test_output_stops_before_it_is_joined() -> None:
    with pytest.raises(BudgetError, match="more than 10 bytes of output"):
        render("{{ range 100 }}abc{{ end }}", budget=Budget(output=10))


def test_output_is_measured_in_bytes() -> None:
    assert render("ééé", budget=Budget(output=6)) == "ééé"
    with pytest.raises(BudgetError, match="more than 5 bytes of output"):
        render("ééé", budget=Budget(output=5))


def test_templates_that_call_themselves_stop_and_name_the_call() -> None:
    source = '{{ define "x" }}\n{{ template "x" }}{{ end }}{{ template "x" }}'
    with pytest.raises(BudgetError) as caught:
        render(source, budget=Budget(depth=5))
    assert str(caught.value) == (
        'template: t:2:12: executing "x" at <{{template "x"}}>: '
        "the template's budget is spent: templates nested deeper than 5"
    )


def test_templates_may_nest_as_deep_as_the_budget() -> None:
    source = '{{ define "x" }}{{ if . }}{{ . }}{{ template "x" (slice . 1) }}{{ end }}{{ end }}{{ template "x" "abc" }}'
    assert render(source, budget=Budget(depth=4)) == "abcbcc"


def test_a_rendering_stops_when_its_time_is_up() -> None:
    with pytest.raises(BudgetError, match=r"more than 0\.5 s"):
        render("{{ range 60000 }}{{ end }}", budget=Budget(clock=_Clock()))


class _Clock:
    """A clock on which each look takes a tenth of a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


def test_what_functions_return_is_counted() -> None:
    grow = Func("grow", "func(interface {}) string", lambda _: "x" * 1000)
    with pytest.raises(BudgetError, match="more than 5000 bytes of values"):
        render("{{ range 10 }}{{ $x := grow . }}{{ end }}", budget=Budget(memory=5000), grow=grow)


def test_data_that_refers_to_itself_is_an_error() -> None:
    data: dict[str, object] = {}
    data["self"] = data
    with pytest.raises(ExecError, match="value nests too deeply to print"):
        render("{{ print . }}", data)


def test_an_error_knows_where_it_arose() -> None:
    with pytest.raises(ExecError) as caught:
        render("one\n  {{ .a.b.c }}", {"a": "text"})
    error = caught.value
    assert (error.name, error.template, error.line, error.column, error.node) == ("t", "t", 2, 7, ".a.b.c")
    assert error.reason == "can't evaluate field b in type interface {}"


def test_columns_count_bytes() -> None:
    with pytest.raises(ExecError, match=r"t:1:10: .* at <.x.y>"):
        render("é☃{{ .x.y }}", {"x": 1})


def test_the_error_of_a_function_names_its_call() -> None:
    def refuse(_: object) -> str:
        raise FuncError("no such thing")

    with pytest.raises(ExecError) as caught:
        render('{{ "x" | refuse }}', refuse=Func("refuse", "func(string) (string, error)", refuse))
    assert str(caught.value) == 'template: t:1:9: executing "t" at <refuse>: error calling refuse: no such thing'


def test_an_error_of_a_template_inside_a_function_is_that_functions_error() -> None:
    inner = compile_template("inner", "{{ .a.b }}", funcs={})
    run = Func("run", "func(interface {}) string", inner.execute)
    with pytest.raises(
        ExecError, match=r"t:1:3: .* error calling run: template: inner:1:5: .*: can't evaluate field b"
    ):
        render("{{ run . }}", {"a": "x"}, run=run)


def test_a_function_given_wins_over_gos_own() -> None:
    assert render('{{ len "x" }}', len=Func("len", "func(string) string", lambda text: f"<{text}>")) == "<x>"


def test_a_function_runs_in_each_rendering() -> None:
    numbers = iter(range(9))
    count = Func("count", "func(string) string", lambda text: f"{text}{next(numbers)}")
    template = compile_template("t", '{{ count "a" }}', funcs={"count": count})
    assert [template.execute(None), template.execute(None)] == ["a0", "a1"]


def test_templates_of_one_text_know_each_other() -> None:
    template = compile_template("main", '{{ define "a" }}1{{ end }}{{ template "a" }}2', funcs={})
    assert template.names == ("a", "main")
    assert template.execute(None) == "12"


@pytest.mark.parametrize(
    "source",
    [
        "{{if 1}}" * 61 + "{{end}}" * 61,
        "{{range 1}}" * 19 + "{{end}}" * 19,
        "{{" + "(" * 5000,
        "{{if 1}}" * 5000,
    ],
)
def test_nesting_that_no_template_needs_is_refused(source: str) -> None:
    with pytest.raises(ParseError, match=r"blocks nest too deeply|max expression depth exceeded"):
        compile_template("t", source, funcs={})


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("{{if 1}}", "{{end}}"),
        ("{{if 0}}{{else}} {{if 1}}", "{{end}}{{end}}"),
        ("{{if 0}}{{else if 1}}", "{{end}}"),
        ("{{with 1}}{{else with 1}} ", "{{else}}{{end}}"),
        ("{{range $i, $e := $}}", "{{else}}{{end}}"),
        ("{{range .}}{{if 0}}{{else if 1}}", "{{end}}{{end}}"),
    ],
)
def test_a_template_that_compiles_never_nests_too_deeply_later(begin: str, end: str) -> None:
    _check_depths(lambda depth: begin * depth + "x" + end * depth)


@pytest.mark.parametrize(("begin", "end"), [("(or 0 ", ")"), ("(1 | and ", ")"), ("(or (and 1 ", ") 0)")])
def test_an_expression_that_compiles_never_nests_too_deeply_later(begin: str, end: str) -> None:
    _check_depths(lambda depth: f"{{{{ {begin * depth} 1 {end * depth} }}}}")
    _check_depths(lambda depth: f"{{{{if {begin * depth} 1 {end * depth} }}}}" * depth + "{{end}}" * depth)


def _check_depths(text_of: Callable[[int], str]) -> None:
    """Find the greatest depth at which a text compiles, and render texts of this depth and of others; of each with TESTS_LONG=1."""
    depths = range(1, 120)

    @cache
    def compiles(depth: int) -> bool:
        try:
            compile_template("t", text_of(depth), funcs={}).execute([1])
        except ParseError:
            return False
        return True

    first_refused = bisect_left(depths, True, key=lambda depth: not compiles(depth))
    assert 1 < first_refused < len(depths)
    refused = depths[first_refused]
    some = (1, 2, 3, refused // 2, *range(refused - 3, refused))
    assert all(compiles(depth) for depth in (range(1, refused) if LONG else some))
    assert not any(compiles(depth) for depth in (refused + 1, refused + 2))


def test_a_chain_may_be_long() -> None:
    links = "".join(f"{{{{else if eq . {number}}}}}{number}" for number in range(400))
    assert render(f"{{{{if eq . -1}}}}{links}{{{{else}}}}none{{{{end}}}}", 399) == "399"


def test_variables_of_an_operand_that_did_not_run_are_undefined() -> None:
    assert render("{{ $x := 1 }}{{ or . (print ($x := 2)) }}{{ $x }}", "dot") == "dot1"
    assert render("{{ $x := 1 }}{{ or . (print ($x := 2)) }}{{ $x }}", "") == "22"
    with pytest.raises(ExecError, match=r"undefined variable: \$y"):
        render("{{ or . (print ($y := 2)) }}{{ $y }}", "dot")
