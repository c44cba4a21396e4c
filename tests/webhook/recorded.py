"""The reviews that a real API server sent (see ``reviews/README.md``)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent / "reviews"
NAMES: Final = ("deployment", "job", "statefulset", "dry-run", "pod")


def recorded(name: str) -> list[bytes]:
    """Return the bodies of one workload, in the order in which the API server sent them."""
    return (FOLDER / f"{name}.jsonl").read_bytes().splitlines()
