"""Accepts the connections of a port: all that arrive at once, and serves the newest first, with TLS once the client's hello has arrived.

asyncio would serve connections in the order of their arrival, and leave the others in the queue of the kernel. If a thousand clients fail
their TLS handshakes and connect again, an API server would wait for a thousand handshakes. With the newest first, it waits for few: clients
that wait for the end of their own connection before they open the next one delay only each other.

A TLS handshake costs memory and time, so it begins when the client's hello is complete. Until then the hello stays in the kernel. Clients
that send junk, or half a hello, take only a file descriptor, and no place from those that shake hands. A hello that announces more than one
record is refused, because OpenSSL takes memory for the announced length.

Between the beginnings of two connections, the event loop makes some passes without one, which answer requests on other connections. Without
them, each pass would have parts of several handshakes, and a request takes three passes.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from injector.webhook import limits

_log = logging.getLogger(__name__)

_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


# The head of a TLS record: its type, major and minor version, and the length of what follows (RFC 8446, 5.1).
_RECORD: Final = struct.Struct("!BBBH")
# What follows in a handshake: the type of a message, in one byte, and its length, in three (RFC 8446, 4).
_MESSAGE: Final = struct.Struct("!I")
_CLIENT_HELLO: Final = 1
_HANDSHAKE: Final = 22
_HANDSHAKE_BYTE: Final = bytes([_HANDSHAKE])
_MAJOR: Final = 3
_LARGEST_RECORD: Final = 2**14


class Accepted(NamedTuple):
    """A connection that was accepted at a time of the event loop. ``hello`` is the size of its first TLS record; 0 if not known."""

    since: float
    sock: socket.socket
    hello: int = 0


class Acceptor:
    """Accepts connections, and calls ``serve`` with one at a time.

    Beyond ``limit`` connections that wait, it closes the one that has sent no hello for longest. Some of the places are for those whose
    hello may have come without being read yet: if there are only these, it closes the one that waits for longest.
    """

    def __init__(self, serve: Callable[[Accepted], None], limit: int) -> None:
        self._serve = serve
        self._limit = limit
        self._unread_places = min(limits.UNREAD_HELLOS, limit // 2)
        self._loop = asyncio.get_running_loop()
        self._tls = False
        # Since when their hello is missing, the oldest first.
        self._without_hello: dict[socket.socket, float] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._waiting: deque[Accepted] = deque()
        self._is_serving = False
        self.sockets: list[socket.socket] = []
        """Those that listen."""

    def count_since(self, time: float) -> int:
        """Return the number of connections that are not served yet, without those whose hello is missing since before ``time``."""
        return len(self._waiting) + sum(since >= time for since in self._without_hello.values())

    def listen(self, sockets: Sequence[socket.socket], *, tls: bool = False) -> None:
        """Accept connections of bound sockets, which belong to the acceptor from then on."""
        self._tls = tls
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
        while self._waiting or self._without_hello:
            self._drop_oldest()
        self._drop_expired()

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
            if self._tls:
                sock.setblocking(False)  # noqa: FBT003 -- the socket's own method
                self._without_hello[sock] = self._loop.time()
                self._call_with_bytes(sock, _RECORD.size, self._read_head)
            else:
                self._waiting.append(Accepted(self._loop.time(), sock))
            if len(self._waiting) + len(self._without_hello) > self._limit:
                self._drop_oldest()
        if self._without_hello and self._expiry is None:
            self._drop_expired()
        if not self._is_serving:
            self._serve_newest()

    def _call_with_bytes(self, sock: socket.socket, size: int, then: Callable[[socket.socket], None]) -> None:
        """Call ``then`` when the kernel has so many bytes, or the end of the connection."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        self._loop.add_reader(sock, then, sock)

    def _read_head(self, sock: socket.socket) -> None:
        """Wait for the rest of the first record, unless it is not the beginning of a TLS handshake."""
        head = _peek(sock, _RECORD.size)
        size = _size_of_hello(head)
        if size:
            self._call_with_bytes(sock, size, self._enqueue)
        elif head[:1] == _HANDSHAKE_BYTE and len(head) < _RECORD.size:
            self._enqueue(sock)  # the kernel does not wait for more, such as that of gVisor
        else:
            self._drop_without_hello(sock)

    def _enqueue(self, sock: socket.socket) -> None:
        """Let a connection wait for its turn, unless its first record is not one hello or the beginning of one."""
        head = _peek(sock, _RECORD.size + _MESSAGE.size)
        is_known = len(head) == _RECORD.size + _MESSAGE.size  # else the kernel does not wait, or the client has left
        if is_known and not _begins_hello(head):
            self._drop_without_hello(sock)
            return
        self._loop.remove_reader(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self._waiting.append(Accepted(self._without_hello.pop(sock), sock, _size_of_hello(head) if is_known else 0))
        if not self._is_serving:
            self._serve_newest()

    def _resume(self, listening: socket.socket) -> None:
        if listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _serve_newest(self) -> None:
        oldest = self._loop.time() - limits.HANDSHAKE_TIMEOUT
        while self._waiting and self._waiting[0].since < oldest:
            self._waiting.popleft().sock.close()
        while self._waiting and self._waiting[-1].since < oldest:  # its hello came late
            self._waiting.pop().sock.close()
        self._is_serving = bool(self._waiting)
        if self._waiting:
            self._serve(self._waiting.pop())
            self._pass(limits.PASSES_BETWEEN)

    def _pass(self, passes: int) -> None:
        """Serve the next connection after so many passes of the event loop."""
        if passes:
            self._loop.call_soon(self._pass, passes - 1)
        else:
            self._serve_newest()

    def _drop_oldest(self) -> None:
        if len(self._without_hello) > self._unread_places or not self._waiting:
            self._drop_without_hello(next(iter(self._without_hello)))
        else:
            self._waiting.popleft().sock.close()

    def _drop_without_hello(self, sock: socket.socket) -> None:
        del self._without_hello[sock]
        self._loop.remove_reader(sock)
        sock.close()

    def _drop_expired(self) -> None:
        """Close the connections whose hello has not come in time, and do so again when the next one expires."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        now = self._loop.time()
        while self._without_hello:
            sock, since = next(iter(self._without_hello.items()))
            if now < since + limits.HANDSHAKE_TIMEOUT:
                self._expiry = self._loop.call_at(since + limits.HANDSHAKE_TIMEOUT, self._drop_expired)
                break
            self._drop_without_hello(sock)


def _peek(sock: socket.socket, size: int) -> bytes:
    """Return at most so many of the unread bytes of a connection."""
    with suppress(OSError):
        return sock.recv(size, socket.MSG_PEEK)
    return b""


def _begins_hello(head: bytes) -> bool:
    """Return whether a record has nothing but a hello, or the beginning of a hello that is no longer than a record may be."""
    message: int
    (message,) = _MESSAGE.unpack_from(head, _RECORD.size)
    kind, announced = divmod(message, 2**24)
    length = _size_of_hello(head) - _RECORD.size - _MESSAGE.size
    return kind == _CLIENT_HELLO and length <= announced <= _LARGEST_RECORD


def _size_of_hello(head: bytes) -> int:
    """Return the size of the record that begins a TLS handshake, or 0 if the bytes do not begin one."""
    if len(head) < _RECORD.size:
        return 0
    kind, major, _, length = _RECORD.unpack_from(head)
    return _RECORD.size + length if (kind, major) == (_HANDSHAKE, _MAJOR) and 0 < length <= _LARGEST_RECORD else 0
