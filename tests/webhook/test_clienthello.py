from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from injector.webhook.clienthello import HEADER, LONGEST, client_hello

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 20.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A caller and who was called, connected by TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as ours:
        theirs, _ = listening.accept()
        with theirs:
            theirs.setblocking(False)
            yield ours, theirs


def hello() -> bytes:
    """What a client of TLS says first."""
    said = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


async def waiting(theirs: socket.socket) -> asyncio.Task[bool]:
    """A wait that has begun and goes on."""
    task = asyncio.create_task(client_hello(theirs))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def told(task: asyncio.Task[bool]) -> bool:
    async with asyncio.timeout(LIMIT):
        return await task


async def test_a_hello_that_is_there_is_seen_and_stays_where_it_is(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    said = hello()
    ours.sendall(said)

    assert await client_hello(theirs)
    assert theirs.recv(1 << 16) == said


@pytest.mark.parametrize("parts", [(1,), (HEADER,), (HEADER + 1, 40), (3, 4, 5, 6, 100)])
async def test_a_hello_is_waited_for_to_its_last_byte(
    pair: tuple[socket.socket, socket.socket], parts: tuple[int, ...]
) -> None:
    ours, theirs = pair
    said = hello()
    task = await waiting(theirs)
    begun = 0
    for end in (*parts, len(said) - 1):
        ours.sendall(said[begun:end])
        begun = end
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not task.done()

    ours.sendall(said[begun:])

    assert await told(task)
    assert theirs.recv(1 << 16) == said


async def test_half_a_hello_does_not_keep_the_loop_turning(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    ours.sendall(hello()[:50])
    looks = 0
    task = await waiting(theirs)
    peek = socket.socket.recv

    def counted(sock: socket.socket, *asked: int) -> bytes:
        nonlocal looks
        looks += 1
        return peek(sock, *asked)

    monkeypatch.setattr(socket.socket, "recv", counted)
    for _ in range(50):
        await asyncio.sleep(0.001)

    assert not task.done()
    assert looks == 0
    task.cancel()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\xff\xff", b"\x15\x03\x01\x00\x02"])
async def test_what_is_no_hello_is_left_to_tls(pair: tuple[socket.socket, socket.socket], said: bytes) -> None:
    ours, theirs = pair
    ours.sendall(said)

    async with asyncio.timeout(LIMIT):
        assert await client_hello(theirs)
    assert theirs.recv(100) == said


@pytest.mark.parametrize("said", [b"", b"\x16\x03", b"\x16\x03\x01\x02\x00\x01"])
async def test_a_caller_who_goes_before_is_not_waited_for(
    pair: tuple[socket.socket, socket.socket], said: bytes
) -> None:
    ours, theirs = pair
    task = await waiting(theirs)
    ours.sendall(said)
    ours.shutdown(socket.SHUT_WR)

    # Of half a hello TLS itself says that nothing follows.
    assert await told(task) is bool(said)


async def test_a_caller_who_is_cut_is_gone(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    task = await waiting(theirs)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
    ours.close()

    assert not await told(task)


async def test_afterwards_a_single_byte_is_told_of_again(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    said = hello()
    task = await waiting(theirs)
    ours.sendall(said[:9])
    ours.sendall(said[9:])
    assert await told(task)

    assert theirs.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


def test_the_longest_record_is_that_of_the_rfc() -> None:
    assert LONGEST == 2**14
