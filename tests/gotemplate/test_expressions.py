from __future__ import annotations

import pytest

from injector.gotemplate import nodes as n
from injector.gotemplate.errors import ParseError
from injector.gotemplate.lexer import Kind, tokens
from injector.gotemplate.parser import Expressions


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


@pytest.mark.parametrize(
    ("text", "context", "reason"),
    [
        ("", "command", "missing value for command"),
        ("", "if", "missing value for if"),
        ("1 | 2", "command", "non executable command in pipeline stage 2"),
        ("1 | print | nil", "command", "non executable command in pipeline stage 3"),
        ("nope", "command", 'function "nope" not defined'),
        ("$x", "command", 'undefined variable "$x"'),
        ("$x, $y := 1", "command", "too many declarations in command"),
        ("$x, $y, $z := 1", "range", "too many declarations in range"),
        ("$x, 1 := 1", "range", "range can only initialize variables"),
        ('"a".b', "command", 'unexpected . after term "\\"a\\""'),
        ("1.b", "command", 'bad number syntax: "1.b"'),
        ("print )", "command", "unexpected right paren"),
        ("print 1,2", "command", 'unexpected "," in operand'),
        ("| print", "command", 'unexpected "|" in command'),
        ("print | | print", "command", 'unexpected "|" in command'),
        ('"\\q"', "command", "invalid syntax"),
        ("0x", "command", 'illegal number syntax: "0x"'),
        ("''", "command", "invalid syntax"),
        ("'ab'", "command", "malformed character constant: 'ab'"),
        ("()", "command", "missing value for parenthesized pipeline"),
        ("(" * 61, "command", "max expression depth exceeded"),
    ],
)
def test_what_is_no_pipeline_is_refused_with_gos_words(text: str, context: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        pipeline(text, context)
    assert str(caught.value) == f"template: t:1: {reason}"
