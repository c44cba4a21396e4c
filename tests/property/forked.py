"""Copies of this process, in which nothing has been injected yet, and one copy that stays and remembers.

A function that runs ``in_a_copy`` sees every module and every revision as they were built, whatever other copies did. Only a process with
one thread may be copied, so callers start one of their own (``multiprocessing`` with ``spawn``).
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from contextlib import closing
from multiprocessing import Pipe, get_context
from typing import Any


def in_a_copy(function: Callable[[], bytes]) -> bytes:
    """Return what a function returns in a copy of this process.

    Raises:
        RuntimeError: it failed there; with its traceback.
    """

    def start() -> Callable[[Any], bytes]:
        gc.disable()  # it would look at all objects, and so copy the pages that the processes share
        return lambda _: function()

    with closing(Companion(start)) as copy:
        result: bytes = copy.call(None)
    return result


class Companion:
    """A copy of this process that lives until it is closed, and calls a function of its own for each request.

    ``start`` runs in the copy once and returns the function.
    """

    def __init__(self, start: Callable[[], Callable[[Any], Any]]) -> None:
        self._connection, other = Pipe()
        self._process = get_context("fork").Process(target=_serve, args=(self._connection, other, start), daemon=True)
        self._process.start()
        other.close()

    def call(self, request: Any) -> Any:
        """Return what the function returns.

        Raises:
            RuntimeError: it failed; with its traceback.
            EOFError: the copy ended early.
        """
        self._connection.send(request)
        ok, result = self._connection.recv()
        if not ok:
            raise RuntimeError(result)
        return result

    def close(self) -> None:
        """End the copy."""
        self._connection.close()
        self._process.join()


def _serve(parents: Any, connection: Any, start: Callable[[], Callable[[Any], Any]]) -> None:
    parents.close()
    function = start()
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, function(request)))
        except Exception:  # noqa: BLE001 -- the other process raises it
            connection.send((False, traceback.format_exc()))
