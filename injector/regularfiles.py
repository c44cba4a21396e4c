"""Read regular files: those of a configuration, and of credentials."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from injector.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

P = ParamSpec("P")
T = TypeVar("T")

MAX_FILE: Final = 16 * 1024 * 1024
"""Bytes. A ConfigMap has at most a mebibyte."""


def read_file(path: Path, *, pipes: bool = False) -> bytes:
    """Return the content of a regular file. Links, as in a mounted ConfigMap, are followed.

    With ``pipes``, it may also be a pipe, as the shell makes of ``<(command)``: for commands, which a user can interrupt.

    Raises:
        ConfigError: it is another kind of file, whose read may never end, or larger than ``MAX_FILE``.
        OSError: it cannot be read.
    """
    # With O_NONBLOCK, opening a FIFO does not wait for its writer.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if pipes and stat.S_ISFIFO(mode):
            os.set_blocking(file, True)
        elif not stat.S_ISREG(mode):
            raise ConfigError("is not a regular file", where=str(path), hint="write a file, or a link to one")
        with os.fdopen(file, "rb", closefd=False) as reader:
            content: bytes | None = reader.read(MAX_FILE + 1)
        if content is None:  # the file system has nothing yet, as some do for a file that never ends
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(file)
    if len(content) > MAX_FILE:
        raise ConfigError(f"is larger than {MAX_FILE >> 20} MiB", where=str(path), hint="check what wrote it")
    return content


class DaemonThreads(Executor):
    """Makes each call in a thread that the end of the process does not wait for: a read from a mount that hangs may never end."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a call."""
        done: Future[T] = Future()

        def run() -> None:
            done.set_running_or_notify_cancel()  # it cannot be cancelled from here on
            try:
                done.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 -- the waiter gets it
                done.set_exception(error)

        Thread(target=run, daemon=True).start()
        return done


DAEMON_THREADS: Final = DaemonThreads()
