"""The command fails if an input is a bug, or if a corpus reaches too little. CI runs it with all targets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.target import Target


@pytest.mark.parametrize(
    ("crashes", "reached", "status"), [(0, 9, 0), (1, 9, 1), (0, 7, 1)], ids=["no bug", "a bug", "below the floor"]
)
def test_a_bug_and_a_corpus_below_the_floor_fail_the_command(
    monkeypatch: pytest.MonkeyPatch, crashes: int, reached: int, status: int
) -> None:
    nothing = Target(run=lambda _: None, modules=(), seeds=lambda: ())
    monkeypatch.setattr(fuzz.Bench, "set_up", lambda name, folder, **_: fuzz.Bench(name, nothing, folder))
    monkeypatch.setattr(fuzz.Bench, "turn", lambda *_, **__: (1_000_000, crashes))
    monkeypatch.setattr(fuzz.Bench, "keep", lambda _: None)
    monkeypatch.setattr(fuzz.Bench, "measured", lambda _: fuzz.Reached(50, reached, 10))
    monkeypatch.setattr(sys, "argv", ["scripts/fuzz", "yaml"])

    assert fuzz.main() == status


def test_an_input_that_is_a_bug_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = fuzz.Bench.set_up("yaml", tmp_path / "yaml", short=False)

    def started(command: list[Any], **_: Any) -> Any:
        (bench.folder / "found-crash").write_bytes(b"{")
        return subprocess.CompletedProcess(command, 77, stderr="#1 INITED\nKeyError\nDone 1 runs in 0 s\n")

    monkeypatch.setattr(subprocess, "run", started)

    assert bench.turn(1, same=False) == (1, 1)
    assert capsys.readouterr().err == "KeyError\nDone 1 runs in 0 s\nfound-crash: ew==\n"
