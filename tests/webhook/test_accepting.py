"""The order in which accepted connections are served, and their limits."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest

from injector.webhook import limits
from injector.webhook.accepting import Acceptor
from tests.tasks import until


class Port:
    """A port that notes the numbers of clients in the order in which they are served."""

    def __init__(self, limit: int = 100) -> None:
        self.served: list[int] = []
        self.passes: list[int] = []
        self.pass_number = 0
        self.clients = ExitStack()
        self.number_of: dict[Any, int] = {}
        self.acceptor = Acceptor(self.serve, limit)
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        self.acceptor.listen([listening])

    def serve(self, sock: socket.socket) -> None:
        self.served.append(self.number_of[sock.getpeername()])
        self.passes.append(self.pass_number)
        sock.close()

    def connect(self, number: int) -> socket.socket:
        client = self.clients.enter_context(socket.create_connection(self.address, timeout=20))
        self.number_of[client.getsockname()] = number
        return client

    async def count_passes(self) -> None:
        while True:
            self.pass_number += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def port(limit: int = 100) -> AsyncIterator[Port]:
    open_port = Port(limit)
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


class NoFiles(socket.socket):
    """A listening socket of a process whose files are all open, for two times."""

    FAILURES = 2

    def __init__(self) -> None:
        super().__init__()
        self.bind(("127.0.0.1", 0))
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
        assert len(open_port.acceptor) == 2
        open_port.acceptor.close()

        assert [client.recv(1) for client in clients] == [b""] * 3
        with pytest.raises(ConnectionRefusedError):
            open_port.connect(4)
