"""Modules and functions stay small enough to be read at one sitting."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 40

LONG_MODULES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
"""What may be longer, and why: ``path`` or ``path:function`` with a reason."""


def test_no_module_is_too_long() -> None:
    long = {name: text.count("\n") for name, text in modules().items() if text.count("\n") > MAX_MODULE_LINES}

    assert sorted(long) == sorted(LONG_MODULES), long


def test_no_function_is_too_long() -> None:
    long = {
        f"{name}:{function.name}": length(function)
        for name, text in modules().items()
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and length(function) > MAX_FUNCTION_LINES
    }

    assert sorted(long) == sorted(LONG_FUNCTIONS), long


def modules() -> dict[str, str]:
    """The text of every module of the package, by path."""
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "injector").rglob("*.py"))}


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, its docstring apart: the contract may take the words that it needs."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    docstring = ast.get_docstring(function, clean=False)
    return lines - (docstring.count("\n") + 1 if docstring else 0)
