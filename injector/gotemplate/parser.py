"""Tokens into a tree: Go's text/template/parse parser (parse.go, Go 1.26), one method per production.

::

    template   = { text | action }
    action     = "{{" ( control | pipeline ) "}}"
    control    = ("if" | "range" | "with") pipeline "}}" list [ "{{else" ... ] "{{end}}" | "define" ... | "block" ... | ...
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from injector.gotemplate import nodes as n
from injector.gotemplate.errors import ParseError
from injector.gotemplate.expressions import Expressions
from injector.gotemplate.lexer import tokens
from injector.gotemplate.text import quote
from injector.gotemplate.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

# Blocks nest on Python's stack and in the indentation of the compiled template; Go has no limit.
_MAX_BLOCKS: Final = 60


@dataclass(frozen=True, slots=True)
class _Link:
    """A condition with its list, and the ``else`` or ``end`` behind it."""

    pipe: n.PipeNode
    body: n.ListNode
    end: n.Node


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


class _Parser(Expressions):
    """Parses actions; keeps the trees that are complete."""

    def __init__(self, name: str, text: str, functions: Container[str], left: str, right: str) -> None:
        super().__init__(name, tokens(text, left, right, words=functions), functions)
        self.text = text
        self.range_depth = 0
        self.blocks = 0
        self.trees: dict[str, n.Tree] = {}

    def parse(self) -> dict[str, n.Tree]:
        """``template = { define | text | action }``."""
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
        """``action = control | pipeline``, after the delimiter."""
        token = self.next_non_space()
        control = self._CONTROLS.get(token.kind)
        if control is not None:
            return control(self, token)
        self.backup()
        token = self.peek()
        return n.ActionNode(token.pos, token.line, self.pipeline("command", Kind.RIGHT_DELIM))

    def break_control(self, token: Token) -> n.Node:
        """``break = "break" "}}"``."""
        return self.loop_control(token, "break", n.BreakNode)

    def continue_control(self, token: Token) -> n.Node:
        """``continue = "continue" "}}"``."""
        return self.loop_control(token, "continue", n.ContinueNode)

    def loop_control(self, token: Token, name: str, make: type[n.BreakNode | n.ContinueNode]) -> n.Node:
        """Return what leaves a round of a loop, which has to be around it."""
        following = self.next_non_space()
        if following.kind is not Kind.RIGHT_DELIM:
            self.unexpected(following, f"{{{{{name}}}}}")
        if self.range_depth == 0:
            self.fail(f"{{{{{name}}}}} outside {{{{range}}}}")
        return make(token.pos, token.line)

    def if_control(self, _token: Token) -> n.Node:
        """``if = "if" branch``."""
        return self.control(n.IfNode, Kind.IF)

    def with_control(self, _token: Token) -> n.Node:
        """``with = "with" branch``."""
        return self.control(n.WithNode, Kind.WITH)

    def range_control(self, _token: Token) -> n.Node:
        """``range = "range" branch``."""
        return self.control(n.RangeNode, None)

    def control(self, make: type[n.Branch], chained: Kind | None) -> n.Branch:
        """``branch = pipeline "}}" list { "{{else" chained pipeline "}}" list } [ "{{else}}" list ] "{{end}}"``.

        Each further link becomes the ``else`` of the one before it, as if it were written out.
        """
        known = len(self.variables)
        links = [self.link(make)]
        while isinstance(links[-1].end, n.ElseNode) and chained is not None and self.peek().kind is chained:
            self.next()
            links.append(self.link(make))
        otherwise = self.else_list() if isinstance(links[-1].end, n.ElseNode) else None
        del self.variables[known:]
        *outer, last = links
        node = make(last.pipe.pos, last.pipe.line, last.pipe, last.body, otherwise)
        for link in reversed(outer):
            otherwise = n.ListNode(link.end.pos, link.end.line, (node,))
            node = make(link.pipe.pos, link.pipe.line, link.pipe, link.body, otherwise)
        return node

    def link(self, make: type[n.Branch]) -> _Link:
        """Return a pipeline, the list that it guards, and what ended that."""
        pipe = self.pipeline(make.keyword, Kind.RIGHT_DELIM)
        self.range_depth += make is n.RangeNode
        body, end = self.item_list()
        self.range_depth -= make is n.RangeNode
        return _Link(pipe, body, end)

    def else_list(self) -> n.ListNode:
        """Return the list of a plain ``else``."""
        body, end = self.item_list()
        if not isinstance(end, n.EndNode):
            self.fail(f"expected end; found {end}")
        return body

    def else_control(self, _token: Token) -> n.Node:
        """``else = "else" ( "}}" | "if" | "with" )``; what follows ``else`` on its line is left for the branch to read."""
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
        line = self.token[0].line
        with self.own_scope():
            body, end = self.item_list()
            if not isinstance(end, n.EndNode):
                # Go's parser of the block has read on; the one around it, which complains, has not.
                raise ParseError(self.name, line, f"unexpected {end} in {context}")
            self.add(name, body)
        return n.TemplateNode(token.pos, token.line, name, pipe)

    def template_control(self, _token: Token) -> n.Node:
        """``template = "template" string [ pipeline ] "}}"``."""
        context = "template clause"
        token = self.peek_non_space()
        name = self.template_name(context)
        pipe = None
        if self.next_non_space().kind is not Kind.RIGHT_DELIM:
            self.backup()
            pipe = self.pipeline(context, Kind.RIGHT_DELIM)
        return n.TemplateNode(token.pos, token.line, name, pipe)

    def template_name(self, context: str) -> str:
        """Return the name of a template: a string."""
        token = self.next_non_space()
        if token.kind not in (Kind.STRING, Kind.RAW_STRING):
            self.unexpected(token, context)
        return self.unquoted(token)

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
