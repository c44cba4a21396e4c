"""The map of the code is true: its packages and functions exist, its flows are calls, and a stranger has few files to open."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

import injector

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "injector"
MAP = injector.__doc__ or ""
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
FLOWS = {"One request": 25, "One change of a ConfigMap": 12, "One restart of an upgrade": 14}
"""The flows of the map, and how many files a reader may have to open for each."""


class Hop(NamedTuple):
    """A line of a flow: a function, and the one that calls it; empty for the task of a server."""

    name: str
    caller: str


def flow(title: str) -> list[Hop]:
    """Return the hops of a flow of the map. A line that is further to the right is called by the one before it."""
    text = MAP.partition(f"{title}, in ")[2].partition("::\n\n")[2].partition("\n\n")[0]
    hops: list[Hop] = []
    callers: dict[int, str] = {}
    for line in text.splitlines():
        depth, name = len(line) - len(line.lstrip()), line.split()[0]
        above = [indent for indent in callers if indent < depth]
        hops.append(Hop(name, callers[max(above)] if above else ""))
        callers = {**{indent: callers[indent] for indent in above}, depth: name}
    return hops


def file_of(name: str) -> Path:
    module = name.partition(":")[0].replace(".", "/")
    file = PACKAGE / f"{module}.py"
    return file if file.exists() else PACKAGE / module / "__init__.py"


def exists(name: str) -> bool:
    """Tell whether ``module:function``, ``module:Class`` or ``module:Class.method`` is defined."""
    if not file_of(name).exists():
        return False
    body: list[ast.stmt] = ast.parse(file_of(name).read_text()).body
    for part in name.partition(":")[2].split("."):
        known = {
            node.name: node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        if part not in known:
            return False
        body = known[part].body
    return True


def test_the_map_names_every_package_and_only_files_that_exist() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}

    assert packages == set(re.findall(r"^    (\w+)/ ", MAP, re.MULTILINE))
    assert [name for name in re.findall(r"\b(\w+/\w+\.py)", MAP) if not (PACKAGE / name).exists()] == []


@pytest.mark.parametrize("title", FLOWS)
def test_the_functions_of_a_flow_exist_and_its_files_are_few(title: str) -> None:
    names = [hop.name for hop in flow(title)]

    assert [name for name in names if not exists(name)] == []
    assert 0 < len({file_of(name) for name in names}) <= FLOWS[title]


@pytest.mark.parametrize("title", FLOWS)
def test_the_module_of_a_caller_names_what_it_calls(title: str) -> None:
    calls = [
        (hop.caller, hop.name)
        for hop in flow(title)
        if hop.caller
        and not re.search(
            rf"\b_?{hop.name.rpartition('.')[2].rpartition(':')[2].strip('_')}\b", file_of(hop.caller).read_text()
        )
    ]

    assert calls == []


def test_the_functions_that_contributors_start_at_are_on_the_map() -> None:
    names = re.findall(r"`([a-z.]+:[\w.]+)`", CONTRIBUTING)

    assert len(names) > len(FLOWS)
    assert [name for name in names if not any(name == hop.name for title in FLOWS for hop in flow(title))] == []


def test_the_layers_that_contributors_read_are_those_of_the_import_contracts() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    [written] = re.findall(r"^(`cli` > .*(?:\n`.*)*)$", CONTRIBUTING, re.MULTILINE)

    assert re.findall(r"`([^`]+)`", written) == layers


@pytest.mark.parametrize("package", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_the_docstring_of_a_package_names_its_modules(package: Path) -> None:
    text = ast.get_docstring(ast.parse(package.read_text())) or ""
    modules = {path.stem for path in package.parent.iterdir() if path.suffix == ".py"} - {"__init__", "__main__"}
    folders = {path.parent.name for path in package.parent.glob("*/__init__.py")}
    named = set(re.findall(r"``([a-z_]+)``", text))

    assert named <= modules | folders
    if package.parent != PACKAGE:
        assert modules | folders <= named
