from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from injector.cli import main
from injector.cli.commands import COMMANDS
from injector.cli.completion import SHELLS

INJECTOR = str(Path(sys.executable).with_name("injector"))


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script_that_asks_the_program(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])

    assert (result.exit_code, result.stderr) == (0, "")
    assert "_INJECTOR_COMPLETE" in result.stdout
    assert f"{shell}_complete" in result.stdout


def test_help_says_how_each_shell_loads_its_script_on_a_line_of_its_own() -> None:
    lines = CliRunner().invoke(main, ["completion", "--help"]).stdout.splitlines()

    assert [line.split()[0] for line in lines if "injector completion " in line and "Usage" not in line] == list(SHELLS)


def test_the_program_completes_its_commands() -> None:
    env = {**os.environ, "_INJECTOR_COMPLETE": "bash_complete", "COMP_WORDS": "injector ", "COMP_CWORD": "1"}

    run = subprocess.run([INJECTOR], env=env, capture_output=True, text=True, check=True)

    assert sorted(line.partition(",")[2] for line in run.stdout.splitlines()) == sorted(COMMANDS)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_takes_its_script() -> None:
    script = CliRunner().invoke(main, ["completion", "bash"]).stdout

    run = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)

    assert (run.returncode, run.stderr) == (0, "")
