"""What a running template raises before anybody knows which node it ran: the compiled template adds the place.

Generated code and the functions it calls do not carry the current node with them, as text/template's ``state.node`` does. They raise
one of these; the line of the generated code that raised it is looked up in the line map of ``source`` and names the node.
"""

from __future__ import annotations


class Failure(Exception):  # noqa: N818 - it becomes an ExecError
    """A step that failed, for the reason given, at the node that was visited last."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FieldFailure(Failure):
    """A field that a receiver has not. The reason names the receiver's static type, which only its origin knows, as ``{type}``."""

    def __init__(self, reason: str, receiver: object) -> None:
        super().__init__(reason)
        self.receiver = receiver


class MethodFailure(Failure):
    """An error that a method returned; the reason is of the node that called it."""


class Unprintable(Failure):
    """A value that cannot be printed; the reason names the node as ``{node}``."""


class Spent(Exception):  # noqa: N818 - it becomes a BudgetError
    """A budget that is spent; ``what`` was too much."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
