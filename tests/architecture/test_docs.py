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
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from injector.cli.commands import COMMANDS
from injector.metrics import Metrics
from injector.revisions.embedded import embedded_source
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.webhook.app import operations_app, webhook_app
from injector.webhook.health import Operations
from injector.webhook.inject import InjectHandler
from injector.webhook.lifecycle import Lifecycle
from injector.webhook.unserved import UnservedHandler
from tests.architecture import serving

if TYPE_CHECKING:
    from aiohttp.web import AbstractRoute

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


def test_the_readme_has_every_command() -> None:
    assert [name for name in COMMANDS if f"injector {name}" not in README] == []


def test_the_readme_has_every_route() -> None:
    table = "\n".join(re.findall(r"^\| `--(?:ops-)?port`.*", README, re.MULTILINE))
    documented = set(re.findall(r"`(?:POST )?(/[^`<]*)`", table))
    served = {route.resource.canonical for route in routes() if route.resource is not None}

    assert documented == {path.partition("{")[0] for path in served}


def test_the_changelog_has_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert f"## {version} " in (ROOT / "CHANGELOG.md").read_text()


def routes() -> list[AbstractRoute]:
    """The routes of both ports."""
    registry, metrics, lifecycle = Registry(), Metrics(CollectorRegistry()), Lifecycle()
    loader = Loader(embedded_source(), registry)
    operations = Operations(registry=registry, loader=loader, metrics=metrics, lifecycle=lifecycle, version="")
    inject = InjectHandler(registry, metrics, lifecycle)
    apps = (
        webhook_app(inject, UnservedHandler(inject.reader, registry, metrics, lifecycle)),
        operations_app(operations),
    )
    return [route for app in apps for route in app.router.routes() if route.method != "HEAD"]


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one line of shell in ``folder``, with the commands of this environment."""
    return subprocess.run(
        ["bash", "-euc", line], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
