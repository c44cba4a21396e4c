"""The tests themselves: short names, a docstring for each module, cases that belong to a test, and no constants of the code."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

from tests.cases import read_cases

TESTS = Path(__file__).parents[1]
MODULES = {path: ast.parse(path.read_text()) for path in sorted(TESTS.rglob("test_*.py"))}
LONGEST_NAME = 79


def names_of_tests(path: Path) -> Iterator[str]:
    for node in ast.walk(MODULES[path]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def test_names_of_tests_are_short() -> None:
    assert [name for path in MODULES for name in names_of_tests(path) if len(name) > LONGEST_NAME] == []


def test_every_module_says_what_it_tests() -> None:
    assert [str(path.relative_to(TESTS)) for path, tree in MODULES.items() if not ast.get_docstring(tree)] == []


def test_all_cases_belong_to_a_test() -> None:
    unused = [
        f"{path.name}: {name}"
        for path in TESTS.rglob("test_*.yaml")
        for name in read_cases(path)
        if f"test_{name}" not in names_of_tests(path.with_suffix(".py"))
    ]

    assert unused == []


def test_no_time_or_limit_of_the_code_is_imported() -> None:
    imported = [
        (f"{path.relative_to(TESTS)}: {alias.name}", getattr(importlib.import_module(str(node.module)), alias.name))
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("injector.")
        for alias in node.names
        if alias.name.isupper() and alias.name != "LATEST"  # a version, no limit
    ]

    assert len(imported) > 100
    assert [name for name, value in imported if isinstance(value, int | float)] == [], "a test states what it expects"
