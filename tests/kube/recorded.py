"""Answers recorded from Go: the files of corpus/, written by the programs of recorder/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from injector.errors import DataError

CORPUS = Path(__file__).with_name("corpus")


def recorded(name: str, *, more_than: int = 0) -> list[dict[str, Any]]:
    """The cases of a file of the corpus, which are enough to mean something."""
    cases: list[dict[str, Any]] = orjson.loads((CORPUS / f"{name}.json").read_bytes())
    assert len(cases) > more_than
    return cases


def result_of(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The result of a function, or its error, which is recorded without the place and the hint."""
    try:
        return function(*args, **options)
    except DataError as error:
        return f"error: {error.what}"
