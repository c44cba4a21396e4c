"""Find values for which a template does not render YAML: render a small pod with each value that a template reads, set and not set."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError, OverlayError
from injector.injection.authoring.lint import Finding, Text, is_gateway
from injector.injection.authoring.model import EACH, Read, shown
from injector.injection.authoring.traced import PodData, TracedTemplate
from injector.injection.result import RequestFacts
from injector.istio.annotations import annotation_fault
from injector.istio.config import parse_values
from injector.kube.serial import dump_json
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from injector.injection.authoring.model import Path
    from injector.istio.revision import Revision

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
_MOST: Final = 200
"""The places that are tried, so that a large template does not take minutes."""
_LINE: Final = re.compile(r"line (\d+)")


def trials(revision: Revision, name: str) -> list[Finding]:
    """Return a finding for each value that makes a template render what is not a YAML mapping.

    A value counts only if the template renders, and no alternative of its type gives YAML. Templates of gateways are not tried.
    """
    text = revision.config.templates[name]
    if is_gateway(text):
        return []
    found: dict[tuple[int, str], Path] = {}
    template = TracedTemplate(revision, name)
    for path, alternatives in _places(revision, template.reads()):
        faults = [_fault(revision, template, path, each) for each in alternatives]
        if faults and None not in faults:
            line, what = next(each for each in faults if each is not None)
            found.setdefault((line, what), path)
    return [_finding(Text(name, text), line, what, path) for (line, what), path in found.items()]


def _finding(text: Text, line: int, what: str, path: Path) -> Finding:
    changed = f"with another {shown(path)}" if path else "for a small pod"
    hint = "look at its indentation and line breaks, and at the trim markers around it"
    return text.on_line(line, "", "yaml", f"{changed}, the result is not YAML: {what}", hint)


def _places(revision: Revision, reads: Iterable[Read]) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """Yield the places to change and the values to try; first none, as the values are."""
    yield (), (None,)
    tree = revision.values.tree
    for path in sorted({each.path for each in reads if EACH not in each.path})[:_MOST]:
        if path[0] == "values":
            value = _at(tree, path[1:])
            others = tuple(each for each in _ALTERNATIVES.get(type(value), ()) if bool(each) is not bool(value))
            if others:
                yield path, others
        elif path[:2] == ("metadata", "annotations") and len(path) > 2:  # noqa: PLR2004
            yield path, tuple(each for each in _TEXTS if not annotation_fault(path[2], each, revision.minor))
        elif path[:2] == ("metadata", "labels") and len(path) > 2:  # noqa: PLR2004
            yield path, ("a",)


def _at(tree: Any, path: Path) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _fault(revision: Revision, template: TracedTemplate, path: Path, value: Any) -> tuple[int, str] | None:
    """Return the line of the template and the fault of the YAML that it renders; None if there is no fault."""
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
