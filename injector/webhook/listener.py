"""A port: its connections, their limit and timeouts, and how it drains.

aiohttp serves the requests. A subclass of its ``RequestHandler``, which overrides public methods only, adds timeouts for receiving a
request and for writing a response, and tracks which connections are idle:

- At the limit, a new connection replaces the one that has been idle for longest, answered or not. A connection with a request in the
  handler is never closed for another one.
- Few TLS handshakes may be in the middle of what follows the client's hello: OpenSSL takes memory for the length that a message announces.
- What is not the body of a request has a limit, and a client that does not wait for its answer gets no other one.
- At the end of a drain each connection is closed once it is idle. aiohttp's own shutdown stops reading on all connections at once, which
  would lose requests that were sent, but not read.
"""

from __future__ import annotations

import asyncio
import math
import select
import socket
from asyncio import sslproto
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from aiohttp import StreamReader, web, web_protocol
from aiohttp.hdrs import CONTENT_LENGTH, EXPECT, SERVER, TRANSFER_ENCODING
from aiohttp.http import HttpVersion11
from aiohttp.http_exceptions import HttpProcessingError

from injector.errors import InjectorError
from injector.webhook import limits
from injector.webhook.accepting import Accepted, Acceptor

if TYPE_CHECKING:
    import ssl

    from injector.webhook.tls.certificate import ClientAuthority

Candidate = TypeVar("Candidate")

_LEAST_TIMEOUT: Final = 0.001
"""Seconds of a handshake whose time is over when it begins: asyncio accepts no 0."""

Answerer: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers the requests of a port."""

HTTP: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "access_log": None,
        # A compressed body is answered 415 before anything inflates it.
        "auto_decompress": False,
        "keepalive_timeout": limits.KEEPALIVE_TIMEOUT,
        "lingering_time": limits.LINGER_TIMEOUT,
        "max_line_size": 8190,
        "max_field_size": 8190,
        "max_headers": limits.MAX_HEADERS,
    }
)
"""Arguments of aiohttp's RequestHandler for both ports."""


CONTINUE: Final = "100-continue"
CHUNKED: Final = "chunked"
_LINE_BREAK: Final = b"\r\n"
_END_OF_HEAD: Final = 2 * _LINE_BREAK
_TOO_LONG: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class ConnectionState(Enum):
    """The state of a connection."""

    IDLE = auto()
    RECEIVING = auto()
    """A part of a request has arrived."""
    IN_HANDLER = auto()
    """A complete request has arrived and is not answered yet."""


class Framing:
    """Counts the bytes of one request that are not its body."""

    __slots__ = ("_body", "_end", "_received")

    def __init__(self) -> None:
        self._received = 0
        self._end: bytes | None = b""
        """The last bytes of the head so far; None once the head is complete."""
        self._body: StreamReader | None = None

    def begin_body(self, body: StreamReader) -> None:
        """Count what arrives from now on and is not a part of ``body``, which has chunks."""
        self._body, self._received = body, body.total_bytes

    def receive(self, data: bytes) -> None:
        """Count the bytes of the head, or of chunks."""
        if self._end is not None:
            # The empty lines before a request are not kept.
            text = self._end + data if self._end else data.lstrip(_LINE_BREAK)
            end = text.find(_END_OF_HEAD)
            self._received += (len(text) if end < 0 else end) - len(self._end)
            self._end = text[1 - len(_END_OF_HEAD) :] if end < 0 else None
        elif self._body is not None:
            self._received += len(data)

    @property
    def is_too_long(self) -> bool:
        """Whether the head is too long, or what is around the chunks. Of the chunks, one read may not be parsed yet."""
        if self._body is None:
            return self._received > limits.MAX_HEAD
        size = self._body.total_bytes
        return self._received - size > limits.MAX_HEAD + size // limits.LEAST_CHUNKS


class Connection(web.RequestHandler):
    """One connection, with its state and the time of the event loop since when it is in this state."""

    __slots__ = ("_framing", "_has_next", "_is_answering", "_listener", "accepted_by", "deadline", "since", "state")

    def __init__(self, listener: Listener, accepted_by: asyncio.Task[Any] | None) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(listener.server, loop=loop, **HTTP)
        self._listener = listener
        self.deadline = math.inf
        self.accepted_by = accepted_by
        self.state = ConnectionState.IDLE
        self.since = loop.time()
        self._framing = Framing()
        self._is_answering = False
        self._has_next = False
        """Whether a client that has its answer has begun the next request, before the write of the answer is complete here."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving, unless the client's certificate is not allowed."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 -- a server's connections are, for the type checker
        self._listener.add_open(self)
        clients = self._listener.clients
        if clients is not None and not clients.admits(transport):
            transport.abort()
            return
        # Idle from here on: during a drain, a connection with a slow handshake has as long for its request as any other.
        self.since = self._loop.time()
        transport.max_size = self._listener.read_buffer  # type: ignore[attr-defined] # asyncio's own attribute
        # Pause writing until the kernel has the complete response, so that the write timeout covers all of it.
        transport.set_write_buffer_limits(0)
        if hasattr(transport, "set_read_buffer_limits"):  # TLS: what is received while aiohttp does not read
            transport.set_read_buffer_limits(limits.READ_BUFFER)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._listener.open.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the timeout of a request at its first byte."""
        match self.state:
            case ConnectionState.IDLE if data:
                self._enter(ConnectionState.RECEIVING, limits.REQUEST_TIMEOUT)
                self._framing.receive(data)
            case ConnectionState.RECEIVING:
                self._framing.receive(data)
            case ConnectionState.IN_HANDLER if data and self._is_answering:
                self._has_next = True
                self._framing.receive(data)
            case ConnectionState.IN_HANDLER if data:
                self.close()  # after the answer; the data is dropped
        super().data_received(data)
        if self._framing.is_too_long:
            self._refuse()

    def begin(self, request: web.BaseRequest) -> None:
        """Note that the head of a request is complete."""
        if request.content.is_eof():
            self.enter_handler()
        elif TRANSFER_ENCODING in request.headers:
            self._framing.begin_body(request.content)

    def enter_handler(self) -> None:
        """Note that the request is complete."""
        self._enter(ConnectionState.IN_HANDLER)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send a response within the write timeout. It closes the connection if the rest of the request is still to come."""
        if not request.content.is_eof():
            resp.force_close()
        self._enter(self.state, limits.WRITE_TIMEOUT)
        if request.content.is_eof():
            self._framing = Framing()
        self._is_answering, self._has_next = True, False
        sent = await super().finish_response(request, resp, start_time)
        self._is_answering = False
        if self._has_next:
            self._enter(ConnectionState.RECEIVING, limits.REQUEST_TIMEOUT)
        else:
            self._enter(ConnectionState.IDLE)
        return sent

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log an error, but not a request that is not HTTP: any client could fill the log with them."""
        if not isinstance(kw.get("exc_info"), HttpProcessingError):
            super().log_exception(*args, **kw)

    def is_quiet(self, now: float) -> bool:
        """Return whether the connection has been idle for a while."""
        return self.state is ConnectionState.IDLE and now - self.since > limits.QUIET_TIME

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def _refuse(self) -> None:
        """Refuse a request that is too long without its body, and close the connection."""
        if self.transport is None or self._is_answering:  # a part of the former answer may be still to come
            self.abort()
            return
        self.transport.write(_TOO_LONG)
        self.transport.close()

    def _enter(self, state: ConnectionState, timeout: float = math.inf) -> None:
        self.state, self.since = state, self._loop.time()
        self.deadline = self.since + timeout
        if timeout < math.inf:
            self._listener.check_later()


class HttpRequest(web.BaseRequest):
    """A request whose response has no header ``Server``: only an attacker needs the versions of Python and aiohttp.

    aiohttp adds the header just before it calls this method, and has no other way to leave it out without an application.
    """

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.pop(SERVER, None)


def _check_and_answer(answer: Answerer, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
    """Answer a request, unless it has an expectation or a transfer coding that the server does not support."""
    if isinstance(request.protocol, Connection):
        request.protocol.begin(request)
    if EXPECT in request.headers and request.version >= HttpVersion11 and not _members(request, EXPECT) <= {CONTINUE}:
        raise _closing(web.HTTPExpectationFailed(text=f"the only supported expectation is {CONTINUE}"))
    if TRANSFER_ENCODING in request.headers:
        _check_transfer_coding(request)
    return answer(request)


def _check_transfer_coding(request: web.BaseRequest) -> None:
    """Refuse a body whose end or coding is not certain (RFC 9112, 6.1). aiohttp refuses a body that does not end in ``chunked``."""
    codings = _members(request, TRANSFER_ENCODING)
    if not codings or CONTENT_LENGTH in request.headers or request.version < HttpVersion11:
        raise _closing(web.HTTPBadRequest(text="the length of the body is not certain"))
    if codings != {CHUNKED}:
        raise _closing(web.HTTPNotImplemented(text=f"the only supported transfer coding is {CHUNKED}"))


def _members(request: web.BaseRequest, header: str) -> set[str]:
    """Return the members of a list in a header, in lower case. Empty ones do not count (RFC 9110, 5.6.1)."""
    members = ",".join(request.headers.getall(header)).lower().split(",")
    return {member.strip() for member in members} - {""}


def _closing(refusal: web.HTTPException) -> web.HTTPException:
    """Let a response close its connection: what follows may be the body or another request."""
    refusal.force_close()
    return refusal


async def send_continue(request: web.BaseRequest) -> None:
    """Let a client that waits for it send its body. A server of aiohttp without an application leaves it to its handler."""
    if request.version >= HttpVersion11 and request.headers.get(EXPECT):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # As aiohttp's router does it: the response itself has not begun.
        request.writer.output_size = 0


class HandshakeSocket(socket.socket):
    """The socket of a TLS handshake. It reads the client's hello, and what follows only if ``may_continue`` returns True.

    asyncio reads by ``recv_into``. If that raises BlockingIOError, it tries again in its next pass.
    """

    def __init__(self, accepted: Accepted, may_continue: Callable[[], bool]) -> None:
        sock = accepted.sock
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())
        self._unread_hello = accepted.hello
        self._may_continue = may_continue

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read into a buffer. Raises BlockingIOError if the handshake may not continue yet."""
        if self._unread_hello:
            nbytes = min(len(buffer), self._unread_hello)
        elif not self._may_continue():
            raise BlockingIOError
        size = super().recv_into(buffer, nbytes, flags)
        self._unread_hello = max(self._unread_hello - size, 0)
        return size


class Listener:
    """Serves one port.

    ``clients`` verifies client certificates; None admits every client. ``limit`` counts connections in a TLS handshake too, of which there
    are at most ``max_handshakes``. As many as ``limit`` again may wait for the beginning of their handshake. ``read_buffer`` is the most
    bytes of a read without TLS.
    """

    def __init__(
        self,
        answer: Answerer,
        clients: ClientAuthority | None = None,
        limit: int = limits.MAX_CONNECTIONS,
        max_handshakes: int = limits.MAX_HANDSHAKES,
        read_buffer: int = limits.READ_BUFFER,
    ) -> None:
        self.server = web.Server(
            partial(_check_and_answer, answer), request_factory=partial(HttpRequest, loop=asyncio.get_running_loop())
        )
        self.clients = clients
        self.read_buffer = read_buffer
        self._limit = limit
        self._max_handshakes = max_handshakes
        # By task, which ends with the handshake, the oldest first.
        self.handshakes: dict[asyncio.Task[Any], Accepted] = {}
        # Those whose client has sent more than its hello, and not all, the first of these first.
        self._continued: dict[asyncio.Task[Any], None] = {}
        self.open: set[Connection] = set()
        self._check: asyncio.TimerHandle | None = None
        self._acceptor = Acceptor(self._serve, limit)
        self._tls: dict[str, Any] = {}

    async def listen(self, bind: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port. Port 0 means any free port. Raises InjectorError if the address cannot be used."""
        sslproto.SSLProtocol.max_size = limits.READ_BUFFER
        web_protocol.MAX_MSG_QUEUE_SIZE = limits.MAX_REQUESTS
        if tls is not None:
            self._tls = {"ssl": tls, "ssl_shutdown_timeout": limits.TLS_SHUTDOWN_TIMEOUT}
        try:
            # asyncio binds the sockets of all addresses, and does not listen.
            bound = await asyncio.get_running_loop().create_server(
                asyncio.Protocol, bind or None, port, start_serving=False
            )
        except OSError as error:
            raise InjectorError(
                f"cannot listen: {error.strerror or error}",
                where=f"{bind}:{port}",
                hint="choose another --bind, --port or --ops-port",
            ) from error
        sockets = [sock.dup() for sock in bound.sockets]
        bound.close()
        for sock in sockets:
            _configure(sock)
        number = int(sockets[-1].getsockname()[1])
        self._acceptor.listen(sockets, tls=tls is not None)
        return number

    async def drain(self) -> int:
        """Stop listening, and close each connection once it is idle. Connections in the kernel's queue are still answered.

        Returns:
            The number of connections that are open after ``DRAIN_TIMEOUT``, with incomplete requests.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limits.DRAIN_TIMEOUT
        while True:
            if not readable(listening.fileno() for listening in self._acceptor.sockets):
                self._acceptor.stop()
            self.close_idle()
            remaining = self.count_open()
            if not (remaining or self._acceptor.sockets) or loop.time() >= deadline:
                return remaining
            await asyncio.sleep(limits.DRAIN_INTERVAL)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        self._acceptor.close()
        if self._check is not None:
            self._check.cancel()
        for task in tuple(self.handshakes):
            self._forget(task)
            task.cancel()
        runner = web.ServerRunner(self.server, shutdown_timeout=limits.CLEANUP)
        await runner.setup()
        await runner.cleanup()

    def _serve(self, accepted: Accepted) -> None:
        if not self._make_room():
            accepted.sock.close()
            return
        task = asyncio.get_running_loop().create_task(self._shake_hands(accepted))
        self.handshakes[task] = accepted

    async def _shake_hands(self, accepted: Accepted) -> None:
        """Serve an accepted connection until the end of its handshake. If that fails, free its objects."""
        loop, task, sock = asyncio.get_running_loop(), asyncio.current_task(), accepted.sock
        assert task is not None  # noqa: S101 -- a coroutine has one, for the type checker
        connection, is_stalled = Connection(self, task), False
        deadline, tls = accepted.since + limits.HANDSHAKE_TIMEOUT, self._tls
        if tls:
            sock = HandshakeSocket(accepted, partial(self._may_continue, task))
            self.handshakes[task] = accepted._replace(sock=sock)
            tls = {**tls, "ssl_handshake_timeout": max(deadline - loop.time(), _LEAST_TIMEOUT)}
        try:
            await loop.connect_accepted_socket(lambda: connection, sock, **tls)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 -- as asyncio does: it is a stranger's fault
            # The traceback has the frames of the handshake, which refer to the error again. This cycle would keep the TLS connection, 40 to
            # 130 KiB, until the garbage collector finds it. The collector counts objects, not bytes, so it comes after hundreds of MiB.
            error.__traceback__ = None
            is_stalled = task in self._continued and isinstance(error, asyncio.CancelledError)
        if connection.accepted_by is not None:
            connection.accepted_by = None
            # asyncio does not call it, and aiohttp's parser and handler refer to each other.
            connection.connection_lost(None)
            if is_stalled:
                await self._hold(task, sock, deadline)
            self._forget(task)
            sock.close()

    async def _hold(self, task: asyncio.Task[Any], sock: socket.socket, deadline: float) -> None:
        """Keep the connection of a handshake that was ended: its client would connect again at once, before others."""
        self._continued.pop(task)
        with suppress(OSError), socket.fromfd(sock.fileno(), sock.family, sock.type):  # unless the client has left
            await asyncio.sleep(deadline - asyncio.get_running_loop().time())

    def add_open(self, connection: Connection) -> None:
        """Note the end of a handshake."""
        if connection.accepted_by is not None:
            self._forget(connection.accepted_by)
            connection.accepted_by = None
        self.open.add(connection)

    def check_later(self) -> None:
        """Schedule a check of all deadlines after ``CHECK_INTERVAL``."""
        if self._check is None:
            self._check = asyncio.get_running_loop().call_later(limits.CHECK_INTERVAL, self._check_deadlines)

    def close_idle(self) -> None:
        """Close every idle connection without unread data in the kernel.

        The kernel is asked about each connection just before it is closed: a request that arrives in between is lost.
        """
        now = asyncio.get_running_loop().time()
        for connection in [candidate for candidate in self.open if candidate.is_quiet(now)]:
            if not readable([_file_of(connection)]):
                connection.force_close()

    def count_open(self) -> int:
        """Return the number of open connections and recent handshakes."""
        quiet = asyncio.get_running_loop().time() - limits.QUIET_TIME
        recent = sum(handshake.since >= quiet for handshake in self.handshakes.values())
        return self._acceptor.count_since(quiet) + recent + sum(connection.connected for connection in self.open)

    def _check_deadlines(self) -> None:
        """Close the connections that missed their deadline, and check again later if others have one."""
        self._check = None
        now = asyncio.get_running_loop().time()
        for connection in tuple(self.open):
            if connection.deadline <= now:
                connection.abort()
            elif connection.deadline < math.inf:
                self.check_later()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.handshakes.pop(task, None)
        self._continued.pop(task, None)

    def _may_continue(self, task: asyncio.Task[Any]) -> bool:
        """Return whether a connection may be read. At the limit, end the handshake that continued first, if its client is silent."""
        if task not in self.handshakes or task in self._continued:
            return True
        if len(self._continued) < limits.MAX_CONTINUED:
            self._continued[task] = None
            return True
        files = {other: self.handshakes[other].sock.fileno() for other in self._continued if not other.cancelling()}
        unread = readable(files.values())
        silent = next((other for other, file in files.items() if file not in unread), None)
        if silent is not None:
            silent.cancel()
        return False

    def _make_room(self) -> bool:
        """At the limit of handshakes, end the oldest one. At that of connections, close the one that has been idle for longest.

        Without an idle connection, close the one that has been receiving for longest. A handshake counts as idle since
        its connection was accepted. Of each kind, those whose client has sent something that is still unread come last:
        the server is slow, not they.
        If every connection has a request in the handler, return False.
        """
        shaking = len(self.handshakes) >= self._max_handshakes
        if not shaking and len(self.handshakes) + len(self.open) < self._limit:
            return True
        task = _first_silent((task, handshake.sock.fileno()) for task, handshake in self.handshakes.items())
        idle = None if shaking else _longest(self.open, ConnectionState.IDLE)
        if task is not None and (idle is None or self.handshakes[task].since <= idle.since):
            self._forget(task)
            task.cancel()
            return True
        connection = idle or _longest(self.open, ConnectionState.RECEIVING)
        if connection is None:
            return False
        self.open.discard(connection)
        connection.abort()
        return True


def readable(files: Iterable[int]) -> set[int]:
    """Return the files with data to read, or, for listening sockets, with connections to accept.

    A connection that has just ended has no file: its number is -1.
    """
    poll = select.poll()
    for file in files:
        if file >= 0:
            poll.register(file, select.POLLIN)
    return {file for file, _ in poll.poll(0)}


def _configure(listening: socket.socket) -> None:
    """Set the timeout for unread responses, which connections inherit.

    Most responses fit into the kernel's buffers, so only the kernel knows whether they are read (tcp(7), TCP_USER_TIMEOUT).
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limits.WRITE_TIMEOUT * 1000))


def _longest(connections: Iterable[Connection], state: ConnectionState) -> Connection | None:
    """Return the connection that has been in ``state`` for longest, of those without unread data if there are any."""
    candidates = [connection for connection in connections if connection.state is state]
    candidates.sort(key=lambda connection: connection.since)
    return _first_silent((connection, _file_of(connection)) for connection in candidates)


def _first_silent(candidates: Iterable[tuple[Candidate, int]]) -> Candidate | None:
    """Return the first candidate whose file has nothing to read, or else the first of all."""
    first = None
    for candidate, file in candidates:
        if not readable([file]):
            return candidate
        first = first or candidate
    return first


def _file_of(connection: Connection) -> int:
    sock = None if connection.transport is None else connection.transport.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())
