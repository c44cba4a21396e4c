"""Copies of this process, in which nothing has been injected yet, and one copy that stays and remembers.

A function that runs ``in_a_copy`` sees every module and every revision as they were built, whatever other copies did. Only a process with
one thread may be copied, so callers start one of their own (``multiprocessing`` with ``spawn``).
"""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from typing import Any


def in_a_copy(function: Callable[[], bytes]) -> bytes:
    """Return what a function returns in a copy of this process.

    Raises:
        RuntimeError: it failed there; with its traceback.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        gc.disable()  # it would look at all objects, and so copy the pages that the processes share
        os.close(reader)
        with os.fdopen(writer, "wb") as stream:
            try:
                stream.write(b"+" + function())
            except BaseException:  # noqa: BLE001 -- the parent raises it
                stream.write(b"-" + traceback.format_exc().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        result = stream.read()
    os.waitpid(pid, 0)
    if not result.startswith(b"+"):
        raise RuntimeError(result[1:].decode() or "the copy of the process ended early")
    return result[1:]


class Companion:
    """A copy of this process that lives until it is closed, and calls a function of its own for each request.

    ``start`` runs in the copy once and returns the function.
    """

    def __init__(self, start: Callable[[], Callable[[Any], Any]]) -> None:
        self._connection, other = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._connection.close()
            _serve(other, start)
        other.close()

    def call(self, request: Any) -> Any:
        """Return what the function returns.

        Raises:
            RuntimeError: it failed; with its traceback.
        """
        self._connection.send(request)
        ok, result = self._connection.recv()
        if not ok:
            raise RuntimeError(result)
        return result

    def close(self) -> None:
        """End the copy."""
        self._connection.close()
        os.waitpid(self._pid, 0)


def _serve(connection: Any, start: Callable[[], Callable[[Any], Any]]) -> None:
    try:
        function = start()
        while True:
            request = connection.recv()
            try:
                connection.send((True, function(request)))
            except Exception:  # noqa: BLE001 -- the other process raises it
                connection.send((False, traceback.format_exc()))
    except EOFError:
        os._exit(0)
    except BaseException:  # noqa: BLE001 -- a copy must not return into its parent's code
        traceback.print_exc()
        os._exit(1)
