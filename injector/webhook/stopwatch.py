"""How long the stages of one request took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from injector.metrics import TOTAL

if TYPE_CHECKING:
    from collections.abc import Callable


class Stopwatch:
    """Laps from a start."""

    __slots__ = ("_clock", "_laps", "_last", "_start")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = self._last = clock()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """End ``stage`` now; the next begins."""
        now = self._clock()
        self._laps[stage] = now - self._last
        self._last = now

    def total(self) -> dict[str, float]:
        """Return the seconds of every stage that ended, and of all as ``total``."""
        return {**self._laps, TOTAL: self._clock() - self._start}
