"""What the end of a process does to those who call it: SIGTERM loses nobody, SIGKILL leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING

from tests.factories import UID, make_review
from tests.reliability.apiserver import HEAD_END, request_of
from tests.reliability.replicas import LIMIT

if TYPE_CHECKING:
    from tests.reliability.conftest import ReplicaFactory
    from tests.reliability.replicas import Replica

RUNNING, IDLE, ON_THEIR_WAY = 50, 200, 40
REQUEST = request_of("/inject/stable?timeout=30s", json.dumps(make_review()).encode())
HALF = len(REQUEST) // 2


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> tuple[bytes, str]:
        """The head of the answer, and the uid in its body."""
        async with asyncio.timeout(LIMIT):
            head = await self.reader.readuntil(HEAD_END)
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = json.loads(await self.reader.readexactly(length))
        return head, body["response"]["uid"]

    async def ended(self) -> bool:
        """Whether the connection ends in order, without another byte."""
        async with asyncio.timeout(LIMIT):
            return await self.reader.read() == b""


async def callers_of(replica: Replica, count: int) -> list[Caller]:
    """Connections that nothing was sent on."""
    return [Caller(*await asyncio.open_connection("127.0.0.1", replica.port)) for _ in range(count)]


async def test_sigterm_loses_none_of_those_who_run_and_of_those_who_are_on_their_way(
    start_replica: ReplicaFactory,
) -> None:
    replica = start_replica("--insecure-http", "--shutdown-delay", "0")
    await replica.until_ready()
    idle, running = await callers_of(replica, IDLE), await callers_of(replica, RUNNING)
    for caller in idle:
        caller.writer.write(REQUEST)
        head, uid = await caller.answer()
        assert (b"200 OK" in head, uid) == (True, UID)
    for caller in running:
        caller.writer.write(REQUEST[:HALF])
        await caller.writer.drain()
    on_their_way, unused = idle[:ON_THEIR_WAY], idle[ON_THEIR_WAY:]

    for caller in on_their_way:
        caller.writer.write(REQUEST)
    replica.signal(signal.SIGTERM)
    assert all(await asyncio.gather(*(caller.ended() for caller in unused)))
    for caller in running:
        caller.writer.write(REQUEST[HALF:])

    for caller in (*on_their_way, *running):
        head, uid = await caller.answer()
        assert (b"200 OK" in head, uid) == (True, UID)
        # Who is on his way may still have been answered before the signal was seen.
        assert b"Connection: close" in head or caller in on_their_way
        assert await caller.ended()
    assert await replica.ended() == 0
    for caller in (*idle, *running):
        caller.writer.close()


async def test_after_sigkill_it_starts_on_the_same_ports_and_injects(start_replica: ReplicaFactory) -> None:
    replica = start_replica("--insecure-http")
    await replica.until_ready()
    (caller,) = await callers_of(replica, 1)
    caller.writer.write(REQUEST[:HALF])
    await caller.writer.drain()

    replica.signal(signal.SIGKILL)
    assert await replica.ended() == -signal.SIGKILL
    replica.start()
    await replica.until_ready()
    (another,) = await callers_of(replica, 1)
    another.writer.write(REQUEST)

    assert (await another.answer())[1] == UID
    for each in (caller, another):
        each.writer.close()
