"""The documentation cannot rot: each command in it runs, each file it points at exists."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture import serving

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
PROSE = [*ROOT.glob("*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("docs/*.md")]

RUN_BY_CI = ("scripts/test", "scripts/demo")
"""What installs, or runs these very tests."""
SERVES = "injector serve"


def snippets() -> list[str]:
    """The lines of the README's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_the_readme_has_its_two_commands_before_all_others() -> None:
    assert snippets()[:2] == ["scripts/demo", "scripts/test"]


@pytest.mark.parametrize("command", RUN_BY_CI)
def test_what_a_test_cannot_run_is_run_before_every_merge(command: str) -> None:
    assert command in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("line", [line for line in snippets() if line not in RUN_BY_CI and not line.startswith(SERVES)])
def test_a_command_of_the_readme_runs(line: str, tmp_path: Path) -> None:
    if line.startswith("kubectl") and shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    for name in ("docs", "deploy", "revisions"):
        shutil.copytree(ROOT / name, tmp_path / name)
    if line.startswith("kubectl"):
        assert run("deploy/certificate", tmp_path).returncode == 0

    done = run(line, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("line", [line for line in snippets() if line.startswith(SERVES)])
def test_a_server_of_the_readme_injects_a_pod(line: str) -> None:
    assert serving.tried(shlex.split(line), ROOT, ENVIRONMENT) == ""


def test_the_links_of_the_documents_lead_somewhere() -> None:
    broken = [
        f"{path.name}: {target}"
        for path in PROSE
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text())
        if not (path.parent / target).exists()
    ]

    assert broken == []


def test_the_changelog_has_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert f"## {version} " in (ROOT / "CHANGELOG.md").read_text()


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one line of shell in ``folder``, with the commands of this environment."""
    return subprocess.run(
        ["bash", "-euc", line], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
