"""Connections: limits, idle times, half requests and shutdown."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
from asyncio import sslproto
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from injector.errors import InjectorError
from injector.webhook import limits
from injector.webhook.listener import HTTP, Connection, ConnectionState, Listener, readable
from tests.tasks import until
from tests.webhook.certificates import write_certificate

LIMIT = 20.0
REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
BODY = b"{}"
JUNK = bytes(range(50))
HALF_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(64)
LARGE = 32 * 1024 * 1024
# k8s.io/apimachinery/pkg/util/net, SetTransportDefaults, by Go's DefaultTransport.
IDLE_OF_THE_API_SERVER = 90.0


@dataclass
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, sent: bytes = REQUEST + BODY) -> bool:
        """Whether a request is answered."""
        try:
            self.writer.write(sent)
            return await self.answered()
        except ConnectionError:
            return False

    async def answered(self) -> bool:
        try:
            async with asyncio.timeout(LIMIT):
                return b"200 OK" in await self.reader.readuntil(b"\r\n\r\nok")
        except (asyncio.IncompleteReadError, ConnectionError):
            return False

    async def has_ended(self) -> bool:
        """Whether the connection ends."""
        try:
            async with asyncio.timeout(LIMIT):
                while await self.reader.read(2**16):
                    pass
        except ConnectionError:
            pass
        return True

    def is_open(self) -> bool:
        return not self.reader.at_eof()


class Greeting:
    """A client that speaks TLS by itself, when it is told to: the event loop makes no pass meanwhile."""

    def __init__(self, port: int, tls: ssl.SSLContext, all_but: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._heard, self._spoken = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._heard, self._spoken)
        self._answer = b""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        hello = self._spoken.read()
        self._rest = hello[len(hello) - all_but :]
        self.sock.sendall(hello[: len(hello) - all_but])
        self.sock.setblocking(False)

    def send_rest(self) -> None:
        """Send the rest of the hello, or of the handshake."""
        self.sock.sendall(self._rest)

    def was_answered(self) -> bool:
        """Return whether the server's part of the handshake has arrived."""
        return bool(readable([self.sock.fileno()]))

    def is_closed(self) -> bool:
        try:
            while data := self.sock.recv(2**16):
                self._heard.write(data)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        return True

    def shake_hands(self) -> None:
        """End the handshake and ask."""
        self.begin_to_answer()
        self.send_rest()

    def begin_to_answer(self) -> None:
        """Send half of what ends the handshake, and keep the rest and a request."""
        assert not self.is_closed()
        self._tls.do_handshake()
        answer = self._spoken.read()
        self._tls.write(REQUEST + BODY)
        self._rest = answer[len(answer) // 2 :] + self._spoken.read()
        self.sock.sendall(answer[: len(answer) // 2])

    def is_answered_ok(self) -> bool:
        self.is_closed()
        with suppress(ssl.SSLWantReadError):
            self._answer += self._tls.read()
        return b"200 OK" in self._answer


@dataclass
class Served:
    """A listener on a port of this machine, whose application answers when it may."""

    listener: Listener
    port: int
    go: asyncio.Event
    bodies: list[bytes]
    clients: list[Client] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    greetings: list[Greeting] = field(default_factory=list)

    @property
    def connections(self) -> set[Connection]:
        return self.listener.open

    def receiving(self) -> list[Connection]:
        """The connections that have sent a part of a request."""
        return [connection for connection in self.connections if connection.state is ConnectionState.RECEIVING]

    async def connect(self, **options: Any) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls, **options))
        self.clients.append(client)
        return client

    def greet(self, all_but: int = 0) -> Greeting:
        """Begin a TLS handshake, with all but the last bytes of the hello."""
        assert self.tls is not None
        self.greetings.append(Greeting(self.port, self.tls, all_but))
        return self.greetings[-1]

    async def idle(self, *, asks: bool = True) -> Client:
        """A connection that was answered once, if it asks."""
        client = await self.connect()
        if asks:
            assert await client.ask()
        else:
            await until(lambda: len(self.connections) == len(self.clients))
        return client

    async def drain(self) -> int:
        async with asyncio.timeout(LIMIT):
            return await self.listener.drain()


@asynccontextmanager
async def serving(
    limit: int = 1000, tls: tuple[Path, Path] | None = None, max_handshakes: int | None = 1000
) -> AsyncIterator[Served]:
    """Serve. If ``max_handshakes`` is None, it is the default."""
    go, bodies = asyncio.Event(), list[bytes]()
    go.set()

    async def answer(request: web.BaseRequest) -> web.Response:
        match request.path:
            case "/":
                bodies.append(await request.read())
                assert isinstance(request.protocol, Connection)
                request.protocol.enter_handler()
                await go.wait()
                return web.Response(text="ok")
            case "/large":
                return web.Response(body=bytes(LARGE))
            case "/fails":
                raise RuntimeError(request.path)
        raise web.HTTPNotFound

    make = partial(Listener, answer, limit=limit)
    listener = make() if max_handshakes is None else make(max_handshakes=max_handshakes)
    theirs, ours = None, None
    if tls is not None:
        ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(tls[0]))
        ours.load_cert_chain(*tls)
        theirs.check_hostname = False
    served = Served(listener, await listener.listen("127.0.0.1", 0, ours), go, bodies, tls=theirs)
    try:
        yield served
    finally:
        go.set()
        for client in served.clients:
            client.writer.transport.abort()
        for greeting in served.greetings:
            greeting.sock.close()
        await listener.close()


async def nothing(_: web.BaseRequest) -> web.Response:
    raise web.HTTPNotFound


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """A listener without TLS."""
    async with serving() as listener:
        yield listener


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> Hurry:
    """Lets time pass."""
    return Hurry(monkeypatch)


class Hurry:
    """Lets time pass on an event loop that is its own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._passed = 0.0

    async def by(self, seconds: float) -> None:
        """Let them pass, and what is due happen."""
        loop = asyncio.get_running_loop()
        if not self._passed:
            clock = loop.time
            self._monkeypatch.setattr(loop, "time", lambda: clock() + self._passed)
        self._passed += seconds
        for _ in range(5):
            await asyncio.sleep(0)


# The limit.


async def test_at_the_limit_a_new_connection_replaces_the_one_that_was_idle_for_longest() -> None:
    async with serving(limit=3) as served:
        never_asked = await served.idle(asks=False)
        first, second = await served.idle(), await served.idle()

        third = await served.idle()
        assert await never_asked.has_ended()
        assert [client.is_open() for client in (first, second, third)] == [True] * 3

        assert await first.ask()
        await served.idle()
        assert await second.has_ended()
        assert [await client.ask() for client in (first, third)] == [True, True]


@pytest.mark.parametrize("burst", [10, 50, 200])
async def test_a_burst_of_new_connections_is_answered_while_idle_ones_take_all_places(burst: int) -> None:
    async with serving(limit=300) as served:
        for _ in range(300):
            await served.idle()

        async def call() -> bool:
            return await (await served.connect()).ask()

        assert await asyncio.gather(*(call() for _ in range(burst))) == [True] * burst
        assert len(served.connections) <= 300


async def test_a_connection_with_a_request_in_work_is_never_closed_for_another_one() -> None:
    async with serving(limit=2) as served:
        served.go.clear()
        working = [await served.connect() for _ in range(2)]
        for client in working:
            client.writer.write(REQUEST + BODY)
        await until(lambda: len(served.bodies) == 2)

        refused = await served.connect()
        assert await refused.has_ended()
        served.go.set()

        assert [await client.answered() for client in working] == [True, True]


async def test_idle_connections_are_closed_before_one_that_sends_its_request() -> None:
    async with serving(limit=2) as served:
        sending = await served.connect()
        sending.writer.write(REQUEST)
        await until(served.receiving)
        idle = await served.idle()

        assert await (await served.connect()).ask()
        assert await idle.has_ended()
        assert await sending.ask(BODY)


async def test_without_an_idle_connection_the_slowest_sender_is_closed() -> None:
    async with serving(limit=2) as served:
        sending = []
        for number in (1, 2):
            sending.append(await served.connect())
            sending[-1].writer.write(REQUEST)
            await until(lambda: len(served.receiving()) == number)  # noqa: B023 -- awaited here

        assert await (await served.connect()).ask()
        assert await sending[0].has_ended()
        assert await sending[1].ask(BODY)


async def test_handshakes_count_as_idle_connections(tmp_path: Path) -> None:
    async with serving(limit=3, tls=write_certificate(tmp_path)) as served:
        greeted = []
        for number in range(3):
            greeted.append(served.greet())
            await until(greeted[number].was_answered)

        assert await (await served.connect()).ask()
        assert await (await served.connect()).ask()
        await until(lambda: [client.is_closed() for client in greeted] == [True, True, False])


async def test_handshakes_have_a_limit_of_their_own(tmp_path: Path) -> None:
    async with serving(tls=write_certificate(tmp_path), max_handshakes=3) as served:
        client_kept = await served.connect()
        greeted = []
        for number in range(5):
            greeted.append(served.greet())
            await until(greeted[number].was_answered)

        await until(lambda: [client.is_closed() for client in greeted] == [True] * 2 + [False] * 3)
        assert len(served.listener.handshakes) == 3
        assert await (await served.connect()).ask()
        assert await client_kept.ask()


async def test_the_connections_of_three_api_servers_at_once_all_end_their_handshake(tmp_path: Path) -> None:
    """An API server opens up to 200 (--max-mutating-requests-inflight). They are busy: none answers before the last one was accepted."""
    async with serving(tls=write_certificate(tmp_path), max_handshakes=None) as served:
        clients = []
        for number in range(600):
            clients.append(served.greet())
            if number % 20 == 19:
                await until(clients[number].was_answered)
        await until(lambda: all(client.was_answered() for client in clients))

        for client in clients:
            client.shake_hands()
        await until(lambda: all(client.is_answered_ok() for client in clients))


async def test_clients_that_stop_after_a_part_of_their_answer_lose_their_handshake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have announced a long message, for which OpenSSL takes memory."""
    monkeypatch.setattr(limits, "MAX_CONTINUED", 2)
    async with serving(tls=write_certificate(tmp_path)) as served:
        clients = await stalled(served, 5)
        for client in clients:
            client.send_rest()

        await until(lambda: all(client.is_answered_ok() for client in clients[3:]))
        assert await (await served.connect()).ask()
        assert not any(client.is_closed() for client in clients)


async def greeted(served: Served, count: int) -> list[Greeting]:
    """Clients whose hello the server has answered."""
    clients = [served.greet() for _ in range(count)]
    await until(lambda: all(client.was_answered() for client in clients))
    return clients


async def stalled(served: Served, count: int) -> list[Greeting]:
    """Clients that have sent a part of what ends their handshake, one after the other."""
    clients = await greeted(served, count)
    for number, client in enumerate(clients):
        client.begin_to_answer()
        for _ in range(10):
            await asyncio.sleep(0.001)
        lost = max(number + 1 - limits.MAX_CONTINUED, 0)
        await until(lambda lost=lost: len(tls_connections()) == count - lost)  # type: ignore[misc]
    return clients


def tls_connections() -> list[object]:
    return [obj for obj in gc.get_objects() if isinstance(obj, sslproto.SSLProtocol)]


async def test_a_connection_that_lost_its_handshake_is_closed_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it sends: nothing reads it."""
    monkeypatch.setattr(limits, "MAX_CONTINUED", 1)
    async with serving(tls=write_certificate(tmp_path), max_handshakes=3) as served:
        first, second = await stalled(served, 2)
        second.send_rest()
        await until(second.is_answered_ok)
        others = await greeted(served, 2)
        first.send_rest()
        others.append(served.greet())
        await until(first.is_closed)

        for client in others:
            client.shake_hands()
        await until(lambda: all(client.is_answered_ok() for client in others))


async def test_a_connection_that_lost_its_handshake_is_closed_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_CONTINUED", 1)
    monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT", 0.5)
    async with serving(tls=write_certificate(tmp_path)) as served:
        clients = await greeted(served, 3)
        for client in clients:
            client.begin_to_answer()

        await until(lambda: all(client.is_closed() for client in clients))
        await until(lambda: not served.listener.handshakes and not tls_connections())


async def test_no_client_whose_answer_is_unread_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CONTINUED", 1)
    async with serving(tls=write_certificate(tmp_path)) as served:
        first, second = served.greet(), served.greet()
        await until(lambda: first.was_answered() and second.was_answered())
        first.begin_to_answer()
        for _ in range(20):
            await asyncio.sleep(0.001)

        second.shake_hands()
        first.send_rest()

        await until(first.is_answered_ok)
        await until(second.is_answered_ok)


async def test_clients_without_a_hello_take_no_place_from_handshakes(tmp_path: Path) -> None:
    """A thousand of them would otherwise end the handshake of a client that was not scheduled for a tenth of a second."""
    async with serving(tls=write_certificate(tmp_path), max_handshakes=3) as served:
        good = served.greet()
        await until(good.was_answered)
        strangers = [
            await asyncio.open_connection("127.0.0.1", served.port)
            for sent in (b"", JUNK, HALF_HELLO)
            for _ in range(10)
        ]
        for number, (_, writer) in enumerate(strangers):
            writer.write((b"", JUNK, HALF_HELLO)[number // 10])
        async with asyncio.timeout(LIMIT):
            for reader, _ in strangers[10:20]:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""

        assert len(served.listener.handshakes) == 1
        good.shake_hands()
        await until(good.is_answered_ok)
        for _, writer in strangers:
            writer.close()


async def test_a_handshake_whose_answer_is_unread_is_not_ended_for_another_one(tmp_path: Path) -> None:
    """The next one begins before the server reads the answer, which came before."""
    async with serving(tls=write_certificate(tmp_path), max_handshakes=2) as served:
        first, second = served.greet(), served.greet()
        await until(lambda: first.was_answered() and second.was_answered())
        third = served.greet(all_but=1)
        for _ in range(20):
            await asyncio.sleep(0.001)

        third.send_rest()
        first.shake_hands()

        await until(second.is_closed)
        await until(first.is_answered_ok)
        assert not third.is_closed()


async def test_an_idle_connection_whose_request_is_unread_is_not_closed_for_another_one() -> None:
    async with serving(limit=2) as served:
        first, second = [await served.idle() for _ in range(2)]
        with socket.create_connection(("127.0.0.1", served.port)):
            # Without a pass of the event loop in between.
            first.writer.write(REQUEST + BODY)

            assert await first.answered()
            assert await second.has_ended()


# Timeouts.


async def test_a_client_that_does_not_finish_its_handshake_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT", 0.05)
    async with serving(tls=write_certificate(tmp_path)) as served:
        for hello in (b"", HALF_HELLO):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(hello)
            with suppress(ConnectionResetError):
                async with asyncio.timeout(LIMIT):
                    assert await reader.read() == b""
            writer.close()
        greeted = served.greet()
        await until(greeted.is_closed)
        await until(lambda: not served.listener.handshakes)


@pytest.mark.parametrize("sent", [REQUEST[:5], REQUEST[:-2], REQUEST, REQUEST + BODY[:1]])
async def test_a_client_that_does_not_finish_its_request_is_disconnected(
    served: Served, hurry: Hurry, sent: bytes
) -> None:
    client = await served.idle()
    client.writer.write(sent)
    await until(served.receiving)

    await hurry.by(limits.REQUEST_TIMEOUT - 1)
    assert client.is_open()
    await hurry.by(2)

    assert await client.has_ended()


async def test_a_response_before_the_rest_of_its_request_closes_the_connection(served: Served) -> None:
    client = await served.connect()
    client.writer.write(REQUEST.replace(b"/", b"/missing", 1) + BODY[:1])
    head = await client.reader.readuntil(b"\r\n\r\n")
    client.writer.write(BODY[1:])

    assert b"404 Not Found" in head
    assert b"Connection: close" in head
    assert await client.has_ended()


@pytest.mark.parametrize(
    ("sent", "status", "logged"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, 0),
        (b"POST / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 9000 + b"\r\n\r\n", 400, 0),
        (b"GET /fails HTTP/1.1\r\nHost: x\r\n\r\n", 500, 1),
    ],
)
async def test_errors_of_the_server_are_logged_and_requests_that_are_not_http_are_not(
    served: Served, caplog: pytest.LogCaptureFixture, sent: bytes, status: int, logged: int
) -> None:
    client = await served.connect()
    client.writer.write(sent)

    assert f" {status} ".encode() in await client.reader.readuntil(b"\r\n\r\n")
    assert len(caplog.records) == logged


async def test_a_request_in_work_may_take_longer_than_a_request_may_take_to_arrive(
    served: Served, hurry: Hurry
) -> None:
    served.go.clear()
    client = await served.connect()
    client.writer.write(REQUEST + BODY)
    await until(lambda: served.bodies)

    await hurry.by(2 * limits.REQUEST_TIMEOUT)
    served.go.set()

    assert await client.answered()


@pytest.mark.parametrize("tls", [False, True])
async def test_a_client_that_does_not_read_its_answer_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    monkeypatch.setattr(limits, "WRITE_TIMEOUT", 0.2)
    async with serving(tls=write_certificate(tmp_path) if tls else None) as served:
        client = await served.connect(limit=1)
        client.writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: served.connections)
        await until(lambda: not served.connections)


@pytest.mark.needs("linux")
@pytest.mark.parametrize("tls", [False, True])
async def test_the_kernel_disconnects_a_client_whose_answer_is_in_its_buffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    monkeypatch.setattr(limits, "WRITE_TIMEOUT", 0.5)
    async with serving(tls=write_certificate(tmp_path) if tls else None) as served:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", served.port))
        client = Client(
            *await asyncio.open_connection(
                sock=sock, ssl=served.tls, limit=1, server_hostname="localhost" if tls else None
            )
        )
        served.clients.append(client)
        # A megabyte at most fits into the buffers of both kernels, and each answer has some hundred bytes.
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(20):
            client.writer.write((REQUEST + BODY) * 50)
        await until(lambda: served.connections)
        await until(lambda: not served.connections)


@pytest.mark.parametrize("idle", [89.5, IDLE_OF_THE_API_SERVER, 90.5, 110.0])
async def test_a_connection_outlives_the_idle_time_of_the_api_server(served: Served, hurry: Hurry, idle: float) -> None:
    client = await served.connect()

    for _ in range(3):
        assert await client.ask()
        await hurry.by(idle)

    assert await client.ask()


@pytest.mark.parametrize("asks", [False, True])
async def test_an_idle_connection_is_closed_in_the_end(served: Served, hurry: Hurry, asks: bool) -> None:
    client = await served.idle(asks=asks)

    await hurry.by(limits.KEEPALIVE_TIMEOUT + 1)

    assert await client.has_ended()


async def test_the_read_buffers_of_asyncio_are_small(tmp_path: Path) -> None:
    # asyncio has no public option for them: this test fails if the attributes that set them disappear.
    async with serving() as served:
        await served.idle(asks=False)
        (connection,) = served.connections
        transport: Any = connection.transport
        assert type(transport).max_size > 2**12
        assert transport.max_size == 2**12
    async with serving(tls=write_certificate(tmp_path)) as served:
        await served.idle(asks=False)
        (connection,) = served.connections
        transport = connection.transport
        assert type(transport._ssl_protocol) is sslproto.SSLProtocol
        assert len(getattr(transport._ssl_protocol, "_ssl_buffer")) == 2**12  # noqa: B009 -- it has no type
        # What a client sends while its connection is not read.
        assert getattr(transport._ssl_protocol, "_incoming_high_water") == 2**12  # noqa: B009 -- the same


# What is not the body of a request.

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
LINE = b"X: " + bytes(1000).replace(b"\0", b"x") + b"\r\n"


def head_of(size: int) -> bytes:
    """A request whose head has about this size."""
    return REQUEST.replace(b"\r\n\r\n", b"\r\n" + LINE * (size // len(LINE)) + b"\r\n")


@pytest.mark.parametrize("before", [b"", b"\r\n", b"\r\n\r\n\r\n"])
@pytest.mark.parametrize("step", [2**20, 1000, 7])
async def test_a_head_that_is_too_long_is_refused_and_ends_its_connection(
    served: Served, before: bytes, step: int
) -> None:
    """Also behind empty lines, which HTTP allows before a request, and however it is cut."""
    sent = before + head_of(limits.MAX_HEAD + 2 * len(LINE))
    client = await served.connect()
    with suppress(ConnectionError):
        for start in range(0, len(sent), step):
            client.writer.write(sent[start : start + step])
            await client.writer.drain()
    assert (await client.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 400 ")
    assert await client.has_ended()
    assert served.bodies == []


@pytest.mark.parametrize("step", [2**20, 1000, 7])
async def test_a_long_head_and_a_large_body_are_accepted_on_the_same_connection(served: Served, step: int) -> None:
    client, body = await served.connect(), bytes(100_000)
    head = head_of(limits.MAX_HEAD - len(LINE)).replace(b"Content-Length: 2", b"Content-Length: %d" % len(body))
    for _ in range(2):
        sent = head + body
        for start in range(0, len(sent), step):
            client.writer.write(sent[start : start + step])
            await client.writer.drain()
        assert await client.answered()

    assert served.bodies == [body, body]


@pytest.mark.parametrize(
    "sent",
    [b"1\r\na\r\n" * 100_000, b"1;" + b"x" * 10**5, b"0\r\n" + LINE * 50],
    ids=["sizes", "extension", "trailers"],
)
async def test_chunks_with_more_around_them_than_a_head_may_have_end_their_connection(
    served: Served, sent: bytes
) -> None:
    client = await served.connect()
    client.writer.write(CHUNKED)
    await until(served.receiving)
    client.writer.write(sent)

    assert (await client.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 400 ")
    assert await client.has_ended()
    assert served.bodies == []


@pytest.mark.parametrize("size", [256, 4096, 100_000])
async def test_a_body_in_chunks_may_be_large(served: Served, size: int) -> None:
    """The smallest chunks have more around them than a head may have."""
    client, body = await served.connect(), bytes(size) * (2**20 // size)
    chunk = b"%x\r\n%s\r\n" % (size, bytes(size))
    for _ in range(2):
        assert await client.ask(CHUNKED + chunk * (len(body) // size) + b"0\r\nX: trailer\r\n\r\n")

    assert served.bodies == [body, body]


async def test_a_client_sees_why_its_large_body_is_refused(served: Served) -> None:
    """The rest of the body is neither a head nor another request."""
    client, size = await served.connect(), 2**21
    client.writer.write(b"POST /missing HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
    head = await client.reader.readuntil(b"\r\n\r\n")
    client.writer.write(bytes(size))
    await client.writer.drain()

    assert b"404 Not Found" in head
    assert await client.has_ended()


async def test_a_client_that_does_not_wait_for_its_answer_gets_no_other_one(served: Served) -> None:
    served.go.clear()
    client = await served.connect()
    client.writer.write(REQUEST + BODY)
    await until(lambda: served.bodies)
    client.writer.write((REQUEST + BODY) * 1000)
    for _ in range(20):
        await asyncio.sleep(0.001)
    served.go.set()

    assert await client.answered()
    assert await client.has_ended()
    assert served.bodies == [BODY]


async def test_a_client_that_asks_as_soon_as_it_has_its_answer_gets_the_next_one(tmp_path: Path) -> None:
    """An API server does, in two parts. The write of the answer may end here a moment after the answer has arrived there."""

    def ask(port: int, tls: ssl.SSLContext) -> int:
        with tls.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=LIMIT)) as sock:
            for number in range(100):
                sock.sendall(REQUEST)
                sock.sendall(BODY)
                answer = b""
                while not answer.endswith(b"\r\n\r\nok"):
                    data = sock.recv(2**16)
                    if not data:
                        return number
                    answer += data
        return 100

    async with serving(tls=write_certificate(tmp_path)) as served:
        assert served.tls is not None
        assert await asyncio.to_thread(ask, served.port, served.tls) == 100


async def test_requests_that_come_at_once_are_answered(served: Served) -> None:
    client = await served.connect()
    client.writer.write((REQUEST + BODY) * 10)

    assert [await client.answered() for _ in range(10)] == [True] * 10


async def test_aiohttp_reads_two_requests_ahead(served: Served) -> None:
    # aiohttp has no public option for it: this test fails if the constant that sets it disappears.
    await served.idle(asks=False)
    (connection,) = served.connections

    assert connection._max_msg_queue_size == limits.MAX_REQUESTS


HALF_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(20)


@pytest.mark.parametrize("sent", [b"", b"junk" * 20, HALF_HELLO, b"GET / HTTP/1.1\r\n\r\n"])
@pytest.mark.parametrize("ends", ["client", "reset", "timeout", "limit"])
async def test_a_handshake_that_fails_leaves_nothing_for_the_garbage_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes, ends: str
) -> None:
    """A cycle would keep the memory of OpenSSL, of which the collector does not know, for thousands of handshakes."""
    if ends == "timeout":
        monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT", 0.05)
    async with serving(limit=1 if ends == "limit" else 1000, tls=write_certificate(tmp_path)) as served:
        gc.collect()
        gc.disable()
        try:
            clients = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(5)]
            for _, writer in clients:
                writer.write(sent)
                if ends == "reset":
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            waited = {"timeout": clients, "limit": clients[:-1]}.get(ends, [])
            for reader, _ in waited:
                with suppress(ConnectionError):
                    await asyncio.wait_for(reader.read(), LIMIT)
            for _, writer in clients:
                writer.transport.abort()
            await until(lambda: not served.listener.handshakes and not left_of_handshakes())
        finally:
            gc.enable()


def left_of_handshakes() -> list[object]:
    """The objects of connections that have not been freed."""
    kinds = (sslproto.SSLProtocol, ssl.SSLObject, Connection)
    return [obj for obj in gc.get_objects() if isinstance(obj, kinds)]


# Listening.


async def test_an_address_that_is_taken_is_named() -> None:
    listener = Listener(nothing)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]

        with pytest.raises(
            InjectorError, match=rf"127.0.0.1:{number}: cannot listen: .*; choose another --bind, --port or --ops-port"
        ):
            await listener.listen("127.0.0.1", number)
    await listener.close()


async def test_the_kernel_queues_more_connections_than_are_accepted_at_once(served: Served) -> None:
    # The event loop does not run meanwhile: they all wait in the kernel, none of them refused or dropped.
    clients = [socket.create_connection(("127.0.0.1", served.port), timeout=0.9) for _ in range(20)]

    loop = asyncio.get_running_loop()
    for client in clients:
        client.sendall(REQUEST + BODY)
        client.setblocking(False)
    async with asyncio.timeout(LIMIT):
        answers = await asyncio.gather(*(loop.sock_recv(client, 4096) for client in clients))
    for client in clients:
        client.close()

    assert all(b"200 OK" in answer for answer in answers)


def test_every_option_of_the_protocol_is_one_that_aiohttp_knows() -> None:
    # web.Server drops options that RequestHandler does not know, with a warning; ``Connection`` does not.
    assert set(HTTP) <= set(web.RequestHandler.__init__.__annotations__)
    overridden = {"connection_made", "connection_lost", "data_received", "finish_response"}
    assert overridden <= set(vars(web.RequestHandler))


# Drain.


async def test_a_listener_that_never_listened_is_drained() -> None:
    listener = Listener(nothing)

    assert await listener.drain() == 0

    await listener.close()


async def test_a_drained_listener_refuses_connections(served: Served) -> None:
    client = await served.idle()
    client.writer.close()

    assert await served.drain() == 0

    with pytest.raises(ConnectionRefusedError):
        await served.connect()


async def test_a_drain_closes_idle_connections_once_they_are_quiet(served: Served, hurry: Hurry) -> None:
    clients = [await served.idle() for _ in range(5)]
    recent = await served.idle()
    await hurry.by(limits.QUIET_TIME + 0.1)
    assert await recent.ask()
    draining = asyncio.create_task(served.drain())

    assert [await client.has_ended() for client in clients] == [True] * 5
    # It may ask again: the next answer closes its connection, or a second without a request.
    assert not draining.done()
    assert await recent.ask()
    await hurry.by(limits.QUIET_TIME + 0.1)

    assert await draining == 0
    assert await recent.has_ended()


async def test_a_drain_answers_a_request_that_was_sent_and_not_yet_read(served: Served, hurry: Hurry) -> None:
    client = await served.idle()
    sent: Any = client.writer.get_extra_info("socket")
    await hurry.by(limits.QUIET_TIME + 0.1)
    # Past the event loop: the request is in the kernel, and this process has not looked yet.
    assert sent._sock.send(REQUEST + BODY) == len(REQUEST + BODY)
    draining = asyncio.create_task(served.drain())

    assert await client.answered()
    await hurry.by(limits.QUIET_TIME + 0.1)

    assert await draining == 0
    assert served.bodies == [BODY, BODY]


async def test_a_drain_answers_a_connection_that_the_kernel_has_accepted(served: Served, hurry: Hurry) -> None:
    client = socket.create_connection(("127.0.0.1", served.port))
    client.sendall(REQUEST + BODY)
    client.setblocking(False)
    draining = asyncio.create_task(served.drain())

    async with asyncio.timeout(LIMIT):
        assert b"200 OK" in await asyncio.get_running_loop().sock_recv(client, 4096)
    await hurry.by(limits.QUIET_TIME + 0.1)
    assert await draining == 0
    client.close()


async def test_a_drain_waits_for_the_rest_of_a_request(served: Served, hurry: Hurry) -> None:
    client = await served.connect()
    client.writer.write(REQUEST)
    await until(served.receiving)
    draining = asyncio.create_task(served.drain())
    await hurry.by(limits.QUIET_TIME + 0.1)
    await asyncio.sleep(0.04)
    assert not draining.done()

    assert await client.ask(BODY)
    await hurry.by(limits.QUIET_TIME + 0.1)

    assert await draining == 0


async def test_a_drain_waits_for_the_request_after_a_slow_handshake(tmp_path: Path, hurry: Hurry) -> None:
    async with serving(tls=write_certificate(tmp_path)) as served:
        client = Client(*await asyncio.open_connection("127.0.0.1", served.port))
        await until(served.listener.count_open)
        await hurry.by(limits.QUIET_TIME + 0.1)
        assert served.tls is not None
        await client.writer.start_tls(served.tls)
        await until(lambda: served.connections)
        draining = asyncio.create_task(served.drain())
        await asyncio.sleep(0.04)

        assert await client.ask()
        await hurry.by(limits.QUIET_TIME + 0.1)

        assert await draining == 0
        client.writer.close()


async def test_a_drain_ends_after_its_time_and_says_how_many_connections_are_left(served: Served, hurry: Hurry) -> None:
    client = await served.connect()
    client.writer.write(REQUEST)
    await until(served.receiving)
    draining = asyncio.create_task(served.drain())
    await asyncio.sleep(0.02)

    await hurry.by(limits.DRAIN_TIMEOUT)

    assert await draining == 1


async def test_a_handshake_that_goes_on_is_waited_for_a_moment(tmp_path: Path, hurry: Hurry) -> None:
    async with serving(tls=write_certificate(tmp_path)) as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        greeted = served.greet()
        await until(greeted.was_answered)

        assert served.listener.count_open() == 2
        await hurry.by(limits.QUIET_TIME + 0.1)
        assert served.listener.count_open() == 0
        writer.close()


def test_a_file_is_readable_if_something_waits_in_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert readable([ours.fileno(), theirs.fileno()]) == set()
        theirs.send(b"x")
        assert readable([ours.fileno(), theirs.fileno()]) == {ours.fileno()}
    assert readable([]) == readable([ours.fileno()]) == set(), "a closed socket has the number -1"
