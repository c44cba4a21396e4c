"""Tell whether a template that fails on the built-in pods fails on every pod. Only then is a revision refused.

A template may be made for some pods: it patches a container that others lack, or requires a label. Istio injects those pods. So an error
counts as one of every pod only if no text of a pod can avoid it:

- a step calls what no pod has: a field that the Go struct lacks, or a function or method with a wrong number of arguments, or in
  Jinja2 a name that is defined nowhere;
- a step that every pod reaches reads only configuration, such as ``.Values.a.b`` without ``a``: it stands in the template itself and
  under no condition that reads the pod;
- the rendered text is not an overlay, and the template reads only configuration;
- the template exceeds its budget.

An error that cannot be told apart is one of some pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from injector.errors import ConfigError, DataError, OverlayError, TemplateBudgetError, TemplateRenderError
from injector.gotemplate import nodes as n
from injector.gotemplate.errors import ExecError, ParseError
from injector.gotemplate.parser import parse_template

if TYPE_CHECKING:
    from injector.istio.revision import Revision

_CONFIGURATION: Final = frozenset({"MeshConfig", "Revision", "Values"})
"""The fields of the template's data that are equal for all pods, but for ``_OF_PODS``."""
_OF_PODS: Final = (("MeshConfig",), ("MeshConfig", "DefaultConfig"))
"""The mesh config as a whole and its ProxyConfig: until Istio 1.17 a pod's annotation changes them."""
_UNKNOWN: Final = re.compile(
    r"can't evaluate field \S+ in type \*?\w+\.\w+|wrong number of args for |\S+ is an unexported field"
    r"|\S+ is not a method but has arguments|\S+ has arguments but cannot be invoked"
)
"""Reasons that no value of a pod changes. Types of structs have a package. A ``string`` may be a value of the pod."""
_UNDEFINED: Final = re.compile(r"'(\w+)' is undefined")
_CONTAINERS: Final = frozenset({".Spec.Containers", "$.Spec.Containers"})
"""Every pod has containers, so that the body of a loop over them is always reached."""


def fails_for_every_pod(revision: Revision, errors: Sequence[DataError]) -> bool:
    """Return whether ``errors``, one of each built-in pod, mean that the revision can inject no pod."""
    first = errors[0]
    if any(isinstance(error, ConfigError) for error in errors):
        return True
    if all(isinstance(error, TemplateBudgetError) for error in errors):
        return True
    if any(_place_of(error) != _place_of(first) for error in errors):
        return False
    if isinstance(first, ExecError):
        return _UNKNOWN.match(first.reason) is not None or _reads_only_configuration(revision, first)
    if isinstance(first, OverlayError):
        return not first.what.startswith("failed applying") and _has_only_configuration(revision)
    return isinstance(first, TemplateRenderError) and _is_undefined(revision, first)


def _place_of(error: DataError) -> tuple[object, ...]:
    if isinstance(error, ExecError):
        return type(error), error.template, error.line, error.column
    return type(error), error.where, "" if isinstance(error, OverlayError) else error.what


def _is_undefined(revision: Revision, error: TemplateRenderError) -> bool:
    """Return whether a name of a Jinja2 template is undefined, and no statement defines it."""
    match = _UNDEFINED.fullmatch(error.what)
    if match is None:
        return False
    binding = re.compile(rf"\{{%-?\s*(?:set|for|macro|from|import|call)\b[^%]*\b{match[1]}\b")
    return not any(binding.search(text) for text in revision.config.templates.values())


def _reads_only_configuration(revision: Revision, error: ExecError) -> bool:
    """Return whether every pod reaches the step that failed, and the step reads nothing of the pod."""
    tree = _trees(revision, error.template).get(error.name)
    if tree is None or error.name != error.template:
        return False  # a defined template: it is not known how it is reached
    steps = [(pipe, is_reached) for pipe, is_reached in _steps(tree.root) if _has_place(tree, pipe, error)]
    return bool(steps) and all(is_reached and _is_configuration(pipe) for pipe, is_reached in steps)


def _has_place(tree: n.Tree, pipe: n.PipeNode, error: ExecError) -> bool:
    """Return whether the node of an error is in a pipeline. Of several commands, a later one gets the value of the ones before."""
    lines = tree.text.encode(errors="surrogatepass").split(b"\n")
    position = sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column
    return any(node.pos == position for node in n.within(pipe))


def _has_only_configuration(revision: Revision) -> bool:
    """Return whether the templates render the same text for every pod."""
    if revision.engine != "go":
        return not any("{{" in text or "{%" in text for text in revision.config.templates.values())
    trees = [tree for name in revision.config.templates for tree in _trees(revision, name).values()]
    return bool(trees) and all(_is_configuration(tree.root) for tree in trees)


def _trees(revision: Revision, name: str) -> dict[str, n.Tree]:
    """Return the trees of a template; none if it is not one of the revision's."""
    left, right = revision.config.delimiters
    try:
        return parse_template(name, revision.config.templates[name], functions=_AnyFunction(), left=left, right=right)
    except (KeyError, ParseError):  # a template that a template renders
        return {}


class _AnyFunction:
    """The templates are compiled already, so every function that they call is known. ``break`` is not one."""

    def __contains__(self, name: object) -> bool:
        return name not in ("break", "continue")


def _steps(node: n.Node, *, is_reached: bool = True) -> Iterator[tuple[n.PipeNode, bool]]:
    """Yield the pipelines in a list, each with whether every pod reaches it."""
    match node:
        case n.ListNode():
            for child in node.nodes:
                yield from _steps(child, is_reached=is_reached)
        case n.BranchNode():
            yield node.pipe, is_reached
            decides = _is_configuration(node.pipe)
            enters = (decides or _always_runs(node)) and not _may_leave(node)
            yield from _steps(node.body, is_reached=is_reached and enters)
            if node.else_body is not None:
                yield from _steps(node.else_body, is_reached=is_reached and decides)
        case n.ActionNode():
            yield node.pipe, is_reached
        case n.TemplateNode() if node.pipe is not None:
            yield node.pipe, is_reached
        case _:
            pass


def _always_runs(node: n.BranchNode) -> bool:
    return isinstance(node, n.RangeNode) and " | ".join(map(str, node.pipe.cmds)) in _CONTAINERS


def _may_leave(node: n.BranchNode) -> bool:
    """Return whether a loop has a break or continue: what follows it may be left out for some pods."""
    return isinstance(node, n.RangeNode) and any(
        isinstance(child, n.BreakNode | n.ContinueNode) for child in n.within(node.body)
    )


def _has_configuration(idents: tuple[str, ...]) -> bool:
    """Return whether the fields asked of the template's data are equal for all pods."""
    return bool(idents) and idents[0] in _CONFIGURATION and idents[:2] not in _OF_PODS


def _is_configuration(root: n.Node) -> bool:
    """Return whether a node reads no value but configuration. A variable may have any value, and so may the dot."""
    if isinstance(root, n.PipeNode):  # the variables that it declares read nothing
        return all(map(_is_configuration, root.cmds))
    for node in n.within(root):
        match node:
            case n.FieldNode() if not _has_configuration(node.idents):
                return False
            case n.VariableNode() if node.idents[0] != "$" or not _has_configuration(node.idents[1:]):
                return False
            case n.DotNode() | n.TemplateNode():
                return False
            case _:
                pass
    return True
