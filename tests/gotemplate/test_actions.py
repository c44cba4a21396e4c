from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import ExecError, compile_template
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.codegen import Actions, Source
from injector.gotemplate.compiler import printed
from injector.gotemplate.parser import parse


def written(text: str) -> list[str]:
    """The lines that a template becomes, without the function's head."""
    trees = parse("t", text, functions=BUILTINS)
    source = Source({}, is_pure=True)
    Actions(source, trees["t"], (BUILTINS, BUILTINS), {name: f"b{name}" for name in trees}, printed).template()
    return [line.removeprefix(" ") for line in source.lines[3:]]


def render(text: str, data: Any = None) -> str:
    return compile_template("t", text, funcs={}).execute(data)


def test_texts_and_constants_are_one_piece_of_output() -> None:
    assert written('a{{/* c */}}b{{ "c" }}{{ 1.5 }}{{ print 1 2 }}') == ["write('abc1.51 2')"]


def test_a_string_is_written_as_it_is() -> None:
    assert written("{{ print . }}")[-1] == "write(t3)"


def test_a_loop_counts_its_rounds() -> None:
    assert "for d2 in EACH(t1):" in written("{{ range . }}a{{ end }}")
    assert " rendering.tick(2)" in written("{{ range . }}a{{ end }}")


def test_a_template_counts_all_its_branches_and_no_loops() -> None:
    trees = parse("t", "a{{ if . }}b{{ else }}c{{ end }}{{ range . }}d{{ else }}e{{ end }}", functions=BUILTINS)
    source = Source({}, is_pure=True)
    Actions(source, trees["t"], (BUILTINS, BUILTINS), {"t": "b"}, printed).template()
    assert source.lines[1] == " rendering.tick(7)"


def test_many_actions_in_a_row_look_at_the_budget_in_between() -> None:
    assert written("{{ . }}" * 130).count("rendering.tick(0)") == 2


@pytest.mark.parametrize("links", [1, 4, 5, 40])
def test_a_chain_takes_the_first_branch_that_holds(links: int) -> None:
    text = (
        "{{ if eq . 0 }}0"
        + "".join(f"{{{{ else if eq . {at} }}}}{at}" for at in range(1, links))
        + "{{ else }}-{{ end }}"
    )
    assert [render(text, number) for number in range(links + 1)] == [*map(str, range(links)), "-"]


def test_a_chain_of_with_keeps_dot_in_its_else() -> None:
    text = "{{ with .a }}a{{ . }}{{ else with .b }}b{{ . }}{{ else }}{{ .c }}{{ end }}"
    assert [render(text, {"a": 1}), render(text, {"b": 2}), render(text, {"c": 3})] == ["a1", "b2", "3"]


def test_a_variable_of_a_condition_lasts_as_long_as_its_branches() -> None:
    assert render("{{ with $x := . }}{{ $x }}{{ else }}no {{ $x }}{{ end }}", 0) == "no 0"
    assert render("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}") == "1"
    assert render("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}") == "2"


def test_a_loop_that_assigns_leaves_the_last_element() -> None:
    assert render("{{ $x := 0 }}{{ range $x = . }}{{ end }}{{ $x }}", ["a", "b"]) == "b"
    assert render("{{ $k := 0 }}{{ $v := 0 }}{{ range $k, $v = . }}{{ end }}{{ $k }}{{ $v }}", ["a", "b"]) == "1b"
    assert render("{{ $x := 0 }}{{ range $x = . }}{{ end }}{{ $x }}", []) == "[]"


def test_a_loop_without_rounds_shows_its_variables_the_value_itself() -> None:
    assert render("{{ range $k, $v := . }}{{ else }}{{ $k }} {{ $v }}{{ end }}", {}) == "map[] map[]"


def test_dot_stays_when_its_variable_changes() -> None:
    assert render('{{ range $x := . }}{{ $x = "new" }}{{ . }}{{ $x }} {{ end }}', ["a", "b"]) == "anew bnew "


def test_rounds_can_be_left() -> None:
    assert (
        render(
            "{{ range . }}{{ if eq . 2 }}{{ continue }}{{ end }}{{ if eq . 4 }}{{ break }}{{ end }}{{ . }}{{ end }}", 9
        )
        == "013"
    )
    assert render("{{ range 2 }}{{ range 3 }}{{ if . }}{{ break }}{{ end }}x{{ end }}{{ . }}{{ end }}") == "x0x1"


def test_a_template_gets_its_own_dot_and_no_variables() -> None:
    assert render('{{ define "x" }}{{ . }}{{ $ }}{{ end }}{{ $y := 1 }}{{ template "x" 2 }}{{ template "x" }}') == (
        "22<no value><no value>"
    )


def test_a_block_is_a_template_called_where_it_stands() -> None:
    assert render('{{ block "b" .a }}<{{ . }}>{{ end }}{{ template "b" 2 }}', {"a": 1}) == "<1><2>"


def test_the_dollar_can_be_assigned_and_dot_stays() -> None:
    assert render("{{ $ = 2 }}{{ $ }}{{ . }}", 1) == "21"


def test_a_template_that_is_not_there_fails_when_it_is_called() -> None:
    assert render('{{ if . }}{{ template "nope" }}{{ end }}', False) == ""
    with pytest.raises(ExecError, match=r'at <{{template "nope"}}>: template "nope" not defined'):
        render('{{ if . }}{{ template "nope" }}{{ end }}', True)
