"""What the end of a process does to those who call it: SIGTERM loses nobody, SIGKILL leaves nothing behind."""

from __future__ import annotations

import signal

from tests.reliability.conftest import ReplicaFactory
from tests.reliability.shutdown import HALF, REQUEST, callers_of, closed, ended_by_sigterm


async def test_sigterm_loses_none_of_those_who_run_and_of_those_who_are_on_their_way(
    start_replica: ReplicaFactory,
) -> None:
    replica = start_replica("--insecure-http", "--shutdown-delay", "0")
    await replica.until_ready()

    end = await ended_by_sigterm(replica)

    assert (end.lost, end.torn, end.status) == (0, 0, 0)


async def test_after_sigkill_it_starts_on_the_same_ports_and_injects(start_replica: ReplicaFactory) -> None:
    replica = start_replica("--insecure-http")
    await replica.until_ready()
    (caller,) = await callers_of(replica, 1)
    caller.send(REQUEST[:HALF])
    await caller.writer.drain()

    replica.signal(signal.SIGKILL)
    assert await replica.ended() == -signal.SIGKILL
    replica.start()
    await replica.until_ready()
    (another,) = await callers_of(replica, 1)
    another.send(REQUEST)

    assert await another.answered()
    await closed(caller, another)
