"""The mistakes of templates: texts of a pod that can break the YAML, unknown names, values that do not exist, dead branches.

Rules:

- ``syntax``: the template does not parse.
- ``unquoted_finding``: a text that the creator of a pod controls is inserted so that it can end its scalar and add fields to the pod.
- ``field``, ``function``: the minor does not have it.
- ``value``: the values do not have it.
- ``unreachable``: a template that is never called, or a branch that is never taken.
- ``yaml``: the result is not YAML for some values: ``trials`` renders a small pod with each value that a template reads, set and not set.
"""

from __future__ import annotations

import copy
import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any, Final

from injector.authoring.goflow import Flow, follow
from injector.authoring.model import ANY_KEY, QUOTED, RAW, Model, Path, Read, Taint, format_path, is_gateway
from injector.authoring.traced import PodData, TracedTemplate
from injector.errors import DataError, OverlayError
from injector.golang.json import dump_json
from injector.golang.strconv import byte_length
from injector.gotemplate import ParseError
from injector.gotemplate import nodes as n
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.parser import parse_template
from injector.injection.data import value_at
from injector.injection.result import RequestFacts
from injector.istio.annotations import annotation_fault
from injector.istio.behaviours import DEVELOPMENT, OLDEST, Minor, format_minor
from injector.istio.config import parse_values
from injector.istio.template import go_functions
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from injector.istio.revision import Revision

RULES: Final = ("syntax", "unquoted", "field", "function", "value", "unreachable", "yaml")
_LONGEST_SOURCE: Final = 1_000
_PLAIN: Final = "plain"
_START: Final = "start"
_BLOCK: Final = "block"
_COMMENT: Final = "comment"
_QUOTES: Final = {"'": "single quotes", '"': "double quotes"}
_HINTS: Final = {
    _START: "pass it through `quote`",
    _PLAIN: 'build the whole value with printf and quote it: {{ printf "...%s" VALUE | quote }}',
    _BLOCK: "pass it through `toJSON`: a line break ends a block scalar",
    _COMMENT: "take it out of the comment: a line break ends a comment",
}
_ORIGINS: Final = {
    "owner": "owner reference or name of the pod",
    "proxyConfig": "the annotation proxy.istio.io/config",
    "proxyImage": "the annotation sidecar.istio.io/proxyImageType",
    "proxyInitImage": "the annotation sidecar.istio.io/proxyImageType",
}
_UNDEFINED: Final = re.compile(r'function "(.*)" not defined')
_BLOCK_SCALAR: Final = re.compile(r"(?:^|[\s:])[|>][-+0-9]*\s*(?:#.*)?$")


@dataclass(frozen=True, order=True, slots=True)
class Finding:
    """A mistake: its template, the line and column (from 1), the rule, what is wrong, how to correct it, and the line's text."""

    template: str
    line: int
    column: int
    rule: str
    what: str
    hint: str
    source: str

    def data(self) -> dict[str, Any]:
        """Return it as JSON data, with the beginning of a very long line."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "source": self.source[:_LONGEST_SOURCE]}


class Text:
    """The text of a template, with the places of findings."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.lines = text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)][:-1]
        self._is_ascii = text.isascii()
        self._raw = text.encode(errors="surrogatepass")

    def offset(self, byte: int) -> int:
        """Return the index of the character at a byte position."""
        return byte if self._is_ascii else len(self._raw[:byte].decode(errors="ignore"))

    def finding(self, at: int, rule: str, what: str, hint: str) -> Finding:
        """Return a finding at the index of a character."""
        line = bisect_right(self._starts, at) - 1
        return Finding(self.name, line + 1, at - self._starts[line] + 1, rule, what, hint, self.lines[line])

    def on_line(self, line: int, word: str, rule: str, what: str, hint: str) -> Finding:
        """Return a finding at a word of a line, or at the first word."""
        line = min(max(line, 1), len(self.lines))
        source = self.lines[line - 1]
        column = max(source.find(word), 0) if word else len(source) - len(source.lstrip())
        return Finding(self.name, line, column + 1, rule, what, hint, source)


class MaskedText:
    """A template with NUL in place of all actions, which tells where in YAML an insertion is."""

    def __init__(self, masked: str) -> None:
        self._masked = masked
        # The contexts of the characters of each line, by the beginning of the line.
        self._contexts: dict[int, Sequence[str]] = {}
        # The lines around the current one: their indentation, and whether they begin a block scalar.
        around: list[tuple[int, bool]] = []
        begin = 0
        for line in masked.split("\n"):
            width = len(line) - len(line.lstrip(" "))
            while around and around[-1][0] >= width:
                around.pop()
            in_block = bool(around) and around[-1][1]
            self._contexts[begin] = [_BLOCK] * len(line) if in_block else list(_contexts(line))
            if line.strip(" \0"):
                around.append((width, _BLOCK_SCALAR.search(line) is not None))
            begin += len(line) + 1

    def context(self, at: int) -> str:
        """Return where an insertion is: a quote, or one of ``_START``, ``_PLAIN``, ``_BLOCK`` and ``_COMMENT``."""
        begin = self._masked.rfind("\n", 0, at) + 1
        return self._contexts[begin][at - begin]


def _contexts(line: str) -> Iterator[str]:
    """Yield the context of an insertion at each character of a line outside of block scalars."""
    quote, is_start, is_empty = "", True, True
    for index, char in enumerate(line):
        is_first = is_start or is_empty or line.endswith((": ", "- "), 0, index)
        yield quote or (_START if is_first else _PLAIN)
        is_empty = is_empty and char in " \0-"
        if quote:
            is_escaped = quote == '"' and line.endswith("\\", 0, index) and not line.endswith("\\\\", 0, index)
            quote = "" if char == quote and not is_escaped else quote
        elif char in _QUOTES and is_start:
            quote = char
        elif char == "#" and (index == 0 or line[index - 1].isspace()):
            yield from repeat(_COMMENT, len(line) - index - 1)
            return
        elif char in "[{," or (char == " " and line.endswith((":", "-", "?", " "), 0, index)):
            is_start = True
        elif not char.isspace() and not (char in "-?" and is_start):
            is_start = False


def unquoted_finding(text: Text, at: int, taints: Sequence[Taint], context: str) -> Iterator[Finding]:
    """Yield a finding if texts of a pod break out of where they are inserted."""
    quoted = {taint.path for taint in taints if taint.state == QUOTED}
    raw = {taint.path for taint in taints if taint.state == RAW}
    if context in _QUOTES:
        raw |= {taint.path for taint in taints}
        what = f"is inserted between {_QUOTES[context]}"
        hint = "remove the quotes around it and pass it through `quote`"
    else:
        raw |= quoted if context in (_PLAIN, _COMMENT) else set()
        what, hint = "is inserted without quotes", _HINTS[context]
        if context == _PLAIN and quoted & raw:
            what = "is quoted in the middle of a text, which does not quote it"
    if raw:
        names = ", ".join(sorted({_with_origin(path) for path in raw})[:3])
        yield text.finding(at, "unquoted", f"{names} {what}, and can add fields to the pod", hint)


def _with_origin(path: Path) -> str:
    origin = _ORIGINS.get(path[0])
    return format_path(path) if origin is None else f"{format_path(path)} ({origin})"


def lint_go(
    name: str, source: str, minor: Minor, *, values: Any, delimiters: tuple[str, str] = ("{{", "}}")
) -> list[Finding]:
    """Return the mistakes of a Go template, in order. With None for the values, it is not checked whether they have what it reads."""
    text, functions = Text(name, source), {**BUILTINS, **_all_functions()}
    try:
        trees = parse_template(name, source, functions=functions, left=delimiters[0], right=delimiters[1])
        flow = follow(Model(minor, gateway=is_gateway(source)), trees, name)
    except (ParseError, RecursionError) as error:
        return [_syntax(text, error)]
    own = {**BUILTINS, **go_functions(minor, {})}
    findings = [
        *(_function(text, node, minor) for node in _calls(trees) if node.name not in own),
        *_unknown_fields(text, flow, minor),
        *_find_unquoted(text, flow, delimiters),
        *(_missing_values(text, flow, values) if values is not None else ()),
        *_unreachable(text, flow, trees, name),
    ]
    return sorted(set(findings))


@cache
def _all_functions() -> Mapping[str, Any]:
    """Return the functions of all minors."""
    functions: dict[str, Any] = {}
    for number in range(OLDEST[1], DEVELOPMENT[1] + 1):
        functions.update(go_functions((1, number), {}))
    return functions


def _syntax(text: Text, error: ParseError | RecursionError) -> Finding:
    if not isinstance(error, ParseError):
        return text.on_line(1, "", "syntax", "template nests too deeply", "use fewer nested blocks")
    undefined = _UNDEFINED.fullmatch(error.reason)
    if undefined is None:
        return text.on_line(error.line, "", "syntax", error.reason, "correct the template")
    return text.on_line(error.line, undefined[1], "function", error.reason, "use a function of Istio or sprig")


def _calls(trees: Mapping[str, n.Tree]) -> Iterator[n.IdentifierNode]:
    for tree in trees.values():
        yield from (node for node in n.within(tree.root) if isinstance(node, n.IdentifierNode))


def _function(text: Text, node: n.IdentifierNode, minor: Minor) -> Finding:
    has = [candidate for number in range(DEVELOPMENT[1] + 1) if node.name in go_functions(candidate := (1, number), {})]
    when = f"since {format_minor(has[0])}" if has[0] > minor else f"up to {format_minor(has[-1])}"
    what = f"Istio {format_minor(minor)} has no function {node.name}, which exists {when}"
    return text.finding(text.offset(node.pos), "function", what, "use another function, or the minor that has it")


def _unknown_fields(text: Text, flow: Flow, minor: Minor) -> Iterator[Finding]:
    for node, place, name in flow.unknown.values():
        owner = format_path(place.path) if place.path else "the template data"
        what = f"{owner} of Istio {format_minor(minor)} has no field {name}"
        yield text.finding(_start(text, node, name), "field", what, "correct the name: names of fields are Go's")


def _start(text: Text, node: n.Node, name: str) -> int:
    """Return the index of a name in a node; the positions of some nodes are where they end."""
    at = text.offset(node.pos)
    line = text.text.rfind("\n", 0, at) + 1
    position = text.text.find(f".{name}", max(line, at - byte_length(str(node)) - 1))
    return at if position < 0 else position


def _find_unquoted(text: Text, flow: Flow, delimiters: tuple[str, str]) -> Iterator[Finding]:
    masked = MaskedText(mask(text.text, delimiters))
    for node, value in flow.prints.values():
        if value.taints:
            at = text.offset(node.pos)
            opening = max(text.text.rfind(delimiters[0], 0, at), 0)
            yield from unquoted_finding(text, at, sorted(value.taints), masked.context(opening))


def mask(text: str, delimiters: tuple[str, str]) -> str:
    """Return a text with NUL in place of all actions, of the same length and with the same lines. A comment leaves nothing."""
    left, right = map(re.escape, delimiters)
    action = re.compile(rf"""{left}(?:"(?:[^"\\\n]|\\.)*"|`[^`]*`|/\*.*?\*/|[^"`])*?{right}""", re.DOTALL)

    def mask_match(match: re.Match[str]) -> str:
        is_text = not re.match(
            rf"{left}-?\s*(?:/\*|if|else|end|range|with|define|block|template|break|continue|\$\w+ *:?=)", match[0]
        )
        return re.sub(r"[^\n]", "\0" if is_text else " ", match[0])

    return action.sub(mask_match, text)


def _missing_values(text: Text, flow: Flow, values: Any) -> Iterator[Finding]:
    for (_, path), (node, prints) in flow.values.items():
        fault = missing_value(values, path, prints=prints)
        if fault is not None:
            known, what, hint = fault
            yield text.finding(_start(text, node, path[known]), "value", what, hint)


def missing_value(values: Any, path: Path, *, prints: bool) -> tuple[int, str, str] | None:
    """Return the index of the name in a path that the values do not have, what is wrong, and the hint; None if nothing is.

    Go has no error for a name that is missing, so it counts only if it is printed, or if another one differs from it by case.
    """
    for index, name in enumerate(path[1:], 1):
        if values is None:
            what = f"{format_path(path[:index])} of the values is null, so this fails"
            return index, what, "test it by {{ if }} first, or set it"
        if not isinstance(values, dict) or name == ANY_KEY:
            return None
        if name not in values:
            similar = [key for key in values if key.lower() == name.lower()]
            what = f"the values have no {format_path(path[: index + 1])}" + (
                ", so this prints <no value>" if prints else ""
            )
            hint = f"did you mean {similar[0]}?" if similar else "use `default`, or add it to the values"
            return (index, what, hint) if prints or similar else None
        values = values[name]
    return None


def always(constant: Any) -> tuple[str, str]:
    """Return the message about a constant condition, and its hint."""
    return f"the condition is always {'true' if constant else 'false'}", "delete the branch that is never taken"


REPEATED: Final = (
    "an earlier condition of the chain is the same, so this branch is never taken",
    "correct the condition, or delete the branch",
)


def _unreachable(text: Text, flow: Flow, trees: Mapping[str, n.Tree], name: str) -> Iterator[Finding]:
    for tree in trees.values():
        if tree.name not in {name, *flow.called}:
            match = re.search(rf'"{re.escape(tree.name)}"|`{re.escape(tree.name)}`', text.text)
            at = match.start() if match else text.offset(tree.root.pos)
            what = f"the template {tree.name} is never called"
            yield text.finding(at, "unreachable", what, "call it by {{ template }}, or delete it")
    for branch, constant in flow.branches.values():
        yield text.finding(text.offset(branch.pos), "unreachable", *always(constant))
    for branch in flow.repeated.values():
        yield text.finding(text.offset(branch.pipe.pos), "unreachable", *REPEATED)


_POD: Final[dict[str, Any]] = {
    "metadata": {"name": "app", "namespace": "default", "labels": {"app": "app"}, "annotations": {}},
    "spec": {"containers": [{"name": "app", "image": "app", "ports": [{"containerPort": 80}]}]},
}
_TEXTS: Final = ("true", "1", "80", "10.0.0.0/8", "REDIRECT", "eth0", "100m", "{}")
_ALTERNATIVES: Final[dict[type, tuple[Any, ...]]] = {
    bool: (True, False),
    str: ("", "a"),
    dict: ({}, {"a": "b"}),
    list: ([], ["a"]),
    float: (0.0, 1.0),
    int: (0, 1),
    type(None): ("a", True, {"a": "b"}),
}
_MOST_PLACES: Final = 200
"""The places that are tried, so that a large template does not take minutes."""
_LINE: Final = re.compile(r"line (\d+)")


def trials(revision: Revision, name: str) -> list[Finding]:
    """Return a finding for each value that makes a template render what is not a YAML mapping.

    A value counts only if the template renders, and no alternative of its type gives YAML. Templates of gateways are not tried.
    """
    text = revision.config.templates[name]
    if is_gateway(text):
        return []
    first_paths: dict[tuple[int, str], Path] = {}
    template = TracedTemplate(revision, name)
    for path, alternatives in _places(revision, template.reads()):
        faults = [_trial_fault(revision, template, path, alternative) for alternative in alternatives]
        if faults and None not in faults:
            line, what = next(fault for fault in faults if fault is not None)
            first_paths.setdefault((line, what), path)
    return [_trial_finding(Text(name, text), line, what, path) for (line, what), path in first_paths.items()]


def _trial_finding(text: Text, line: int, what: str, path: Path) -> Finding:
    changed = f"with another {format_path(path)}" if path else "for a small pod"
    hint = "look at its indentation and line breaks, and at the trim markers around it"
    return text.on_line(line, "", "yaml", f"{changed}, the result is not YAML: {what}", hint)


def _places(revision: Revision, reads: Iterable[Read]) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """Yield the places to change and the values to try; first none, as the values are."""
    yield (), (None,)
    tree = revision.values.tree
    for path in sorted({read.path for read in reads if ANY_KEY not in read.path})[:_MOST_PLACES]:
        if path[0] == "values":
            value = value_at(tree, path[1:])
            others = tuple(
                alternative
                for alternative in _ALTERNATIVES.get(type(value), ())
                if bool(alternative) is not bool(value)
            )
            if others:
                yield path, others
        elif path[:2] == ("metadata", "annotations") and len(path) > 2:  # noqa: PLR2004
            yield path, tuple(text for text in _TEXTS if not annotation_fault(path[2], text, revision.minor))
        elif path[:2] == ("metadata", "labels") and len(path) > 2:  # noqa: PLR2004
            yield path, ("a",)


def _trial_fault(revision: Revision, template: TracedTemplate, path: Path, value: Any) -> tuple[int, str] | None:
    """Return where the template renders invalid YAML, as one of its lines, and the fault; None if the YAML is valid."""
    pod = copy.deepcopy(_POD)
    if path and path[0] == "values":
        tree = revision.values.tree
        _set(tree, path[1:], value)
        try:
            values = parse_values(dump_json(tree).decode())
        except DataError:
            return None
        shared = None if revision.shared_values is None else values.tree
        revision = replace(revision, values=values, shared_values=shared)
    elif path:
        _set(pod, path, value)
    try:
        marked = template.render(PodData.of(revision, pod, RequestFacts("default")).data())
    except DataError:
        return None
    try:
        if not isinstance(load_yaml(marked.text), dict):
            raise OverlayError("it is not a mapping")
    except DataError as error:
        place = _LINE.search(error.what)
        index = min(int(place[1]) if place else 1, len(marked.lines)) - 1
        return (marked.lines[index].line if marked.lines else 1), error.what
    return None


def _set(tree: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        inner = tree.get(name)
        if not isinstance(inner, dict):
            inner = tree[name] = {}
        tree = inner
    tree[path[-1]] = value
