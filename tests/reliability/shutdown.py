"""What happens to callers while a replica ends: some idle, some with half a request sent, some on their way."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.factories import UID, make_review
from tests.reliability.apiserver import reply_of, request_of
from tests.reliability.long.client import CALLERS, RATE, WITHIN, called, came, go
from tests.reliability.long.rows import Row
from tests.reliability.replicas import Replica, Stage
from tests.tasks import LIMIT, until

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
                reply = await reply_of(self.reader)
        except (asyncio.IncompleteReadError, OSError):
            return False
        closes = reply.headers.get("connection") == "close"
        return reply.status == 200 and reply.response["uid"] == UID and (closes or not closing)

    async def ends_in_order(self) -> bool:
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
    in_order = await asyncio.gather(*(caller.ends_in_order() for caller in unused))
    for caller in running:
        caller.send(REQUEST[HALF:])
    # Who is on his way may still be answered before the signal is seen, so his answer need not say that it closes.
    answered = [await caller.answered() for caller in on_their_way]
    answered += [await caller.answered(closing=True) for caller in running]
    in_order += await asyncio.gather(*(caller.ends_in_order() for caller in (*on_their_way, *running)))
    status = await replica.wait_for_end()
    seconds = time.monotonic() - begun
    await closed(*idle, *running)
    return End([*first, *answered].count(False), in_order.count(False), status, seconds)


SHUTDOWN_DELAY = "2s"
SHUTDOWNS = 5
PODS = 1_000
IDLE_CONNECTIONS = 1_000


async def rolling_restart(stage: Stage) -> Sequence[Row]:
    """T12: one of two replicas after the other is ended and started again, under load."""
    replicas = [await stage.replica("--shutdown-delay", SHUTDOWN_DELAY, tls=True) for _ in range(2)]
    statuses = []
    async with called(stage, replicas) as (service, client):
        for number in range(stage.restarts):
            replica = replicas[number % 2]
            replica.signal(signal.SIGTERM)
            statuses.append(await replica.wait_for_end())
            replica.start()
            await replica.until_ready()
            # The next one goes once the Service sends to this one, as a Deployment does it.
            await until(lambda port=replica.port: port in service.known)  # type: ignore[misc]
            await asyncio.sleep(0.3)
        outcome = await came(client)
    figure = f"{outcome.failures} of {outcome.calls}, {outcome.dialled} dialled, p99 {outcome.p99_ms:.0f} ms {outcome.wrong or ''}"
    met = outcome.failures == 0 and outcome.calls > 10 * stage.restarts and set(statuses) <= {0}
    return [Row(f"T12 restart x{stage.restarts}, {RATE:g} rps, {CALLERS} at once", "0 failed", figure.strip(), met)]


async def terminated(stage: Stage) -> Sequence[Row]:
    """T13: SIGTERM with requests that run, idle connections, and requests on their way."""
    ends = [await ended_by_sigterm(await stage.replica("--shutdown-delay", "5s")) for _ in range(SHUTDOWNS)]
    lost, torn = sum(end.lost for end in ends), sum(end.torn for end in ends)
    longest, statuses = max(end.seconds for end in ends), {end.status for end in ends}
    figure = f"{lost} lost, {torn} torn, {longest:.1f} s, status {sorted(statuses)}"
    met = (lost, torn, statuses) == (0, 0, {0}) and longest < 10
    return [Row(f"T13 SIGTERM x{SHUTDOWNS}", "0 lost, < 10 s, status 0", figure, met)]


async def killed(stage: Stage) -> Sequence[Row]:
    """T13: SIGKILL, and a start on the same ports."""
    replica = await stage.replica()
    callers = await callers_of(replica, 50)
    for caller in callers:
        caller.send(REQUEST)
    replica.signal(signal.SIGKILL)
    await replica.wait_for_end()
    begun = time.monotonic()
    replica.start()
    await replica.until_ready()
    seconds = time.monotonic() - begun
    (again,) = await callers_of(replica, 1)
    again.send(REQUEST)
    answered = await again.answered()
    await closed(*callers, again)
    figure = f"ready after {seconds:.1f} s, answers {answered}"
    return [Row("T13 SIGKILL", "ready < 3 s", figure, answered and seconds < 3)]


async def mass_start(stage: Stage) -> Sequence[Row]:
    """T2: a thousand pods of one ReplicaSet at once."""
    replica = await stage.replica(tls=True)
    outcome = await came(await go(stage, "burst", [replica], "-callers", str(PODS), "-within", f"{WITHIN:g}s"))
    figure = (
        f"{outcome.failures} failed, {outcome.again} asked to retry, last {outcome.last_s:.1f} s {outcome.wrong or ''}"
    )
    met = outcome.failures == 0 and outcome.calls == PODS and outcome.last_s < WITHIN
    return [Row(f"T2 {PODS} pods at once", f"0 failed, all < {WITHIN:g} s", figure.strip(), met)]


async def kept_connections(stage: Stage) -> Sequence[Row]:
    """T14: connections that are used again when the API server would have let go of them."""
    replica = await stage.replica()
    callers = await callers_of(replica, IDLE_CONNECTIONS)

    async def used_again(caller: Caller) -> bool:
        caller.send(REQUEST)
        first = await caller.answered()
        await asyncio.sleep(random.uniform(89.5, 90.5))  # noqa: S311 -- around the API server's own time
        caller.send(REQUEST)
        return first and await caller.answered()

    answers = await asyncio.gather(*(used_again(caller) for caller in callers))
    await closed(*callers)
    resets = list(answers).count(False)
    return [Row(f"T14 {IDLE_CONNECTIONS} connections, idle 89.5-90.5 s", "0 resets", f"{resets} resets", resets == 0)]
