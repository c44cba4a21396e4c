"""The process that measures: the branches of a target's modules that the inputs of a folder take, as JSON on standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import coverage

from tests.fuzz.target import ROOT, load


def main() -> None:
    """Measure; modules count from their import on."""
    name, folder, *files = sys.argv[1:]
    measured = coverage.Coverage(branch=True, data_file=None, config_file=False, include=files)
    measured.start()
    target = load(name)
    for path in sorted(Path(folder).iterdir()):
        target.run(path.read_bytes())
    measured.stop()
    print(json.dumps({str(Path(file).relative_to(ROOT)): branches(measured, file) for file in files}))


def branches(measured: coverage.Coverage, file: str) -> tuple[int, int]:
    """How many branches of a module were taken, and how many it has."""
    with NamedTemporaryFile("r", suffix=".json") as report:
        measured.json_report(morfs=[file], outfile=report.name)
        totals: dict[str, Any] = json.load(report)["totals"]
    return totals["covered_branches"], totals["num_branches"]


if __name__ == "__main__":
    main()
