"""The inputs that reached something, kept in the repository: a file for each target, an input a line, in base64."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = Path(__file__).with_name("corpus")


def kept(name: str) -> list[bytes]:
    """The corpus of a target."""
    path = FOLDER / f"{name}.txt"
    return [base64.b64decode(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def keep(name: str, inputs: Iterable[bytes]) -> None:
    """Write the corpus of a target, short inputs first."""
    ordered = sorted(set(inputs), key=lambda data: (len(data), data))
    (FOLDER / f"{name}.txt").write_text("".join(f"{base64.b64encode(data).decode()}\n" for data in ordered))


def unpacked(inputs: Iterable[bytes], folder: Path) -> Path:
    """A folder with a file for each input, as libFuzzer has them."""
    folder.mkdir()
    for number, data in enumerate(inputs):
        (folder / f"{number:06}").write_bytes(data)
    return folder
