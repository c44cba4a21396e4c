from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from injector.cli import main

INJECTOR = str(Path(sys.executable).with_name("injector"))


@pytest.mark.parametrize("command", [[INJECTOR], [sys.executable, "-m", "injector"]])
def test_the_console_script_and_the_module_are_one_program(command: list[str]) -> None:
    run = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)

    assert run.stdout.startswith("Usage: injector [OPTIONS] COMMAND")


def test_the_group_is_what_the_distribution_promises() -> None:
    assert main.name == "injector"


def test_a_wrong_flag_ends_the_process_with_64() -> None:
    run = subprocess.run([INJECTOR, "--nope"], capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout) == (64, "")


def test_a_closed_pipe_ends_it_without_a_word() -> None:
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {INJECTOR} --help | true"], capture_output=True, text=True, check=False
    )

    assert run.stderr == ""
