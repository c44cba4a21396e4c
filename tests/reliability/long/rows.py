"""Targets of the reliability tests and their results: printed, saved in ``results.json``, and written to docs/reliability.md."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
WIDTH = 110
"""A figure with many kinds of error is cut."""
RESULTS = Path(__file__).with_name("results.json")
HEAD = """# Reliability

{note}
Targets and results of the load and fault-injection tests, with the command that shows each. The figure is of the date and the commit,
at which the command may have had another name. [Reliability tests](../tests/reliability/README.md) describes the commands and how a run
saves its rows here. The machine has two cores, which the clients share. "P" is 150 admissions a second of mixed pods for four revisions,
up to 200 at once over 25 pooled connections, as an API server sends them. Short versions run with `scripts/test --all`.

| test | target | figure | met | date | commit | command |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One target and what came of it; ``test`` begins with the target's number, as in ``T12 restart x20``."""

    test: str
    target: str
    figure: str
    met: bool


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options of a test, with ``--record``."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--record", action="store_true", help="keep the rows for docs/reliability.md")
    return options


def show(rows: Iterable[Row]) -> None:
    """Print the table."""
    cells = ((row.test, row.target, row.figure, "ok" if row.met else "MISSED") for row in rows)
    lines = [("test", "target", "figure", ""), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for line in lines:
        print(
            "  ".join(f"{text[:WIDTH]:{min(width, WIDTH)}}" for text, width in zip(line, widths, strict=True)).rstrip()
        )


def keep(rows: Sequence[Row], command: str) -> None:
    """Keep the rows of a command instead of those of its run before."""
    runs = _runs()
    run = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit(), "rows": [asdict(row) for row in rows]}
    RESULTS.write_text(json.dumps({**runs, command: run}, indent=2, sort_keys=True) + "\n")
    print("kept for docs/reliability.md: write it with scripts/reference")


def finish(runs: Mapping[str, Sequence[Row]], *, record: bool) -> int:
    """Show the rows of runs, and keep them by their commands if asked to; return the exit status."""
    rows = [row for run in runs.values() for row in run]
    show(rows)
    if record:
        for command, run in runs.items():
            keep(run, command)
    return 0 if all(row.met for row in rows) else 1


def commit() -> str:
    """Return the short hash of the commit that is checked out."""
    head = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def page(note: str) -> str:
    """Return docs/reliability.md; ``note`` says who writes it."""
    rows = [(row, run, command) for command, run in _runs().items() for row in run["rows"]]
    return HEAD.format(note=note) + "".join(_line(*entry) for entry in sorted(rows, key=_order))


def _line(row: dict[str, Any], run: dict[str, Any], command: str) -> str:
    figure = textwrap.shorten(str(row["figure"]).replace("|", "/"), 2 * WIDTH, placeholder=" ...")
    cells = (row["test"], row["target"], figure, "yes" if row["met"] else "**no**", run["date"], run["commit"])
    return f"| {' | '.join(cells)} | `{command}` |\n"


def _order(entry: tuple[dict[str, Any], dict[str, Any], str]) -> tuple[int, str, str]:
    number = re.match(r"T(\d+)", entry[0]["test"])
    return (int(number[1]) if number else 1_000, entry[2], entry[0]["test"])


def _runs() -> dict[str, dict[str, Any]]:
    runs: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return runs
