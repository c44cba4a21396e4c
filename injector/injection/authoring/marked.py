"""Render templates with the place in the template of each line, and the branches that ran.

A copy of the template prints a marker before each text and each value. The markers are taken out of the result. They contain a random
number, so that no value of a pod can forge one.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from injector.errors import TemplateRenderError
from injector.gotemplate import ParseError, compile_trees
from injector.gotemplate import nodes as n
from injector.istio.template import GoTextTemplate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.istio.behaviours import Minor
    from injector.istio.template import TemplateData


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the result, and the line of the template text that it comes from."""

    text: str
    template: str
    line: int


@dataclass(frozen=True, slots=True)
class Marked:
    """The rendered text, its lines with their places, and the ids of the lists of nodes that ran."""

    text: str
    lines: tuple[Line, ...]
    ran: frozenset[int]


class Marker:
    """Makes markers, and takes them out of a result. Each stands for a place: a template text and a line, or a list of nodes."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(8)
        self._places: list[tuple[str, int, bool]] = []
        self._lists: dict[int, int] = {}

    def place(self, template: str, line: int, *, is_text: bool) -> str:
        """Return the marker of a place. The lines of a text are lines of the template, those of a value are not."""
        self._places.append((template, line, is_text))
        return f"\x01{self._nonce}:{len(self._places) - 1}\x02"

    def branch(self, identity: int) -> str:
        """Return the marker of a list of nodes."""
        marker = self.place("", 0, is_text=False)
        self._lists[len(self._places) - 1] = identity
        return marker

    def read(self, text: str) -> Marked:
        """Return a result without its markers."""
        lines: list[Line] = []
        ran: set[int] = set()
        current, start = "", ("", 0)
        pieces = re.split(f"\x01{self._nonce}:([0-9]+)\x02", text)
        found = [pieces[0]]
        for index, piece in zip(map(int, pieces[1::2]), pieces[2::2], strict=True):
            found.append(piece)
            if index in self._lists:
                ran.add(self._lists[index])
                continue
            template, line, is_text = self._places[index]
            for number, part in enumerate(piece.split("\n")):
                if number:
                    lines.append(Line(current, *start))
                    current = ""
                here = (template, line + number if is_text else line)
                start = here if not current.strip() and (part.strip() or not current) else start
                current += part
        if current:
            lines.append(Line(current, *start))
        return Marked("".join(found), tuple(lines), frozenset(ran))


def mark_go(trees: Mapping[str, n.Tree], name: str, functions: Mapping[str, Any]) -> Callable[[TemplateData], Marked]:
    """Prepare a Go template for rendering, and return the function that renders. It raises a TemplateRenderError if the template fails.

    Raises:
        ParseError: the template nests too deeply.
    """
    marker = Marker()
    try:
        marked = {
            key: replace(tree, root=_marked_list(tree.root, tree.parse_name, marker)) for key, tree in trees.items()
        }
        template = GoTextTemplate(compile_trees(name, marked, funcs=functions))
    except RecursionError as error:
        raise ParseError(name, 1, "template nests too deeply") from error
    return lambda data: marker.read(template.render(data))


def _marked_list(node: n.ListNode, text: str, marker: Marker) -> n.ListNode:
    nodes: list[n.Node] = [n.TextNode(node.pos, node.line, marker.branch(id(node)))]
    for each in node.nodes:
        if isinstance(each, n.TextNode | n.ActionNode):
            place = marker.place(text, each.line, is_text=isinstance(each, n.TextNode))
            nodes.append(n.TextNode(each.pos, each.line, place))
        if isinstance(each, n.BranchNode):
            otherwise = None if each.else_body is None else _marked_list(each.else_body, text, marker)
            nodes.append(replace(each, body=_marked_list(each.body, text, marker), else_body=otherwise))
        else:
            nodes.append(each)
    return replace(node, nodes=tuple(nodes))


@dataclass(frozen=True, slots=True)
class JinjaBranches:
    """The parsed template ``name``, the ids of the branches that can be told to have run, and the function that renders."""

    tree: Any
    skippable: frozenset[int]
    render: Callable[[TemplateData], Marked]


def mark_jinja(texts: Mapping[str, str], name: str, minor: Minor) -> JinjaBranches:
    """Prepare a Jinja2 template for rendering. Texts of macros and blocks have the place of the expression that prints them.

    Raises:
        TemplateRenderError: the template does not parse.
    """
    from jinja2 import nodes  # noqa: PLC0415 -- only revisions that use Jinja2 load it

    from injector.istio.jinja.engine import JinjaTemplate, environment_of, parse_jinja  # noqa: PLC0415

    marker, environment = Marker(), environment_of(texts)
    skippable: set[int] = set()

    def mark(body: list[Any]) -> None:
        for node in body:
            if isinstance(node, nodes.Output):
                node.nodes = [
                    part
                    for each in node.nodes
                    for part in (
                        nodes.TemplateData(
                            marker.place(name, each.lineno, is_text=isinstance(each, nodes.TemplateData)),
                            lineno=each.lineno,
                        ),
                        each,
                    )
                ]
            elif isinstance(node, nodes.If | nodes.For):
                for part in (node, *getattr(node, "elif_", ())):
                    for inner in filter(None, (part.body, part.else_)):
                        mark(inner)
                        skippable.add(id(inner[0]))
                        text = nodes.TemplateData(marker.branch(id(inner[0])), lineno=node.lineno)
                        inner.insert(0, nodes.Output([text], lineno=node.lineno))

    tree = parse_jinja(environment, name, texts[name])
    try:
        mark(tree.body)
        environment.compile(tree, name)
        template = JinjaTemplate(name, environment.load(name), minor)
    except Exception as error:
        # Python has limits of its own, such as for nested blocks.
        raise TemplateRenderError(str(error), where=f"template {name}", hint="correct the template") from error
    return JinjaBranches(tree, frozenset(skippable), lambda data: marker.read(template.render(data)))
