"""A port: its connections, their limit and timeouts, and how it drains.

aiohttp serves the requests. What it lacks is added here by a subclass of its ``RequestHandler``, which overrides public methods only: a
timeout for receiving a request and for writing an answer, and the knowledge of which connections are idle. That is needed for two things.

- If the limit is reached, a new connection replaces the one that has been idle for longest, whether it was answered before or not. A
  connection with a request in work is never closed for another one.
- At the end of a drain each connection is closed once nothing is under way on it. aiohttp's own shutdown stops reading on all connections
  at once, so a request that was sent, but not yet read, would be lost.
"""

from __future__ import annotations

import asyncio
import math
import select
import socket
from asyncio import sslproto
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from injector.errors import InjectorError
from injector.webhook import timeouts

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Mapping

    from injector.webhook.tls.clients import ClientAuthority

# Five API servers with 200 calls each (--max-mutating-requests-inflight), or one burst of a thousand. A connection with TLS takes 15 KiB
# while it is silent and 40 KiB once it was used, most of them OpenSSL's.
MAX_CONNECTIONS: Final = 1000
BACKLOG: Final = 1024
"""Connections that the kernel accepts before this process does."""
# A handshake takes more than a millisecond, in which no admission is answered. Five hundred at once delay admissions seven times as much
# with 8 as with 1.
ACCEPTED_AT_ONCE: Final = 1
"""Connections that are accepted in one pass of the event loop."""
LOOK: Final = 0.02
"""Seconds between two looks at the connections that are left in a drain."""
CLEANUP: Final = 0.25
"""Seconds that aiohttp waits, twice, for connections that are still open at the very end: none of them sent a whole request."""

# What asyncio reads at once. It allocates this much for each TLS connection and fills it with zeros: 256 KiB by default, which is 250 MB
# for a thousand silent connections. Without TLS it allocates this much for each read and shrinks it, which fragments the heap.
TLS_BUFFER: Final = 4 * 1024
PLAIN_BUFFER: Final = 16 * 1024

HTTP: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "access_log": None,
        # A compressed body is answered 415 before anything inflates it.
        "auto_decompress": False,
        "keepalive_timeout": timeouts.KEEPALIVE,
        "lingering_time": timeouts.LINGER,
        # A path is at most 63 letters of name and Istio's pairs; the API server adds a query and a handful of headers.
        "max_line_size": 8190,
        "max_field_size": 8190,
    }
)
"""How both ports speak HTTP: keywords of aiohttp's RequestHandler."""


class State(Enum):
    """What a connection does."""

    IDLE = auto()
    RECEIVING = auto()
    """A request has begun to arrive."""
    IN_WORK = auto()
    """A request has arrived in full and is not answered yet."""


class Connection(web.RequestHandler):
    """One connection, and what it does since when, in the time of the event loop."""

    __slots__ = ("_connections", "accepted_by", "deadline", "since", "state")

    def __init__(self, connections: Connections, server: web.Server, accepted_by: asyncio.Task[Any] | None) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, **HTTP)
        self._connections = connections
        self.deadline = math.inf
        self.accepted_by = accepted_by
        self.state = State.IDLE
        self.since = loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take part in the server, unless the client's certificate is not allowed."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 -- a server's connections are, for the type checker
        self._connections.opened(self)
        if not self._connections.admits(transport):
            transport.abort()
            return
        transport.max_size = PLAIN_BUFFER  # type: ignore[attr-defined] # asyncio's own attribute
        # Writing is paused until the kernel has all of an answer, so that the timeout for writing covers all of it.
        transport.set_write_buffer_limits(0)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Leave the server."""
        self._connections.lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the timeout of a request with its first byte."""
        if data and self.state is State.IDLE:
            self._enter(State.RECEIVING, timeouts.REQUEST)
        super().data_received(data)

    def received(self) -> None:
        """Note that the request has arrived in full."""
        self._enter(State.IN_WORK)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer within the timeout for writing."""
        self._enter(State.IN_WORK, timeouts.WRITE)
        sent = await super().finish_response(request, resp, start_time)
        self._enter(State.IDLE)
        return sent

    def is_quiet(self, now: float) -> bool:
        """Tell whether the connection is idle, and has been for a while."""
        return self.state is State.IDLE and now - self.since > timeouts.QUIET

    def abort(self) -> None:
        """End the connection now."""
        if self.transport is not None:
            self.transport.abort()

    def _enter(self, state: State, timeout: float = math.inf) -> None:
        self.state, self.since = state, self._loop.time()
        self.deadline = self.since + timeout
        if timeout < math.inf:
            self._connections.check_later()


class Connections:
    """The connections of one port. It is the protocol factory of the port's asyncio server.

    Args:
        server: answers the requests.
        clients: whose certificates are admitted; None admits every client.
        limit: how many connections there may be, those whose TLS handshake is not done among them.
    """

    def __init__(
        self, server: web.Server, clients: ClientAuthority | None = None, limit: int = MAX_CONNECTIONS
    ) -> None:
        self._server = server
        self._clients = clients
        self._limit = limit
        # asyncio makes each connection in a task of its own, which ends with the handshake. Tasks and the times they began.
        self._handshakes: dict[asyncio.Task[Any], float] = {}
        self._open: set[Connection] = set()
        self._check: asyncio.TimerHandle | None = None

    def __call__(self) -> Connection:
        """Return the protocol of a connection that the current task accepts."""
        task = asyncio.current_task()
        if task is not None:
            self._make_room(task)
            self._handshakes[task] = asyncio.get_running_loop().time()
            task.add_done_callback(self._forget)
        return Connection(self, self._server, task)

    def opened(self, connection: Connection) -> None:
        """Note that the handshake of a connection is done."""
        if connection.accepted_by is not None:
            self._forget(connection.accepted_by)
            connection.accepted_by = None
        self._open.add(connection)

    def lost(self, connection: Connection) -> None:
        """Note that a connection has ended."""
        self._open.discard(connection)

    def admits(self, transport: asyncio.Transport) -> bool:
        """Tell whether the client of a connection may send requests."""
        return self._clients is None or self._clients.admits(transport)

    def check_later(self) -> None:
        """Check the deadlines of all connections after ``timeouts.CHECK``, if that is not planned yet."""
        if self._check is None:
            self._check = asyncio.get_running_loop().call_later(timeouts.CHECK, self._check_deadlines)

    def close_idle(self) -> None:
        """Close every connection that is idle, and for which the kernel holds nothing that was not read yet."""
        now = asyncio.get_running_loop().time()
        quiet = {_file_of(each): each for each in self._open if each.is_quiet(now)}
        unread = readable(quiet)
        for file, connection in quiet.items():
            if file not in unread:
                connection.force_close()

    def left(self) -> int:
        """Return how many connections are open, and how many handshakes began a moment ago."""
        now = asyncio.get_running_loop().time()
        recent = sum(now - since <= timeouts.QUIET for since in self._handshakes.values())
        return recent + sum(each.connected for each in self._open)

    def abort(self) -> None:
        """End every connection whose handshake is not done."""
        if self._check is not None:
            self._check.cancel()
        for task in tuple(self._handshakes):
            task.cancel()

    def _check_deadlines(self) -> None:
        """End the connections that missed their deadline, and check again later if others have one."""
        self._check = None
        now = asyncio.get_running_loop().time()
        for connection in tuple(self._open):
            if connection.deadline <= now:
                connection.abort()
            elif connection.deadline < math.inf:
                self.check_later()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._handshakes.pop(task, None)

    def _make_room(self, accepting: asyncio.Task[Any]) -> None:
        """At the limit, end the connection that has been idle for longest; without an idle one, that sends its request for longest.

        A handshake counts as idle since it began. If every connection has a request in work, the new one ends.
        """
        if len(self._handshakes) + len(self._open) < self._limit:
            return
        task = next(iter(self._handshakes), None)
        idle = _oldest(self._open, State.IDLE)
        if task is not None and (idle is None or self._handshakes[task] <= idle.since):
            self._forget(task)
            task.cancel()
            return
        connection = idle or _oldest(self._open, State.RECEIVING)
        if connection is None:
            accepting.cancel()
            return
        self._open.discard(connection)
        connection.abort()


class Listener:
    """Serves an application on one port.

    Args:
        app: answers the requests.
        clients: whose certificates are admitted; None admits every client.
        limit: how many connections there may be.
    """

    def __init__(
        self, app: web.Application, clients: ClientAuthority | None = None, limit: int = MAX_CONNECTIONS
    ) -> None:
        self._runner = web.AppRunner(app, shutdown_timeout=CLEANUP)
        self._clients = clients
        self._limit = limit
        self._connections: Connections | None = None
        self._server: asyncio.Server | None = None

    async def listen(self, bind: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port; port 0 takes any free one.

        Raises:
            InjectorError: the address cannot be listened on.
        """
        await self._runner.setup()
        assert self._runner.server is not None  # noqa: S101 -- setup() makes it, for the type checker
        self._connections = Connections(self._runner.server, self._clients, self._limit)
        sslproto.SSLProtocol.max_size = TLS_BUFFER
        options: dict[str, Any] = {}
        if tls is not None:
            options = {
                "ssl": tls,
                "ssl_handshake_timeout": timeouts.HANDSHAKE,
                "ssl_shutdown_timeout": timeouts.TLS_SHUTDOWN,
            }
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._connections, bind or None, port, backlog=ACCEPTED_AT_ONCE, **options
            )
        except OSError as error:
            raise InjectorError(
                f"cannot listen: {error.strerror or error}",
                where=f"{bind}:{port}",
                hint="choose another --bind or port",
            ) from error
        for each in self._server.sockets:
            _configure(each)
        return int(self._server.sockets[-1].getsockname()[1])

    async def drain(self) -> int:
        """Stop listening, and close each connection once nothing is under way on it.

        Connections that the kernel has accepted by then are still answered.

        Returns:
            How many connections are left after ``timeouts.DRAIN``: their requests did not arrive in full.
        """
        if self._server is None or self._connections is None:
            return 0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeouts.DRAIN
        while True:
            if not readable(each.fileno() for each in self._server.sockets):
                self._server.close()
            self._connections.close_idle()
            left = self._connections.left()
            if not (left or self._server.sockets) or loop.time() >= deadline:
                return left
            await asyncio.sleep(LOOK)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        if self._connections is not None:
            self._connections.abort()
        await self._runner.cleanup()


def readable(files: Iterable[int]) -> set[int]:
    """Return the files that a read would not wait for; a listening socket is one while a connection waits to be accepted."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return {file for file, _ in poll.poll(0)}


def _configure(listening: Any) -> None:
    """Set the length of the kernel's queue, and the kernel's timeout for unread answers, which connections inherit.

    asyncio uses its ``backlog`` also as the number of connections that it accepts at once, so the length is set here. Most answers fit
    into the kernel's buffers, so whether they are read is known to the kernel only (tcp(7), TCP_USER_TIMEOUT).
    """
    with listening.dup() as sock:
        sock.listen(BACKLOG)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(timeouts.WRITE * 1000))


def _oldest(connections: Iterable[Connection], state: State) -> Connection | None:
    """Return the connection that has been in a state for longest."""
    return min((each for each in connections if each.state is state), key=lambda each: each.since, default=None)


def _file_of(connection: Connection) -> int:
    sock = None if connection.transport is None else connection.transport.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())
