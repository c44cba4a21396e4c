"""The GitHub Action and the hooks of pre-commit: their steps are run as their runners run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "deploy" / "action" / "action.yml").read_text())
HOOKS = {entry["id"]: entry for entry in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
BIN = Path(sys.executable).parent
HELLO = (ROOT / "docs" / "samples" / "hello.yaml").read_text()
REVISIONS = str(ROOT / "revisions")
SOURCE = {"revisions-dir": REVISIONS}


@pytest.fixture
def checkout(tmp_path: Path, commands_folder: Path) -> Path:
    """A repository with a manifest in a folder of a folder, the commands, and a file for each variable of a runner that names one."""
    (tmp_path / "bin").symlink_to(commands_folder)
    (tmp_path / "apps" / "hello world").mkdir(parents=True)
    (tmp_path / "apps" / "hello world" / "hello.yaml").write_text(HELLO)
    (tmp_path / "runner").mkdir()
    return tmp_path


def environment(checkout: Path) -> dict[str, str]:
    """Return the variables of a step, without a cluster."""
    runner = checkout / "runner"
    files = {name: str(runner / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    variables = {
        "RUNNER_TEMP": str(runner),
        "GITHUB_ACTION_PATH": str(ROOT / "deploy" / "action"),
        "HOME": str(checkout),
    }
    return {**os.environ, **files, **variables, "KUBECONFIG": "", "PATH": f"{checkout}/bin:{BIN}:{os.environ['PATH']}"}


def act(checkout: Path, **inputs: str) -> tuple[int, dict[str, str], str]:
    """Run the steps of the action. Return the exit code of the last one, the outputs, and what was written to stderr."""
    assert set(inputs) <= set(ACTION["inputs"])
    values = {name: inputs.get(name, declaration.get("default", "")) for name, declaration in ACTION["inputs"].items()}
    env, said, code = environment(checkout), "", 0
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        own = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
            for name, text in step.get("env", {}).items()
        }
        assert "${{" not in step["run"]
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, cwd=checkout, env={**env, **own}, capture_output=True, text=True, check=False)
        said, code = said + done.stderr, done.returncode
        if code:
            break
    output = Path(env["GITHUB_OUTPUT"])
    lines = output.read_text().splitlines() if output.exists() else []
    return code, dict(line.split("=", 1) for line in lines), said


def test_the_action_writes_the_comment_the_results_and_the_summary(checkout: Path) -> None:
    code, outputs, said = act(checkout, old="stable", new="canary", files="\napps\n", **SOURCE)

    assert (code, outputs["differs"], set(outputs)) == (0, "true", set(ACTION["outputs"])), said
    comment = Path(outputs["comment"]).read_text()
    assert "Workloads that differ: **1 of 1**" in comment
    assert (checkout / "runner" / "GITHUB_STEP_SUMMARY").read_text() == comment
    (result,) = json.loads(Path(outputs["sarif"]).read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "apps/hello%20world/hello.yaml"


@pytest.mark.parametrize(
    ("new", "fail", "code", "differs"), [("canary", "true", 1, "true"), ("stable", "true", 0, "false")]
)
def test_the_action_fails_on_differences_if_it_shall(
    checkout: Path, new: str, fail: str, code: int, differs: str
) -> None:
    files = str(checkout / "apps" / "hello world" / "hello.yaml")
    differences, outputs, said = act(checkout, old="stable", new=new, files=files, fail=fail, **SOURCE)

    assert (differences, outputs["differs"]) == (code, differs), said


def test_the_action_fails_if_it_cannot_compare(checkout: Path) -> None:
    code, outputs, said = act(checkout, old="stable", new="nope", files="apps", **SOURCE)

    assert (code, outputs) == (64, {})
    assert "error: " in said


@pytest.mark.parametrize("lost", [{}, {"INJECTOR_REVISIONS_DIR": ""}])
def test_the_action_and_the_hooks_fail_without_a_source_of_revisions(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, lost: dict[str, str]
) -> None:
    for name, value in lost.items():
        monkeypatch.setenv(name, value)

    code, outputs, said = act(checkout, old="stable", new="canary", files="apps")

    assert (code, outputs, len(said.splitlines())) == (78, {}, 1)
    for name, arguments in {"injector-analyze": (), "injector-diff": ("stable", "canary", "-R", "-f", "apps")}.items():
        done = hook(checkout, name, *arguments)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (78, "", 1), done.stderr


def test_inputs_are_no_commands_and_no_flags(checkout: Path) -> None:
    hostile = '$(touch "$RUNNER_TEMP/taken"); `touch taken`\n--help'

    code, outputs, _ = act(checkout, old="--help", new=hostile, files=hostile, **SOURCE)

    assert (code, outputs) == (65, {})
    assert not list(checkout.rglob("taken"))


def test_an_output_comes_from_a_step() -> None:
    (identifier,) = [step["id"] for step in ACTION["runs"]["steps"] if "id" in step]
    assert {name: output["value"] for name, output in ACTION["outputs"].items()} == {
        name: f"${{{{ steps.{identifier}.outputs.{name} }}}}" for name in ACTION["outputs"]
    }


def test_a_job_without_an_injector_gets_the_locked_one(checkout: Path) -> None:
    install = ACTION["runs"]["steps"][0]
    copy = checkout / "project"
    (copy / "scripts").mkdir(parents=True)
    # In the place of scripts/venv, which installs packages: .ci/run runs that by scripts/demo.
    (copy / "scripts" / "venv").write_text('#!/bin/sh\necho "$@"\n')
    (copy / "scripts" / "venv").chmod(0o755)
    env = {**environment(checkout), "PATH": os.defpath, "GITHUB_ACTION_PATH": str(copy / "deploy" / "action")}
    (copy / "deploy" / "action").mkdir(parents=True)
    bash = shutil.which("bash")
    assert bash is not None

    done = subprocess.run(
        [bash, "-eo", "pipefail", "-c", install["run"]], env=env, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [f"{checkout}/runner/injector", "requirements", "requirements-build"]
    assert (checkout / "runner" / "GITHUB_PATH").read_text() == f"{checkout}/runner/injector/bin\n"


def hook(checkout: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a hook as pre-commit does: its entry, its arguments, and the names of the files that it has."""
    definition: dict[str, Any] = HOOKS[name]
    files = ["apps/hello world/hello.yaml"] if definition.get("pass_filenames", True) else []
    command = [*definition["entry"].split(), *arguments, *files]
    return subprocess.run(command, cwd=checkout, env=environment(checkout), capture_output=True, text=True, check=False)


def test_the_hooks_fail_on_mistakes_and_differences(checkout: Path) -> None:
    flags = "--revisions-dir", REVISIONS

    assert {name: definition["language"] for name, definition in HOOKS.items()} == dict.fromkeys(HOOKS, "python")
    assert hook(checkout, "injector-analyze", *flags).returncode == 0
    assert hook(checkout, "injector-diff", "stable", "canary", "-R", "-f", "apps", *flags).returncode == 1
    shutil.copy(ROOT / "docs" / "samples" / "mistakes.yaml", checkout / "apps" / "hello world" / "hello.yaml")
    status = hook(checkout, "injector-analyze", *flags)
    assert status.returncode == 79
    assert "apps/hello world/hello.yaml:2) New pods get no sidecar" in status.stdout
