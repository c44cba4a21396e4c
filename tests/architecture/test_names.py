"""Names say what the thing is: no filler words, no participles as functions, and one class for each public name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "injector"
BESIDE_PACKAGE = (ROOT / "tests", ROOT / "bench")

FILLERS = re.compile(
    r"_*(asked|chosen|due|each|ended|found|given|kept|left|made|opened|reapplied|seen|settled|shown|succeeded|takes|told)_*",
    re.IGNORECASE,
)
"""Words that say nothing about the thing: name the workload, the volume, the observation."""
STORED = {"upgrade/state.py": "left", "upgrade/run.py": "left"}
"""Names of fields of stored formats: ``left`` of the status of an Upgrade."""
PARTICIPLE = re.compile(
    r"_*([a-z]+ed|bound|built|chosen|done|drawn|found|given|gone|hidden|held|kept|known|"
    r"left|lost|made|meant|over|seen|sent|shown|taken|told|worth|written)"
)
"""The name of a function that is one past participle, or an adverb like one."""
VERBS = {"need", "feed", "seed"}
"""Verbs that look like a participle."""
OTHERS_NAMES = {
    # the constructors of controller-runtime's webhook/admission
    "kube/admission.py": {"allowed", "patched", "errored"},
}
"""Functions whose name is that of the API that they follow."""


def modules(folder: Path = PACKAGE) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(folder).as_posix(), ast.parse(path.read_text())


def names_in(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node defines: a variable, a parameter, an attribute, a function or a class."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name


def fillers(module: str, tree: ast.Module) -> list[str]:
    """Return the place of each name that is a filler. Beside ``right``, ``left`` is a side."""
    names = [(name, getattr(node, "lineno", 0)) for node in ast.walk(tree) for name in names_in(node)]
    has_sides = any(name == "right" for name, _ in names)
    return [
        f"{module}:{line} {name}"
        for name, line in names
        if FILLERS.fullmatch(name) and STORED.get(module) != name and not (has_sides and name == "left")
    ]


def participles(module: str, tree: ast.Module) -> list[str]:
    """Return the place of each function whose name is a participle. A property describes its object, and may be one."""
    return [
        f"{module}:{node.lineno} {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and PARTICIPLE.fullmatch(node.name)
        and node.name.strip("_") not in VERBS
        and node.name not in OTHERS_NAMES.get(module, ())
        and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]


def same_classes(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Return the public classes of one name in several modules, with these."""
    places = defaultdict[str, list[str]](list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    return {name: where for name, where in places.items() if len(where) > 1}


def test_no_name_is_a_filler() -> None:
    assert [place for module, tree in modules() for place in fillers(module, tree)] == []


@pytest.mark.parametrize("folder", BESIDE_PACKAGE, ids=lambda path: path.name)
def test_no_name_of_tests_and_benchmarks_is_a_filler(folder: Path) -> None:
    assert [place for module, tree in modules(folder) for place in fillers(module, tree)] == []


def test_no_function_is_a_participle() -> None:
    assert [place for module, tree in modules() for place in participles(module, tree)] == []


def test_no_two_public_classes_have_one_name() -> None:
    assert same_classes(dict(modules())) == {}
