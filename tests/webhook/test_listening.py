from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from injector.errors import InjectorError
from injector.webhook.arrivals import LET_IN
from injector.webhook.listening import KEEPALIVE, Port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT = 20.0
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
# k8s.io/apimachinery/pkg/util/net, SetTransportDefaults, by Go's DefaultTransport.
IDLE_OF_THE_API_SERVER = 90.0


async def hello(request: web.Request) -> web.Response:
    del request
    return web.Response(text="ok")


def app() -> web.Application:
    """An application with one route."""
    app = web.Application()
    app.add_routes([web.get("/", hello)])
    return app


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    """A port that nobody listens on yet."""
    port = Port(app())
    yield port
    await port.close()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """What a request is answered; empty where the connection has ended."""
    writer.write(REQUEST)
    async with asyncio.timeout(LIMIT):
        try:
            return await reader.readuntil(b"ok")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""


class Hurry:
    """Lets time pass on an event loop that is its own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        clock = loop.time
        self._passed = 0.0
        monkeypatch.setattr(loop, "time", lambda: clock() + self._passed)

    async def by(self, seconds: float) -> None:
        """Let them pass, and what is due happen."""
        self._passed += seconds
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize("idle", [89.5, IDLE_OF_THE_API_SERVER, 90.5, 110.0])
async def test_a_connection_outlives_the_idle_time_of_the_api_server(
    port: Port, monkeypatch: pytest.MonkeyPatch, idle: float
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", await port.listen("127.0.0.1", 0))
    hurry = Hurry(monkeypatch)

    for _ in range(3):
        assert b"200 OK" in await ask(reader, writer)
        await hurry.by(idle)

    assert b"200 OK" in await ask(reader, writer)
    writer.close()


async def test_a_connection_that_nobody_uses_is_closed_in_the_end(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", await port.listen("127.0.0.1", 0))
    hurry = Hurry(monkeypatch)
    assert b"200 OK" in await ask(reader, writer)

    await hurry.by(KEEPALIVE + 1)

    async with asyncio.timeout(LIMIT):
        assert await reader.read() == b""
    writer.close()


async def test_an_address_that_is_taken_is_named(port: Port) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]

        with pytest.raises(
            InjectorError, match=rf"127.0.0.1:{number}: cannot listen: .*; choose another --bind or port"
        ):
            await port.listen("127.0.0.1", number)


async def test_more_callers_may_wait_than_are_let_in_at_once(port: Port) -> None:
    number = await port.listen("127.0.0.1", 0)
    # The event loop does not turn meanwhile: they all wait in the kernel, none of them refused or dropped.
    callers = [socket.create_connection(("127.0.0.1", number), timeout=0.9) for _ in range(4 * LET_IN)]

    loop = asyncio.get_running_loop()
    for caller in callers:
        caller.sendall(REQUEST)
        caller.setblocking(False)
    async with asyncio.timeout(LIMIT):
        answers = await asyncio.gather(*(loop.sock_recv(caller, 4096) for caller in callers))
    for caller in callers:
        caller.close()

    assert all(b"200 OK" in answer for answer in answers)


async def test_a_port_that_never_listened_is_empty(port: Port) -> None:
    assert await port.empty() == 0


async def test_an_empty_port_refuses_callers(port: Port) -> None:
    number = await port.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", number)
    assert await ask(reader, writer)

    assert await port.empty() == 0

    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", number)
