"""Limits of a rendering: steps, output, memory, nesting and time.

A template and its data may be hostile. Every limit is checked before the cost arises: output is counted before it is joined,
functions that grow their arguments call ``check_size`` before they build their result, and each function declares what a call takes
(``costs``). Code that works for a rendering counts by ``spend`` and ``reserve``, which know the current one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from injector.golang.strconv import to_bytes
from injector.gotemplate.errors import FuncError, Spent

# A sidecar overlay is 10 KiB and takes 3,500 steps and 22 KB at most, and 110,000 steps for 200 containers of 4 ports (Istio 1.8).
MAX_SIZE: Final = 1 << 20
# The clock is read once in so many steps: reading it is a system call, which takes up to 10 us on a virtual machine. A sidecar's
# template takes fewer steps, so that its clock is never read.
CLOCK_EVERY: Final = 4096
# The work between two readings of the clock takes a few milliseconds at most, since functions are counted before they run. A longer
# interval was a garbage collection or a machine that stood still, which is not the template's fault. It counts as this at most.
MAX_CLOCK_DELTA: Final = 0.05


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one rendering.

    Attributes:
        steps: actions that may run: entering a block counts all its actions, those of its ``if`` branches included.
        output: bytes of output.
        depth: ``{{template}}`` calls inside each other; Go's own limit is 100,000.
        seconds: time by ``clock``; a rendering inside another one has no time limit of its own.
        memory: bytes of the values that functions make, in all: templates can keep them.
        clock: the time that this thread has worked; the time of other threads and processes does not count.
    """

    steps: int = 200_000
    output: int = MAX_SIZE
    depth: int = 64
    seconds: float = 0.5
    memory: int = 20 << 20
    clock: Callable[[], float] = time.thread_time


DEFAULT_BUDGET: Final = Budget()


class TimeLimit:
    """The time that a rendering may work, by ``clock``, from the first reading on."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._remaining = seconds
        self._last: float | None = None

    def is_expired(self) -> bool:
        """Read the clock; return whether the time is over."""
        now = self._clock()
        if self._last is not None:
            self._remaining -= min(now - self._last, MAX_CLOCK_DELTA)
        self._last = now
        return self._remaining < 0


METER: Final[ContextVar[Rendering | None]] = ContextVar("METER", default=None)
"""The current rendering; None outside of one, where nothing is counted."""


@contextmanager
def use_meter(meter: Rendering) -> Iterator[None]:
    """Make renderings spend the budget of ``meter`` too."""
    token = METER.set(meter)
    try:
        yield
    finally:
        METER.reset(token)


def spend(steps: int = 1) -> None:
    """Count steps of the current rendering, before they are taken."""
    meter = METER.get()
    if meter is not None:
        meter.remaining_steps -= steps
        if meter.remaining_steps < 0:
            meter.check()


def reserve(size: int) -> None:
    """Count bytes of the current rendering, before they are used."""
    meter = METER.get()
    if meter is not None:
        meter.memory -= size
        if meter.memory < 0:
            meter.check()


def check_size(size: int, what: str = "result") -> None:
    """Raise FuncError for a string of more than 1 MiB, or a list of as many elements. Functions call it before they build their result."""
    if size > MAX_SIZE:
        raise FuncError(f"{what} too large: {size} > {MAX_SIZE}")


class Rendering:
    """One rendering: the text so far and the rest of the budget. Generated code writes to it.

    Text is counted after it is written and before it is joined: until then a piece of output costs a pointer, and functions cannot have
    made more of it than ``memory``. A rendering inside another one has no more than the outer one has left.
    """

    def __init__(self, budget: Budget, outer: Rendering | None = None) -> None:
        self.budget = budget
        self.outer = outer
        self.out: list[str] = []
        self.counted = 0
        self.room = budget.output
        self.steps = budget.steps
        # The steps until the next check, and their number after the last one. Counting a step is one subtraction.
        self.remaining_steps = self.stretch = min(CLOCK_EVERY, budget.steps)
        self.memory = self.reported = budget.memory
        self.depth = 0
        self.time_limit = TimeLimit(budget.clock, budget.seconds) if outer is None else None

    def tick(self, steps: int) -> None:
        """Count the actions of a block before it runs, and the output so far."""
        self.spend(steps)
        if len(self.out) == self.counted:
            return
        self.room -= sum(map(len, self.out[self.counted :]))
        self.counted = len(self.out)
        if self.room < 0:
            raise Spent(f"more than {self.budget.output} bytes of output")

    def spend(self, steps: int) -> None:
        """Count steps; raise ``errors.Spent`` if there are no more."""
        self.remaining_steps -= steps
        if self.remaining_steps < 0:
            self.check()

    def reserve(self, size: int) -> None:
        """Count bytes that a function makes; raise ``errors.Spent`` if there are no more."""
        self.memory -= size
        if self.memory < 0:
            self.check()

    def check(self) -> None:
        """Raise ``errors.Spent`` if steps, bytes or time are spent, of this rendering or of the outer one.

        It is called once in ``CLOCK_EVERY`` steps, and when all is rendered.
        """
        spent = self.stretch - self.remaining_steps
        self.steps -= spent
        if self.steps < 0:
            raise Spent(f"more than {self.budget.steps} steps")
        if self.memory < 0:
            raise Spent(f"more than {self.budget.memory} bytes of values")
        self.remaining_steps = self.stretch = min(CLOCK_EVERY, self.steps)
        if self.time_limit is not None and self.time_limit.is_expired():
            raise Spent(f"more than {self.budget.seconds:g} s")
        if self.outer is not None:
            self.outer.spend(spent)
            self.outer.reserve(self.reported - self.memory)
            self.reported = self.memory

    def enter(self) -> None:
        """Count a ``{{template}}`` call; the caller lowers ``depth`` again."""
        self.depth += 1
        if self.depth > self.budget.depth:
            raise Spent(f"templates nested deeper than {self.budget.depth}")

    def text(self) -> str:
        """Return all of the output."""
        self.tick(0)
        if self.outer is not None:
            self.check()
        text = "".join(self.out)
        if not text.isascii() and len(to_bytes(text)) > self.budget.output:
            raise Spent(f"more than {self.budget.output} bytes of output")
        return text
