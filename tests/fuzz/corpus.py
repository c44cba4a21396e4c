"""The inputs that reached something, kept in the repository: a file for each target, an input a line, in base64."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")
LARGEST = 256 * 1024
"""Bytes of a file."""


def read(name: str) -> list[bytes]:
    """The corpus of a target."""
    path = FOLDER / f"{name}.txt"
    return [base64.b64decode(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def keep(name: str, inputs: Iterable[bytes]) -> None:
    """Write the corpus of a target, short inputs first."""
    ordered = sorted(set(inputs), key=lambda data: (len(data), data))
    (FOLDER / f"{name}.txt").write_text("".join(f"{base64.b64encode(data).decode()}\n" for data in ordered))


def add(name: str, inputs: Iterable[bytes]) -> None:
    """Add inputs to the corpus of a target, short ones first, as long as there is room; what is there stays."""
    known = read(name)
    room = LARGEST - sum(map(_size, known))
    for data in sorted(set(inputs) - set(known), key=len):
        room -= _size(data)
        if room <= 0:
            break
        known.append(data)
    keep(name, known)


def _size(data: bytes) -> int:
    return len(base64.b64encode(data)) + 1


def unpacked(inputs: Iterable[bytes], folder: Path) -> Path:
    """A folder with a file for each input, as libFuzzer has them."""
    folder.mkdir()
    for number, data in enumerate(inputs):
        (folder / f"{number:06}").write_bytes(data)
    return folder
