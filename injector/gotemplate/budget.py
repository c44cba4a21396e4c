"""What one rendering may cost: steps, output, nesting, time.

A template and its data may be hostile. Every limit is checked before the cost arises: output is counted before it is joined, and
functions that grow their arguments ask ``check_size`` before they build their result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from injector.gotemplate.errors import FuncError

if TYPE_CHECKING:
    from collections.abc import Callable

# A sidecar overlay is 10 KiB and takes 2,000 steps; the limits leave two orders of magnitude.
MAX_SIZE: Final = 1 << 20
# The clock is read once in so many steps: reading it may cost as much as several.
CLOCK_EVERY: Final = 256


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one rendering.

    Attributes:
        steps: actions that may run: entering a block counts all its actions, those of its ``if`` branches included.
        output: bytes of output.
        depth: ``{{template}}`` calls inside each other; Go's own limit is 100,000.
        seconds: time by ``clock``.
        memory: bytes of the values that functions return, in all: templates can keep them.
        clock: how long this thread has worked: that the machine does other things meanwhile is no fault of a template.
    """

    steps: int = 1_000_000
    output: int = MAX_SIZE
    depth: int = 64
    seconds: float = 0.5
    memory: int = 64 << 20
    clock: Callable[[], float] = time.thread_time


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
