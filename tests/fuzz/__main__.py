"""Fuzzes targets, each in a process of its own, and holds each corpus against its coverage floor.

What reached more than the corpus did is added to tests/fuzz/corpus, while that is small. The exit status is 1 where an input was a bug, or
where a corpus reaches less than the floor: a fuzzer that does not reach its target finds nothing in it. A look that leaves the corpus is a
short one: it begins with the shorter half of the inputs, and does not measure what the corpus reaches. tests/fuzz/test_corpus.py tries all.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import corpus
from tests.fuzz.target import ROOT, TARGETS, Target, load
from tests.reliability.long.rows import Row, keep, show

FLOOR = 0.8
"""Of the branches of a target's modules."""
EXECUTIONS = 10_000_000
"""Of all targets in a night."""
LONGEST_STILL = 4 * 3600
"""Seconds by the clock, for an input that hangs without work; those that work too long end by ``limit``, which a pause is no part of."""
MEMORY = 2048
"""MiB; above a gigabyte a process of fifty megabytes has a leak."""


class Reached(NamedTuple):
    """The inputs of a corpus, how many branches of the target's modules they take, and how many there are."""

    inputs: int
    taken: int
    branches: int


@dataclass(frozen=True)
class Fuzzed:
    """What came of a target: executions, how many were bugs, and, where it was measured, what its corpus reaches."""

    name: str
    executions: int
    crashes: int
    reached: Reached | None

    def row(self) -> Row:
        """The row of T31."""
        name, figure = f"T31 fuzzing of {self.name}", f"{self.executions} executions, {self.crashes} crashes"
        if self.reached is None:
            return Row(name, "0 crashes", figure, self.crashes == 0)
        inputs, taken, branches = self.reached
        share = taken / branches
        figure += f", {share:.0%} of {branches} branches by {inputs} inputs"
        return Row(name, f"0 crashes, >= {FLOOR:.0%} of the branches", figure, self.crashes == 0 and share >= FLOOR)


def main() -> int:
    """Fuzz; the exit status tells whether all is well."""
    options = parsed()
    with tempfile.TemporaryDirectory() as folder:
        benches = {
            name: Bench.set_up(name, Path(folder) / name, short=options.leave_corpus)
            for name in options.targets or TARGETS
        }
        executions, crashes = fuzz_in_turns(
            list(benches),
            lambda name: benches[name].turn(options.minutes, same=options.leave_corpus),
            options.executions,
            options.jobs,
        )
        reached: dict[str, Reached] = {}
        if not options.leave_corpus:
            for bench in benches.values():
                bench.keep()
            with ThreadPoolExecutor(options.jobs) as pool:
                reached = dict(zip(benches, pool.map(Bench.measured, benches.values()), strict=True))
        results = [Fuzzed(name, executions[name], crashes[name], reached.get(name)) for name in benches]
    return summarise(results, options)


def fuzz_in_turns(
    targets: Sequence[str], turn: Callable[[str], tuple[int, int]], wanted: int, jobs: int
) -> tuple[Counter[str], Counter[str]]:
    """Give each target a turn, ``jobs`` at a time, and repeat until there are ``wanted`` executions. A target with a crash gets no more.

    ``turn`` returns the executions and the crashes of one turn. Return those of all turns, by target.
    """
    executions, crashes = Counter[str](), Counter[str]()
    remaining = list(targets)
    with ThreadPoolExecutor(jobs) as pool:
        while remaining:
            for name, counts in zip(remaining, pool.map(turn, remaining), strict=True):
                executions[name] += counts[0]
                crashes[name] += counts[1]
                print(
                    f"{name}: {counts[0]} executions, {counts[1]} crashes; {executions.total()} executions in all",
                    flush=True,
                )
            remaining = [name for name in remaining if not crashes[name]] if executions.total() < wanted else []
    return executions, crashes


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; all of them by default"
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long a turn of a target is")
    parser.add_argument(
        "--executions", type=int, default=0, metavar="N", help="go on, turn by turn, until there are N in all"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many targets to fuzz at once")
    parser.add_argument("--leave-corpus", action="store_true", help="a short look: do not add to tests/fuzz/corpus")
    parser.add_argument("--record", action="store_true", help="keep the rows for docs/reliability.md")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if options.jobs < 1:
        parser.error("--jobs has to be 1 or more")
    return options


def summarise(results: list[Fuzzed], options: argparse.Namespace) -> int:
    """Show and keep what came of all targets."""
    rows = [result.row() for result in results]
    if not options.targets:
        total, crashes = sum(result.executions for result in results), sum(result.crashes for result in results)
        rows.append(
            Row(
                "T31 fuzzing of all targets",
                f"{EXECUTIONS} executions a night, 0 crashes",
                f"{total} executions, {crashes} crashes",
                total >= EXECUTIONS and not crashes,
            )
        )
    show(rows)
    if options.record:
        keep(rows, command_of(options))
    return 0 if all(result.row().met for result in results) else 1


def command_of(options: argparse.Namespace) -> str:
    """The command that a reader can type."""
    flags = [f"--minutes {options.minutes:g}"]
    flags += [f"--jobs {options.jobs}"] if options.jobs > 1 else []
    flags += [f"--executions {options.executions}"] if options.executions else []
    return " ".join(("scripts/fuzz", *options.targets, *flags))


@dataclass
class Bench:
    """Where a target is fuzzed: the command that starts it, and folders of the inputs known and of those found in all turns."""

    name: str
    target: Target
    folder: Path
    turns: int = 0

    @classmethod
    def set_up(cls, name: str, folder: Path, *, short: bool) -> Bench:
        """Write what the fuzzer reads into a new folder: of the inputs known, the shorter half for a short look."""
        bench = cls(name, load(name), folder)
        folder.mkdir()
        uncounted = " ".join(bench.target.uncounted())
        child = f'exec "{sys.executable}" -m tests.fuzz.child {name} "$@"'
        bench.command.write_text(f'#!/bin/sh\nFUZZ_UNCOUNTED="{uncounted}" FUZZ_COMMAND=$0 {child}\n')
        bench.command.chmod(0o755)
        words = "".join(f'"{_escaped(word)}"\n' for word in bench.target.words if word)
        (folder / "words").write_text(words)
        known = corpus.read(name) or [*bench.target.seeds()]
        corpus.unpacked(known[: (len(known) + 1) // 2] if short else known, folder / "known")
        corpus.unpacked((), folder / "new")
        return bench

    @property
    def command(self) -> Path:
        """What starts libFuzzer on the target."""
        return self.folder / "fuzz"

    def turn(self, minutes: float, *, same: bool) -> tuple[int, int]:
        """How many inputs were tried, and how many of them were bugs: libFuzzer ends at the first.

        ``same`` is for a short look: it tries the same inputs each time; what finds new ones is a night.
        """
        self.turns += 1
        flags = [
            f"-seed={self.turns if same else 0}",
            f"-max_total_time={max(1, round(minutes * 60))}",
            f"-dict={self.folder}/words",
            f"-artifact_prefix={self.folder}/found-",
        ]
        run = self._libfuzzer(["-print_final_stats=1", *flags, f"{self.folder}/new", f"{self.folder}/known"])
        executions = re.findall(r"number_of_executed_units: (\d+)|Done (\d+) runs", run.stderr)
        if run.returncode:
            self._tell(run.stderr)
        return max((int(count or other) for count, other in executions), default=0), int(run.returncode != 0)

    def _tell(self, said: str) -> None:
        lines = (line for line in said.splitlines() if line[:1] not in ("#", "") and line[:5] not in ("INFO:", "WARNI"))
        print("\n".join(lines), file=sys.stderr)
        for path in self.folder.glob("found-*"):
            print(f"{path.name}: {base64.b64encode(path.read_bytes()).decode()}", file=sys.stderr, flush=True)

    def keep(self) -> None:
        """Add to the corpus what reached more than it does."""
        merged = corpus.unpacked(corpus.read(self.name), self.folder / "merged")
        self._libfuzzer(["-merge=1", str(merged), f"{self.folder}/new", f"{self.folder}/known"])
        corpus.add(self.name, (path.read_bytes() for path in merged.iterdir()))

    def measured(self) -> Reached:
        """What the corpus reaches."""
        inputs = corpus.read(self.name)
        folder = corpus.unpacked(inputs, self.folder / "measured")
        by_module = covered(self.name, folder, self.target.files())
        for module, (taken, branches) in by_module.items():
            if taken < FLOOR * branches:
                print(
                    f"{self.name}: {module} has {branches} branches, of which the corpus takes {taken}", file=sys.stderr
                )
        return Reached(len(inputs), *map(sum, zip(*by_module.values(), strict=True)))

    def _libfuzzer(self, flags: list[str]) -> subprocess.CompletedProcess[str]:
        limits = (f"-max_len={self.target.longest}", f"-timeout={LONGEST_STILL}", f"-rss_limit_mb={MEMORY}")
        command = [str(self.command), *limits, *flags]
        return subprocess.run(command, cwd=ROOT, check=False, stderr=subprocess.PIPE, text=True, errors="replace")


def _escaped(word: str) -> str:
    """A word as libFuzzer's dictionaries have it."""
    data = word.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"\\x{byte:02x}" for byte in data)


def covered(name: str, folder: Path, files: Sequence[str], enough: float = 1.0) -> dict[str, tuple[int, int]]:
    """For each of a target's modules, how many branches the inputs of a folder take, and how many there are.

    Raises:
        subprocess.CalledProcessError: an input is a bug. What the target raised is on standard error.
    """
    command = [sys.executable, "-m", "tests.fuzz.covered", name, str(folder), str(enough), *files]
    taken_of: dict[str, list[int]] = json.loads(
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    )
    return {module: (taken, branches) for module, (taken, branches) in taken_of.items()}


if __name__ == "__main__":
    sys.exit(main())
