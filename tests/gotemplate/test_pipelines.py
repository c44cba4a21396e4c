from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import ExecError, Func, FuncError, compile_template
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.codegen import Pipelines, Source
from injector.gotemplate.parser import parse
from injector.gotemplate.values import Pointer, Slice
from tests.gotemplate.world import functions, record


def written(action: str, *variables: str) -> list[str]:
    """The lines that one action's pipeline becomes."""
    declared = "".join(f"{{{{{name} := 0}}}}" for name in variables)
    tree = parse("t", f"{declared}{{{{{action}}}}}", functions=BUILTINS)["t"]
    source = Source({}, is_pure=True)
    pipelines = Pipelines(source, tree, BUILTINS, BUILTINS)
    for node in tree.root.nodes:
        pipelines.pipeline(node.pipe)  # type: ignore[attr-defined] # actions alone are in the text
    return source.lines


def render(source: str, data: Any = None, **given: Func) -> str:
    return compile_template("t", source, funcs={**functions(), **given}).execute(data)


def test_a_constant_needs_no_code() -> None:
    assert written('"a"') == []
    assert written('print "a" 1') == []


def test_a_field_is_looked_up_in_line() -> None:
    assert written(".a") == ["t1 = d0['a'] if d0.__class__ is dict and 'a' in d0 else FIELD(d0, 'a')"]


def test_a_comparison_with_a_constant_is_in_line() -> None:
    assert written('eq . "x"') == ["t1 = d0 == 'x' if d0.__class__ is str else EQ(d0, 'x')"]


def test_an_operand_of_or_is_behind_the_one_before_it() -> None:
    assert written("or . 1") == ["t1 = d0; n2 = 0", "if not t1:", " t1 = 1; n2 = 1"]


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


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ('{{ num (printf "%d" 1) }}', "1:20.* at <1>"),
        ("{{ str (or .zero .one) }}", "1:17.* at <.one>"),
        ("{{ str (or .one .zero) }}", "1:11.* at <.one>"),
        ("{{ .one | or .zero | str }}", "1:21.* at <str>"),
    ],
)
def test_an_error_of_a_value_is_where_it_was_looked_at_last(source: str, place: str) -> None:
    with pytest.raises(ExecError, match=rf"t:{place}: wrong type for value"):
        render(source, {"zero": 0, "one": 1})


def test_a_function_that_shadows_one_of_gos_is_called_as_it_is() -> None:
    shadow = Func("or", "func(...interface {}) string", lambda *args: f"{len(args)} args")
    assert render("{{ or 1 2 }}", **{"or": shadow}) == "2 args"
