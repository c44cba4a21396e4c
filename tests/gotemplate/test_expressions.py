from __future__ import annotations

import pytest

from injector.gotemplate import nodes as n
from injector.gotemplate.errors import ParseError
from injector.gotemplate.lexer import Kind, tokens
from injector.gotemplate.parser import Expressions
from tests.cases import cases


def pipeline(text: str, context: str = "command") -> n.PipeNode:
    expressions = Expressions("t", tokens(f"{{{{{text}}}}}"), frozenset({"print", "len"}))
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
    found = pipeline("$i, $v := .l | print", "range")
    assert ([str(name) for name in found.decl], found.is_assign, len(found.cmds)) == (["$i", "$v"], False, 2)
    assert pipeline("$ = 1").is_assign


def test_a_variable_that_is_not_declared_is_an_operand() -> None:
    assert str(pipeline("$ 1 | print")) == "$ 1 | print"


@cases("text", "context", "reason")
def test_what_is_no_pipeline_is_refused_with_gos_words(text: str, context: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        pipeline(text, context)
    assert str(caught.value) == f"template: t:1: {reason}"
