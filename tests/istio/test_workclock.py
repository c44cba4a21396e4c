from __future__ import annotations

from injector.istio.workclock import worked


def test_the_clock_tells_the_work_of_this_thread() -> None:
    begun = worked()
    sum(range(100_000))

    assert worked() > begun
