from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from injector.cli.output import shown

if TYPE_CHECKING:
    import pytest


def test_without_a_terminal_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(shown(["a", "b"], "work")) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_bar_is_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")

    assert list(shown(["a", "b"], "work")) == ["a", "b"]

    out, err = capsys.readouterr()
    assert out == ""
    assert "work" in err


def test_rich_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, injector.cli.output; print('rich' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
