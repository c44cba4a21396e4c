from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from injector.webhook.status.health import LAG_INTERVAL, LAGS, MAX_LAG, LoopLag

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from injector.metrics import Metrics


class Loop:
    """A loop that comes as late as a test says, on a clock of its own; it ends when no more is said."""

    def __init__(self, *late: float) -> None:
        self.now = 100.0
        self._late = list(late)
        self.lag = LoopLag(clock=lambda: self.now, sleep=self._pause)
        self.faults: list[str] = []

    async def _pause(self, seconds: float) -> None:
        self.faults.append(self.lag.fault())
        if not self._late:
            raise asyncio.CancelledError
        self.now += seconds + self._late.pop(0)

    async def run(self, metrics: Metrics) -> None:
        with suppress(asyncio.CancelledError):
            await self.lag.follow(metrics)


@pytest.mark.parametrize(
    ("late", "shown"),
    [
        ((0.25,), 0.25),
        ((0.25, 3.0, 0.5), 3.0),
        ((3.0, *[0.5] * (LAGS - 1)), 3.0),
        ((3.0, *[0.5] * LAGS), 0.5),
        ((-0.1,), 0.0),
    ],
)
async def test_the_gauge_has_the_worst_of_the_last_minute(
    metrics: Metrics, collector: CollectorRegistry, late: tuple[float, ...], shown: float
) -> None:
    await Loop(*late).run(metrics)

    assert collector.get_sample_value("injector_event_loop_lag_seconds") == pytest.approx(shown)
    assert LAGS * LAG_INTERVAL == 60


async def test_a_loop_that_came_late_beyond_the_bound_is_stuck_until_it_is_in_time_again(metrics: Metrics) -> None:
    loop = Loop(MAX_LAG - 0.5, MAX_LAG + 0.5, 0.0)

    await loop.run(metrics)

    assert loop.faults == ["", "", "the event loop is stuck: 10.5 s late", ""]


async def test_a_loop_that_stands_now_is_stuck_before_it_is_measured(metrics: Metrics) -> None:
    loop = Loop()
    await loop.run(metrics)

    loop.now += LAG_INTERVAL + MAX_LAG
    before = loop.lag.fault()
    loop.now += 0.5

    assert (before, loop.lag.fault()) == ("", "the event loop is stuck: 10.5 s late")


def test_before_it_is_measured_a_loop_is_not_stuck() -> None:
    assert LoopLag(clock=lambda: 1e9).fault() == ""
