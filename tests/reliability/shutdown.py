"""What happens to callers while a replica ends: some idle, some with half a request sent, some on their way."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.factories import UID, make_review
from tests.reliability.apiserver import HEAD_END, request_of
from tests.reliability.replicas import LIMIT

if TYPE_CHECKING:
    from tests.reliability.replicas import Replica

RUNNING: Final = 50
IDLE: Final = 200
ON_THEIR_WAY: Final = 40
REQUEST: Final = request_of("/inject/stable?timeout=30s", json.dumps(make_review()).encode())
HALF: Final = len(REQUEST) // 2


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        """Send a request, or a part of one."""
        self.writer.write(data)

    async def answered(self, *, closing: bool = False) -> bool:
        """Whether the review is answered, and if asked whether the answer closes the connection."""
        try:
            async with asyncio.timeout(LIMIT):
                head = await self.reader.readuntil(HEAD_END)
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                body = await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, OSError):
            return False
        said = b"connection: close" in head.lower()
        return b"200 OK" in head and json.loads(body)["response"]["uid"] == UID and (said or not closing)

    async def ended(self) -> bool:
        """Whether the connection ends in order, without another byte."""
        try:
            async with asyncio.timeout(LIMIT):
                return await self.reader.read() == b""
        except OSError:
            return False


async def callers_of(replica: Replica, count: int) -> list[Caller]:
    """Connections that nothing was sent on."""
    return [Caller(*await asyncio.open_connection("127.0.0.1", replica.port)) for _ in range(count)]


async def closed(*callers: Caller) -> None:
    """Close connections, and wait until they have ended."""
    for caller in callers:
        caller.writer.close()
    await asyncio.gather(*(caller.writer.wait_closed() for caller in callers), return_exceptions=True)


@dataclass(frozen=True)
class End:
    """How a replica ended: who was not answered, whose connection did not end in order, its status and how long it took."""

    lost: int
    torn: int
    status: int
    seconds: float


async def ended_by_sigterm(replica: Replica) -> End:
    """End a replica that has callers of every kind."""
    idle, running = await callers_of(replica, IDLE), await callers_of(replica, RUNNING)
    for caller in idle:
        caller.send(REQUEST)
    first = [await caller.answered() for caller in idle]
    for caller in running:
        caller.send(REQUEST[:HALF])
        await caller.writer.drain()
    on_their_way, unused = idle[:ON_THEIR_WAY], idle[ON_THEIR_WAY:]

    for caller in on_their_way:
        caller.send(REQUEST)
    begun = time.monotonic()
    replica.signal(signal.SIGTERM)
    in_order = await asyncio.gather(*(caller.ended() for caller in unused))
    for caller in running:
        caller.send(REQUEST[HALF:])
    # Who is on his way may still be answered before the signal is seen, so his answer need not say that it closes.
    answered = [await caller.answered() for caller in on_their_way]
    answered += [await caller.answered(closing=True) for caller in running]
    in_order += await asyncio.gather(*(caller.ended() for caller in (*on_their_way, *running)))
    status = await replica.ended()
    seconds = time.monotonic() - begun
    await closed(*idle, *running)
    return End([*first, *answered].count(False), in_order.count(False), status, seconds)
