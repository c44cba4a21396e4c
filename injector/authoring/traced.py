"""One template of a revision: rendered for a pod with the place of each line, and followed for what it reads.

To find the places and the branches that run, a copy of the template prints a marker before each text and each value. The markers are taken
out of the result. They contain a random number, so that no value of a pod can forge one.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from injector.authoring import goflow
from injector.authoring.model import Model, Read, is_gateway
from injector.errors import TemplateRenderError
from injector.gotemplate import ParseError, compile_trees
from injector.gotemplate import nodes as n
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.parser import parse_template
from injector.injection.data import Parameters, template_data
from injector.injection.pipeline import admitted_pod, pod_for_templates, validate, webhook_parameters
from injector.injection.render import select_templates
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.template import GoTextTemplate, TemplateData, go_functions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.injection.result import RequestFacts
    from injector.istio.behaviours import Minor
    from injector.istio.revision import Revision


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
        parts = [pieces[0]]
        for index, piece in zip(map(int, pieces[1::2]), pieces[2::2], strict=True):
            parts.append(piece)
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
        return Marked("".join(parts), tuple(lines), frozenset(ran))


def mark_go(trees: Mapping[str, n.Tree], name: str, functions: Mapping[str, Any]) -> Callable[[TemplateData], Marked]:
    """Return the function that renders a Go template, or raises a TemplateRenderError. Raises ParseError if it nests too deeply."""
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
    for child in node.nodes:
        if isinstance(child, n.TextNode | n.ActionNode):
            place = marker.place(text, child.line, is_text=isinstance(child, n.TextNode))
            nodes.append(n.TextNode(child.pos, child.line, place))
        if isinstance(child, n.BranchNode):
            otherwise = None if child.else_body is None else _marked_list(child.else_body, text, marker)
            nodes.append(replace(child, body=_marked_list(child.body, text, marker), else_body=otherwise))
        else:
            nodes.append(child)
    return replace(node, nodes=tuple(nodes))


@dataclass(frozen=True, slots=True)
class JinjaBranches:
    """The parsed template ``name``, the ids of the branches that can be told to have run, and the function that renders."""

    tree: Any
    skippable: frozenset[int]
    render: Callable[[TemplateData], Marked]


def mark_jinja(texts: Mapping[str, str], name: str, minor: Minor) -> JinjaBranches:
    """Prepare a Jinja2 template for rendering. Texts of macros and blocks have the place of the expression that prints them.

    Raises TemplateRenderError if it does not parse.
    """
    from jinja2 import Template, nodes  # noqa: PLC0415 -- only revisions that use Jinja2 load it

    from injector.istio.jinja.engine import JinjaTemplate, environment_of, parse_jinja  # noqa: PLC0415

    marker, environment = Marker(), environment_of(texts)
    skippable: set[int] = set()

    def mark(body: list[Any]) -> None:
        for node in body:
            if isinstance(node, nodes.Output):
                node.nodes = [
                    part
                    for expression in node.nodes
                    for part in (
                        nodes.TemplateData(
                            marker.place(name, expression.lineno, is_text=isinstance(expression, nodes.TemplateData)),
                            lineno=expression.lineno,
                        ),
                        expression,
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
        marked = Template.from_code(environment, environment.compile(tree, name), environment.make_globals(None))
        template = JinjaTemplate(name, marked, minor)
    except Exception as error:
        # Python has limits of its own, such as for nested blocks.
        raise TemplateRenderError(str(error), where=f"template {name}", hint="correct the template") from error
    return JinjaBranches(tree, frozenset(skippable), lambda data: marker.read(template.render(data)))


@dataclass(frozen=True)
class PodData:
    """The data of the templates for one pod, and the names of the templates that the pod gets."""

    params: Parameters
    names: tuple[str, ...]

    @classmethod
    def of(cls, revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> PodData:
        """Return the data for a pod, whether a policy would inject it or not. Raises DataError if the pod or an annotation is refused."""
        admitted = admitted_pod(pod, facts.namespace)
        validate(revision, admitted)
        params = webhook_parameters(revision, admitted, facts)
        if revision.config.appends:
            return cls(params, (SIDECAR_TEMPLATE_NAME,))
        return cls(params, select_templates(revision, admitted, params.default_templates))

    def data(self) -> TemplateData:
        """Return the data for one rendering: a template may change it."""
        return template_data(self.params, pod_for_templates(self.params, webhook=True))


class TracedTemplate:
    """A template of a revision. ``render`` renders it for template data, or raises a TemplateRenderError."""

    render: Callable[[TemplateData], Marked]

    def __init__(self, revision: Revision, name: str) -> None:
        self.name = name
        self._revision = revision
        self._text = revision.config.templates[name]
        self._model = Model(revision.minor, gateway=is_gateway(self._text))
        self._is_jinja = revision.engine == "jinja2"
        if self._is_jinja:
            self._branches = mark_jinja(revision.config.templates, name, revision.minor)
            self.render = self._branches.render
        else:
            left, right = revision.config.delimiters
            functions = {**BUILTINS, **go_functions(revision.minor, revision.env)}
            self._trees = parse_template(name, self._text, functions=functions, left=left, right=right)
            self.render = mark_go(self._trees, name, functions)

    def reads(self, marked: Marked | None = None) -> Mapping[Read, tuple[str, int]]:
        """Return what the template reads, with the template and line of the first read.

        With ``marked``, a rendering, branches that did not run are left out. Raises TemplateRenderError if another template of the config
        does not parse, or they nest too deeply.
        """
        ran = None if marked is None else marked.ran
        try:
            if self._is_jinja:
                return self._jinja_reads(ran)
            return goflow.follow(self._model, self._trees, self.name, ran).reads
        except RecursionError as error:
            raise TemplateRenderError("nested too deeply", where=f"template {self.name}", hint="simplify it") from error

    def _jinja_reads(self, ran: frozenset[int] | None) -> Mapping[Read, tuple[str, int]]:
        from injector.authoring import jinjaflow  # noqa: PLC0415 -- only revisions that use Jinja2 load it
        from injector.istio.jinja.engine import environment_of, parse_jinja  # noqa: PLC0415

        texts = self._revision.config.templates
        environment = environment_of(texts)
        others = {name: parse_jinja(environment, name, text) for name, text in texts.items()}
        trees = {**others, self.name: self._branches.tree}
        return jinjaflow.follow(self._model, trees, self.name, ran, self._branches.skippable).reads
