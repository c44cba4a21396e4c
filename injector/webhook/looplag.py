"""How late the event loop is: a task that wants to run each second, and how much later it does.

Whatever holds the loop holds every admission and every probe. A loop that came late by more than ``BOUND`` is called
stuck until it is in time again, as is one whose task no longer runs.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from injector.metrics import Metrics

INTERVAL: Final = 1.0
# Prometheus scrapes each minute unless told otherwise: what the gauge shows must last until then.
KEPT: Final = 60
# An API server waits for 10 s unless told otherwise (admissionregistration/v1, timeoutSeconds): whatever arrived
# while a loop stood for that long is lost.
BOUND: Final = 10.0


class LoopLag:
    """Measures the lag of the loop that runs ``follow``.

    Args:
        clock: tells the seconds, from any start.
        pause: waits for so many of them.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._due: float | None = None
        self._last: deque[float] = deque(maxlen=KEPT)

    async def follow(self, metrics: Metrics) -> None:
        """Measure for ever."""
        while True:
            self._due = self._clock() + INTERVAL
            await self._pause(INTERVAL)
            self._last.append(max(0.0, self._clock() - self._due))
            metrics.event_loop_lag(max(self._last))

    def fault(self) -> str:
        """Return how long the loop is stuck, or was until now; nothing where it is not."""
        if self._due is None:
            return ""
        late = max(self._clock() - self._due, self._last[-1] if self._last else 0.0)
        return f"the event loop is stuck: {late:.1f} s late" if late > BOUND else ""
