"""Trees of a template text, and Go's words for what is not a template."""

from __future__ import annotations

import pytest

from injector.gotemplate import nodes as n
from injector.gotemplate.errors import ParseError
from injector.gotemplate.lexer import Kind
from injector.gotemplate.parser import Parser, parse_template
from tests.cases import cases
from tests.gotemplate.recorded import recorded_cases

FUNCTIONS = frozenset({"print", "len", "index", "eq", "and"})


class AnyName:
    """Every name is a function."""

    def __contains__(self, _name: object) -> bool:
        return True


def source(text: str) -> str:
    return str(parse_template("t", text, functions=FUNCTIONS)["t"].root)


@cases("text")
def test_a_tree_prints_as_its_source(text: str) -> None:
    assert source(text) == text


@cases("text", "expected")
def test_what_is_short_for_something_prints_as_that(text: str, expected: str) -> None:
    assert source(text) == expected


def test_parsing_what_a_tree_prints_gives_the_tree_again() -> None:
    checked = 0
    for case in (*recorded_cases("language"), *recorded_cases("typed"), *recorded_cases("random")):
        if "left" in case or case.get("stage") == "parse":
            continue
        printed = str(parse_template("t", case["template"], functions=AnyName())["t"].root)
        assert str(parse_template("t", printed, functions=AnyName())["t"].root) == printed
        checked += 1
    assert checked > 8000


def test_definitions_are_trees_of_their_own() -> None:
    trees = parse_template("t", '{{define "a"}}1{{end}}2{{block "b" .}}3{{end}}', functions=FUNCTIONS)
    assert {name: str(tree.root) for name, tree in trees.items()} == {"a": "1", "b": "3", "t": '2{{template "b" .}}'}
    assert {tree.parse_name for tree in trees.values()} == {"t"}


def test_an_empty_definition_gives_way_to_another() -> None:
    text = '{{define "a"}} {{end}}{{define "a"}}1{{end}}{{define "a"}}{{/* c */}}{{end}}'
    assert str(parse_template("t", text, functions=FUNCTIONS)["a"].root) == "1"
    assert str(parse_template("t", '{{define "t"}}1{{end}} ', functions=FUNCTIONS)["t"].root) == "1"


def test_a_definition_sees_neither_variables_nor_loops_around_it() -> None:
    for text in ('{{$x := 1}}{{block "b" .}}{{$x}}{{end}}', '{{range .}}{{block "b" .}}{{break}}{{end}}{{end}}'):
        with pytest.raises(ParseError):
            parse_template("t", text, functions=FUNCTIONS)


def test_a_long_chain_is_as_deep_as_it_is_long() -> None:
    text = "{{if 1}}" + "{{else if 1}}" * 3000 + "{{end}}"
    root = parse_template("t", text, functions=FUNCTIONS)["t"].root
    assert isinstance(root.nodes[0], n.IfNode)
    assert str(root) == "{{if 1}}" + "{{else}}{{if 1}}" * 3000 + "{{end}}" * 3001


@cases("text", "reason", also=[("{{if 1}}" * 61, "1: blocks nest too deeply")])
def test_what_is_no_template_is_refused_with_gos_words(text: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_template("t", text, functions=FUNCTIONS)
    assert str(caught.value) == f"template: t:{reason}"


def stream(text: str) -> Parser:
    return Parser("t", text, FUNCTIONS)


def test_a_token_put_back_comes_again() -> None:
    parser = stream("{{.a}}")
    first = parser.next()
    parser.backup(first)
    assert parser.peek() is first
    assert parser.next() is first
    assert parser.next().text == ".a"


def test_spaces_can_be_passed_over() -> None:
    parser = stream("{{ .a }}")
    parser.next()
    assert parser.peek_non_space().text == ".a"
    assert parser.next_non_space().text == ".a"
    assert parser.next().kind is Kind.SPACE


def test_three_tokens_can_be_put_back() -> None:
    parser = stream("{{$x .a}}")
    parser.next()
    parser.backup(parser.next(), parser.next(), parser.next())
    assert [parser.next().text for _ in range(3)] == ["$x", " ", ".a"]


def test_the_end_comes_for_ever() -> None:
    parser = stream("")
    assert [parser.next().kind, parser.next().kind] == [Kind.EOF, Kind.EOF]


def test_an_unexpected_token_is_an_error_at_its_line() -> None:
    parser = stream("\n{{.a}}")
    parser.next()
    with pytest.raises(ParseError) as caught:
        parser.expect(Kind.FIELD, "place")
    assert str(caught.value) == 'template: t:2: unexpected "{{" in place'


def test_a_fault_of_the_text_says_where_its_action_began() -> None:
    parser = stream("{{\n\n'")
    parser.next()
    parser.action_line = 1
    with pytest.raises(ParseError) as caught:
        parser.expect(Kind.FIELD, "place")
    assert str(caught.value) == "template: t:3: unterminated character constant in action started at t:1"


def pipeline(text: str, context: str = "command") -> n.PipeNode:
    expressions = Parser("t", f"{{{{{text}}}}}", FUNCTIONS)
    expressions.next()
    return expressions.pipeline(context, Kind.RIGHT_DELIM)


def operand(text: str) -> n.Node:
    return pipeline(text).cmds[0].args[0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("true", n.BoolNode),
        ("nil | print", n.NilNode),
        (".", n.DotNode),
        ("1", n.NumberNode),
        ("1+2i", n.NumberNode),
        ("'a'", n.NumberNode),
        ('"a"', n.StringNode),
        ("`a`", n.StringNode),
        (".a.b", n.FieldNode),
        ("$", n.VariableNode),
        ("$.a", n.VariableNode),
        ("print", n.IdentifierNode),
        ("(1)", n.PipeNode),
        ("(.).a", n.ChainNode),
        ("print.a", n.ChainNode),
    ],
)
def test_a_term_is_what_its_first_token_says(text: str, kind: type[n.Node]) -> None:
    assert type(operand(text)) is kind


def test_fields_of_a_field_are_its_own() -> None:
    assert operand(".a.b.c") == n.FieldNode(4, 1, ("a", "b", "c"))


def test_declared_variables_come_before_the_commands() -> None:
    pipe_node = pipeline("$i, $v := .l | print", "range")
    assert ([str(name) for name in pipe_node.decl], pipe_node.is_assign, len(pipe_node.cmds)) == (
        ["$i", "$v"],
        False,
        2,
    )
    assert pipeline("$ = 1").is_assign


def test_a_variable_that_is_not_declared_is_an_operand() -> None:
    assert str(pipeline("$ 1 | print")) == "$ 1 | print"


@cases("text", "context", "reason")
def test_what_is_no_pipeline_is_refused_with_gos_words(text: str, context: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        pipeline(text, context)
    assert str(caught.value) == f"template: t:1: {reason}"
