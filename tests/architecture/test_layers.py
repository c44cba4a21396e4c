"""The import contracts of pyproject.toml hold, and benchmarks and tests do not import each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINT = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


def test_every_import_contract_is_kept() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

    run = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert f"Contracts: {len(contracts)} kept, 0 broken." in run.stdout, run.stdout + run.stderr
    assert run.returncode == 0


def test_benchmarks_do_not_import_tests() -> None:
    imports = re.compile(r"^\s*(?:from|import) tests\b", re.MULTILINE)

    assert [str(path) for path in (ROOT / "bench").rglob("*.py") if imports.search(path.read_text())] == []
