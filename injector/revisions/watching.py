"""File system notifications: tells that something changed in some folders, or may have changed.

It uses inotify(7) directly. The libraries for it poll a thread twenty times a second, and an injector is idle most of the time. What
changed is not reported: a mounted ConfigMap changes by one link, an editor by a file beside, and only reading shows what that comes to.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
    from pathlib import Path

BATCH: Final = 0.05
"""Seconds after a change in which further ones are reported together with it."""

# <sys/inotify.h>: modify, attributes, closed after writing, moved, created, deleted; the folder itself deleted or moved.
_EVENTS: Final = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
_ONLY_FOLDERS: Final = 0x01000000


async def file_changes(folders: Sequence[Path], *, recursive: bool) -> AsyncGenerator[None]:
    """Yield once the folders are watched, and whenever something in them changed or may have changed.

    Args:
        folders: what to watch.
        recursive: whether to watch the folders in them too, one level deep.

    Raises:
        OSError: a folder is not there, or the platform has no inotify.
    """
    while True:
        # Folders that were made or replaced since are found by beginning again. The caller reads after this, so it misses nothing.
        with _watched(watched_folders(folders, recursive=recursive)) as file:
            yield
            await _readable(file)
        await asyncio.sleep(BATCH)


def watched_folders(folders: Iterable[Path], *, recursive: bool) -> list[Path]:
    """Return the folders to watch: they themselves, those in them if recursive, and the folder of a link, which may change.

    Raises:
        OSError: a folder is not there.
    """
    found: list[Path] = []
    for folder in folders:
        found.append(folder)
        if folder.is_symlink():
            found.append(folder.parent)
        if recursive:
            found += [each for each in folder.iterdir() if each.is_dir()]
    return found


@contextmanager
def _watched(folders: Iterable[Path]) -> Iterator[int]:
    """Give a file that can be read once something in the folders has changed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        raise OSError("the platform has no inotify")
    file = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    try:
        for folder in folders:
            _checked(libc.inotify_add_watch(file, os.fsencode(folder), _EVENTS | _ONLY_FOLDERS))
        yield file
    finally:
        os.close(file)


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


async def _readable(file: int) -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(file, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(file)
