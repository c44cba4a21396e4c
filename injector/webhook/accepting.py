"""Accepts the connections of a port: all that arrive at once, and serves the newest first.

asyncio would serve connections in the order of their arrival, and leave the others in the queue of the kernel. If a thousand clients fail
their TLS handshakes and connect again, an API server would wait for a thousand handshakes. With the newest first, it waits for few: clients
that wait for the end of their own connection before they open the next one delay only each other.

Between the beginnings of two connections, the event loop makes some passes without one, which answer requests on other connections. Without
them, each pass would have parts of several handshakes, and a request takes three passes.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from injector.webhook import limits

if TYPE_CHECKING:
    import socket

_log = logging.getLogger(__name__)

_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class _Waiting(NamedTuple):
    """A connection that was accepted at a time of the event loop, and is not served yet."""

    since: float
    sock: socket.socket


class Acceptor:
    """Accepts connections, and calls ``serve`` with one at a time. Beyond ``limit``, it closes the one that waits for longest."""

    def __init__(self, serve: Callable[[socket.socket], None], limit: int) -> None:
        self._serve = serve
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._is_serving = False
        self.sockets: list[socket.socket] = []
        """Those that listen."""

    def __len__(self) -> int:
        """Return the number of connections that are accepted and not served yet."""
        return len(self._waiting)

    def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections of bound sockets, which belong to the acceptor from then on."""
        for sock in sockets:
            sock.setblocking(False)  # noqa: FBT003 -- the socket's own method
            sock.listen(limits.BACKLOG)
            self.sockets.append(sock)
            self._loop.add_reader(sock, self._accept, sock)

    def stop(self) -> None:
        """Stop listening. Connections that wait are still served."""
        while self.sockets:
            sock = self.sockets.pop()
            self._loop.remove_reader(sock)
            sock.close()

    def close(self) -> None:
        """Stop listening, and close the connections that wait."""
        self.stop()
        while self._waiting:
            self._drop_oldest()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(limits.ACCEPTED_AT_ONCE):
            try:
                sock, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                if error.errno not in _NO_RESOURCES:
                    raise
                _log.error("accept() failed: %s; retrying in %g s", error.strerror, limits.ACCEPT_RETRY)
                self._loop.remove_reader(listening)
                self._loop.call_later(limits.ACCEPT_RETRY, self._resume, listening)
                break
            self._waiting.append(_Waiting(self._loop.time(), sock))
            if len(self._waiting) > self._limit:
                self._drop_oldest()
        if not self._is_serving:
            self._serve_newest()

    def _resume(self, listening: socket.socket) -> None:
        if listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _serve_newest(self) -> None:
        oldest = self._loop.time() - limits.HANDSHAKE_TIMEOUT
        while self._waiting and self._waiting[0].since < oldest:
            self._drop_oldest()
        self._is_serving = bool(self._waiting)
        if self._waiting:
            self._serve(self._waiting.pop().sock)
            self._pass(limits.PASSES_BETWEEN)

    def _pass(self, passes: int) -> None:
        """Serve the next connection after so many passes of the event loop."""
        if passes:
            self._loop.call_soon(self._pass, passes - 1)
        else:
            self._serve_newest()

    def _drop_oldest(self) -> None:
        self._waiting.popleft().sock.close()
