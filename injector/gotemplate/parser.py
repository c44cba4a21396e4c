"""Tokens into a tree: Go's text/template/parse parser (parse.go, Go 1.26), one method per production.

::

    template   = { text | action }
    action     = "{{" ( control | pipeline ) "}}"
    control    = ("if" | "range" | "with") pipeline "}}" list [ "{{else" ... ] "{{end}}" | "define" ... | "block" ... | ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from injector.gotemplate import nodes as n
from injector.gotemplate.errors import ParseError
from injector.gotemplate.lexer import Kind, Token, tokens
from injector.gotemplate.numbers import complex_kinds, number_kinds, rune_of
from injector.gotemplate.text import quote, unquote

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
_EMPTY: Final = Token(Kind.EOF, 0, "", 0)


# Parentheses nest on Python's stack as they do on Go's; Go's parser stops at 10,000, this one long before the stack does.
_MAX_PARENS: Final = 100
_MAX_BLOCKS: Final = 150


def parse(name: str, text: str, *, functions: Container[str], left: str = "{{", right: str = "}}") -> dict[str, n.Tree]:
    """Parse a template text.

    Args:
        name: the template's name; definitions inside have their own.
        text: the source.
        functions: names that may be called.
        left: the opening delimiter.
        right: the closing delimiter.

    Returns:
        The trees by name, ``name`` among them unless it is empty and another definition of it stands.

    Raises:
        ParseError: with Go's text.
    """
    return _Parser(name, text, functions, left, right).parse()


class _Parser:
    """The parser's state: lookahead, the variables in scope, the trees found."""

    def __init__(self, name: str, text: str, functions: Container[str], left: str, right: str) -> None:
        self.name = name
        self.text = text
        self.functions = functions
        self.lexer: Iterator[Token] = tokens(text, left, right)
        self.token = [_EMPTY, _EMPTY, _EMPTY]
        self.peek_count = 0
        self.variables = ["$"]
        self.range_depth = 0
        self.parens = 0
        self.blocks = 0
        self.action_line = 0
        self.trees: dict[str, n.Tree] = {}

    # --- tokens, as Go's three-token buffer

    def fetch(self) -> Token:
        return next(self.lexer, self.token[0])

    def next(self) -> Token:
        if self.peek_count > 0:
            self.peek_count -= 1
        else:
            self.token[0] = self.fetch()
        return self.token[self.peek_count]

    def backup(self) -> None:
        self.peek_count += 1

    def backup2(self, first: Token) -> None:
        self.token[1] = first
        self.peek_count = 2

    def backup3(self, second: Token, first: Token) -> None:
        self.token[1], self.token[2] = first, second
        self.peek_count = 3

    def peek(self) -> Token:
        if self.peek_count > 0:
            return self.token[self.peek_count - 1]
        self.peek_count = 1
        self.token[0] = self.fetch()
        return self.token[0]

    def next_non_space(self) -> Token:
        token = self.next()
        while token.kind is Kind.SPACE:
            token = self.next()
        return token

    def peek_non_space(self) -> Token:
        token = self.next_non_space()
        self.backup()
        return token

    # --- errors

    def fail(self, reason: str) -> NoReturn:
        raise ParseError(self.name, self.token[0].line, reason)

    def unexpected(self, token: Token, context: str) -> NoReturn:
        if token.kind is Kind.ERROR:
            extra = ""
            if self.action_line not in (0, token.line):
                extra = f" in action started at {self.name}:{self.action_line}"
                if token.text.endswith(" action"):
                    extra = extra.removeprefix(" in action")
            self.fail(f"{token}{extra}")
        self.fail(f"unexpected {token} in {context}")

    def expect(self, kind: Kind, context: str) -> Token:
        token = self.next_non_space()
        if token.kind is not kind:
            self.unexpected(token, context)
        return token

    # --- templates

    def parse(self) -> dict[str, n.Tree]:
        """Template = { define | text | action }."""
        found: list[n.Node] = []
        first = self.peek()
        while self.peek().kind is not Kind.EOF:
            if self.peek().kind is Kind.LEFT_DELIM:
                delim = self.next()
                if self.next_non_space().kind is Kind.DEFINE:
                    self.definition()
                    continue
                self.backup2(delim)
            node = self.text_or_action()
            if isinstance(node, n.EndNode | n.ElseNode):
                self.fail(f"unexpected {node}")
            found.append(node)
        self.add(self.name, n.ListNode(first.pos, first.line, tuple(found)))
        return self.trees

    def add(self, name: str, root: n.ListNode) -> None:
        tree = n.Tree(name, self.name, root, self.text)
        known = self.trees.get(name)
        if known is None or known.is_empty():
            self.trees[name] = tree
        elif not tree.is_empty():
            self.fail(f'template: multiple definition of template "{name}"')

    def definition(self) -> None:
        """Define = "define" string "}}" list "{{end}}"."""
        context = "define clause"
        token = self.next_non_space()
        if token.kind not in (Kind.STRING, Kind.RAW_STRING):
            self.unexpected(token, context)
        name = self.unquoted(token)
        self.expect(Kind.RIGHT_DELIM, context)
        outer, self.variables = self.variables, ["$"]
        depth, self.range_depth = self.range_depth, 0
        body, end = self.item_list()
        if not isinstance(end, n.EndNode):
            self.fail(f"unexpected {end} in {context}")
        self.variables, self.range_depth = outer, depth
        self.add(name, body)

    def item_list(self) -> tuple[n.ListNode, n.Node]:
        """List = { text | action }, up to else or end, which is returned too."""
        first = self.peek_non_space()
        found: list[n.Node] = []
        self.blocks += 1
        if self.blocks > _MAX_BLOCKS:
            self.fail("blocks nest too deeply")
        while self.peek_non_space().kind is not Kind.EOF:
            node = self.text_or_action()
            if isinstance(node, n.EndNode | n.ElseNode):
                self.blocks -= 1
                return n.ListNode(first.pos, first.line, tuple(found)), node
            found.append(node)
        self.fail("unexpected EOF")

    def text_or_action(self) -> n.Node:
        """Either text or the inside of ``{{ }}``."""
        token = self.next_non_space()
        if token.kind is Kind.TEXT:
            return n.TextNode(token.pos, token.line, token.text)
        if token.kind is Kind.LEFT_DELIM:
            self.action_line = token.line
            node = self.action()
            self.action_line = 0
            return node
        self.unexpected(token, "input")

    def action(self) -> n.Node:
        """Action = control | pipeline, after ``{{``."""
        token = self.next_non_space()
        control = self._CONTROLS.get(token.kind)
        if control is not None:
            return control(self, token)
        self.backup()
        token = self.peek()
        return n.ActionNode(token.pos, token.line, self.pipeline("command", Kind.RIGHT_DELIM))

    def break_control(self, token: Token) -> n.Node:
        return self.loop_control(token, "break", n.BreakNode)

    def continue_control(self, token: Token) -> n.Node:
        return self.loop_control(token, "continue", n.ContinueNode)

    def loop_control(self, token: Token, name: str, make: type[n.BreakNode | n.ContinueNode]) -> n.Node:
        following = self.next_non_space()
        if following.kind is not Kind.RIGHT_DELIM:
            self.unexpected(following, f"{{{{{name}}}}}")
        if self.range_depth == 0:
            self.fail(f"{{{{{name}}}}} outside {{{{range}}}}")
        return make(token.pos, token.line)

    def if_control(self, _token: Token) -> n.Node:
        return self.control(n.IfNode, Kind.IF)

    def with_control(self, _token: Token) -> n.Node:
        return self.control(n.WithNode, Kind.WITH)

    def range_control(self, _token: Token) -> n.Node:
        return self.control(n.RangeNode, None)

    def control(self, make: type[n.Branch], chained: Kind | None) -> n.Branch:
        """Branch = keyword pipeline "}}" list [ "{{else}}" list | "{{else" branch ] "{{end}}"."""
        mark = len(self.variables)
        pipe = self.pipeline(make.keyword, Kind.RIGHT_DELIM)
        self.range_depth += make is n.RangeNode
        body, end = self.item_list()
        self.range_depth -= make is n.RangeNode
        otherwise: n.ListNode | None = None
        if isinstance(end, n.ElseNode):
            otherwise = self.else_branch(make, chained, end)
        del self.variables[mark:]
        return make(pipe.pos, pipe.line, pipe, body, otherwise)

    def else_branch(self, make: type[n.Branch], chained: Kind | None, start: n.Node) -> n.ListNode:
        if chained is not None and self.peek().kind is chained:
            self.next()
            self.blocks += 1
            if self.blocks > _MAX_BLOCKS:
                self.fail("blocks nest too deeply")
            inner = self.control(make, chained)
            self.blocks -= 1
            return n.ListNode(start.pos, start.line, (inner,))
        body, end = self.item_list()
        if not isinstance(end, n.EndNode):
            self.fail(f"expected end; found {end}")
        return body

    def else_control(self, _token: Token) -> n.Node:
        peeked = self.peek_non_space()
        if peeked.kind in (Kind.IF, Kind.WITH):
            return n.ElseNode(peeked.pos, peeked.line)
        token = self.expect(Kind.RIGHT_DELIM, "else")
        return n.ElseNode(token.pos, token.line)

    def end_control(self, _token: Token) -> n.Node:
        token = self.expect(Kind.RIGHT_DELIM, "end")
        return n.EndNode(token.pos, token.line)

    def block_control(self, _token: Token) -> n.Node:
        """Block = "block" string pipeline "}}" list "{{end}}": a definition and its call."""
        context = "block clause"
        token = self.next_non_space()
        name = self.template_name(token, context)
        pipe = self.pipeline(context, Kind.RIGHT_DELIM)
        outer, self.variables = self.variables, ["$"]
        depth, self.range_depth = self.range_depth, 0
        body, end = self.item_list()
        if not isinstance(end, n.EndNode):
            self.fail(f"unexpected {end} in {context}")
        self.variables, self.range_depth = outer, depth
        self.add(name, body)
        return n.TemplateNode(token.pos, token.line, name, pipe)

    def template_control(self, _token: Token) -> n.Node:
        """Template = "template" string [ pipeline ] "}}"."""
        context = "template clause"
        token = self.next_non_space()
        name = self.template_name(token, context)
        pipe = None
        if self.next_non_space().kind is not Kind.RIGHT_DELIM:
            self.backup()
            pipe = self.pipeline(context, Kind.RIGHT_DELIM)
        return n.TemplateNode(token.pos, token.line, name, pipe)

    def template_name(self, token: Token, context: str) -> str:
        if token.kind not in (Kind.STRING, Kind.RAW_STRING):
            self.unexpected(token, context)
        return self.unquoted(token)

    def unquoted(self, token: Token) -> str:
        try:
            return unquote(token.text)
        except ValueError as error:
            self.fail(str(error))

    # --- pipelines

    def pipeline(self, context: str, end: Kind) -> n.PipeNode:
        """Pipeline = [ variable [ "," variable ] ( ":=" | "=" ) ] command { "|" command }."""
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
        decl.append(n.VariableNode(token.pos, token.line, (token.text,)))
        self.variables.append(token.text)

    def expect_second(self, context: str, decl: list[n.VariableNode]) -> None:
        if context != "range" or len(decl) > 1:
            self.fail(f"too many declarations in {context}")
        if self.peek_non_space().kind not in (Kind.VARIABLE, Kind.RIGHT_DELIM, Kind.RIGHT_PAREN):
            self.fail("range can only initialize variables")

    def check(self, commands: list[n.CommandNode], context: str) -> None:
        if not commands:
            self.fail(f"missing value for {context}")
        for stage, command in enumerate(commands[1:], 2):
            if isinstance(command.args[0], _CONSTANTS):
                self.fail(f"non executable command in pipeline stage {stage}")

    def command(self) -> n.CommandNode:
        """Command = operand { space operand }."""
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
        """Operand = term { field }."""
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
        """Term = literal | function | "." | field | variable | "(" pipeline ")"."""
        token = self.next_non_space()
        make = self._TERMS.get(token.kind)
        if make is None:
            self.backup()
            return None
        return make(self, token)

    def identifier(self, token: Token) -> n.Node:
        if token.text not in self.functions:
            self.fail(f'function "{token.text}" not defined')
        return n.IdentifierNode(token.pos, token.line, token.text)

    def variable(self, token: Token) -> n.Node:
        if token.text not in self.variables:
            self.fail(f'undefined variable "{token.text}"')
        return n.VariableNode(token.pos, token.line, (token.text,))

    def number(self, token: Token) -> n.Node:
        try:
            if token.kind is Kind.CHAR_CONSTANT:
                rune = rune_of(token.text)
                return n.NumberNode(token.pos, token.line, token.text, rune, rune, float(rune), None)
            kinds = complex_kinds(token.text) if token.kind is Kind.COMPLEX else number_kinds(token.text)
        except ValueError as error:
            self.fail(str(error))
        return n.NumberNode(token.pos, token.line, token.text, *kinds)

    def parenthesized(self, _token: Token) -> n.Node:
        self.parens += 1
        if self.parens > _MAX_PARENS:
            self.fail("max expression depth exceeded")
        pipe = self.pipeline("parenthesized pipeline", Kind.RIGHT_PAREN)
        self.parens -= 1
        return pipe

    def string(self, token: Token) -> n.Node:
        return n.StringNode(token.pos, token.line, token.text, self.unquoted(token))

    _CONTROLS: Final[dict[Kind, Callable[[_Parser, Token], n.Node]]] = {
        Kind.BLOCK: block_control,
        Kind.BREAK: break_control,
        Kind.CONTINUE: continue_control,
        Kind.ELSE: else_control,
        Kind.END: end_control,
        Kind.IF: if_control,
        Kind.RANGE: range_control,
        Kind.TEMPLATE: template_control,
        Kind.WITH: with_control,
    }
    _TERMS: Final[dict[Kind, Callable[[_Parser, Token], n.Node]]] = {
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
