"""Callers of a port, from the moment that the kernel has accepted them until they have a connection.

asyncio's own server begins with TLS for all who have come. That takes a millisecond each, half of it in one piece, and who has asked
already waits for that of a thousand. Here it begins for whose ClientHello has come, and for one at a time: between two the event loop
turns.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Final

from injector.webhook.clienthello import client_hello
from injector.webhook.patience import HANDSHAKE

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Sequence

    from injector.webhook.connections import Connections

_log = logging.getLogger(__name__)

# How many callers the kernel lets wait, and how many of them are taken from it at once.
BACKLOG: Final = 1024
LET_IN: Final = 16
# How long a peer may take to confirm the end of a TLS connection, after which it is cut: nothing is under way any more.
GOODBYE: Final = 1.0
# Where there are no files left, it is tried again after this long.
RETRY: Final = 1.0


@dataclass
class Arrivals:
    """Accepts callers on some sockets, and gives each a connection, within ``HANDSHAKE`` in all.

    Attributes:
        sockets: bound ones.
        protocol: makes what answers on a connection, within the task that ``crowd`` was told of.
        crowd: knows who is connected, and makes room.
        tls: how it is spoken; plain where there is none.
    """

    sockets: Sequence[socket.socket]
    protocol: Callable[[], asyncio.Protocol]
    crowd: Connections
    tls: ssl.SSLContext | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _serving: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self) -> None:
        """Listen."""
        self._serving = True
        for each in self.sockets:
            each.setblocking(False)  # noqa: FBT003 -- positional by signature
            each.listen(BACKLOG)
            self._watch(each)

    def is_serving(self) -> bool:
        """Tell whether callers are still accepted."""
        return self._serving

    def close(self) -> None:
        """Accept nobody any more."""
        self._serving = False
        for each in self.sockets:
            if each.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(each.fileno())
                each.close()

    def cut(self) -> None:
        """End whoever has no connection yet."""
        for each in tuple(self._tasks):
            each.cancel()

    def _watch(self, listening: socket.socket) -> None:
        if self._serving:
            asyncio.get_running_loop().add_reader(listening.fileno(), self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(LET_IN):
            try:
                sock, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.error("no caller can be accepted for a second: %s", error.strerror or error)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening.fileno())
                loop.call_later(RETRY, self._watch, listening)
                return
            sock.setblocking(False)  # noqa: FBT003 -- positional by signature
            arriving = asyncio.create_task(self._arrive(sock))
            self._tasks.add(arriving)
            arriving.add_done_callback(self._tasks.discard)
            self.crowd.arrive(arriving)

    async def _arrive(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(HANDSHAKE):
                options = await self._admit(sock)
                if options is not None:
                    await loop.connect_accepted_socket(self.protocol, sock, **options)
        except Exception as error:  # noqa: BLE001 -- whatever the caller did, it is he who learns of it, by the end of his connection
            _log.debug("a caller has no connection: %s", error or type(error).__name__)
            _forget(error)

    async def _admit(self, sock: socket.socket) -> dict[str, Any] | None:
        """Wait until TLS may begin; return how, or None where the caller has gone."""
        if self.tls is None:
            return {}
        try:
            if await client_hello(sock):
                async with self._turn:
                    await asyncio.sleep(0)
                return {"ssl": self.tls, "ssl_shutdown_timeout": GOODBYE}
        except BaseException:
            sock.close()
            raise
        sock.close()
        return None


def _forget(error: BaseException | None) -> None:
    """Let go of what an error leads to: asyncio's frames lead back to it, and all of a connection would wait for a garbage collection."""
    while error is not None:
        clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__context__
