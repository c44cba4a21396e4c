"""The scripts that install the project, with interpreters that cannot run it."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _interpreter(folder: Path, text: str) -> str:
    """Write a program that stands for an interpreter of Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "script", ["scripts/demo", "scripts/test", "scripts/bench", "scripts/reliability", "scripts/audit"]
)
@pytest.mark.parametrize("version", ["2.7", "3.8", "3.10"])
def test_an_old_python_is_named_before_anything_is_installed(tmp_path: Path, script: str, version: str) -> None:
    folder = tmp_path / "project"
    (folder / "scripts").mkdir(parents=True)
    for name in (script, "scripts/venv"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
        (folder / name).chmod(0o755)
    python = _interpreter(tmp_path, f"echo {version}")
    arguments = ["guard"] if script == "scripts/reliability" else []
    run = subprocess.run(
        [str(folder / script), *arguments],
        check=False,
        env={**os.environ, "PYTHON": python},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 69
    assert run.stdout == ""
    [line] = run.stderr.splitlines()
    assert f"is Python {version}; Python 3.11 or later is required" in line
    assert "PYTHON=python3.12" in line
    assert sorted(path.name for path in folder.iterdir()) == ["scripts"]


@pytest.mark.parametrize(
    ("interpreter", "what"),
    [
        ("exit 127", "there is no "),
        ('case "$2" in *version_info*) echo 3.11 ;; *) exit 1 ;; esac', "has no module venv"),
    ],
)
def test_an_interpreter_that_makes_no_environment_is_named(tmp_path: Path, interpreter: str, what: str) -> None:
    python = _interpreter(tmp_path, interpreter)
    command = [str(ROOT / "scripts" / "venv"), str(tmp_path / "environment"), "requirements"]
    run = subprocess.run(command, check=False, env={**os.environ, "PYTHON": python}, capture_output=True, text=True)
    assert run.returncode == 69
    [line] = run.stderr.splitlines()
    assert what in line
    assert not (tmp_path / "environment").exists()


@pytest.mark.parametrize("script", ["scripts/bench", "scripts/reliability"])
@pytest.mark.parametrize("argument", ["--help", "nothing"])
def test_a_script_with_several_tests_lists_them(script: str, argument: str) -> None:
    run = subprocess.run([str(ROOT / script), argument], check=False, capture_output=True, text=True)

    assert run.returncode == 2
    assert run.stderr.startswith("usage: scripts/")


def test_a_chart_that_does_not_render_leaves_the_manifests_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "kustomize").write_bytes((ROOT / "scripts" / "kustomize").read_bytes())
    (tmp_path / "scripts" / "helm").write_text("#!/bin/sh\necho 'error: no helm' >&2\nexit 1\n")
    folder = tmp_path / "deploy" / "kustomize" / "default"
    folder.mkdir(parents=True)
    (folder / "values.yaml").write_text("{}")
    (folder / "manifests.yaml").write_text("as before")
    for script in (tmp_path / "scripts").iterdir():
        script.chmod(0o755)

    run = subprocess.run([str(tmp_path / "scripts" / "kustomize")], check=False, capture_output=True, text=True)

    assert (run.returncode, run.stderr) == (1, "error: no helm\n")
    assert (folder / "manifests.yaml").read_text() == "as before"
