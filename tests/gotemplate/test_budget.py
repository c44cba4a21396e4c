from __future__ import annotations

import itertools

import pytest

from injector.gotemplate.budget import (
    MAX_CLOCK_DELTA,
    MAX_SIZE,
    METER,
    Budget,
    Rendering,
    Stopwatch,
    check_size,
    reserve,
    spend,
)
from injector.gotemplate.errors import FuncError, Spent


def test_a_size_within_the_limit_passes() -> None:
    check_size(MAX_SIZE)


def test_a_size_beyond_it_is_refused_by_name() -> None:
    with pytest.raises(FuncError, match="repeat too large: 1048577 > 1048576"):
        check_size(MAX_SIZE + 1, "repeat")


def test_the_time_is_over_when_there_was_more_work_than_allowed() -> None:
    times = itertools.count(10.0, MAX_CLOCK_DELTA)
    watch = Stopwatch(lambda: next(times), 3 * MAX_CLOCK_DELTA + 0.001)

    assert [watch.expired() for _ in range(5)] == [False, False, False, True, True]


def test_a_machine_that_stood_still_spends_no_templates_time() -> None:
    times = iter([0.0, 0.01, 60.0, 60.01])
    watch = Stopwatch(lambda: next(times), 0.5)

    assert [watch.expired() for _ in range(3)] == [False, False, False]


def test_what_works_for_a_rendering_spends_its_budget() -> None:
    token = METER.set(Rendering(Budget(steps=2, memory=3, clock=lambda: 0.0)))
    try:
        spend(2)
        reserve(3)
        with pytest.raises(Spent, match="more than 2 steps"):
            spend(1)
        with pytest.raises(Spent, match="more than 3 bytes"):
            reserve(1)
    finally:
        METER.reset(token)


def test_nothing_is_counted_outside_a_rendering() -> None:
    spend(10**9)
    reserve(10**9)
