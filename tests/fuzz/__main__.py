"""Fuzzes targets, one process at a time, and holds each corpus against its coverage floor.

What reached more than the corpus did is merged into tests/fuzz/corpus. The exit status is 1 where an input was a bug, or where a corpus
reaches less than the floor: a fuzzer that does not reach its target finds nothing in it.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.reliability import Row, keep, show
from tests.fuzz import corpus
from tests.fuzz.target import ROOT, TARGETS, load

if TYPE_CHECKING:
    from tests.fuzz.target import Target

FLOOR = 0.8
"""Of the branches of a target's modules."""
EXECUTIONS = 10_000_000
"""Of all targets in a night."""
LONGEST_RUN = 20
"""Seconds; an input takes milliseconds."""
MEMORY = 2048
"""MiB; above a gigabyte a process of fifty megabytes has a leak."""


@dataclass(frozen=True)
class Fuzzed:
    """What came of a target: executions, whether the last was a bug, inputs of its corpus, and their branches of those that there are."""

    name: str
    executions: int
    crashes: int
    inputs: int
    taken: int
    branches: int

    def row(self) -> Row:
        """The row of T31."""
        share = self.taken / self.branches
        figure = f"{self.executions} executions, {self.crashes} crashes, {share:.0%} of {self.branches} branches by {self.inputs} inputs"
        met = self.crashes == 0 and share >= FLOOR
        return Row(f"T31 fuzzing of {self.name}", f"0 crashes, >= {FLOOR:.0%} of the branches", figure, met)


def main() -> int:
    """Fuzz; the exit status tells whether all is well."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; all of them by default"
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to fuzz each target")
    parser.add_argument(
        "--leave-corpus", action="store_true", help="do not merge what was found into tests/fuzz/corpus"
    )
    parser.add_argument("--record", action="store_true", help="keep the rows for docs/reliability.md")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    found = []
    for name in options.targets or TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            found.append(fuzzed(name, options.minutes, Path(folder), leave=options.leave_corpus))
        show([found[-1].row()])
    return ended(found, options)


def ended(found: list[Fuzzed], options: argparse.Namespace) -> int:
    """Show and keep what came of all targets."""
    rows = [each.row() for each in found]
    if not options.targets:
        total = sum(each.executions for each in found)
        rows.append(
            Row(
                "T31 fuzzing of all targets",
                f"{EXECUTIONS} executions a night",
                f"{total} executions",
                total >= EXECUTIONS,
            )
        )
    if options.record:
        keep(rows, " ".join(("scripts/fuzz", *options.targets, f"--minutes {options.minutes:g}")))
    return 0 if all(each.row().met for each in found) else 1


def fuzzed(name: str, minutes: float, folder: Path, *, leave: bool) -> Fuzzed:
    """Fuzz a target, merge what it found, and measure the corpus."""
    target = load(name)
    command = folder / "fuzz"
    command.write_text(f'#!/bin/sh\nFUZZ_COMMAND=$0 exec "{sys.executable}" -m tests.fuzz.child {name} "$@"\n')
    command.chmod(0o755)
    known = [str(corpus.unpacked(corpus.kept(name) or target.seeds(), folder / "known"))]
    new = corpus.unpacked((), folder / "new")
    # A short look tries the same inputs each time; what finds new ones is a night.
    seed = "-seed=1" if leave else "-seed=0"
    executions, crashes = _explored(command, target, minutes, [seed, str(new), *known])
    if not leave:
        merged = corpus.unpacked((), folder / "merged")
        _libfuzzer(command, target, ["-merge=1", str(merged), str(new), *known])
        corpus.keep(name, (path.read_bytes() for path in merged.iterdir()))
    inputs = corpus.kept(name)
    taken, branches = _covered(name, corpus.unpacked(inputs, folder / "measured"))
    return Fuzzed(name, executions, crashes, len(inputs), taken, branches)


def _explored(command: Path, target: Target, minutes: float, folders: list[str]) -> tuple[int, int]:
    """How many inputs were tried, and how many of them were bugs: libFuzzer ends at the first."""
    words = command.with_name("words")
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words if word))
    flags = [
        f"-max_total_time={max(1, round(minutes * 60))}",
        f"-dict={words}",
        f"-artifact_prefix={command.parent}/found-",
    ]
    run = _libfuzzer(command, target, ["-print_final_stats=1", *flags, *folders])
    executions = re.findall(r"number_of_executed_units: (\d+)|Done (\d+) runs", run.stderr)
    if run.returncode:
        print(
            "\n".join(
                line
                for line in run.stderr.splitlines()
                if line[:1] not in ("#", "") and line[:5] not in ("INFO:", "WARNI")
            ),
            file=sys.stderr,
        )
        for path in command.parent.glob("found-*"):
            print(f"{path.name}: {base64.b64encode(path.read_bytes()).decode()}", file=sys.stderr)
    return max((int(count or other) for count, other in executions), default=0), int(run.returncode != 0)


def _libfuzzer(command: Path, target: Target, flags: list[str]) -> subprocess.CompletedProcess[str]:
    limits = (f"-max_len={target.longest}", f"-timeout={LONGEST_RUN}", f"-rss_limit_mb={MEMORY}")
    return subprocess.run(
        [command, *limits, *flags], cwd=ROOT, check=False, stderr=subprocess.PIPE, text=True, errors="replace"
    )


def _escaped(word: str) -> str:
    """A word as libFuzzer's dictionaries have it."""
    data = word.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"\\x{byte:02x}" for byte in data)


def _covered(name: str, folder: Path) -> tuple[int, int]:
    """How many branches of the target's modules the inputs of a folder take, and how many there are."""
    command = [sys.executable, "-m", "tests.fuzz.covered", name, str(folder)]
    by_module: dict[str, list[int]] = json.loads(
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    )
    for module, (taken, branches) in by_module.items():
        if taken < FLOOR * branches:
            print(f"{name}: {module} has {branches} branches, of which the corpus takes {taken}", file=sys.stderr)
    return sum(taken for taken, _ in by_module.values()), sum(branches for _, branches in by_module.values())


if __name__ == "__main__":
    sys.exit(main())
