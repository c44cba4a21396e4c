"""Answers recorded from Go: the files of corpus/, written by the programs of recorder/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

CORPUS = Path(__file__).with_name("corpus")


def recorded(name: str) -> list[dict[str, Any]]:
    """The cases of a file of the corpus."""
    cases: list[dict[str, Any]] = orjson.loads((CORPUS / f"{name}.json").read_bytes())
    return cases
