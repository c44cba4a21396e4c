"""The phases of the server: starting, ready, draining."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from prometheus_client import CollectorRegistry

from injector.errors import ConfigError
from injector.metrics import Metrics
from injector.webhook.lifecycle import Lifecycle, Phase, Supervisor
from tests.cluster.fakes import in_fake_time

RESTARTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)


def test_a_server_starts_unready() -> None:
    assert Lifecycle().phase is Phase.STARTING


LIMIT = 20.0
MOMENT = 0.1


class Work:
    """Settles, fails or returns when a test says so."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.runs = False
        self.wait_until_ready = asyncio.Event()
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, ready: asyncio.Event | None = None) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        self.runs = True
        try:
            if ready is not None:
                await self.wait_until_ready.wait()
                ready.set()
            await self.end
        finally:
            self.runs = False

    async def fail(self) -> None:
        """Fail, and let the supervisor see it."""
        self.end.set_exception(RuntimeError("s3cr3t"))
        self.end = asyncio.get_running_loop().create_future()
        await asyncio.sleep(MOMENT)

    @property
    def waits(self) -> list[int]:
        """The seconds between two starts."""
        return [int(later - earlier) for earlier, later in pairwise(self.starts)]


@pytest.fixture
def supervisor(metrics: Metrics) -> Supervisor:
    return Supervisor(metrics)


async def started(supervisor: Supervisor, name: str = "cabundle") -> Work:
    """Start a task, and let it run."""
    work = Work()
    supervisor.start(name, work.run)
    await asyncio.sleep(MOMENT)
    return work


@in_fake_time
async def test_tasks_run_until_they_are_stopped(supervisor: Supervisor) -> None:
    works = [await started(supervisor, name) for name in "ab"]
    during = [work.runs for work in works]

    await supervisor.stop()

    assert (during, [work.runs for work in works], supervisor.fault()) == ([True, True], [False, False], "")


@in_fake_time
async def test_a_task_that_fails_is_named_until_it_is_restarted(
    supervisor: Supervisor, collector: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    work, other, drift = [await started(supervisor, name) for name in ("cabundle", "lag", "drift")]

    await drift.fail()
    assert (drift.runs, supervisor.fault()) == (False, ""), "injection does not need it"
    await work.fail()
    assert supervisor.fault() == "background task down: cabundle"
    assert (work.runs, other.runs) == (False, True)
    await asyncio.sleep(RESTARTS[0])

    assert (len(work.starts), work.runs, supervisor.fault()) == (2, True, "")
    for name in ("cabundle", "drift"):
        assert collector.get_sample_value("injector_background_failures_total", {"task": name}) == 1
    assert "background task cabundle failed, restarting in 1 s: RuntimeError at" in caplog.text
    assert "s3cr3t" not in caplog.text
    await supervisor.stop()


@in_fake_time
async def test_restarts_become_rarer_until_the_task_has_run_for_a_while(supervisor: Supervisor) -> None:
    work = await started(supervisor)
    for seconds in (*RESTARTS, RESTARTS[-1], 60.0):
        await work.fail()
        await asyncio.sleep(seconds)
    await asyncio.sleep(60.0)
    await work.fail()
    await asyncio.sleep(RESTARTS[0])

    assert work.waits[:-1] == [*RESTARTS, RESTARTS[-1], 60.0]
    assert work.waits[-1] == 60.0 + RESTARTS[0]
    await supervisor.stop()


@in_fake_time
async def test_a_task_that_fails_while_it_is_stopped_is_not_restarted(supervisor: Supervisor) -> None:
    starts = 0

    async def work() -> None:
        nonlocal starts
        starts += 1
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError

    supervisor.start("upgrades", work)
    await asyncio.sleep(MOMENT)
    async with asyncio.timeout(LIMIT):
        await supervisor.stop()

    assert starts == 1


@in_fake_time
async def test_a_task_whose_group_of_tasks_fails_is_restarted(supervisor: Supervisor) -> None:
    work = Work()

    async def grouped() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work.run())
            await asyncio.Event().wait()

    supervisor.start("drift", grouped)
    await asyncio.sleep(MOMENT)
    await work.fail()
    await asyncio.sleep(RESTARTS[0])

    assert (len(work.starts), work.runs) == (2, True)
    await supervisor.stop()


@in_fake_time
async def test_a_task_that_returns_is_done(supervisor: Supervisor) -> None:
    work = await started(supervisor, "certificate")
    work.end.set_result(None)
    await asyncio.sleep(60.0)

    assert (len(work.starts), supervisor.fault()) == (1, "")
    await supervisor.stop()


@in_fake_time
async def test_works_have_settled_with_the_last_one(supervisor: Supervisor) -> None:
    works = {"a": Work(), "b": Work(), "c": Work()}
    settling = asyncio.create_task(supervisor.wait_until_ready({name: work.run for name, work in works.items()}))
    for name in ("b", "a"):
        works[name].wait_until_ready.set()
        await asyncio.sleep(MOMENT)
        assert not settling.done()
    works["c"].wait_until_ready.set()

    async with asyncio.timeout(LIMIT):
        await settling
    assert [work.runs for work in works.values()] == [True] * 3
    await supervisor.stop()
    assert [work.runs for work in works.values()] == [False] * 3


@in_fake_time
async def test_without_works_there_is_nothing_to_wait_for(supervisor: Supervisor) -> None:
    async with asyncio.timeout(LIMIT):
        await supervisor.wait_until_ready({})


@pytest.mark.parametrize("failing", [0, 1])
@in_fake_time
async def test_a_failure_before_it_has_settled_is_raised(supervisor: Supervisor, failing: int) -> None:
    async def fails(ready: asyncio.Event) -> None:
        del ready
        raise ConfigError("no permission")

    work = Work()
    works = {"a": work.run, "b": fails} if failing else {"a": fails, "b": work.run}

    with pytest.raises(ConfigError, match="no permission"):
        await supervisor.wait_until_ready(works)
    await supervisor.stop()
    assert not work.runs


@in_fake_time
async def test_a_failure_after_it_has_settled_is_followed_by_a_restart(supervisor: Supervisor) -> None:
    work = Work()
    work.wait_until_ready.set()
    await supervisor.wait_until_ready({"cluster": work.run})
    await work.fail()
    assert supervisor.fault() == "background task down: cluster"
    await asyncio.sleep(RESTARTS[0])
    await work.fail()
    await asyncio.sleep(RESTARTS[1])

    assert work.waits == list(RESTARTS[:2])
    await supervisor.stop()
