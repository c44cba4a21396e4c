from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import Budget, BudgetError, Func, compile_template
from injector.gotemplate.errors import ExecError, FuncError
from injector.gotemplate.values import Pointer, Slice
from tests.cases import cases
from tests.gotemplate.world import functions, record


def render(source: str, data: Any = None, **given: Func) -> str:
    return compile_template("t", source, funcs={**functions(), **given}).execute(data)


def test_operands_of_and_run_until_one_is_decisive() -> None:
    calls: list[int] = []

    def note(number: int) -> int:
        calls.append(number)
        return number

    noted = Func("note", "func(int) int", note, hermetic=False)
    assert render("{{ and (note 1) (note 0) (note 2) }}", note=noted) == "0"
    assert calls == [1, 0]


def test_the_end_of_a_pipeline_takes_a_nil_interface_for_no_value() -> None:
    assert render("{{ .n }} {{ (.n).x }}", {"n": None}) == "<no value> <no value>"
    with pytest.raises(ExecError, match=r"nil pointer evaluating interface {}\.x"):
        render("{{ .n.x }}", {"n": None})


def test_a_variable_remembers_what_its_loop_went_over() -> None:
    with pytest.raises(ExecError, match=r"can't evaluate field x in type interface {}"):
        render("{{ range $e := . }}{{ $e.x }}{{ end }}", ["text"])
    with pytest.raises(ExecError, match=r"can't evaluate field x in type string"):
        render("{{ range $e := . }}{{ $f := $e }}{{ $f.x }}{{ end }}", ["text"])
    with pytest.raises(ExecError, match=r"can't evaluate field x in type string"):
        render("{{ range $e := . }}{{ $e = print $e }}{{ $e.x }}{{ end }}", ["text"])


def test_a_method_takes_arguments_by_its_signature() -> None:
    ann = record("main.User", Name="ann", Age=7)
    assert render('{{ .Greet "bob" }} {{ 2 | .Older 1 }}', ann) == "ann greets bob 10"
    with pytest.raises(ExecError, match=r"at <1>: expected string; found 1"):
        render("{{ .Greet 1 }}", ann)
    with pytest.raises(ExecError, match=r"wrong number of args for Greet: want 1 got 2"):
        render('{{ .Greet "a" "b" }}', ann)


def test_arguments_of_a_method_of_nothing_do_not_run() -> None:
    def refuse() -> str:
        raise FuncError("no")

    refusing = Func("refuse", "func() (string, error)", refuse)
    assert render("{{ .nope.Greet refuse }}", {}, refuse=refusing) == "<no value>"


def test_a_struct_has_an_address_only_inside_something_that_has() -> None:
    users = Slice("main.User", [record("main.User", Name="ann")])
    assert render("{{ range . }}{{ userp . }}{{ end }}", users) == "false"
    with pytest.raises(ExecError, match=r"expected \*main\.User; got main\.User"):
        render("{{ userp . }}", users[0])


def test_a_pointer_is_followed_where_a_struct_is_wanted() -> None:
    assert render("{{ user . }}", Pointer("*main.User", record("main.User", Name="ann"))) == "ann"
    with pytest.raises(ExecError, match=r"dereference of nil pointer of type main\.User"):
        render("{{ user . }}", Pointer("*main.User"))


@cases("source", "place")
def test_an_error_of_a_value_is_where_it_was_looked_at_last(source: str, place: str) -> None:
    with pytest.raises(ExecError, match=rf"t:{place}: wrong type for value"):
        render(source, {"zero": 0, "one": 1})


def test_a_function_that_shadows_one_of_gos_is_called_as_it_is() -> None:
    shadow = Func("or", "func(...interface {}) string", lambda *args: f"{len(args)} args")
    assert render("{{ or 1 2 }}", **{"or": shadow}) == "2 args"


def rendered(text: str, data: Any = None, *, steps: int = 10_000) -> str:
    return compile_template("t", text, funcs={}).execute(data, budget=Budget(steps=steps))


@pytest.mark.parametrize("value", ["a'b", 'say "hi"', "\udcff", "\\n", "{}"])
def test_a_constant_is_printed_as_it_is(value: str) -> None:
    assert rendered(f"a{{{{/* c */}}}}{{{{ `{value}` }}}}b") == f"a{value}b"


def test_a_template_counts_all_its_branches_and_no_loops() -> None:
    text = "a{{ if . }}b{{ else }}c{{ end }}{{ range . }}d{{ else }}e{{ end }}"
    assert rendered(text, [], steps=7) == "ace"
    with pytest.raises(BudgetError, match="more than 6 steps"):
        rendered(text, [], steps=6)


def test_a_loop_counts_each_of_its_rounds() -> None:
    assert rendered("{{ range . }}a{{ end }}", [1, 2], steps=6) == "aa"
    with pytest.raises(BudgetError, match="more than 5 steps"):
        rendered("{{ range . }}a{{ end }}", [1, 2], steps=5)


def test_many_actions_in_a_row_look_at_the_budget_in_between() -> None:
    calls: list[int] = []

    def print_much() -> str:
        calls.append(1)
        return "much"

    template = compile_template("t", "{{ f }}" * 130, funcs={"f": Func("f", "func() string", print_much)})
    with pytest.raises(BudgetError, match="more than 8 bytes of output"):
        template.execute(None, budget=Budget(output=8))
    assert len(calls) == 64


def test_an_error_at_a_long_list_shows_its_beginning() -> None:
    with pytest.raises(BudgetError) as caught:
        rendered("{{ range . }}" + "x" * 100 + "{{ end }}", [1], steps=1)
    assert caught.value.node == "{{range .}}" + "x" * 29 + "..."


def test_a_value_that_cannot_be_printed_is_named_by_its_node() -> None:
    with pytest.raises(ExecError, match=r"at <{{\.a\.b}}>: can't print {{\.a\.b}} of type func\(\) string"):
        rendered("{{ .a.b }}", {"a": {"b": Func("b", "func() string", str)}})


def test_the_error_of_a_method_is_at_its_call() -> None:
    with pytest.raises(ExecError, match=r"at <\.Panics>: error calling Panics: out of order"):
        render("{{ len .Panics }}", record("main.User", Name="ann"))


def test_a_field_is_read_again_after_a_function_that_changes_its_map() -> None:
    def put(entries: dict[str, Any], value: int) -> str:
        entries["a"] = value
        return ""

    changing = Func("put", "func(map[string]interface {}, int) string", put, mutates=True)
    assert render("{{ .a }}{{ put . 2 }}{{ .a }}", {"a": 1}, put=changing) == "12"


@pytest.mark.parametrize("links", [1, 4, 5, 40])
def test_a_chain_takes_the_first_branch_that_holds(links: int) -> None:
    text = (
        "{{ if eq . 0 }}0"
        + "".join(f"{{{{ else if eq . {at} }}}}{at}" for at in range(1, links))
        + "{{ else }}-{{ end }}"
    )
    assert [rendered(text, number) for number in range(links + 1)] == [*map(str, range(links)), "-"]


def test_a_chain_of_with_keeps_dot_in_its_else() -> None:
    text = "{{ with .a }}a{{ . }}{{ else with .b }}b{{ . }}{{ else }}{{ .c }}{{ end }}"
    assert [rendered(text, {"a": 1}), rendered(text, {"b": 2}), rendered(text, {"c": 3})] == ["a1", "b2", "3"]


def test_a_variable_of_a_condition_lasts_as_long_as_its_branches() -> None:
    assert rendered("{{ with $x := . }}{{ $x }}{{ else }}no {{ $x }}{{ end }}", 0) == "no 0"
    assert rendered("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}") == "1"
    assert rendered("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}") == "2"


def test_a_loop_that_assigns_leaves_the_last_element() -> None:
    assert rendered("{{ $x := 0 }}{{ range $x = . }}{{ end }}{{ $x }}", ["a", "b"]) == "b"
    assert rendered("{{ $k := 0 }}{{ $v := 0 }}{{ range $k, $v = . }}{{ end }}{{ $k }}{{ $v }}", ["a", "b"]) == "1b"
    assert rendered("{{ $x := 0 }}{{ range $x = . }}{{ end }}{{ $x }}", []) == "[]"


def test_a_loop_without_rounds_shows_its_variables_the_value_itself() -> None:
    assert rendered("{{ range $k, $v := . }}{{ else }}{{ $k }} {{ $v }}{{ end }}", {}) == "map[] map[]"


def test_dot_stays_when_its_variable_changes() -> None:
    assert rendered('{{ range $x := . }}{{ $x = "new" }}{{ . }}{{ $x }} {{ end }}', ["a", "b"]) == "anew bnew "


def test_rounds_can_be_left() -> None:
    assert (
        rendered(
            "{{ range . }}{{ if eq . 2 }}{{ continue }}{{ end }}{{ if eq . 4 }}{{ break }}{{ end }}{{ . }}{{ end }}", 9
        )
        == "013"
    )
    assert rendered("{{ range 2 }}{{ range 3 }}{{ if . }}{{ break }}{{ end }}x{{ end }}{{ . }}{{ end }}") == "x0x1"


def test_a_template_gets_its_own_dot_and_no_variables() -> None:
    assert rendered('{{ define "x" }}{{ . }}{{ $ }}{{ end }}{{ $y := 1 }}{{ template "x" 2 }}{{ template "x" }}') == (
        "22<no value><no value>"
    )


def test_a_block_is_a_template_called_where_it_stands() -> None:
    assert rendered('{{ block "b" .a }}<{{ . }}>{{ end }}{{ template "b" 2 }}', {"a": 1}) == "<1><2>"


def test_the_dollar_can_be_assigned_and_dot_stays() -> None:
    assert rendered("{{ $ = 2 }}{{ $ }}{{ . }}", 1) == "21"


def test_a_template_that_is_not_there_fails_when_it_is_called() -> None:
    assert rendered('{{ if . }}{{ template "nope" }}{{ end }}', False) == ""
    with pytest.raises(ExecError, match=r'at <{{template "nope"}}>: template "nope" not defined'):
        rendered('{{ if . }}{{ template "nope" }}{{ end }}', True)
