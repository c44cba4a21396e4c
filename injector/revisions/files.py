"""Files written, and folders removed, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Make ``text`` the file's content by one rename: who reads it meanwhile sees the old text or the new.

    The file keeps its mode; a new one has the mode that the user gives files.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(_mode(path))
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def remove_folder(path: Path) -> None:
    """Remove a folder by one rename, then what it held; of a link, the link.

    The name in between begins with a dot: for readers of a directory of revisions it is none.

    Raises:
        OSError: it cannot be removed; what was there is as it was, or is gone but for the renamed rest.
    """
    if path.is_symlink():
        path.unlink()
        return
    rest = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        path.rename(rest / path.name)
    finally:
        shutil.rmtree(rest)


def _mode(path: Path) -> int:
    """The mode of the file that is replaced, else what the process gives a new file."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
