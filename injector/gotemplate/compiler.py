"""Compile a template text into Python once, so that a rendering only runs it.

The text passes through ``lexer`` and ``parser``; ``codegen`` writes Python for the tree and notes which node each line stands for. The
Python calls ``runtime`` and ``builtins``, and writes to a ``budget.Rendering``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from injector.gotemplate.budget import DEFAULT_BUDGET, METER, Budget, Rendering, use_meter
from injector.gotemplate.builtins import BUILTINS, call, callee_name, eq, ne, print_value
from injector.gotemplate.codegen import LineMap, Source, TemplateWriter
from injector.gotemplate.errors import Failure, FuncError, ParseError, Spent, TemplateError
from injector.gotemplate.nodes import IdentifierNode, Tree, levels
from injector.gotemplate.parser import parse_template
from injector.gotemplate.runtime import (
    check_type,
    constant,
    elements,
    field_reader,
    method_reader,
    pairs,
    parse_signature,
)
from injector.gotemplate.values import INTERFACE, NO_VALUE, Func, Map, holds_interface

_DEEPEST: Final = 36
"""Levels of nodes in a tree whose Python surely does not nest too deeply: two levels take two blocks, or one loop, at most."""


class Program(NamedTuple):
    """The Python of templates, the function that renders the first one, and the map of its lines."""

    python: str
    run: Callable[[Rendering, Any], None]
    line_map: LineMap


@dataclass(frozen=True)
class GoTemplate:
    """A set of compiled templates, executed by the name of the first.

    ``functions`` are those that they call. ``is_pure`` is whether none of these changes a value of the data.
    """

    name: str
    names: tuple[str, ...]
    functions: tuple[Func, ...]
    trees: tuple[Tree, ...]
    is_pure: bool
    _write: Callable[[], Program] = field(repr=False)

    @cached_property
    def program(self) -> Program:
        """The Python, written for the first rendering: most pods need one of the seven templates of Istio.

        Writing it takes half of the time of compiling a template.
        """
        return self._write()

    @property
    def python(self) -> str:
        """The Python that is generated."""
        return self.program.python

    def execute(self, data: Any, *, budget: Budget = DEFAULT_BUDGET) -> str:
        """Return the rendered text. Raises ExecError with Go's text if a step fails, and BudgetError if the budget is spent.

        ``data`` is the value of dot, in the model of ``gotemplate.values``. A rendering inside another one spends the budget of the outer
        one too.
        """
        program = self.program
        rendering = Rendering(budget, METER.get())
        try:
            with use_meter(rendering):
                program.run(rendering, NO_VALUE if data is None else data)
                return rendering.text()
        except (Failure, FuncError, RecursionError, Spent, TemplateError) as raised:
            raise program.line_map.error(raised) from raised


def compile_template(
    name: str,
    source: str,
    *,
    funcs: Mapping[str, Func],
    left: str = "{{",
    right: str = "}}",
    missing_key: str = "default",
) -> GoTemplate:
    """Parse and compile a template text. Raises ParseError with Go's text.

    ``funcs`` win over Go's own functions. ``left`` and ``right`` are the delimiters. ``missing_key`` is ``default``, ``invalid``, ``zero``
    or ``error``, as Go's option of that name.
    """
    functions = {**BUILTINS, **funcs}
    try:
        trees = parse_template(name, source, functions=functions, left=left, right=right)
        return compile_trees(name, trees, funcs=functions, missing_key=missing_key)
    except RecursionError as error:
        raise ParseError(name, 1, "template nests too deeply") from error


def compile_trees(
    name: str, trees: Mapping[str, Tree], *, funcs: Mapping[str, Func], missing_key: str = "default"
) -> GoTemplate:
    """Compile parsed templates; see ``compile_template``. Raises RecursionError if they nest too deeply."""
    functions = {**BUILTINS, **funcs}
    called: dict[str, Func] = {}
    deepest = 0
    for tree in trees.values():
        for depth, level in enumerate(levels(tree.root), 1):
            deepest = max(deepest, depth)
            called.update((node.name, functions[node.name]) for node in level if isinstance(node, IdentifierNode))
    is_pure = not any(func.mutates or func.name == "call" for func in called.values())

    def write() -> Program:
        python = Source(
            {**_NAMES, "FIELD": field_reader(missing_key), "METHOD": method_reader(missing_key)},
            is_pure=is_pure,
        )
        bodies = {tree: f"b{index}" for index, tree in enumerate(trees)}
        for tree in trees.values():
            TemplateWriter(python, tree, functions, bodies).template()
        filename = f"<template {name}>"
        run = python.run(filename)[bodies[name]]
        line_map = LineMap(filename, trees[name], tuple(python.marks), tuple(python.places))
        return Program(python.text(), run, line_map)

    template = GoTemplate(name, tuple(sorted(trees)), tuple(called.values()), tuple(trees.values()), is_pure, write)
    if deepest > _DEEPEST:
        _ = template.program  # which raises if blocks nest too deeply
    return template


def _fail(reason: str) -> None:
    raise Failure(reason)


def _count(method: Func, name: str, args: int, final: bool) -> None:  # noqa: FBT001 - generated code calls it
    miscount = parse_signature(method.signature).miscount(args, final=final)
    if miscount:
        raise Failure(f"wrong number of args for {name}: {miscount}")


def _reflect(value: Any, container: Any, name: str, is_key: bool) -> Any:  # noqa: FBT001 - generated code calls it
    if value is NO_VALUE:
        return value
    return INTERFACE if value is None or holds_interface(container, name, is_key=is_key) else value


def _key_container(container: Any) -> list[Any] | None:
    """Return something whose elements are interfaces just if a container's keys are."""
    return [None] if holds_interface(container, "", is_key=True) else None


class _Break(Exception):  # noqa: N818 - it is not an error
    """A ``break`` in the ``else`` of a loop."""


_NAMES: Final[dict[str, Any]] = {
    "BREAK": _Break,
    "CALL": call,
    "CHECK": check_type,
    "CONSTANT": constant,
    "COUNT": _count,
    "EACH": elements,
    "EQ": eq,
    "FAIL": _fail,
    "KEY_CONTAINER": _key_container,
    "MAP": Map,
    "NE": ne,
    "NO_VALUE": NO_VALUE,
    "PAIRS": pairs,
    "PRINT": print_value,
    "REFLECTED": _reflect,
    "CALLEE_NAME": callee_name,
    "TYPE": lambda method, index: parse_signature(method.signature).type_at(index),
    "UNSET": object(),
}
"""The names that generated code uses, in addition to the functions and constants of the template."""
