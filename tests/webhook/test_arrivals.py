from __future__ import annotations

import asyncio
import errno
import gc
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from injector.webhook import arrivals
from injector.webhook.arrivals import Arrivals
from injector.webhook.connections import Connections
from tests.reliability.slowpeers import HALF_HELLO, trusting_anybody
from tests.revisions.clock import until
from tests.webhook.certificates import write_certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LIMIT = 20.0
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@dataclass
class Door:
    """A server behind its arrivals."""

    arrivals: Arrivals
    crowd: Connections

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.arrivals.sockets[0].getsockname()
        return host, port

    async def answered(self) -> bool:
        """Whether one more caller is, within the limit."""
        tls = trusting_anybody() if self.arrivals.tls else None
        async with asyncio.timeout(LIMIT):
            reader, writer = await asyncio.open_connection(*self.address, ssl=tls)
            writer.write(REQUEST)
            said = await reader.read()
            writer.close()
            return b"200 OK" in said

    def open(self) -> int:
        """How many there are in any state."""
        return len(self.crowd._arriving) + len(self.crowd._made())


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the connection ends without an answer: cut, where something was sent that nobody read."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None, most: int = 1000) -> AsyncIterator[Door]:
    async def handle(request: web.BaseRequest) -> web.Response:
        del request
        return web.Response(text="ok")

    server = web.Server(handle)
    crowd = Connections(server, {"access_log": None}, most=most)
    door = Door(Arrivals([socket.create_server(("127.0.0.1", 0))], crowd, crowd, tls), crowd)
    door.arrivals.begin()
    yield door
    door.arrivals.close()
    door.arrivals.cut()
    await server.shutdown(0.1)


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_certificate(tmp_path))
    return context


@pytest.fixture
async def door(tls: ssl.SSLContext) -> AsyncIterator[Door]:
    async with serving(tls) as found:
        yield found


async def test_callers_are_answered_without_tls_too() -> None:
    async with serving(None) as plain:
        assert await plain.answered()
        await until(lambda: plain.open() == 0)


async def test_more_callers_than_are_let_in_at_once_are_all_answered(door: Door) -> None:
    assert all(await asyncio.gather(*(door.answered() for _ in range(40))))
    await until(lambda: door.open() == 0)


async def test_nothing_is_made_for_who_says_nothing_or_half_of_it(door: Door) -> None:
    silent = [await asyncio.open_connection(*door.address) for _ in range(20)]
    for _, writer in silent[:10]:
        writer.write(HALF_HELLO)
    await until(lambda: len(door.crowd._arriving) == 20)

    assert await door.answered()

    await until(lambda: door.crowd._made() == [])
    assert len(door.crowd._arriving) == 20
    for _, writer in silent:
        writer.close()
    await until(lambda: door.open() == 0)


async def test_who_takes_too_long_is_cut(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "HANDSHAKE", 0.2)
    silent = [await asyncio.open_connection(*door.address) for _ in range(4)]
    for _, writer in silent[:2]:
        writer.write(HALF_HELLO)

    async with asyncio.timeout(LIMIT):
        assert [await ended(reader) for reader, _ in silent] == [True] * 4
    await until(lambda: door.open() == 0)
    for _, writer in silent:
        writer.close()


async def test_the_time_is_that_of_the_whole_handshake(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "HANDSHAKE", 0.2)
    said = ssl.MemoryBIO()
    client = trusting_anybody().wrap_bio(ssl.MemoryBIO(), said)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    reader, writer = await asyncio.open_connection(*door.address)
    writer.write(said.read())

    async with asyncio.timeout(LIMIT):
        assert await reader.read() != b""  # the server's part, and then the end
    await until(lambda: door.open() == 0)
    writer.close()


async def test_nothing_is_left_of_handshakes_that_failed_until_a_garbage_collection(door: Door) -> None:
    def left() -> int:
        return sum(isinstance(each, SSLProtocol) for each in gc.get_objects())

    gc.collect()
    before = left()
    gc.disable()
    try:
        for said in (REQUEST, HALF_HELLO[:3] + b"\x00\x04\x01\x00\x00\x00"):
            reader, writer = await asyncio.open_connection(*door.address)
            writer.write(said)
            writer.write_eof()
            async with asyncio.timeout(LIMIT):
                await ended(reader)
            writer.close()
        await until(lambda: door.open() == 0)
        await until(lambda: left() == before)
    finally:
        gc.enable()


async def test_where_there_is_no_room_the_oldest_caller_goes(tls: ssl.SSLContext) -> None:
    async with serving(tls, most=3) as door:
        silent = [await asyncio.open_connection(*door.address) for _ in range(3)]
        await until(lambda: len(door.crowd._arriving) == 3)

        assert await door.answered()

        async with asyncio.timeout(LIMIT):
            assert await silent[0][0].read() == b""
        assert not silent[2][0].at_eof()
        for _, writer in silent:
            writer.close()


async def test_what_is_no_tls_ends(door: Door) -> None:
    reader, writer = await asyncio.open_connection(*door.address)
    writer.write(REQUEST)

    async with asyncio.timeout(LIMIT):
        assert b"200 OK" not in await reader.read()
    await until(lambda: door.open() == 0)
    writer.close()


async def test_nobody_is_accepted_after_the_end(door: Door) -> None:
    address = door.address
    silent, writer = await asyncio.open_connection(*address)
    await until(lambda: len(door.crowd._arriving) == 1)

    door.arrivals.close()
    door.arrivals.cut()

    assert not door.arrivals.is_serving()
    async with asyncio.timeout(LIMIT):
        assert await silent.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


async def test_a_process_without_files_accepts_again_later(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(arrivals, "RETRY", 0.05)
    accept, failures = socket.socket.accept, iter([OSError(errno.EMFILE, "Too many open files")])

    def failing(sock: socket.socket) -> tuple[socket.socket, object]:
        for failure in failures:
            raise failure
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", failing)

    assert await door.answered()
    assert "no caller can be accepted for a second: Too many open files" in caplog.text
