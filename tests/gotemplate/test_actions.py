"""What actions do beside the recorded cases: rendering, failures and their places, budgets of deep and long templates."""

from __future__ import annotations

import re
from typing import Any

import pytest

from injector.gotemplate import Budget, Func, compile_template
from injector.gotemplate.errors import BudgetError, ExecError, FuncError
from injector.gotemplate.values import Pointer, Slice
from tests.cases import cases
from tests.gotemplate.world import functions, record


def render(source: str, data: Any = None, **own: Func) -> str:
    return compile_template("t", source, funcs={**functions(), **own}).execute(data)


@cases("text", "data", "expected")
def test_an_action_renders(text: str, data: Any, expected: str) -> None:
    assert render(text, data) == expected


@cases("text", "data", "reason")
def test_an_action_fails(text: str, data: Any, reason: str) -> None:
    with pytest.raises(ExecError, match=re.escape(reason)):
        render(text, data)


def test_operands_of_and_run_until_one_is_decisive() -> None:
    calls: list[int] = []

    def note(number: int) -> int:
        calls.append(number)
        return number

    noted = Func("note", "func(int) int", note, hermetic=False)
    assert render("{{ and (note 1) (note 0) (note 2) }}", note=noted) == "0"
    assert calls == [1, 0]


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


@pytest.mark.parametrize("links", [1, 4, 5, 40])
def test_a_chain_takes_the_first_branch_that_holds(links: int) -> None:
    text = (
        "{{ if eq . 0 }}0"
        + "".join(f"{{{{ else if eq . {at} }}}}{at}" for at in range(1, links))
        + "{{ else }}-{{ end }}"
    )
    assert [render(text, number) for number in range(links + 1)] == [*map(str, range(links)), "-"]


def test_a_spent_budget_shows_the_beginning_of_its_list() -> None:
    with pytest.raises(BudgetError) as caught:
        compile_template("t", "x" * 100, funcs={}).execute(None, budget=Budget(output=1))
    assert caught.value.node == "x" * 40 + "..."
    assert caught.value.reason.startswith("the template's budget is spent: ")
