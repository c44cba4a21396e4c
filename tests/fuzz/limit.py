"""How long an input may take, by the processor's time: a machine that is busy, or a process that was stopped for a while, is no bug."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

SECONDS = 20.0
"""An input takes milliseconds."""


class TooSlowError(BaseException):
    """An input took too long; nothing that answers errors of inputs catches it."""


def limited(run: Callable[[bytes], None], seconds: float = SECONDS) -> Callable[[bytes], None]:
    """Return ``run``, which ends with ``TooSlowError`` after so many seconds of work; it has to be called by the main thread."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        message = f"an input took more than {seconds:g} seconds of the processor's time"
        raise TooSlowError(message)

    def tried(data: bytes) -> None:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            run(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)

    signal.signal(signal.SIGPROF, stop)
    return tried
