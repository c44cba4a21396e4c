from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from injector.webhook.connections import PLAIN_BUFFER, QUIET, Connection, Connections, readable
from tests.revisions.clock import until
from tests.webhook.certificates import write_certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LIMIT = 20.0
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Clock:
    """Tells what a test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def server() -> AsyncIterator[web.Server]:
    """What answers every request."""

    async def handle(request: web.BaseRequest) -> web.Response:
        del request
        return web.Response(text="ok")

    server = web.Server(handle)
    yield server
    await server.shutdown(0.1)


@pytest.fixture
def connections(server: web.Server, clock: Clock) -> Connections:
    return Connections(server, {"access_log": None}, clock)


def the_one(connections: Connections) -> Connection:
    (found,) = connections._made()
    return found


async def test_a_connection_is_idle_a_second_after_it_was_made_or_used(connections: Connections) -> None:
    listening = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
    await until(connections.left)
    connection = the_one(connections)
    made = connection.quiet_since
    assert getattr(connection.transport, "max_size", None) == PLAIN_BUFFER

    assert (connection.idle(made), connection.idle(made + QUIET + 0.1)) == (False, True)
    writer.write(REQUEST[:5])
    await until(lambda: connection.under_way)
    assert not connection.idle(made + 60)
    writer.write(REQUEST[5:])
    async with asyncio.timeout(LIMIT):
        await reader.readuntil(b"ok")
    await until(lambda: not connection.under_way)
    used = connection.quiet_since
    assert used > made
    assert (connection.idle(used), connection.idle(used + QUIET + 0.1)) == (False, True)
    writer.close()
    await until(lambda: connections.left() == 0)
    listening.close()


async def test_nothing_is_kept_of_an_answer_that_was_sent() -> None:
    made: list[web.Response] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        del request
        made.append(web.Response(body=b"ok"))
        return made[-1]

    connections = Connections(web.Server(handle), {"access_log": None})
    listening = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
    for _ in range(2):
        writer.write(REQUEST)
        async with asyncio.timeout(LIMIT):
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\nok")
    await until(lambda: not the_one(connections).newcomer)

    assert [each.body for each in made] == [None, None]
    writer.close()
    listening.close()


async def test_a_handshake_that_goes_on_is_somebody_who_is_left_for_a_second(
    connections: Connections, clock: Clock, tmp_path: Path
) -> None:
    certificate, key = write_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    listening = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0, ssl=tls)
    _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
    await until(lambda: len(connections._arriving) == 1)
    (clock.now,) = connections._arriving.values()

    assert (connections.left(), connections._made()) == (1, [])
    connections.close_idle()
    clock.now += QUIET + 0.1
    assert connections.left() == 0
    writer.close()
    listening.close()


def test_a_file_is_readable_where_something_waits_in_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert readable([ours.fileno(), theirs.fileno()]) == set()
        theirs.send(b"x")
        assert readable([ours.fileno(), theirs.fileno()]) == {ours.fileno()}
    assert readable([]) == set()
