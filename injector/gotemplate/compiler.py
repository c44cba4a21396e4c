"""Compile a template text into Python once, so that a rendering only runs it.

The text passes through ``lexer`` and ``parser``; ``codegen`` writes Python for the tree and notes which node each line stands for. The
Python calls ``runtime`` and ``builtins``, and writes to a ``budget.Rendering``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from injector.gotemplate.budget import DEFAULT_BUDGET, METER, Budget, Rendering, metered_by
from injector.gotemplate.builtins import BUILTINS, call, eq, ne, shown_callee
from injector.gotemplate.codegen import LineMap, Source, TemplateWriter
from injector.gotemplate.errors import Failure, FuncError, ParseError, Spent, TemplateError, Unprintable
from injector.gotemplate.fmt import sprint
from injector.gotemplate.nodes import IdentifierNode, Tree, within
from injector.gotemplate.parser import parse_template
from injector.gotemplate.runtime import checked, constant, elements, field_reader, method_reader, pairs, parse_signature
from injector.gotemplate.values import INTERFACE, NO_VALUE, Func, Map, holds_interface, indirect, type_of


@dataclass(frozen=True, slots=True)
class GoTemplate:
    """A set of compiled templates, executed by the name of the first.

    Attributes:
        name: the name of the first.
        names: the names of all of them.
        python: the Python that was generated.
        functions: the functions that it calls, by their names in the Python text.
        run: renders the first.
        line_map: finds the template node behind a line of the Python text.
        trees: the parsed templates.
        is_pure: whether nothing that they call changes a value of the data.
    """

    name: str
    names: tuple[str, ...]
    python: str
    functions: Mapping[str, Func]
    run: Callable[[Rendering, Any], None]
    line_map: LineMap
    trees: tuple[Tree, ...]
    is_pure: bool

    def execute(self, data: Any, *, budget: Budget = DEFAULT_BUDGET) -> str:
        """Return the rendered text.

        Args:
            data: the value of dot, in the model of ``gotemplate.values``.
            budget: limits; by default a megabyte, a hundred thousand steps and half a second. A rendering inside another one
                spends the budget of the outer one too.

        Raises:
            ExecError: a step failed; with Go's text.
            BudgetError: the budget is spent.
        """
        rendering = Rendering(budget, METER.get())
        try:
            with metered_by(rendering):
                self.run(rendering, NO_VALUE if data is None else data)
                return rendering.text()
        except (Failure, FuncError, RecursionError, Spent, TemplateError) as raised:
            raise self.line_map.error(raised) from raised


def compile_template(
    name: str,
    source: str,
    *,
    funcs: Mapping[str, Func],
    left: str = "{{",
    right: str = "}}",
    missing_key: str = "default",
) -> GoTemplate:
    """Parse and compile a template text.

    Args:
        name: the template's name, which errors show.
        source: the text.
        funcs: functions by name; they win over Go's own.
        left: the opening delimiter.
        right: the closing delimiter.
        missing_key: ``default``, ``invalid``, ``zero`` or ``error``, as Go's option of that name.

    Raises:
        ParseError: the text is not a template; with Go's text.
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
    """Compile parsed templates; see ``compile_template``.

    Raises:
        RecursionError: they nest too deeply.
    """
    functions = {**BUILTINS, **funcs}
    bodies = {each: f"b{index}" for index, each in enumerate(trees)}
    called = [
        functions[node.name]
        for tree in trees.values()
        for node in within(tree.root)
        if isinstance(node, IdentifierNode)
    ]
    is_pure = not any(func.mutates or func.name == "call" for func in called)
    python = Source(
        {**_NAMES, "FIELD": field_reader(missing_key), "METHOD": method_reader(missing_key)},
        is_pure=is_pure,
        is_hermetic=all(func.hermetic for func in called),
    )
    for tree in trees.values():
        TemplateWriter(python, tree, functions, bodies, printed).template()
    filename = f"<template {name}>"
    run = python.run(filename)[bodies[name]]
    line_map = LineMap(filename, trees[name], tuple(python.marks), tuple(python.places))
    names, parsed = tuple(sorted(trees)), tuple(trees.values())
    return GoTemplate(name, names, python.text(), python.functions, run, line_map, parsed, is_pure)


def printed(value: Any) -> str:
    """Return the value of an action as it is printed (exec.go printValue).

    Raises:
        Unprintable: it is a function.
    """
    if value is None or value is NO_VALUE:
        return "<no value>"
    value = indirect(value)[0]
    if isinstance(value, Func):
        raise Unprintable(f"can't print {{node}} of type {type_of(value)}")
    return sprint(value)


def _fail(reason: str) -> None:
    raise Failure(reason)


def _count(method: Func, name: str, args: int, final: bool) -> None:  # noqa: FBT001 - generated code calls it
    miscount = parse_signature(method.signature).miscount(args, final=final)
    if miscount:
        raise Failure(f"wrong number of args for {name}: {miscount}")


def _reflected(value: Any, container: Any, name: str, is_key: bool) -> Any:  # noqa: FBT001 - generated code calls it
    if value is NO_VALUE:
        return value
    return INTERFACE if value is None or holds_interface(container, name, is_key=is_key) else value


def _keyed(container: Any) -> list[Any] | None:
    """Return something whose elements are interfaces just if a container's keys are."""
    return [None] if holds_interface(container, "", is_key=True) else None


_NAMES: Final[dict[str, Any]] = {
    "CALL": call,
    "CHECK": checked,
    "CONSTANT": constant,
    "COUNT": _count,
    "EACH": elements,
    "EQ": eq,
    "FAIL": _fail,
    "KEY_CONTAINER": _keyed,
    "MAP": Map,
    "NE": ne,
    "NO_VALUE": NO_VALUE,
    "PAIRS": pairs,
    "PRINT": printed,
    "REFLECTED": _reflected,
    "CALLEE_NAME": shown_callee,
    "TYPE": lambda method, index: parse_signature(method.signature).type_at(index),
    "UNSET": object(),
}
"""The names that generated code uses, in addition to the functions and constants of the template."""
