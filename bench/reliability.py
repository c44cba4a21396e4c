"""Targets of reliability and what came of them: printed, kept in ``bench/results``, and written to docs/reliability.md."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench.recording import RESULTS, commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH = 110
"""A figure with many kinds of error is cut."""
KEPT = RESULTS / "reliability.json"
HEAD = """# Reliability

{note}
Load and fault-injection tests: the target of each, the figure of the last run, and its command. [The benchmarks](../bench/README.md)
explain how a run adds its rows. The machine has two cores, which the clients use too. "P" is 150 admissions a second of mixed pods for four
revisions, up to 200 at once over 25 persistent connections, as an API server sends them. The test suite has short versions.

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


def show(rows: Iterable[Row]) -> None:
    """Print the table."""
    lines = [
        ("test", "target", "figure", ""),
        *((r.test, r.target, r.figure, "ok" if r.met else "MISSED") for r in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for line in lines:
        print(
            "  ".join(f"{text[:WIDTH]:{min(width, WIDTH)}}" for text, width in zip(line, widths, strict=True)).rstrip()
        )


def keep(rows: Sequence[Row], command: str) -> None:
    """Keep the rows of a command instead of those of its run before."""
    runs = _runs()
    run = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit(), "rows": [asdict(row) for row in rows]}
    KEPT.write_text(json.dumps({**runs, command: run}, indent=1, sort_keys=True) + "\n")
    print("kept for docs/reliability.md: write it with scripts/reference")


def page(note: str) -> str:
    """Return docs/reliability.md; ``note`` says who writes it."""
    rows = [(row, run, command) for command, run in _runs().items() for row in run["rows"]]
    return HEAD.format(note=note) + "".join(_line(*each) for each in sorted(rows, key=_order))


def _line(row: dict[str, Any], run: dict[str, Any], command: str) -> str:
    figure = str(row["figure"])[: 2 * WIDTH].replace("|", "/")
    cells = (row["test"], row["target"], figure, "yes" if row["met"] else "**no**", run["date"], run["commit"])
    return f"| {' | '.join(cells)} | `{command}` |\n"


def _order(each: tuple[dict[str, Any], dict[str, Any], str]) -> tuple[int, str, str]:
    number = re.match(r"T(\d+)", each[0]["test"])
    return (int(number[1]) if number else 1_000, each[2], each[0]["test"])


def _runs() -> dict[str, dict[str, Any]]:
    runs: dict[str, dict[str, Any]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return runs
