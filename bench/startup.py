"""How long a command takes from nothing: the median of ten runs each, Python's own start beside them."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.recording import ROOT, record, show

RUNS = 10
INJECTOR = str(Path(sys.executable).with_name("injector"))
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "injector --help": [INJECTOR, "--help"],
    "injector kube-inject": [
        INJECTOR,
        "kube-inject",
        "-f",
        str(ROOT / "docs" / "samples" / "hello.yaml"),
        "--revisions-dir",
        str(ROOT / "revisions"),
    ],
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed command has its bytecode; a source tree gets it from the first run, unless told not to."""
TARGETS_MS = {"injector --help": 150.0, "injector kube-inject": 400.0}


def main() -> int:
    """Measure each command; the exit status tells whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results")
    options = parser.parse_args()
    rows = {name: timed(command) for name, command in COMMANDS.items()}
    rows = {name: {**row, "target_ms": TARGETS_MS[name]} if name in TARGETS_MS else row for name, row in rows.items()}
    show("start-up", rows)
    if options.record:
        record("startup", rows)
    return 0 if all(rows[name]["median_ms"] < target for name, target in TARGETS_MS.items()) else 1


def timed(command: list[str]) -> dict[str, float]:
    """The median and the best of the runs, after one that fills the caches."""
    subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - started) * 1e3)
    return {"median_ms": round(statistics.median(times), 1), "best_ms": round(min(times), 1)}


if __name__ == "__main__":
    sys.exit(main())
