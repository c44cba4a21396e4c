"""Files of a configuration: read, replaced as a whole, and watched for changes.

Watching uses inotify(7) directly: the libraries for it poll a thread twenty times a second, and an injector is idle most of the time. A
notification does not say what changed. A mounted ConfigMap changes by one link, and an editor writes a second file, so only reading shows
the new state.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from injector.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence

BATCH: Final = 0.05
"""Seconds after a change in which further changes are reported together with it."""

# <sys/inotify.h>: modify, attributes, closed after writing, moved, created, deleted; the folder itself deleted or moved.
_EVENTS: Final = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
_ONLY_FOLDERS: Final = 0x01000000


def read_text(path: Path) -> str | None:
    """Return the text of a file; None if it does not exist.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        hint = "make it a readable file"
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 at byte {error.start}", where=str(path), hint="save it as UTF-8") from error


def read_nonempty(path: Path) -> str | None:
    """Return the text of a file; None if it does not exist.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, or is empty. An empty file may be in the middle of being written; an empty mesh config
            would be served as Istio's defaults, and empty tags as no tags.
    """
    text = read_text(path)
    if text is not None and not text.strip():
        raise ConfigError("is empty", where=str(path), hint="write it, or delete it")
    return text


def required_text(path: Path, read: Callable[[Path], str | None] = read_text) -> str:
    """Return the text of a file that must exist.

    Raises:
        ConfigError: it does not exist, or ``read`` fails.
    """
    text = read(path)
    if text is None:
        raise ConfigError("there is no such file", where=str(path), hint="check the path")
    return text


def replace_file(path: Path, text: str) -> None:
    """Replace the content of a file by one rename, so that readers see either the old or the new text.

    The file keeps its mode; a new file gets the mode of the process's umask.

    Raises:
        OSError: it cannot be written; the old content is unchanged.
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
    """Remove a folder by one rename, then its content; of a link, only the link.

    The temporary name starts with a dot, which readers of a directory of revisions ignore.

    Raises:
        OSError: it cannot be removed. The folder is unchanged, or only the renamed rest is left.
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
    """Return the mode of the file, or of a new file of this process."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


async def file_changes(folders: Sequence[Path], *, recursive: bool) -> AsyncGenerator[None]:
    """Yield once the folders are watched, and after each possible change in them.

    Args:
        folders: the folders to watch.
        recursive: whether to watch their subfolders too, one level deep.

    Raises:
        OSError: a folder does not exist, or the platform has no inotify.
    """
    # Imported here, because commands that only read files start in half the time without it.
    import asyncio  # noqa: PLC0415

    while True:
        # Starting again finds folders that were added or replaced. The caller reads after each yield, so it misses nothing.
        with _watched(watched_folders(folders, recursive=recursive)) as file:
            yield
            await _readable(file)
        await asyncio.sleep(BATCH)


def watched_folders(folders: Iterable[Path], *, recursive: bool) -> list[Path]:
    """Return the folders to watch, with their subfolders if recursive, and the parent of a link, which may be replaced.

    Raises:
        OSError: a folder does not exist.
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
    """Give a file descriptor that becomes readable once something in the folders has changed."""
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
    import asyncio  # noqa: PLC0415 -- see above

    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(file, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(file)
