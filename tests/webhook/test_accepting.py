"""The order in which accepted connections are served, and their limits."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest

from injector.webhook import limits
from injector.webhook.accepting import Accepted, Acceptor
from injector.webhook.listener import readable
from tests.reliability.handshakes import message, record
from tests.tasks import until


class Listening(socket.socket):
    """A listening socket that knows the connections that it accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.bind(("127.0.0.1", 0))
        self.accepted: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, Any]:
        sock, address = super().accept()
        self.accepted.append(sock)
        return sock, address


class Port:
    """A port that notes the numbers of clients in the order in which they are served."""

    def __init__(self, limit: int = 100, *, tls: bool = False) -> None:
        self.tls = tls
        self.served: list[int] = []
        self.received: list[bytes] = []
        self.hellos: list[int] = []
        self.passes: list[int] = []
        self.pass_number = 0
        self.clients = ExitStack()
        self.number_of: dict[Any, int] = {}
        self.acceptor = Acceptor(self.serve, limit)
        listening = Listening()
        self.accepted = listening.accepted
        self.address = listening.getsockname()
        self.acceptor.listen([listening], tls=tls)

    def serve(self, accepted: Accepted) -> None:
        sock = accepted.sock
        self.served.append(self.number_of[sock.getpeername()])
        self.received.append(sock.recv(2**16, socket.MSG_DONTWAIT) if self.tls else b"")
        self.hellos.append(accepted.hello)
        self.passes.append(self.pass_number)
        sock.close()

    def connect(self, number: int) -> socket.socket:
        client = self.clients.enter_context(socket.create_connection(self.address, timeout=20))
        self.number_of[client.getsockname()] = number
        return client

    def send(self, number: int, data: bytes) -> socket.socket:
        client = self.connect(number)
        client.sendall(data)
        return client

    async def count_passes(self) -> None:
        while True:
            self.pass_number += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def port(limit: int = 100, *, tls: bool = False) -> AsyncIterator[Port]:
    open_port = Port(limit, tls=tls)
    counting = asyncio.create_task(open_port.count_passes())
    try:
        yield open_port
    finally:
        counting.cancel()
        open_port.acceptor.close()
        open_port.clients.close()


async def test_of_connections_that_wait_the_newest_is_served_first() -> None:
    async with port() as open_port:
        for number in range(20):
            open_port.connect(number)
        await until(lambda: len(open_port.served) == 20)

    assert open_port.served == list(reversed(range(20)))


async def test_between_two_connections_the_event_loop_makes_passes_for_others() -> None:
    async with port() as open_port:
        for number in range(5):
            open_port.connect(number)
        await until(lambda: len(open_port.served) == 5)

    gaps = [after - before for before, after in zip(open_port.passes, open_port.passes[1:], strict=False)]
    assert min(gaps) >= limits.PASSES_BETWEEN


async def test_beyond_the_limit_the_connection_that_waits_longest_is_closed() -> None:
    async with port(limit=3) as open_port:
        clients = [open_port.connect(number) for number in range(5)]
        await until(lambda: len(open_port.served) == 3)

        assert open_port.served == [4, 3, 2]
        assert [client.recv(1) for client in clients[:2]] == [b"", b""]


async def test_a_connection_that_waited_for_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT", -1.0)
    async with port() as open_port:
        client = open_port.connect(1)
        await until(lambda: is_closed(client))

    assert open_port.served == []


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


# The hello of a TLS connection.


def hello() -> bytes:
    """Return the first record of a client."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HELLO = hello()


@pytest.mark.parametrize("parts", [[1], [4], [5], [6], [100], [len(HELLO) - 1], [2, 5, 6, 300], []])
async def test_a_tls_connection_is_served_once_its_hello_is_complete(parts: list[int]) -> None:
    """However it is cut into segments."""
    async with port(tls=True) as open_port:
        client = open_port.connect(1)
        for start, end in itertools.pairwise([0, *parts]):
            client.sendall(HELLO[start:end])
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert open_port.served == []
        client.sendall(HELLO[([0, *parts])[-1] :])
        await until(lambda: open_port.served == [1])

    assert (open_port.received, open_port.hellos) == ([HELLO], [len(HELLO)])


async def test_a_hello_in_two_records_is_served_with_the_size_of_the_first() -> None:
    """A TLS library with little memory sends short records."""
    body = HELLO[5:]
    async with port(tls=True) as open_port:
        open_port.send(1, record(body[:100]) + record(body[100:]))
        await until(lambda: open_port.served == [1])

    assert open_port.hellos == [105]


async def test_half_a_hello_does_not_wake_the_event_loop() -> None:
    async with port(tls=True) as open_port:
        open_port.send(1, HELLO[:100])
        await until(lambda: open_port.accepted)
        (sock,) = open_port.accepted
        await until(lambda: sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == len(HELLO))

        assert readable([sock.fileno()]) == set()
        assert sock.recv(2**16, socket.MSG_PEEK) == HELLO[:100]


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x15" + HELLO[1:],
        HELLO[:1] + b"\x02" + HELLO[2:],
        HELLO[:3] + b"\x00\x00" + HELLO[5:],
        HELLO[:3] + b"\x40\x01" + HELLO[5:],
        bytes.fromhex("802e0100020015000000100100800200800300800400800500800600800700c0"),
        bytes(5),
        record(message(1, bytes(2**14 + 1))[: 2**14]),
        record(message(1, bytes(100)) + message(11, bytes(100))),
        record(message(11, bytes(100))),
        record(b"\1") + HELLO,
    ],
    ids=[
        "http",
        "alert",
        "version",
        "empty",
        "long",
        "sslv2",
        "zeros",
        "announced",
        "two messages",
        "certificate",
        "bit",
    ],
)
async def test_a_connection_that_begins_no_handshake_is_closed_and_never_served(junk: bytes) -> None:
    async with port(tls=True) as open_port:
        client = open_port.send(1, junk)
        await until(lambda: is_closed(client))

        assert open_port.served == []
        assert open_port.acceptor.count_since(0.0) == 0


async def test_a_client_that_leaves_before_its_hello_is_forgotten() -> None:
    async with port(tls=True) as open_port:
        client = open_port.connect(1)
        await until(lambda: open_port.acceptor.count_since(0.0) == 1)
        client.shutdown(socket.SHUT_WR)
        await until(lambda: is_closed(client))

        assert open_port.served == []
        assert open_port.acceptor.count_since(0.0) == 0


async def test_beyond_the_limit_connections_without_a_hello_are_closed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PASSES_BETWEEN", 10**9)
    async with port(limit=3, tls=True) as open_port:
        open_port.send(0, HELLO)
        await until(lambda: open_port.served == [0])
        with_hello = [open_port.send(number, HELLO) for number in (1, 2)]
        await until(lambda: open_port.acceptor.count_since(math.inf) == 2)
        without = [open_port.send(number, HELLO[:-1]) for number in range(3, 8)]
        await until(lambda: all(is_closed(client) for client in without[:4]))

        assert not any(is_closed(client) for client in (*with_hello, without[4]))


async def test_beyond_the_limit_a_new_connection_with_a_hello_is_not_the_one_to_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If all that wait have sent their hello, it is served before them."""
    monkeypatch.setattr(limits, "PASSES_BETWEEN", 10**9)
    async with port(limit=3, tls=True) as open_port:
        open_port.send(0, HELLO)
        await until(lambda: open_port.served == [0])
        waiting = [open_port.send(number, HELLO) for number in (1, 2, 3)]
        await until(lambda: open_port.acceptor.count_since(math.inf) == 3)
        newest = open_port.send(4, HELLO)
        await until(lambda: any(is_closed(client) for client in waiting))
        await until(lambda: open_port.acceptor.count_since(math.inf) == 3)

        assert [is_closed(client) for client in (*waiting, newest)].count(True) == 1
        assert not is_closed(newest)


async def test_a_hello_that_the_kernel_gives_in_parts_is_not_junk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without SO_RCVLOWAT wakes the event loop for each byte."""
    monkeypatch.setattr(
        Acceptor, "_call_with_bytes", lambda self, sock, _, then: self._loop.add_reader(sock, then, sock)
    )
    async with port(tls=True) as open_port:
        clients = [open_port.send(number, HELLO[:number]) for number in (1, 4, 5, 100)]
        await until(lambda: sorted(open_port.served) == [1, 4, 5, 100])

        assert len(clients) == 4


async def test_a_connection_whose_hello_comes_late_is_not_served_after_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one before it has waited for less."""
    async with port(tls=True) as open_port:
        late = open_port.connect(1)
        await until(lambda: open_port.acceptor.count_since(0.0) == 1)
        monkeypatch.setattr(limits, "PASSES_BETWEEN", 10**9)
        open_port.send(0, HELLO)
        await until(lambda: open_port.served == [0])
        late.sendall(HELLO)
        await until(lambda: open_port.acceptor.count_since(math.inf) == 1)
        monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT", -1.0)
        open_port.acceptor._serve_newest()

        assert open_port.served == [0]
        assert open_port.acceptor.count_since(0.0) == 0


async def test_a_connection_whose_hello_does_not_come_in_time_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT", 0.02)
    async with port(tls=True) as open_port:
        for _ in range(2):
            clients = [open_port.send(1, HELLO[:size]) for size in (0, 3, len(HELLO) - 1)]
            await until(lambda: all(is_closed(client) for client in clients))  # noqa: B023 -- awaited here

    assert open_port.served == []


@pytest.mark.needs("linux")
async def test_without_a_free_file_connections_are_accepted_a_moment_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "ACCEPT_RETRY", 0.02)
    listening = NoFiles()
    async with port() as open_port:
        open_port.acceptor.stop()
        open_port.address = listening.getsockname()
        with caplog.at_level(logging.ERROR):
            open_port.acceptor.listen([listening])
            open_port.connect(1)
            await until(lambda: open_port.served == [1])

    assert caplog.messages == ["accept() failed: Too many open files; retrying in 0.02 s"] * NoFiles.FAILURES


class NoFiles(Listening):
    """A listening socket of a process whose files are all open, for two times."""

    FAILURES = 2

    def __init__(self) -> None:
        super().__init__()
        self.failures = self.FAILURES

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            self.failures -= 1
            raise OSError(24, os.strerror(24))
        return super().accept()


async def test_connections_that_wait_are_closed_with_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PASSES_BETWEEN", 10**9)
    async with port() as open_port:
        clients = [open_port.connect(number) for number in range(3)]
        await until(lambda: len(open_port.served) == 1)
        assert open_port.acceptor.count_since(asyncio.get_running_loop().time()) == 2
        open_port.acceptor.close()

        assert [client.recv(1) for client in clients] == [b""] * 3
        with pytest.raises(ConnectionRefusedError):
            open_port.connect(4)
