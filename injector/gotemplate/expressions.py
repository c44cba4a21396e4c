"""Pipelines into nodes, one method per production (text/template/parse/parse.go, Go 1.26).

::

    pipeline = [ variable [ "," variable ] ( ":=" | "=" ) ] command { "|" command }
    command  = operand { space operand }
    operand  = term { field }
    term     = literal | function | "." | field | variable | "(" pipeline ")"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from injector.gotemplate import nodes as n
from injector.gotemplate.numbers import complex_kinds, number_kinds, rune_of
from injector.gotemplate.text import quote, unquote
from injector.gotemplate.tokens import Kind, Token
from injector.gotemplate.tokenstream import TokenStream

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

_OPERANDS: Final = frozenset(
    {
        Kind.BOOL,
        Kind.CHAR_CONSTANT,
        Kind.COMPLEX,
        Kind.DOT,
        Kind.FIELD,
        Kind.IDENTIFIER,
        Kind.NUMBER,
        Kind.NIL,
        Kind.RAW_STRING,
        Kind.STRING,
        Kind.VARIABLE,
        Kind.LEFT_PAREN,
    }
)
_CONSTANTS: Final = (n.BoolNode, n.DotNode, n.NilNode, n.NumberNode, n.StringNode)
# Parentheses nest on Python's stack as they do on Go's; Go's parser stops at 10,000, this one long before the stack does.
_MAX_PARENS: Final = 60


class Expressions(TokenStream):
    """Parses pipelines; knows the functions and the variables in scope."""

    def __init__(self, name: str, lexer: Iterator[Token], functions: Container[str]) -> None:
        super().__init__(name, lexer)
        self.functions = functions
        self.variables = ["$"]
        self.parens = 0

    def pipeline(self, context: str, end: Kind) -> n.PipeNode:
        """``pipeline = [ variable [ "," variable ] ( ":=" | "=" ) ] command { "|" command }``."""
        first = self.peek_non_space()
        decl, is_assign = self.declarations(context)
        commands: list[n.CommandNode] = []
        while True:
            token = self.next_non_space()
            if token.kind is end:
                self.check(commands, context)
                return n.PipeNode(first.pos, first.line, is_assign, tuple(decl), tuple(commands))
            if token.kind not in _OPERANDS:
                self.unexpected(token, context)
            self.backup()
            commands.append(self.command())

    def declarations(self, context: str) -> tuple[list[n.VariableNode], bool]:
        """Return the variables before ``:=`` or ``=``, and whether they are assigned: variable [ "," variable ] ( ":=" | "=" )."""
        decl: list[n.VariableNode] = []
        while True:
            variable = self.peek_non_space()
            if variable.kind is not Kind.VARIABLE:
                return decl, False
            self.next()
            # A space after the variable is a token of its own, so it takes two to see what follows.
            after = self.peek()
            following = self.peek_non_space()
            if following.kind in (Kind.ASSIGN, Kind.DECLARE):
                self.next_non_space()
                self.declare(decl, variable)
                return decl, following.kind is Kind.ASSIGN
            if following.kind is Kind.CHAR and following.text == ",":
                self.next_non_space()
                self.declare(decl, variable)
                self.expect_second(context, decl)
                continue
            if after.kind is Kind.SPACE:
                self.backup3(variable, after)
            else:
                self.backup2(variable)
            return decl, False

    def declare(self, decl: list[n.VariableNode], token: Token) -> None:
        """Take a variable into scope; Go does so for assigned ones as well, and finds out when it runs."""
        decl.append(n.VariableNode(token.pos, token.line, (token.text,)))
        self.variables.append(token.text)

    def expect_second(self, context: str, decl: list[n.VariableNode]) -> None:
        """Check what follows a comma: only ``range`` has a second variable."""
        if context != "range" or len(decl) > 1:
            self.fail(f"too many declarations in {context}")
        if self.peek_non_space().kind not in (Kind.VARIABLE, Kind.RIGHT_DELIM, Kind.RIGHT_PAREN):
            self.fail("range can only initialize variables")

    def check(self, commands: list[n.CommandNode], context: str) -> None:
        """Check that a pipeline has commands, and only functions after the first."""
        if not commands:
            self.fail(f"missing value for {context}")
        for stage, command in enumerate(commands[1:], 2):
            if isinstance(command.args[0], _CONSTANTS):
                self.fail(f"non executable command in pipeline stage {stage}")

    def command(self) -> n.CommandNode:
        """``command = operand { space operand }``."""
        first = self.peek_non_space()
        args: list[n.Node] = []
        while True:
            self.peek_non_space()
            operand = self.operand()
            if operand is not None:
                args.append(operand)
            token = self.next()
            if token.kind is Kind.SPACE:
                continue
            if token.kind in (Kind.RIGHT_DELIM, Kind.RIGHT_PAREN):
                self.backup()
            elif token.kind is not Kind.PIPE:
                self.unexpected(token, "operand")
            break
        if not args:
            self.fail("empty command")
        return n.CommandNode(first.pos, first.line, tuple(args))

    def operand(self) -> n.Node | None:
        """``operand = term { field }``."""
        node = self.term()
        if node is None:
            return None
        if self.peek().kind is not Kind.FIELD:
            return node
        first = self.peek()
        idents: list[str] = []
        while self.peek().kind is Kind.FIELD:
            idents.append(self.next().text[1:])
        if isinstance(node, n.FieldNode):
            return n.FieldNode(first.pos, first.line, (*node.idents, *idents))
        if isinstance(node, n.VariableNode):
            return n.VariableNode(first.pos, first.line, (*node.idents, *idents))
        if isinstance(node, _CONSTANTS):
            self.fail(f"unexpected . after term {quote(str(node))}")
        return n.ChainNode(first.pos, first.line, node, tuple(idents))

    def term(self) -> n.Node | None:
        """``term = literal | function | "." | field | variable | "(" pipeline ")"``."""
        token = self.next_non_space()
        make = self._TERMS.get(token.kind)
        if make is None:
            self.backup()
            return None
        return make(self, token)

    def identifier(self, token: Token) -> n.Node:
        """Return a function, which has to exist."""
        if token.text not in self.functions:
            self.fail(f'function "{token.text}" not defined')
        return n.IdentifierNode(token.pos, token.line, token.text)

    def variable(self, token: Token) -> n.Node:
        """Return a variable, which has to be in scope."""
        if token.text not in self.variables:
            self.fail(f'undefined variable "{token.text}"')
        return n.VariableNode(token.pos, token.line, (token.text,))

    def number(self, token: Token) -> n.Node:
        """Return a number or character constant."""
        try:
            if token.kind is Kind.CHAR_CONSTANT:
                rune = rune_of(token.text)
                return n.NumberNode(token.pos, token.line, token.text, rune, rune, float(rune), None)
            kinds = complex_kinds(token.text) if token.kind is Kind.COMPLEX else number_kinds(token.text)
        except ValueError as error:
            self.fail(str(error))
        return n.NumberNode(token.pos, token.line, token.text, *kinds)

    def parenthesized(self, _token: Token) -> n.Node:
        """``"(" pipeline ")"``."""
        self.parens += 1
        if self.parens > _MAX_PARENS:
            self.fail("max expression depth exceeded")
        pipe = self.pipeline("parenthesized pipeline", Kind.RIGHT_PAREN)
        self.parens -= 1
        return pipe

    def string(self, token: Token) -> n.Node:
        """Return a string, quoted or raw."""
        return n.StringNode(token.pos, token.line, token.text, self.unquoted(token))

    def unquoted(self, token: Token) -> str:
        """Return what a string token stands for."""
        try:
            return unquote(token.text)
        except ValueError as error:
            self.fail(str(error))

    _TERMS: Final[dict[Kind, Callable[[Expressions, Token], n.Node]]] = {
        Kind.IDENTIFIER: identifier,
        Kind.DOT: lambda _self, token: n.DotNode(token.pos, token.line),
        Kind.NIL: lambda _self, token: n.NilNode(token.pos, token.line),
        Kind.VARIABLE: variable,
        Kind.FIELD: lambda _self, token: n.FieldNode(token.pos, token.line, (token.text[1:],)),
        Kind.BOOL: lambda _self, token: n.BoolNode(token.pos, token.line, token.text == "true"),
        Kind.CHAR_CONSTANT: number,
        Kind.COMPLEX: number,
        Kind.NUMBER: number,
        Kind.LEFT_PAREN: parenthesized,
        Kind.STRING: string,
        Kind.RAW_STRING: string,
    }
