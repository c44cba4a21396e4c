from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import Func, compile_template
from injector.gotemplate import nodes as n
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.codegen import Actions, LineMap, Mark, Origin, Pipelines, Source
from injector.gotemplate.compiler import printed
from injector.gotemplate.errors import (
    BudgetError,
    ExecError,
    Failure,
    FieldFailure,
    FuncError,
    MethodFailure,
    ParseError,
    Spent,
    Unprintable,
)
from injector.gotemplate.parser import parse
from injector.gotemplate.values import Pointer, Slice
from tests.cases import cases
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


@cases("source", "place")
def test_an_error_of_a_value_is_where_it_was_looked_at_last(source: str, place: str) -> None:
    with pytest.raises(ExecError, match=rf"t:{place}: wrong type for value"):
        render(source, {"zero": 0, "one": 1})


def test_a_function_that_shadows_one_of_gos_is_called_as_it_is() -> None:
    shadow = Func("or", "func(...interface {}) string", lambda *args: f"{len(args)} args")
    assert render("{{ or 1 2 }}", **{"or": shadow}) == "2 args"


def lines_of(text: str) -> list[str]:
    """The lines that a template becomes, without the function's head."""
    trees = parse("t", text, functions=BUILTINS)
    source = Source({}, is_pure=True)
    Actions(source, trees["t"], (BUILTINS, BUILTINS), {name: f"b{name}" for name in trees}, printed).template()
    return [line.removeprefix(" ") for line in source.lines[3:]]


def rendered(text: str, data: Any = None) -> str:
    return compile_template("t", text, funcs={}).execute(data)


def test_texts_and_constants_are_one_piece_of_output() -> None:
    assert lines_of('a{{/* c */}}b{{ "c" }}{{ 1.5 }}{{ print 1 2 }}') == ["write('abc1.51 2')"]


def test_a_string_is_written_as_it_is() -> None:
    assert lines_of("{{ print . }}")[-1] == "write(t3)"


def test_a_loop_counts_its_rounds() -> None:
    assert "for d2 in EACH(t1):" in lines_of("{{ range . }}a{{ end }}")
    assert " rendering.tick(2)" in lines_of("{{ range . }}a{{ end }}")


def test_a_template_counts_all_its_branches_and_no_loops() -> None:
    trees = parse("t", "a{{ if . }}b{{ else }}c{{ end }}{{ range . }}d{{ else }}e{{ end }}", functions=BUILTINS)
    source = Source({}, is_pure=True)
    Actions(source, trees["t"], (BUILTINS, BUILTINS), {"t": "b"}, printed).template()
    assert source.lines[1] == " rendering.tick(7)"


def test_many_actions_in_a_row_look_at_the_budget_in_between() -> None:
    assert lines_of("{{ . }}" * 130).count("rendering.tick(0)") == 2


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


TEXT = "one\n{{.a.b}}"
FIELD = n.FieldNode(8, 2, ("a", "b"))
DOT = n.DotNode(6, 2)
ROOT = n.ListNode(0, 1, (n.TextNode(0, 1, "one\n"), FIELD))
TREE = n.Tree("part", "t", ROOT, TEXT)


def error_of(raised: Exception, mark: Mark, **given: Any) -> ExecError:
    """What the user sees of an exception that a line with this mark raises; ``given`` are locals of the generated code."""
    source = Source({"raised": raised, **given}, is_pure=True)
    with source.block("def run():", Mark(TREE, ROOT)):
        for name in given:
            source.line(f"local_{name} = {name}", Mark(TREE, ROOT))
        source.line("raise raised", mark)
    source.places.append(DOT)
    run = source.run("<template t>")["run"]
    line_map = LineMap("<template t>", TREE, tuple(source.marks), tuple(source.places))
    with pytest.raises(type(raised)) as caught:
        run()
    return line_map.error(caught.value)


def test_a_failure_is_at_the_node_that_its_line_stands_for() -> None:
    found = error_of(Failure("no"), Mark(TREE, FIELD))
    assert str(found) == 'template: t:2:4: executing "part" at <.a.b>: no'


def test_the_place_may_be_known_only_at_run_time() -> None:
    found = error_of(Failure("no"), Mark(TREE, "local_place"), place=0)
    assert (found.node, found.column) == (".", 2)


@pytest.mark.parametrize("raised", [FuncError("no"), ParseError("u", 1, "no")])
def test_the_error_of_a_function_is_at_its_call(raised: Exception) -> None:
    found = error_of(raised, Mark(TREE, DOT, call=FIELD, name="f"))
    assert (found.node, found.reason) == (".a.b", f"error calling f: {raised}")


def test_the_error_of_a_method_is_at_its_call() -> None:
    found = error_of(MethodFailure("error calling M: no"), Mark(TREE, DOT, call=FIELD))
    assert (found.node, found.reason) == (".a.b", "error calling M: no")


@pytest.mark.parametrize(
    ("container", "expected"),
    [(["x"], "interface {}"), ({"k": "x"}, "interface {}"), (None, "string"), ("text", "string")],
)
def test_the_type_in_the_reason_is_that_of_the_container_s_elements(container: Any, expected: str) -> None:
    mark = Mark(TREE, FIELD, origin=Origin("local_container"))
    assert error_of(FieldFailure("no {type}", "x"), mark, container=container).reason == f"no {expected}"


def test_a_result_without_container_is_an_interface_and_anything_else_its_own_type() -> None:
    assert error_of(FieldFailure("no {type}", "x"), Mark(TREE, FIELD, origin=Origin(""))).reason == "no interface {}"
    assert error_of(FieldFailure("no {type}", "x"), Mark(TREE, FIELD)).reason == "no string"
    assert error_of(FieldFailure("no {type}", None), Mark(TREE, FIELD)).reason == "no interface {}"


def test_what_cannot_be_printed_is_named_by_its_node() -> None:
    assert error_of(Unprintable("can't print {node}"), Mark(TREE, FIELD)).reason == "can't print .a.b"


@pytest.mark.parametrize(("raised", "what"), [(Spent("too much"), "too much"), (RecursionError(), "nesting")])
def test_a_spent_budget_is_a_budget_error_that_shows_the_beginning_of_its_list(raised: Exception, what: str) -> None:
    found = error_of(raised, Mark(TREE, ROOT))
    assert isinstance(found, BudgetError)
    assert (found.node, found.reason) == (str(ROOT), f"the template's budget is spent: {what}")


def test_a_long_list_is_cut() -> None:
    text = n.ListNode(0, 1, (n.TextNode(0, 1, "x" * 100),))
    assert error_of(Spent("time"), Mark(TREE, text)).node == "x" * 40 + "..."


def test_a_failure_outside_generated_code_is_the_whole_template_s() -> None:
    line_map = LineMap("<template t>", TREE, (), ())
    assert line_map.error(Spent("too much")).node == str(ROOT)


def test_a_block_without_lines_does_nothing() -> None:
    source = Source({}, is_pure=True)
    with source.block("def run():", Mark(TREE, ROOT)):
        pass
    assert source.lines == ["def run():", " pass"]
    assert len(source.marks) == 2


@pytest.mark.parametrize(("head", "depth"), [("if x:", 95), ("for x in y:", 19)])
def test_blocks_nest_only_as_deep_as_python_s(head: str, depth: int) -> None:
    source = Source({}, is_pure=True)

    def nest(left: int) -> None:
        with source.block(head, Mark(TREE, FIELD)):
            if left > 1:
                nest(left - 1)

    nest(depth - 1)
    with pytest.raises(ParseError, match="template: t:2: blocks nest too deeply"):
        nest(200)


@pytest.mark.parametrize(
    ("value", "expected"), [("a'b", '"a\'b"'), (True, "True"), (None, "None"), (5, "5"), ("\udcff", "'\\udcff'")]
)
def test_plain_values_are_written_as_literals(value: Any, expected: str) -> None:
    assert Source({}, is_pure=True).literal(value) == expected


@pytest.mark.parametrize("value", [-5, 1.5, 1j, [1]])
def test_other_values_get_a_name(value: Any) -> None:
    source = Source({}, is_pure=True)
    assert source.namespace[source.literal(value)] is value


def test_a_line_can_be_put_before_others_of_its_block() -> None:
    source = Source({}, is_pure=True)
    with source.block("if x:", Mark(TREE, ROOT)):
        source.line("b", Mark(TREE, FIELD))
        source.insert(1, "a", Mark(TREE, DOT))
    assert source.lines == ["if x:", " a", " b"]
    assert [mark.place for mark in source.marks] == [ROOT, DOT, FIELD]
