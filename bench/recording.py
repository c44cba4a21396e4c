"""Figures of a run: printed as a table, and appended to ``bench/results`` when asked to."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    """Print one table: a row per name, a column per figure."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    width = max(len(name) for name in [*rows, title])
    print(f"{title:{width}}  " + "  ".join(f"{column:>12}" for column in columns))
    for name, row in rows.items():
        print(f"{name:{width}}  " + "  ".join(f"{row[c]:12.3f}" if c in row else " " * 12 for c in columns))


def record(name: str, figures: dict[str, Any]) -> None:
    """Append a run to ``bench/results/<name>.json``, with the commit and the machine it is of."""
    path = RESULTS / f"{name}.json"
    runs = json.loads(path.read_text()) if path.exists() else []
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([*runs, {**_circumstances(), **figures}], indent=1) + "\n")
    print(f"appended to {path.relative_to(ROOT)}")


def commit() -> str:
    """Return the commit that is measured, in short."""
    head = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _circumstances() -> dict[str, Any]:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }
