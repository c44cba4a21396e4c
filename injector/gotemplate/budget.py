"""What one rendering may cost: steps, output, nesting, time.

A template and its data may be hostile. Every limit is checked before the cost arises: output is reserved before it is built, and
functions that grow their arguments ask ``check_size`` first.
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
# The clock is read once in so many steps: reading it costs as much as a step.
CLOCK_EVERY: Final = 256


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one rendering: steps, bytes of output, depth of ``{{template}}`` calls, seconds by ``clock``."""

    steps: int = 1_000_000
    output: int = MAX_SIZE
    depth: int = 64
    seconds: float = 0.5
    clock: Callable[[], float] = time.monotonic


def check_size(size: int, what: str = "result") -> None:
    """Refuse a value of a template that would be larger than any output may be.

    Args:
        size: bytes of a string, or elements of a list.
        what: names it in the error.

    Raises:
        FuncError: it is larger than 1 MiB.
    """
    if size > MAX_SIZE:
        raise FuncError(f"{what} too large: {size} > {MAX_SIZE}")
