"""The connections of the webhook's port: which of them are idle, so that a drain closes those and no others.

aiohttp's own shutdown turns deaf on every connection at once: what a caller has sent and nobody has read yet is lost,
and there is much of that while an event loop is busy. So a connection is closed here only where the kernel holds
nothing for it either.
"""

from __future__ import annotations

import asyncio
import select
import time
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# Who has connected has a request to send, as Go's net/http dials for one; and who has asked a moment ago is likely to ask
# again. A request that crosses the close of its connection is lost, so those are closed by an answer instead.
QUIET: Final = 1.0


class Connection(web.RequestHandler):
    """One connection, and whether a request is under way on it."""

    __slots__ = ("__weakref__", "_handshakes", "quiet_since", "under_way")

    def __init__(self, server: web.Server, handshakes: WeakSet[Connection], **options: Any) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._handshakes = handshakes
        handshakes.add(self)
        self.quiet_since = time.monotonic()
        self.under_way = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the handshake is done."""
        self._handshakes.discard(self)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Note that a request has begun, or a part of one."""
        if data:
            self.under_way = True
        super().data_received(data)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer, and note that it is sent."""
        sent = await super().finish_response(request, resp, start_time)
        self.under_way = False
        self.quiet_since = time.monotonic()
        return sent

    def idle(self, now: float) -> bool:
        """Tell whether no request is under way, as far as this process knows, and none has been for a while."""
        return not self.under_way and now - self.quiet_since > QUIET


class Connections:
    """Makes the connections of one server, and knows those that are open. It is an asyncio protocol factory.

    Args:
        server: what answers their requests.
        options: keywords of aiohttp's RequestHandler.
    """

    def __init__(
        self,
        server: web.Server,
        options: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._options = dict(options)
        self._clock = clock
        self._handshakes: WeakSet[Connection] = WeakSet()

    def __call__(self) -> Connection:
        """Return the protocol of a connection that was accepted."""
        return Connection(self._server, self._handshakes, **self._options)

    def close_idle(self) -> None:
        """Close every connection on which nothing is under way."""
        now = self._clock()
        for connection in unheard([each for each in self._made() if each.connected and each.idle(now)]):
            connection.force_close()

    def left(self) -> int:
        """Return how many are open, those in a young handshake among them."""
        now = self._clock()
        shaking = sum(now - each.quiet_since <= QUIET for each in self._handshakes)
        return shaking + sum(each.connected for each in self._made())

    def _made(self) -> list[Connection]:
        return [each for each in self._server.connections if isinstance(each, Connection)]


def unheard(connections: Iterable[Connection]) -> list[Connection]:
    """Return those for which the kernel holds no bytes that were not read yet (poll(2))."""
    by_file = {file: each for each in connections if (file := _file(each)) >= 0}
    heard = readable(by_file)
    return [each for file, each in by_file.items() if file not in heard]


def readable(files: Iterable[int]) -> set[int]:
    """Return the files that a read would not wait for; a listening socket is one while a caller waits to be accepted."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return {file for file, _ in poll.poll(0)}


def _file(connection: Connection) -> int:
    transport = connection.transport
    socket = None if transport is None else transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())
