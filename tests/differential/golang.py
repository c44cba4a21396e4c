"""Go's answers, asked live: the program of ``recorder/``, built where Go is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import orjson

Question: TypeAlias = "dict[str, Any]"
Answer: TypeAlias = "dict[str, Any]"

SOURCE = Path(__file__).with_name("recorder")
ABSENT = "Go is not installed, or its modules cannot be had; the recorded answers were used"
BUILD_LIMIT = 900.0


def built(folder: Path) -> Path | None:
    """Build the program into a folder; None without Go, or without the modules."""
    if shutil.which("go") is None:
        return None
    program = folder / "answers"
    command = ["go", "build", "-trimpath", "-o", str(program), "."]
    done = subprocess.run(command, cwd=SOURCE, check=False, capture_output=True, timeout=BUILD_LIMIT)
    return program if done.returncode == 0 else None


def ask_go(program: Path, kind: str, questions: Sequence[Question]) -> list[Answer]:
    """Go's answers to questions of one kind, in their order."""
    lines = b"\n".join(map(encoded, questions))
    done = subprocess.run([str(program), kind], input=lines, check=True, capture_output=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


def encoded(question: Question) -> bytes:
    """A question as a line of JSON; a fragment of JSON in it stays the text that it is."""
    return orjson.dumps(question)
