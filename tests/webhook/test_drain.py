from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from injector.webhook.connections import QUIET, Connections
from injector.webhook.drain import FINISH, LOOK, empty
from tests.revisions.clock import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT = 20.0
REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
BODY = b"{}"


class Clock:
    """Stands still but for what is waited, and lets the loop turn meanwhile."""

    def __init__(self) -> None:
        self.now = 1e9
        self.waits = 0

    def __call__(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.now += seconds
        self.waits += 1
        await asyncio.sleep(0.001)


@dataclass
class Door:
    """A server that keeps its connections, with the means to drain it."""

    listening: asyncio.Server
    connections: Connections
    port: int
    clock: Clock
    answered: list[bytes]

    async def call(self, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and send something."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def idle(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that was used and is kept."""
        reader, writer = await self.call(REQUEST + BODY)
        assert b"200 OK" in await answer(reader)
        return reader, writer

    async def empty(self) -> int:
        async with asyncio.timeout(LIMIT):
            return await empty(self.listening, self.connections, clock=self.clock, pause=self.clock.pause)


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Head and body of an answer."""
    async with asyncio.timeout(LIMIT):
        head = await reader.readuntil(b"\r\n\r\n")
        return head + await reader.readexactly(2)


@asynccontextmanager
async def serving() -> AsyncIterator[Door]:
    clock, answered = Clock(), list[bytes]()

    async def handle(request: web.BaseRequest) -> web.Response:
        answered.append(await request.read())
        return web.Response(text="ok")

    server = web.Server(handle)
    connections = Connections(server, {"access_log": None}, clock)
    listening = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
    yield Door(listening, connections, listening.sockets[0].getsockname()[1], clock, answered)
    listening.close()
    await server.shutdown(0.1)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    """A server that serves."""
    async with serving() as found:
        yield found


async def test_idle_connections_are_closed_at_once_and_nobody_is_listened_to_any_more(door: Door) -> None:
    callers = [await door.idle() for _ in range(5)]

    assert await door.empty() == 0

    assert [await reader.read() for reader, _ in callers] == [b""] * 5
    assert not door.listening.is_serving()
    assert door.clock.waits <= 2
    for _, writer in callers:
        writer.close()


async def test_what_was_sent_and_not_yet_read_is_answered_before_its_connection_is_closed(door: Door) -> None:
    reader, writer = await door.idle()
    sent: Any = writer.get_extra_info("socket")
    # Past the event loop: the request is in the kernel, and this process has not looked yet.
    assert sent._sock.send(REQUEST + BODY) == len(REQUEST + BODY)

    assert await door.empty() == 0

    assert b"200 OK" in await answer(reader)
    assert await reader.read() == b""
    assert door.answered == [BODY, BODY]
    writer.close()


async def test_a_caller_whom_the_kernel_has_accepted_is_answered(door: Door) -> None:
    loop = asyncio.get_running_loop()
    caller = socket.create_connection(("127.0.0.1", door.port))
    caller.sendall(REQUEST + BODY)
    caller.setblocking(False)

    assert await door.empty() == 0

    async with asyncio.timeout(LIMIT):
        assert b"200 OK" in await loop.sock_recv(caller, 4096)
    caller.close()


async def test_a_request_that_has_begun_is_waited_for(door: Door) -> None:
    reader, writer = await door.call(REQUEST)
    emptying = asyncio.create_task(door.empty())
    await until(lambda: door.clock.waits >= 3)
    assert not emptying.done()

    writer.write(BODY)

    assert b"200 OK" in await answer(reader)
    assert await emptying == 0
    writer.close()


async def test_who_has_asked_a_moment_ago_is_closed_by_his_next_answer_or_when_he_is_quiet(door: Door) -> None:
    reader, writer = await door.idle()
    (connection,) = door.connections._made()
    begun = door.clock.now = connection.quiet_since
    emptying = asyncio.create_task(door.empty())
    await until(lambda: door.clock.waits >= 3)
    assert not emptying.done()

    writer.write(REQUEST + BODY)

    assert b"200 OK" in await answer(reader)
    assert await emptying == 0
    assert door.clock.now - begun > QUIET
    assert await reader.read() == b""
    writer.close()


async def test_who_has_connected_has_a_second_to_send_a_request(door: Door) -> None:
    reader, writer = await door.call()
    await until(door.connections.left)
    begun = door.clock.now = next(iter(door.connections._made())).quiet_since

    assert await door.empty() == 0

    assert QUIET < door.clock.now - begun < QUIET + 3 * LOOK
    assert await reader.read() == b""
    writer.close()


async def test_who_never_sends_the_rest_is_waited_for_no_longer_than_the_bound(door: Door) -> None:
    begun = door.clock.now
    _, writer = await door.call(REQUEST)
    await until(lambda: [each for each in door.connections._made() if each.under_way])

    assert await door.empty() == 1

    assert FINISH <= door.clock.now - begun < FINISH + 3 * LOOK
    writer.close()
