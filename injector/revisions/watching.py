"""What the file system tells of folders: that something changed below them, or may have.

What changed is not told on: a mounted ConfigMap changes by one link, an editor by a file beside, and only reading
says what it comes to.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from watchfiles import Change, awatch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence
    from pathlib import Path

    Identity = tuple[str, int, int]

STEP: Final = 50
"""Milliseconds between two looks at what the file system told."""

RENEW: Final = 500
"""Milliseconds after which the folders themselves are looked at: one that was replaced tells nothing any more."""


async def file_changes(folders: Sequence[Path], *, recursive: bool) -> AsyncGenerator[None]:
    """Yield once the folders are watched, and whenever something below them changed or may have.

    Folders that are replaced, and links that lead elsewhere, are watched anew.

    Raises:
        OSError: a folder is not there, or the file system does not tell.
    """
    while True:
        watched = await asyncio.to_thread(identities, folders, recursive=recursive)
        began = False
        told = awatch(
            *folders,
            watch_filter=None,
            debounce=2 * STEP,
            step=STEP,
            rust_timeout=RENEW,
            yield_on_timeout=True,
            recursive=recursive,
            ignore_permission_denied=True,
        )
        async with aclosing(told) as batches:
            async for batch in batches:
                deleted = {path for change, path in batch if change is Change.deleted}
                # A folder made anew may have the old one's number, so its end counts, not only the difference.
                stale = not deleted.isdisjoint(path for path, _, _ in watched)
                stale = stale or await asyncio.to_thread(identities, folders, recursive=recursive) != watched
                if batch or stale or not began:
                    yield
                began = True
                if stale:
                    break


def identities(folders: Iterable[Path], *, recursive: bool) -> frozenset[Identity]:
    """Return which folders a watch of ``folders`` sees: they themselves and, where recursive, those in them."""
    found: set[Identity] = set()
    for folder in folders:
        try:
            at = folder.stat()
            found.add((str(folder), at.st_dev, at.st_ino))
            if recursive:
                found |= _inside(folder)
        except OSError:
            continue
    return frozenset(found)


def _inside(folder: Path) -> set[Identity]:
    with os.scandir(folder) as entries:
        return {(entry.path, at.st_dev, at.st_ino) for entry in entries if entry.is_dir() and (at := entry.stat())}
