"""Manifests in: files, folders and stdin, as texts with the name that messages call them by."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from injector.errors import ManifestError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN: Final = "-"
# The file names that kubectl reads in a folder (k8s.io/cli-runtime, resource.FileExtensions).
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """The text of one file."""

    name: str
    text: str


def read_manifests(names: Sequence[str], *, recursive: bool) -> list[Manifest]:
    """Read every file that ``names`` mean, in order: a file, a folder, or ``-`` for stdin.

    Raises:
        UsageError: nothing was named, or stdin more than once.
        ManifestError: a file is missing, unreadable or not UTF-8, or a folder has no manifest.
    """
    if not names:
        raise UsageError("no file was named", hint="give -f FILE, -f FOLDER, or -f - for stdin")
    if names.count(STDIN) > 1:
        raise UsageError("stdin can be read only once", where=f"-f {STDIN}", hint="name it once")
    return [_read(path) for name in names for path in _paths(name, recursive=recursive)]


def _paths(name: str, *, recursive: bool) -> Iterator[str]:
    if name == STDIN or not os.path.isdir(name):  # noqa: PTH112 -- a name stays as it was written, for messages
        yield name
        return
    found = sorted(str(path) for path in Path(name).glob("**/*" if recursive else "*") if _is_manifest(path))
    if not found:
        hint = "add -R to look into its folders too" if not recursive else "put a manifest there"
        raise ManifestError("the folder has no .yaml, .yml or .json file", where=name, hint=hint)
    yield from found


def _is_manifest(path: Path) -> bool:
    return path.suffix in SUFFIXES and path.is_file()


def _read(name: str) -> Manifest:
    shown = "stdin" if name == STDIN else name
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror}", where=shown, hint="check the path") from error
    try:
        return Manifest(shown, raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ManifestError("this is not UTF-8", where=f"{shown}:{line}", hint="save the file as UTF-8") from error
