"""SIGTERM loses no admission, SIGKILL leaves nothing behind. Long: ``chaos --only restart``, ``sigterm`` and ``sigkill``."""

from __future__ import annotations

import asyncio
import signal
from itertools import pairwise

from tests.reliability.apiserver import ApiServer, Load
from tests.reliability.replicas import Service, Stage, restarted, trusting
from tests.reliability.shutdown import HALF, REQUEST, callers_of, closed, ended_by_sigterm
from tests.tasks import running, until

CALLERS = 30


async def test_restarts_of_both_replicas_fail_no_admission(stage: Stage) -> None:
    replicas = await asyncio.gather(*(stage.replica("--shutdown-delay", "1m", tls=True) for _ in range(2)))
    service = Service(replicas)
    load = Load(ApiServer(service.ready, trusting(stage.certificate), max_idle_time=0.5))
    answered = [0]

    async with running(service.follow()):
        await until(lambda: len(service.known) == len(replicas))
        async with load.calls(CALLERS, 0.25):
            for replica in replicas:
                await restarted(replica, service)
                answered.append(load.answered.total())
    await load.client.close()

    assert load.failures == []
    assert all(later - earlier > CALLERS for earlier, later in pairwise(answered))
    assert set(load.answered) == {replica.port for replica in replicas}
    assert load.client.reused > load.client.dialled > CALLERS


async def test_sigterm_loses_no_request_that_is_running_or_on_its_way(stage: Stage) -> None:
    end = await ended_by_sigterm(await stage.replica("--shutdown-delay", "0"))

    assert (end.lost, end.torn, end.status) == (0, 0, 0)


async def test_after_sigkill_it_starts_on_the_same_ports_and_injects(stage: Stage) -> None:
    replica = await stage.replica()
    (caller,) = await callers_of(replica, 1)
    caller.send(REQUEST[:HALF])
    await caller.writer.drain()

    replica.signal(signal.SIGKILL)
    assert await replica.wait_for_end() == -signal.SIGKILL
    replica.start()
    await replica.until_ready()
    (another,) = await callers_of(replica, 1)
    another.send(REQUEST)

    assert await another.answered()
    await closed(caller, another)
