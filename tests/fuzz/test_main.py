"""The command, with processes that do not fuzz."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.cases import cases
from tests.fuzz import __main__ as fuzz
from tests.fuzz import corpus
from tests.fuzz.target import TARGETS, Target
from tests.reliability.long.rows import Row


class Run:
    """What a run did: turns and corpora, and the rows that it kept."""

    def __init__(self) -> None:
        self.turns: list[tuple[str, float, bool]] = []
        self.corpora: list[str] = []
        self.rows: list[Row] = []
        self.command = ""
        self.crashing = ""
        self.taken = 9


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command whose turns are a million executions each."""
    run = Run()

    def turn(bench: fuzz.Bench, minutes: float, *, same: bool) -> tuple[int, int]:
        run.turns.append((bench.name, minutes, same))
        return 1_000_000, int(bench.name == run.crashing)

    def keep(rows: list[Row], command: str) -> None:
        run.rows, run.command = rows, command

    nothing = Target(run=lambda _: None, modules=(), seeds=lambda: ())
    monkeypatch.setattr(fuzz.Bench, "set_up", lambda name, folder, **_: fuzz.Bench(name, nothing, folder))
    monkeypatch.setattr(fuzz.Bench, "turn", turn)
    monkeypatch.setattr(fuzz.Bench, "keep", lambda bench: run.corpora.append(bench.name))
    monkeypatch.setattr(fuzz.Bench, "measured", lambda _: fuzz.Reached(50, run.taken, 10))
    monkeypatch.setattr(fuzz, "keep", keep)
    return run


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["scripts/fuzz", *arguments])
    return fuzz.main()


def test_all_targets_are_fuzzed_until_there_are_enough_executions(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    assert _run(monkeypatch, "--executions", "10000000", "--record") == 0

    names = [name for name, _, _ in run.turns]
    assert names == [*TARGETS, *TARGETS]
    assert run.rows[-1].figure == f"{len(names)}000000 executions, 0 crashes"
    assert all(row.met for row in run.rows)
    assert run.command == "scripts/fuzz --minutes 1 --executions 10000000"
    assert sorted(run.corpora) == sorted(TARGETS)


def test_a_short_look_leaves_the_corpus_and_tries_the_same_each_time(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    assert _run(monkeypatch, "yaml", "merge", "--minutes", "0.25", "--jobs", "2", "--leave-corpus", "--record") == 0

    assert sorted(run.turns) == [("merge", 0.25, True), ("yaml", 0.25, True)]
    assert not run.corpora
    assert run.command == "scripts/fuzz yaml merge --minutes 0.25 --jobs 2"


def test_a_short_look_does_not_measure_what_the_corpus_reaches(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    run.taken = 7

    assert _run(monkeypatch, "yaml", "--leave-corpus", "--record") == 0

    assert [(row.target, row.figure) for row in run.rows] == [("0 crashes", "1000000 executions, 0 crashes")]


def test_a_short_look_begins_with_the_shorter_half_of_the_corpus(tmp_path: Path) -> None:
    for short in (False, True):
        fuzz.Bench.set_up("yaml", tmp_path / str(short), short=short)

    known = [
        sorted(path.read_bytes() for path in (tmp_path / str(short) / "known").iterdir()) for short in (False, True)
    ]
    inputs = corpus.read("yaml")
    assert known == [sorted(inputs), sorted(inputs[: (len(inputs) + 1) // 2])]


def test_a_bug_fails_the_command(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    run.crashing = "merge"

    assert _run(monkeypatch, "--record") == 1

    assert [row.test for row in run.rows if not row.met] == ["T31 fuzzing of merge", "T31 fuzzing of all targets"]


def test_a_corpus_below_the_floor_fails_the_command(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    run.taken = 7

    assert _run(monkeypatch, "yaml") == 1


@pytest.mark.parametrize("arguments", [["nope"], ["--jobs", "0"]])
def test_what_there_is_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit):
        _run(monkeypatch, *arguments)

    assert arguments[0].strip("-") in capsys.readouterr().err


@cases("wanted", "crashing", "turns")
def test_targets_take_turns_until_there_are_enough_executions_or_all_crashed(
    wanted: int, crashing: str, turns: str
) -> None:
    order: list[str] = []

    def turn(name: str) -> tuple[int, int]:
        order.append(name)
        return 10, int(name in crashing)

    executions, crashes = fuzz.fuzz_in_turns("abc", turn, wanted, jobs=1)

    assert "".join(order) == turns
    assert executions == {name: 10 * turns.count(name) for name in "abc"}
    assert crashes.total() == len(crashing)


def test_two_targets_are_fuzzed_at_once_with_two_jobs() -> None:
    both = Barrier(2)

    def turn(_: str) -> tuple[int, int]:
        both.wait(30.0)
        return 1, 0

    assert fuzz.fuzz_in_turns("ab", turn, 0, jobs=2)[0].total() == 2


def test_turns_are_fuzzed_with_the_inputs_known_and_those_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[list[Any]] = []

    def started(command: list[Any], **_: Any) -> Any:
        said.append(command)
        return subprocess.CompletedProcess(command, 0, stderr="stat::number_of_executed_units: 7\n")

    monkeypatch.setattr(subprocess, "run", started)
    bench = fuzz.Bench.set_up("yaml", tmp_path / "yaml", short=False)

    assert [bench.turn(2, same=True), bench.turn(2, same=True)] == [(7, 0), (7, 0)]

    assert [{"-seed=1", "-seed=2"} & {*command} for command in said] == [{"-seed=1"}, {"-seed=2"}]
    assert all("-max_total_time=120" in command for command in said)
    assert all(command[-2:] == [f"{tmp_path}/yaml/new", f"{tmp_path}/yaml/known"] for command in said)
    assert "injector.kube.typed" in bench.command.read_text()
    assert "injector.kube.yaml.read" not in bench.command.read_text()


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
