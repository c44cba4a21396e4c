from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from injector.errors import ConfigError
from injector.metrics import Metrics
from injector.webhook.lifecycle import RESTARTS, STABLE, Lifecycle, Phase, Supervisor


@pytest.mark.parametrize(
    ("phase", "keeps", "answers"),
    [
        (Phase.STARTING, False, True),
        (Phase.SERVING, True, True),
        (Phase.DRAINING, False, True),
        (Phase.CLOSING, False, False),
    ],
)
def test_each_phase_says_what_happens_to_connections_and_requests(phase: Phase, keeps: bool, answers: bool) -> None:
    lifecycle = Lifecycle()

    lifecycle.enter(phase)

    assert (lifecycle.phase, lifecycle.keeps_connections, lifecycle.answers) == (phase, keeps, answers)


def test_a_server_starts_unready() -> None:
    assert Lifecycle().phase is Phase.STARTING


LIMIT = 20.0


class Time:
    """A clock that stands still, and sleeps that last until a test ends them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.go = asyncio.Event()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self.go.wait()


class Work:
    """Settles, fails or returns when a test says so."""

    def __init__(self) -> None:
        self.starts = 0
        self.runs = False
        self.settle = asyncio.Event()
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, settled: asyncio.Event | None = None) -> None:
        self.starts += 1
        self.runs = True
        try:
            if settled is not None:
                await self.settle.wait()
                settled.set()
            await self.end
        finally:
            self.runs = False

    def fail(self, text: str = "s3cr3t") -> None:
        self.end.set_exception(RuntimeError(text))
        self.end = asyncio.get_running_loop().create_future()


@pytest.fixture
async def time() -> Time:
    return Time()


@pytest.fixture
async def supervisor(metrics: Metrics, time: Time) -> Supervisor:
    return Supervisor(metrics, clock=time, sleep=time.sleep)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_tasks_run_until_they_are_stopped(supervisor: Supervisor) -> None:
    works = [Work(), Work()]
    for number, work in enumerate(works):
        supervisor.start(str(number), work.run)
    await turns()
    during = [each.runs for each in works]

    await supervisor.stop()

    assert (during, [each.runs for each in works], supervisor.fault()) == ([True, True], [False, False], "")


async def test_a_task_that_fails_is_named_until_it_is_restarted(
    supervisor: Supervisor, time: Time, collector: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    work, other = Work(), Work()
    supervisor.start("shadow", work.run)
    supervisor.start("lag", other.run)
    await turns()

    work.fail()
    await turns()
    assert supervisor.fault() == "background task down: shadow"
    assert (work.runs, other.runs) == (False, True)
    time.go.set()
    await turns()

    assert (work.starts, work.runs, supervisor.fault()) == (2, True, "")
    assert collector.get_sample_value("injector_background_failures_total", {"task": "shadow"}) == 1
    assert "background task shadow failed, restarting in 1 s: RuntimeError at" in caplog.text
    assert "s3cr3t" not in caplog.text
    await supervisor.stop()


async def test_restarts_become_rarer_until_the_task_has_run_for_a_while(supervisor: Supervisor, time: Time) -> None:
    work = Work()
    supervisor.start("shadow", work.run)
    time.go.set()
    for _ in range(len(RESTARTS) + 1):
        await turns()
        work.fail()
    await turns()
    time.now += STABLE
    work.fail()
    await turns()

    assert time.slept == [*RESTARTS, RESTARTS[-1], RESTARTS[0]]
    await supervisor.stop()


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
    await turns()
    async with asyncio.timeout(LIMIT):
        await supervisor.stop()

    assert starts == 1


async def test_a_task_whose_group_of_tasks_fails_is_restarted(supervisor: Supervisor, time: Time) -> None:
    work = Work()

    async def grouped() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work.run())
            await asyncio.Event().wait()

    supervisor.start("drift", grouped)
    time.go.set()
    await turns()
    work.fail()
    await turns()

    assert (work.starts, work.runs) == (2, True)
    await supervisor.stop()


async def test_a_task_that_returns_is_done(supervisor: Supervisor) -> None:
    work = Work()
    supervisor.start("certificate", work.run)
    await turns()
    work.end.set_result(None)
    await turns()

    assert (work.starts, supervisor.fault()) == (1, "")
    await supervisor.stop()


async def test_works_have_settled_with_the_last_one(supervisor: Supervisor) -> None:
    works = {"a": Work(), "b": Work(), "c": Work()}
    settling = asyncio.create_task(supervisor.settle({name: work.run for name, work in works.items()}))
    for name in ("b", "a"):
        works[name].settle.set()
        await turns()
        assert not settling.done()
    works["c"].settle.set()

    async with asyncio.timeout(LIMIT):
        await settling
    assert [each.runs for each in works.values()] == [True] * 3
    await supervisor.stop()
    assert [each.runs for each in works.values()] == [False] * 3


async def test_without_works_there_is_nothing_to_wait_for(supervisor: Supervisor) -> None:
    async with asyncio.timeout(LIMIT):
        await supervisor.settle({})


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_failure_before_it_has_settled_is_raised(supervisor: Supervisor, failing: int) -> None:
    async def fails(settled: asyncio.Event) -> None:
        del settled
        raise ConfigError("no permission")

    work = Work()
    works = {"a": work.run, "b": fails} if failing else {"a": fails, "b": work.run}

    with pytest.raises(ConfigError, match="no permission"):
        await supervisor.settle(works)
    await supervisor.stop()
    assert not work.runs


async def test_a_failure_after_it_has_settled_is_followed_by_a_restart(supervisor: Supervisor, time: Time) -> None:
    work = Work()
    work.settle.set()
    await supervisor.settle({"cluster": work.run})
    work.fail()
    await turns()
    assert supervisor.fault() == "background task down: cluster"
    time.go.set()
    await turns()
    work.fail()
    await turns()

    assert (work.starts, time.slept) == (3, list(RESTARTS[:2]))
    await supervisor.stop()
