"""What one rendering may cost: steps, output, nesting, time.

A template and its data may be hostile. Every limit is checked before the cost arises: output is counted before it is joined,
functions that grow their arguments ask ``check_size`` before they build their result, and ``costs`` has what calls take. Whatever works
on behalf of a rendering counts by ``spend`` and ``reserve``, which know the present one.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from injector.gotemplate.errors import FuncError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A sidecar overlay is 10 KiB and takes 3,500 steps and 22 KB at most; the limits leave two orders of magnitude.
MAX_SIZE: Final = 1 << 20
# The clock is read once in so many steps: reading it may cost as much as several.
CLOCK_EVERY: Final = 256
# The work between two looks takes a millisecond at most, since functions are counted before they run. What took longer was a garbage
# collection or a machine that stood still, which no template can help: it counts for no more than this.
LONGEST_LOOK: Final = 0.05


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one rendering.

    Attributes:
        steps: actions that may run: entering a block counts all its actions, those of its ``if`` branches included.
        output: bytes of output.
        depth: ``{{template}}`` calls inside each other; Go's own limit is 100,000.
        seconds: time by ``clock``.
        memory: bytes of the values that functions make, in all: templates can keep them.
        clock: how long this thread has worked: that the machine does other things meanwhile is no fault of a template.
    """

    steps: int = 100_000
    output: int = MAX_SIZE
    depth: int = 64
    seconds: float = 0.5
    memory: int = 20 << 20
    clock: Callable[[], float] = time.thread_time


class Watch:
    """Tells when a rendering has worked for longer than it may, by ``clock``, from now on."""

    __slots__ = ("_clock", "_last", "_left")

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._left = seconds
        self._last = clock()

    def out(self) -> bool:
        """Look at the clock; tell whether the time is over."""
        now = self._clock()
        self._left -= min(now - self._last, LONGEST_LOOK)
        self._last = now
        return self._left < 0


class Meter(Protocol):
    """A rendering, as what works for it sees it."""

    def spend(self, steps: int) -> None:
        """Count steps; raise ``failures.Spent`` where there are no more."""

    def reserve(self, size: int) -> None:
        """Count bytes; raise ``failures.Spent`` where there are no more."""


METER: Final[ContextVar[Meter | None]] = ContextVar("METER", default=None)
"""The rendering that runs at present; none outside, where nothing is counted."""


@contextmanager
def metered_by(meter: Meter) -> Iterator[None]:
    """Have renderings spend the budget of ``meter``, beside their own."""
    token = METER.set(meter)
    try:
        yield
    finally:
        METER.reset(token)


def spend(steps: int) -> None:
    """Count steps of the rendering that runs at present, before they are taken."""
    meter = METER.get()
    if meter is not None:
        meter.spend(steps)


def reserve(size: int) -> None:
    """Count bytes of the rendering that runs at present, before they are used."""
    meter = METER.get()
    if meter is not None:
        meter.reserve(size)


def check_size(size: int, what: str = "result") -> None:
    """Refuse a value that would be larger than any output may be. A function calls it before it builds its result.

    Args:
        size: bytes of a string, or elements of a list.
        what: names it in the error.

    Raises:
        FuncError: it is larger than 1 MiB.
    """
    if size > MAX_SIZE:
        raise FuncError(f"{what} too large: {size} > {MAX_SIZE}")
