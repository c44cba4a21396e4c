"""One rendering: the text so far and what is left of the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from injector.gotemplate.budget import CLOCK_EVERY, Watch
from injector.gotemplate.errors import Spent

if TYPE_CHECKING:
    from injector.gotemplate.budget import Budget, Meter


class Rendering:
    """What generated code writes to and is counted by. It never raises for output that fits the budget.

    Text is counted when it has been referred to and before it is joined: until then a piece of output costs a pointer, and functions
    cannot have made more of it than ``memory``. What a function renders inside another rendering has no more than that has left.
    """

    __slots__ = (
        "budget",
        "clock_in",
        "counted",
        "depth",
        "memory",
        "out",
        "outer",
        "room",
        "steps",
        "told",
        "watch",
    )

    def __init__(self, budget: Budget, outer: Meter | None = None) -> None:
        self.budget = budget
        self.outer = outer
        self.out: list[str] = []
        self.counted = 0
        self.room = budget.output
        self.steps = self.told = budget.steps
        self.memory = budget.memory
        self.depth = 0
        self.watch = Watch(budget.clock, budget.seconds)
        self.clock_in = 0

    def tick(self, steps: int) -> None:
        """Count a block of so many actions that is about to run, and the output so far."""
        self.spend(steps)
        if len(self.out) == self.counted:
            return
        self.room -= sum(map(len, self.out[self.counted :]))
        self.counted = len(self.out)
        if self.room < 0:
            raise Spent(f"more than {self.budget.output} bytes of output")

    def spend(self, steps: int) -> None:
        """Count steps; once in a while look at the clock."""
        self.steps -= steps
        if self.steps < 0:
            raise Spent(f"more than {self.budget.steps} steps")
        self.clock_in -= steps
        if self.clock_in < 0:
            self.clock_in = CLOCK_EVERY
            if self.watch.out():
                raise Spent(f"more than {self.budget.seconds:g} s")
            self.tell()

    def tell(self) -> None:
        """Spend as much of the outer rendering as was spent of this one."""
        if self.outer is not None:
            told, self.told = self.told - self.steps, self.steps
            self.outer.spend(told)

    def reserve(self, size: int) -> None:
        """Count bytes that a function makes."""
        self.memory -= size
        if self.memory < 0:
            raise Spent(f"functions made more than {self.budget.memory} bytes")
        if self.outer is not None:
            self.outer.reserve(size)

    def enter(self) -> None:
        """Count a ``{{template}}`` call; who calls it lowers ``depth`` again."""
        self.depth += 1
        if self.depth > self.budget.depth:
            raise Spent(f"templates nested deeper than {self.budget.depth}")

    def text(self) -> str:
        """Return all of the output."""
        self.tick(0)
        self.tell()
        text = "".join(self.out)
        if not text.isascii() and len(text.encode("utf-8", "surrogateescape")) > self.budget.output:
            raise Spent(f"more than {self.budget.output} bytes of output")
        return text
