from __future__ import annotations

import time

import pytest

from injector.gotemplate.budget import CLOCK_EVERY, Budget, Rendering
from injector.gotemplate.errors import Spent


def rendering(**limits: int) -> Rendering:
    return Rendering(Budget(clock=lambda: 0.0, **limits))


def test_the_text_is_what_was_written() -> None:
    found = rendering()
    found.out += ["a", "é"]
    assert found.text() == "aé"


def test_steps_run_out() -> None:
    found = rendering(steps=3)
    found.tick(2)
    found.tick(1)
    with pytest.raises(Spent, match="more than 3 steps"):
        found.tick(1)


def test_each_piece_of_output_is_counted_once() -> None:
    found = rendering(output=4)
    for piece in ("ab", "cd"):
        found.out.append(piece)
        found.tick(1)
    assert found.room == 0
    found.out.append("e")
    with pytest.raises(Spent, match="more than 4 bytes of output"):
        found.tick(1)


def test_output_beyond_ascii_counts_its_bytes_at_last() -> None:
    found = rendering(output=3)
    found.out.append("éé")
    with pytest.raises(Spent, match="more than 3 bytes of output"):
        found.text()


def test_the_clock_is_looked_at_now_and_then() -> None:
    times = iter([0.0, 0.0, 0.04])
    found = Rendering(Budget(seconds=0.03, clock=lambda: next(times)))
    found.tick(1)
    found.tick(CLOCK_EVERY)
    with pytest.raises(Spent, match=r"more than 0\.03 s"):
        found.tick(1)


def test_the_time_is_that_of_the_threads_own_work() -> None:
    assert Budget().clock is time.thread_time


def test_calls_nest_as_deep_as_the_budget() -> None:
    found = rendering(depth=1)
    found.enter()
    with pytest.raises(Spent, match="nested deeper than 1"):
        found.enter()


def test_memory_runs_out_before_it_is_used() -> None:
    found = rendering(memory=2)
    found.reserve(2)
    with pytest.raises(Spent, match="functions made more than 2 bytes"):
        found.reserve(1)


def test_a_rendering_inside_another_spends_that_ones_budget() -> None:
    outer = rendering(steps=5, memory=5)
    inner = Rendering(Budget(clock=lambda: 0.0), outer)
    inner.spend(5)
    inner.reserve(5)
    inner.report_to_outer()
    inner.spend(1)
    with pytest.raises(Spent, match="more than 5 steps"):
        inner.report_to_outer()
    with pytest.raises(Spent, match="made more than 5 bytes"):
        inner.reserve(1)
