from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from injector.webhook.upkeep import Upkeep

if TYPE_CHECKING:
    from injector.metrics import Metrics


class Work:
    """Stands in for each part: remembers what it was started with, and whether it still runs."""

    def __init__(self, fault: str = "") -> None:
        self.started: list[Any] = []
        self.runs = False
        self._fault = fault
        self.begun = asyncio.Event()

    def fault(self) -> str:
        return self._fault

    async def follow(self, given: Any) -> None:
        self.started.append(given)
        self.runs = True
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.runs = False


def upkeep_of(**parts: Any) -> Upkeep:
    return Upkeep(**parts)


async def test_every_part_runs_until_the_block_ends(metrics: Metrics) -> None:
    lag, certificates, health_file, unserved = parts = Work(), Work(), Work(), Work()
    upkeep = upkeep_of(lag=lag, certificates=certificates, health_file=health_file, unserved=unserved)

    async with upkeep.running(metrics):
        for part in parts:
            await part.begun.wait()
        during = [part.runs for part in parts]

    assert (during, [part.runs for part in parts]) == ([True] * 4, [False] * 4)
    assert [part.started for part in parts] == [[metrics], [metrics], [upkeep.stuck], [metrics]]
    assert [task for task in asyncio.all_tasks() if task.get_name() == "upkeep"] == []


async def test_the_port_is_probed_where_it_is_served_over_tls(metrics: Metrics) -> None:
    class Probe(Work):
        async def follow(self, given: Any, port: int = 0) -> None:
            await super().follow((given, port))

    probe = Probe()

    async with upkeep_of(lag=Work(), probe=probe).running(metrics, 9443):
        await probe.begun.wait()

    assert (probe.started, probe.runs) == ([(metrics, 9443)], False)


async def test_without_tls_and_file_the_lag_is_measured_and_memory_given_back(metrics: Metrics) -> None:
    lag = Work()

    async with upkeep_of(lag=lag).running(metrics):
        await lag.begun.wait()
        running = [task for task in asyncio.all_tasks() if task.get_name() == "upkeep"]

    assert len(running) == 2


async def test_a_part_that_ends_by_itself_is_told_and_the_others_go_on(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    class Ends(Work):
        async def follow(self, given: Any) -> None:
            self.begun.set()
            raise RuntimeError(str(bool(given)))

    ends, lag = Ends(), Work()

    async with upkeep_of(lag=lag, certificates=ends).running(metrics):
        await ends.begun.wait()
        await lag.begun.wait()
        runs = lag.runs

    assert (runs, [each.getMessage() for each in caplog.records]) == (True, ["upkeep ended: True"])


@pytest.mark.parametrize("fault", ["", "expired"])
def test_a_certificate_that_cannot_be_used_makes_it_unready_and_not_dead(fault: str) -> None:
    certificates = cast("Any", SimpleNamespace(fault=lambda: fault))

    assert (upkeep_of(certificates=certificates).unready(), Upkeep().unready(), Upkeep().stuck()) == (fault, "", "")


def test_a_loop_that_is_stuck_makes_it_dead() -> None:
    assert upkeep_of(lag=SimpleNamespace(fault=lambda: "stuck")).stuck() == "stuck"
