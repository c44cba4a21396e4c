from __future__ import annotations

from injector.metrics import Stopwatch


def test_stages_follow_each_other_and_the_total_has_them_all() -> None:
    ticks = iter([10.0, 11.0, 13.0, 20.0])
    watch = Stopwatch(lambda: next(ticks))

    watch.lap("read")
    watch.lap("inject")

    assert watch.total() == {"read": 1.0, "inject": 2.0, "total": 10.0}
