from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from injector.webhook.connections import Connections
from injector.webhook.patience import ARRIVAL, HASTE, LOOK, TAKING, Unsent
from tests.revisions.clock import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT = 20.0
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
REQUEST = HEAD + b"\r\n{}"
LARGE = 8 * 1024 * 1024


class Clock:
    """Tells what a test says; it begins when connections do."""

    def __init__(self) -> None:
        self.now = asyncio.get_running_loop().time()

    def __call__(self) -> float:
        return self.now


class Door:
    """A server that knows its connections, and callers of it."""

    def __init__(self, most: int = 1000) -> None:
        self.clock = Clock()
        self.held = asyncio.Event()
        self.held.set()
        self.size = 2
        self.server = web.Server(self.handle)
        self.connections = Connections(self.server, {"access_log": None}, self.clock, most)
        self.writers: list[asyncio.StreamWriter] = []

    async def handle(self, request: web.BaseRequest) -> web.Response:
        await request.read()
        await self.held.wait()
        return web.Response(body=b"x" * self.size)

    async def open(self) -> None:
        self.listening = await asyncio.get_running_loop().create_server(self.connections, "127.0.0.1", 0)

    async def call(self, sent: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*self.listening.sockets[0].getsockname())
        self.writers.append(writer)
        writer.write(sent)
        return reader

    def later(self, seconds: float) -> None:
        self.clock.now += seconds
        self.connections.cut_overdue()

    async def close(self) -> None:
        self.held.set()
        for writer in self.writers:
            writer.close()
        self.listening.close()
        await self.server.shutdown(0.1)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    door = Door()
    await door.open()
    yield door
    await door.close()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the connection ends without an answer."""
    async with asyncio.timeout(LIMIT):
        try:
            return await reader.read(1) == b""
        except ConnectionError:
            return True


async def answered(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(LIMIT):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            return head.startswith(b"HTTP/1.1 200")
        except (asyncio.IncompleteReadError, ConnectionError):
            return False


@pytest.mark.parametrize("part", [b"POST", HEAD, HEAD + b"\r\n", HEAD + b"\r\n{"])
async def test_whose_request_does_not_come_to_its_end_is_cut(door: Door, part: bytes) -> None:
    reader = await door.call(part)
    await until(lambda: any(each.under_way for each in door.connections._made()))

    door.later(ARRIVAL - 1)
    assert len(door.connections._made()) == 1
    door.later(2)

    assert await ended(reader)
    await until(lambda: door.connections.left() == 0)


async def test_who_has_sent_nothing_yet_is_not_cut(door: Door) -> None:
    reader = await door.call()
    await until(lambda: len(door.connections._made()) == 1)

    door.later(10 * ARRIVAL)

    door.writers[0].write(REQUEST)
    assert await answered(reader)


async def test_who_waits_for_an_answer_is_not_cut(door: Door) -> None:
    door.held.clear()
    reader = await door.call(REQUEST)
    await until(lambda: any(each.worked_on for each in door.connections._made()))

    door.later(10 * ARRIVAL)
    door.held.set()

    assert await answered(reader)


async def test_the_time_of_a_request_begins_with_its_own_first_byte(door: Door) -> None:
    reader = await door.call(REQUEST)
    assert await answered(reader)
    await until(lambda: not any(each.under_way for each in door.connections._made()))
    door.later(3 * ARRIVAL)

    door.writers[0].write(REQUEST)

    assert await answered(reader)


@pytest.mark.parametrize(("most", "patience"), [(1000, TAKING), (2, TAKING), (1, HASTE)])
async def test_who_does_not_take_an_answer_is_cut_sooner_where_half_of_the_places_are_taken(
    door: Door, most: int, patience: float
) -> None:
    door.connections._most = most
    door.size = LARGE
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, door.listening.sockets[0].getsockname())
    await asyncio.get_running_loop().sock_sendall(sock, REQUEST)
    await until(
        lambda: any(each.transport and each.transport.get_write_buffer_size() for each in door.connections._made())
    )

    door.later(0.0)
    door.later(patience - 1)
    assert len(door.connections._made()) == 1
    door.later(2.0)

    await until(lambda: door.connections._made() == [])
    sock.close()


def test_who_takes_some_of_it_again_and_again_is_not_cut() -> None:
    unsent, now = Unsent(), 100.0
    for size in range(50, 0, -1):
        now += TAKING - LOOK
        assert not unsent.look(size, now)
    assert not unsent.look(0, now + 10 * TAKING)
    assert not unsent.look(5, now + 20 * TAKING)
    assert not unsent.look(6, now + 20 * TAKING + 1)
    assert unsent.look(6, now + 21 * TAKING + 1)


async def test_many_requests_at_once_are_not_kept_in_memory() -> None:
    door = Door()
    await door.open()
    reader = await door.call(REQUEST * 50)

    async with asyncio.timeout(LIMIT):
        said = await reader.read()

    assert said.count(b"HTTP/1.1 200") == 1
    await door.close()


async def test_where_there_is_no_room_the_oldest_goes_who_was_never_answered() -> None:
    door = Door(most=3)
    await door.open()
    first = await door.call(REQUEST)
    assert await answered(first)
    await until(lambda: len(door.connections._known) == 1)
    silent = [await door.call(), await door.call()]
    await until(lambda: len(door.connections._made()) == 3)

    newest = await door.call(REQUEST)

    assert await answered(newest)
    assert await ended(silent[0])
    door.writers[0].write(REQUEST)
    assert await answered(first)
    assert len(door.connections._made()) <= 3
    await door.close()


async def test_where_all_were_answered_the_one_goes_that_is_idle_for_longest() -> None:
    door = Door(most=2)
    await door.open()
    readers = [await door.call(REQUEST), await door.call(REQUEST)]
    for reader in readers:
        assert await answered(reader)
    await until(lambda: len(door.connections._known) == 2)
    oldest = min(door.connections._known, key=lambda each: each.quiet_since)

    newest = await door.call(REQUEST)

    assert await answered(newest)
    await until(lambda: oldest.transport is None)
    assert len(door.connections._made()) == 2
    await door.close()


async def test_who_leaves_an_answer_goes_before_who_is_idle(door: Door) -> None:
    door.connections._most = 2
    idle = await door.call(REQUEST)
    assert await answered(idle)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, door.listening.sockets[0].getsockname())
    for door.size in (2, LARGE):
        await asyncio.get_running_loop().sock_sendall(sock, REQUEST)
        await asyncio.get_running_loop().sock_recv(sock, 2048)
    await until(
        lambda: any(each.transport and each.transport.get_write_buffer_size() for each in door.connections._made())
    )
    door.later(0.0)
    door.later(TAKING - 1)

    door.size = 2
    assert await answered(await door.call(REQUEST))

    door.writers[0].write(REQUEST)
    assert await answered(idle)
    sock.close()


async def test_who_is_worked_on_keeps_the_connection_even_where_there_is_no_room() -> None:
    door = Door(most=2)
    await door.open()
    door.held.clear()
    readers = []
    for number in range(4):
        readers.append(await door.call(REQUEST))
        await until(lambda: sum(each.worked_on for each in door.connections._made()) == number + 1)  # noqa: B023 -- awaited here

    door.held.set()

    assert [await answered(reader) for reader in readers] == [True] * 4
    await door.close()
