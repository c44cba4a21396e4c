"""The public library API is pinned, importing it is cheap, and the map of the packages is true."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import injector
from injector import errors

ROOT = Path(__file__).resolve().parents[2]
ERRORS = {
    *("AnnotationError", "BreakOutError", "ConfigError", "DataError", "InjectorError", "ManifestError"),
    *("InvalidPodError", "OverlayError", "TemplateRenderError"),
}
OBJECTS = {"ABSENT", "Change", "Injection", "Revision", "Step", "Decision"}
FUNCTIONS = {
    "diff": "(old: 'Revision', new: 'Revision', pod: 'dict[str, Any]', *, namespace: 'str' = 'default', "
    "guard: 'Guard' = 'enforce') -> 'tuple[Change, ...]'",
    "explain": "(revision: 'Revision', pod: 'dict[str, Any]', *, namespace: 'str' = 'default', "
    "guard: 'Guard' = 'enforce') -> 'Decision'",
    "inject": "(revision: 'Revision', pod: 'dict[str, Any]', *, namespace: 'str' = 'default', "
    "proxy_env: 'Mapping[str, str] | None' = None, guard: 'Guard' = 'enforce') -> 'Injection'",
    "load_revision": "(path: 'str | os.PathLike[str]') -> 'Revision'",
    "load_revisions": "(path: 'str | os.PathLike[str] | None' = None, *, embedded: 'bool' = False) -> 'dict[str, Revision]'",
}
FIELDS = {
    "Change": ["kind", "path", "old", "new"],
    "Injection": ["pod", "patch", "templates", "warnings", "reason", "detail"],
    "Step": ["step", "verdict", "detail", "source"],
    "Decision": ["steps", "outcome", "reason"],
}


def test_the_public_names_are_pinned() -> None:
    assert set(dir(injector)) == {*ERRORS, *OBJECTS, *FUNCTIONS}


@pytest.mark.parametrize(("name", "signature"), FUNCTIONS.items())
def test_the_signatures_of_the_functions_are_pinned(name: str, signature: str) -> None:
    assert str(inspect.signature(getattr(injector, name))) == signature


@pytest.mark.parametrize(("name", "fields"), FIELDS.items())
def test_the_fields_of_the_results_are_pinned(name: str, fields: list[str]) -> None:
    assert list(getattr(injector, name).__dataclass_fields__) == fields


@pytest.mark.parametrize("name", sorted({*ERRORS, *OBJECTS, *FUNCTIONS}))
def test_every_public_name_is_in_the_docstring_of_the_package(name: str) -> None:
    assert re.search(rf"\b{name}\b", injector.__doc__ or "")


def test_the_tree_of_errors_in_the_docstring_is_true() -> None:
    tree = re.findall(r"^    ([ │├└─]*)(\w+Error)", injector.__doc__ or "", re.MULTILINE)

    assert {name for _, name in tree} == ERRORS
    for indent, name in tree:
        parent = {0: Exception, 4: errors.InjectorError, 8: errors.DataError}[len(indent)]
        assert getattr(injector, name).__bases__ == (parent,)


def test_other_names_are_not_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = injector.nothing  # type: ignore[attr-defined,unused-ignore]


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    code = "import injector, sys; print(*[name for name in sys.modules if name.startswith('injector')])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["injector"]
