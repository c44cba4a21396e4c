"""One rendering: the text so far, the variables, the budget, and the node that an error would name (exec.go ``state``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from injector.gotemplate.budget import CLOCK_EVERY, Budget
from injector.gotemplate.errors import BudgetError, ExecError

if TYPE_CHECKING:
    from injector.gotemplate.nodes import Node, Tree


class State:
    """What a running template knows. ``frame`` holds the variables of the template that runs, by their slot."""

    __slots__ = (
        "budget",
        "clock_in",
        "deadline",
        "depth",
        "frame",
        "interface_dot",
        "interface_slots",
        "node",
        "out",
        "room",
        "steps",
        "tree",
    )

    def __init__(self, budget: Budget, tree: Tree) -> None:
        self.budget = budget
        self.steps = budget.steps
        self.room = budget.output
        self.deadline = budget.clock() + budget.seconds
        self.clock_in = CLOCK_EVERY
        self.depth = 0
        self.out: list[str] = []
        self.frame: list[Any] = []
        self.tree = tree
        self.node: Node = tree.root
        # Whether dot, and which variables, are elements whose static type is interface {}, which errors name.
        self.interface_dot = False
        self.interface_slots: set[int] = set()

    def tick(self) -> None:
        """Count a step; once in a while look at the clock."""
        self.steps -= 1
        if self.steps < 0:
            self.spent(f"more than {self.budget.steps} steps")
        self.clock_in -= 1
        if self.clock_in <= 0:
            self.clock_in = CLOCK_EVERY
            if self.budget.clock() > self.deadline:
                self.spent(f"more than {self.budget.seconds:g} s")

    def write(self, text: str) -> None:
        """Add text to the output, if there is room for it."""
        self.room -= len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
        if self.room < 0:
            self.spent(f"more than {self.budget.output} bytes of output")
        self.out.append(text)

    def _where(self) -> tuple[int, int]:
        before = self.tree.text.encode("utf-8", "surrogateescape")[: self.node.pos]
        return 1 + before.count(b"\n"), len(before) - (before.rfind(b"\n") + 1)

    def fail(self, reason: str) -> NoReturn:
        """Raise an ExecError at the current node."""
        line, column = self._where()
        raise ExecError(self.tree.name, self.tree.parse_name, line, column, str(self.node), reason)

    def spent(self, what: str) -> NoReturn:
        """Raise a BudgetError at the current node."""
        line, column = self._where()
        raise BudgetError(
            self.tree.name,
            self.tree.parse_name,
            line,
            column,
            str(self.node),
            f"the template's budget is spent: {what}",
        )
