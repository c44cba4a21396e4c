"""Tokens into a tree: Go's text/template/parse parser (parse.go, Go 1.26), one method per production.

::

    pipeline = [ variable [ "," variable ] ( ":=" | "=" ) ] command { "|" command }
    command  = operand { space operand }
    operand  = term { field }
    term     = literal | function | "." | field | variable | "(" pipeline ")"

::

    template   = { text | action }
    action     = "{{" ( control | pipeline ) "}}"
    control    = ("if" | "range" | "with") pipeline "}}" list [ "{{else" ... ] "{{end}}" | "define" ... | "block" ... | ...
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from injector.golang.strconv import quote, unquote
from injector.gotemplate import nodes as n
from injector.gotemplate.errors import ParseError
from injector.gotemplate.lexer import Kind, Token, tokens

_CONSTANTS: Final = (n.BoolNode, n.DotNode, n.NilNode, n.NumberNode, n.StringNode)
# Parentheses nest on Python's stack as they do on Go's; Go's parser stops at 10,000, this one long before the stack does.
_MAX_PARENS: Final = 60

# Blocks nest on Python's stack and in the indentation of the compiled template; Go has no limit.
_MAX_BLOCKS: Final = 60
_BRANCHES: Final[dict[Kind, type[n.Branch]]] = {Kind.IF: n.IfNode, Kind.RANGE: n.RangeNode, Kind.WITH: n.WithNode}


class Parser:
    """Parses a template text, with lookahead; knows the functions and the variables in scope, and keeps the trees that are complete.

    Spaces are tokens, so that deciding whether a variable is declared takes three of them: the variable, the space, what follows.
    """

    def __init__(self, name: str, text: str, functions: Container[str], left: str = "{{", right: str = "}}") -> None:
        self.name = name
        self.text = text
        self.lexer = tokens(text, left, right, words=functions)
        self.functions = functions
        self.variables = ["$"]
        self.parens = 0
        self.latest = Token(Kind.EOF, 0, "", 0)
        self.waiting: list[Token] = []
        self.action_line = 0
        self.range_depth = 0
        self.blocks = 0
        self.trees: dict[str, n.Tree] = {}

    def next(self) -> Token:
        """Take the next token; at the end, always the last one."""
        if self.waiting:
            return self.waiting.pop()
        self.latest = next(self.lexer, self.latest)
        return self.latest

    def backup(self, *tokens: Token) -> None:
        """Put tokens back, the one to take next first."""
        self.waiting += reversed(tokens)

    def peek(self) -> Token:
        """Return the next token without taking it."""
        token = self.next()
        self.backup(token)
        return token

    def next_non_space(self) -> Token:
        """Take the next token that is not a space."""
        token = self.next()
        while token.kind is Kind.SPACE:
            token = self.next()
        return token

    def peek_non_space(self) -> Token:
        """Skip spaces and return the next token without taking it."""
        token = self.next_non_space()
        self.backup(token)
        return token

    def fail(self, reason: str) -> NoReturn:
        """Raise an error at the line of the token that the lexer gave last."""
        raise ParseError(self.name, self.latest.line, reason)

    def fail_unexpected(self, token: Token, context: str) -> NoReturn:
        """Raise the error of a token that does not belong here, or of a text that is not a token."""
        if token.kind is Kind.ERROR:
            extra = ""
            if self.action_line not in (0, token.line):
                extra = f" in action started at {self.name}:{self.action_line}"
                if token.text.endswith(" action"):
                    extra = extra.removeprefix(" in action")
            self.fail(f"{token}{extra}")
        self.fail(f"unexpected {token} in {context}")

    def expect(self, kind: Kind, context: str) -> Token:
        """Take the next token that is not a space; it must be of a kind."""
        token = self.next_non_space()
        if token.kind is not kind:
            self.fail_unexpected(token, context)
        return token

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
            if token.kind not in self._TERMS:
                self.fail_unexpected(token, context)
            self.backup(token)
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
            following = self.next_non_space()
            if following.kind in (Kind.ASSIGN, Kind.DECLARE):
                self.declare(decl, variable)
                return decl, following.kind is Kind.ASSIGN
            if following.kind is Kind.CHAR and following.text == ",":
                self.declare(decl, variable)
                self.expect_second(context, decl)
                continue
            self.backup(variable, *([after] if after.kind is Kind.SPACE else []), following)
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
                self.backup(token)
            elif token.kind is not Kind.PIPE:
                self.fail_unexpected(token, "operand")
            break
        if not args:
            self.fail("empty command")
        return n.CommandNode(first.pos, first.line, tuple(args))

    def operand(self) -> n.Node | None:
        """``operand = term { field }``."""
        node = self.term()
        if node is None:
            return None
        first = self.peek()
        idents: list[str] = []
        while self.peek().kind is Kind.FIELD:
            idents.append(self.next().text[1:])
        if not idents:
            return node
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
            self.backup(token)
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
                rune = n.rune_of(token.text)
                return n.NumberNode(token.pos, token.line, token.text, rune, rune, float(rune), None)
            kinds = n.complex_kinds(token.text) if token.kind is Kind.COMPLEX else n.number_kinds(token.text)
        except ValueError as error:
            self.fail(str(error))
        return n.NumberNode(token.pos, token.line, token.text, *kinds)

    def parse_parenthesized(self, _token: Token) -> n.Node:
        """``"(" pipeline ")"``."""
        self.parens += 1
        if self.parens > _MAX_PARENS:
            self.fail("max expression depth exceeded")
        pipe = self.pipeline("parenthesized pipeline", Kind.RIGHT_PAREN)
        self.parens -= 1
        return pipe

    def string(self, token: Token) -> n.Node:
        """Return a string, quoted or raw."""
        return n.StringNode(token.pos, token.line, token.text, self.unquote_token(token))

    def unquote_token(self, token: Token) -> str:
        """Return the value of a string token."""
        try:
            return unquote(token.text)
        except ValueError as error:
            self.fail(str(error))

    _TERMS: Final[dict[Kind, Callable[[Parser, Token], n.Node]]] = {
        Kind.IDENTIFIER: identifier,
        Kind.DOT: lambda _self, token: n.DotNode(token.pos, token.line),
        Kind.NIL: lambda _self, token: n.NilNode(token.pos, token.line),
        Kind.VARIABLE: variable,
        Kind.FIELD: lambda _self, token: n.FieldNode(token.pos, token.line, (token.text[1:],)),
        Kind.BOOL: lambda _self, token: n.BoolNode(token.pos, token.line, token.text == "true"),
        Kind.CHAR_CONSTANT: number,
        Kind.COMPLEX: number,
        Kind.NUMBER: number,
        Kind.LEFT_PAREN: parse_parenthesized,
        Kind.STRING: string,
        Kind.RAW_STRING: string,
    }

    def parse(self) -> dict[str, n.Tree]:
        """``template = { define | text | action }``."""
        nodes: list[n.Node] = []
        first = self.peek()
        while self.peek().kind is not Kind.EOF:
            if self.peek().kind is Kind.LEFT_DELIM:
                delim, token = self.next(), self.next_non_space()
                if token.kind is Kind.DEFINE:
                    self.definition()
                    continue
                self.backup(delim, token)
            node = self.text_or_action()
            if isinstance(node, n.EndNode | n.ElseNode):
                self.fail(f"unexpected {node}")
            nodes.append(node)
        self.add(self.name, n.ListNode(first.pos, first.line, tuple(nodes)))
        return self.trees

    def add(self, name: str, root: n.ListNode) -> None:
        """Keep a tree, unless it is empty and another of its name is known."""
        tree = n.Tree(name, self.name, root, self.text)
        known = self.trees.get(name)
        if known is None or known.is_empty():
            self.trees[name] = tree
        elif not tree.is_empty():
            self.fail(f"template: multiple definition of template {quote(name)}")

    def definition(self) -> None:
        """``define = "define" string "}}" list "{{end}}"``."""
        context = "define clause"
        name = self.template_name(context)
        self.expect(Kind.RIGHT_DELIM, context)
        with self.own_scope():
            body, end = self.item_list()
            if not isinstance(end, n.EndNode):
                self.fail(f"unexpected {end} in {context}")
            self.add(name, body)

    @contextmanager
    def own_scope(self) -> Iterator[None]:
        """Parse a template inside another: it sees neither its variables nor its loops."""
        outer = self.variables, self.range_depth, self.action_line, self.parens
        self.variables, self.range_depth, self.action_line, self.parens = ["$"], 0, 0, 0
        yield
        self.variables, self.range_depth, self.action_line, self.parens = outer

    def item_list(self) -> tuple[n.ListNode, n.Node]:
        """``list = { text | action }``, up to ``else`` or ``end``, which is returned too."""
        first = self.peek_non_space()
        nodes: list[n.Node] = []
        self.blocks += 1
        if self.blocks > _MAX_BLOCKS:
            self.fail("blocks nest too deeply")
        while self.peek_non_space().kind is not Kind.EOF:
            node = self.text_or_action()
            if isinstance(node, n.EndNode | n.ElseNode):
                self.blocks -= 1
                return n.ListNode(first.pos, first.line, tuple(nodes)), node
            nodes.append(node)
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
        self.fail_unexpected(token, "input")

    def action(self) -> n.Node:
        """``action = control | pipeline``, after the delimiter."""
        token = self.next_non_space()
        control = self._CONTROLS.get(token.kind)
        if control is not None:
            return control(self, token)
        self.backup(token)
        return n.ActionNode(token.pos, token.line, self.pipeline("command", Kind.RIGHT_DELIM))

    def loop_control(self, token: Token) -> n.Node:
        """``( "break" | "continue" ) "}}"``, inside a loop."""
        node = (n.BreakNode if token.kind is Kind.BREAK else n.ContinueNode)(token.pos, token.line)
        self.expect(Kind.RIGHT_DELIM, str(node))
        if self.range_depth == 0:
            self.fail(f"{node} outside {{{{range}}}}")
        return node

    def branch(self, token: Token) -> n.Branch:
        """``branch = ("if" | "with" | "range") pipeline "}}" list { "{{else" same pipeline "}}" list } [ "{{else}}" list ] "{{end}}"``.

        Each further link becomes the ``else`` of the one before it, as if it were written out. A range has no further links.
        """
        make = _BRANCHES[token.kind]
        known = len(self.variables)
        links = [self.link(make)]
        while isinstance(links[-1][2], n.ElseNode) and make is not n.RangeNode and self.peek().kind is token.kind:
            self.next()
            links.append(self.link(make))
        *outer, (pipe, body, end) = links
        otherwise = self.else_list() if isinstance(end, n.ElseNode) else None
        del self.variables[known:]
        node = make(pipe.pos, pipe.line, pipe, body, otherwise)
        for pipe, body, end in reversed(outer):
            node = make(pipe.pos, pipe.line, pipe, body, n.ListNode(end.pos, end.line, (node,)))
        return node

    def link(self, make: type[n.Branch]) -> tuple[n.PipeNode, n.ListNode, n.Node]:
        """Return a condition, its list, and the ``else`` or ``end`` behind it."""
        pipe = self.pipeline(make.keyword, Kind.RIGHT_DELIM)
        self.range_depth += make is n.RangeNode
        body, end = self.item_list()
        self.range_depth -= make is n.RangeNode
        return pipe, body, end

    def else_list(self) -> n.ListNode:
        """Return the list of a plain ``else``."""
        body, end = self.item_list()
        if not isinstance(end, n.EndNode):
            self.fail(f"expected end; found {end}")
        return body

    def else_control(self, _token: Token) -> n.Node:
        """``else = "else" ( "}}" | "if" | "with" )``; the branch reads what follows ``else``."""
        peeked = self.peek_non_space()
        if peeked.kind in (Kind.IF, Kind.WITH):
            return n.ElseNode(peeked.pos, peeked.line)
        token = self.expect(Kind.RIGHT_DELIM, "else")
        return n.ElseNode(token.pos, token.line)

    def end_control(self, _token: Token) -> n.Node:
        """``end = "end" "}}"``."""
        token = self.expect(Kind.RIGHT_DELIM, "end")
        return n.EndNode(token.pos, token.line)

    def block_control(self, _token: Token) -> n.Node:
        """``block = "block" string pipeline "}}" list "{{end}}"``: a definition and its call."""
        context = "block clause"
        token = self.peek_non_space()
        name = self.template_name(context)
        pipe = self.pipeline(context, Kind.RIGHT_DELIM)
        line = self.latest.line
        with self.own_scope():
            body, end = self.item_list()
            if not isinstance(end, n.EndNode):
                # Go reports the line of the parser around the block, which has not read further.
                raise ParseError(self.name, line, f"unexpected {end} in {context}")
            self.add(name, body)
        return n.TemplateNode(token.pos, token.line, name, pipe)

    def template_control(self, _token: Token) -> n.Node:
        """``template = "template" string [ pipeline ] "}}"``."""
        context = "template clause"
        token = self.peek_non_space()
        name = self.template_name(context)
        if self.peek_non_space().kind is Kind.RIGHT_DELIM:
            self.next()
            return n.TemplateNode(token.pos, token.line, name, None)
        return n.TemplateNode(token.pos, token.line, name, self.pipeline(context, Kind.RIGHT_DELIM))

    def template_name(self, context: str) -> str:
        """Return the name of a template: a string."""
        token = self.next_non_space()
        if token.kind not in (Kind.STRING, Kind.RAW_STRING):
            self.fail_unexpected(token, context)
        return self.unquote_token(token)

    _CONTROLS: Final[dict[Kind, Callable[[Parser, Token], n.Node]]] = {
        Kind.BLOCK: block_control,
        Kind.BREAK: loop_control,
        Kind.CONTINUE: loop_control,
        Kind.ELSE: else_control,
        Kind.END: end_control,
        Kind.IF: branch,
        Kind.RANGE: branch,
        Kind.TEMPLATE: template_control,
        Kind.WITH: branch,
    }


def parse_template(
    name: str, text: str, *, functions: Container[str], left: str = "{{", right: str = "}}"
) -> dict[str, n.Tree]:
    """Return the trees of a template text by name. Raises ParseError with Go's text.

    ``name`` is among them unless it is empty and another definition of it stands. ``functions`` are the names that may be called.
    """
    return Parser(name, text, functions, left, right).parse()
