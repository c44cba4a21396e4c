"""The process that measures: the branches of a target's modules that the inputs of a folder take, as JSON on standard output.

Its arguments are a target, the folder, which share of the branches is enough, and the modules. If the first half of the inputs takes enough
branches, the second half is tried without measuring, which takes half the time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import coverage

from tests.fuzz.target import ROOT, load


def main() -> None:
    """Measure; modules count from their import on."""
    name, folder, enough, *files = sys.argv[1:]
    measured = coverage.Coverage(branch=True, data_file=None, config_file=False, include=files)
    measured.start()
    target = load(name)
    paths = sorted(Path(folder).iterdir())
    half = len(paths) // 2
    for path in paths[:half]:
        target.run(path.read_bytes())
    measured.stop()
    taken_of = {file: branches(measured, file) for file in files}
    is_enough = share(taken_of.values()) >= float(enough)
    if not is_enough:
        measured.start()
    for path in paths[half:]:
        target.run(path.read_bytes())
    if not is_enough:
        measured.stop()
        taken_of = {file: branches(measured, file) for file in files}
    print(json.dumps({str(Path(file).relative_to(ROOT)): taken for file, taken in taken_of.items()}))


def share(taken_of: Collection[tuple[int, int]]) -> float:
    """How much of all branches was taken."""
    return sum(taken for taken, _ in taken_of) / sum(branches for _, branches in taken_of)


def branches(measured: coverage.Coverage, file: str) -> tuple[int, int]:
    """How many branches of a module were taken, and how many it has."""
    with NamedTemporaryFile("r", suffix=".json") as report:
        measured.json_report(morfs=[file], outfile=report.name)
        totals: dict[str, Any] = json.load(report)["totals"]
    return totals["covered_branches"], totals["num_branches"]


if __name__ == "__main__":
    main()
