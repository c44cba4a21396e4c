from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import nodes as n
from injector.gotemplate.codegen import LineMap, Mark, Origin, Source
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
