"""Files of a configuration: read, replaced as a whole, and checked for changes."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from injector.errors import ConfigError
from injector.regularfiles import DAEMON_THREADS, read_file

if TYPE_CHECKING:
    from concurrent.futures import Future

CHECK_INTERVAL: Final = 0.6
"""Seconds between two checks for changes: a change is served within a second, and an idle server wakes less than 3 times a second."""
BURST: Final = 10
BURST_INTERVAL: Final = 0.05
"""The first checks after a change follow at this interval, so that the reader notices files that are still being written."""
READ_TIMEOUT: Final = 5.0
"""Seconds for one read of a configuration. A local disk takes milliseconds. A mount that hangs would stop all reloads."""
LEVELS: Final = 3
"""A directory of revisions, its folders, and their files."""
_NEWLINE: Final = re.compile("\r\n?")

T = TypeVar("T")


def read_text(path: Path, *, pipes: bool = False) -> str | None:
    """Return the text of a file as ``read_verbatim``, with each line break as a newline."""
    text = read_verbatim(path, pipes=pipes)
    return None if text is None else _NEWLINE.sub("\n", text)


def read_verbatim(path: Path, *, pipes: bool = False) -> str | None:
    """Return the text of a file with its own line breaks; None if it does not exist. See ``read_file`` for ``pipes``.

    Raises ConfigError if it cannot be read, or is not UTF-8.
    """
    try:
        return read_file(path, pipes=pipes).decode()
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
    """Return the text of a file that must exist. Raises ConfigError if it does not exist, or ``read`` fails."""
    text = read(path)
    if text is None:
        raise ConfigError("there is no such file", where=str(path), hint="check the path")
    return text


def replace_file(path: Path, pieces: Iterable[str]) -> None:
    """Replace the content of a file by one rename, so that readers see either the old or the new text, whose ``pieces`` are written.

    The file keeps its mode; a new file gets the mode of the process's umask.

    Raises:
        OSError: it cannot be written; the old content is unchanged.
    """
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    new = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            new.chmod(mode)
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
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


class TimedReads:
    """Reads in a thread, and gives up after ``READ_TIMEOUT``. As long as a read has not ended, no other one begins."""

    def __init__(self) -> None:
        self._reading: Future[Any] | None = None

    def read(self, source: Callable[[], T], what: str, *, where: str = "") -> T:
        """Return the result of ``source``. Raises ConfigError if that takes too long; ``what`` and ``where`` are for its text."""
        timeout = 0.0
        if self._reading is None or self._reading.done():
            self._reading, timeout = DAEMON_THREADS.submit(source), READ_TIMEOUT
        try:
            result: T = self._reading.result(timeout)
        except TimeoutError as error:
            if self._reading.done():
                raise  # the source's own
            hint = "check the volume that it is on"
            raise ConfigError(f"{what} cannot be read within {READ_TIMEOUT:g} s", where=where, hint=hint) from error
        return result


class FileWatch:
    """Checks files for changes in a thread of its own, so that a mount that hangs stops nothing else.

    ``paths`` are files, and folders, which are checked two levels deep. The thread runs within an ``async with`` block.
    """

    def __init__(self, paths: Sequence[Path], interval: float | None = None) -> None:
        # Imported here, because commands that only read files start in half the time without it.
        import asyncio  # noqa: PLC0415

        self._paths = paths
        self._interval = CHECK_INTERVAL if interval is None else interval
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._stopping = Event()

    async def __aenter__(self) -> Self:
        DAEMON_THREADS.submit(self._watch)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()

    async def wait(self) -> None:
        """Return at once the first time, and then after each change. The caller reads the files then, so it misses no change."""
        await self._changed.wait()
        self._changed.clear()

    def _watch(self) -> None:
        known: object = None
        checks = 0
        while not self._stopping.is_set():
            current = file_states(self._paths)
            if current != known:
                known, checks = current, 0
                with suppress(RuntimeError):  # the event loop has been closed
                    self._loop.call_soon_threadsafe(self._changed.set)
            self._stopping.wait(min(BURST_INTERVAL, self._interval) if checks < BURST else self._interval)
            checks += 1


async def file_changes(paths: Sequence[Path]) -> AsyncGenerator[None]:
    """Yield at once, and after each change of the files, or of the content of the folders."""
    async with FileWatch(paths) as watch:
        while True:
            await watch.wait()
            yield


def file_states(paths: Sequence[Path]) -> dict[Path, tuple[int, int, int]]:
    """Return the inode, the time of the last change and the size of each file. Links, as in a mounted ConfigMap, are followed."""
    states: dict[Path, tuple[int, int, int]] = {}
    level = list(paths)
    for _ in range(LEVELS):
        files, level = level, []
        for path in files:
            with suppress(OSError):  # it is missing, a link without a target, or cannot be read
                status = path.stat()
                states[path] = status.st_ino, status.st_ctime_ns, status.st_size
                if stat.S_ISDIR(status.st_mode):
                    level += path.iterdir()
    return states
