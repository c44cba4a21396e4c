"""Each source module has its test module, where one looks for it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "injector"

TESTED_ELSEWHERE: dict[str, str] = {
    "__main__.py": "one line, run by tests/cli/test_main.py",
}
"""Modules without a test module of their own, and why. An ``__init__`` that defines nothing needs no entry."""


def test_every_source_module_has_a_test_module() -> None:
    missing = [str(path) for path in sources() if str(path) not in TESTED_ELSEWHERE and not home_of(path).exists()]

    assert missing == []


def test_the_exceptions_name_modules_that_exist() -> None:
    assert [name for name in TESTED_ELSEWHERE if not (PACKAGE / name).exists()] == []


def sources() -> list[Path]:
    """The modules that define something, as paths inside the package."""
    return [
        path.relative_to(PACKAGE)
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__init__.py" or "def " in path.read_text()
    ]


def home_of(module: Path) -> Path:
    """Where the test module of a source module belongs; a package's own is named after the package."""
    name = module.parent.name if module.name == "__init__.py" else module.stem
    return ROOT / "tests" / module.parent / f"test_{name}.py"
