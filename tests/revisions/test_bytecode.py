from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from injector.revisions import bytecode
from injector.revisions.bytecode import MIN_TEXT, compiled_apart

LONG = f"def f():\n return 'ä'\n{'#' * MIN_TEXT}\n"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The processes that were started."""
    found: list[list[str]] = []
    run = subprocess.run

    def counted(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        found.append(command)
        return run(command, check=options.pop("check"), **options)

    monkeypatch.setattr(subprocess, "run", counted)
    return found


def answer(text: str) -> Any:
    """What the function of a text answers, and the file that its code says it is of."""
    names: dict[str, Any] = {}
    exec(compiled_apart(text, "<template sidecar>"), names)  # noqa: S102 -- the test's own text
    return names["f"](), names["f"].__code__.co_filename


def test_a_long_text_is_compiled_in_a_process_of_its_own(started: list[list[str]]) -> None:
    assert answer(LONG) == ("ä", "<template sidecar>")
    assert [command[0] for command in started] == [sys.executable]


def test_a_short_text_is_not_worth_one(started: list[list[str]]) -> None:
    assert answer("def f():\n return 1\n") == (1, "<template sidecar>")
    assert started == []


@pytest.mark.parametrize("program", ["import sys; sys.exit(1)", "", "print('no code')", "import os; os.write(1, b'N')"])
def test_a_process_that_gives_no_code_is_done_without(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(bytecode, "_PROGRAM", program)

    assert answer(LONG) == ("ä", "<template sidecar>")


@pytest.mark.parametrize("executable", ["", "/nope/python"])
def test_where_no_process_can_be_started_it_is_done_without(monkeypatch: pytest.MonkeyPatch, executable: str) -> None:
    monkeypatch.setattr(sys, "executable", executable)

    assert answer(LONG) == ("ä", "<template sidecar>")


def test_a_text_that_is_no_python_is_an_error_of_python() -> None:
    with pytest.raises(SyntaxError):
        compiled_apart(f"def {LONG}", "<template sidecar>")
