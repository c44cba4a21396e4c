"""Gives the memory that nothing uses back to the system, again and again.

What requests leave behind lies between what is kept of them, and glibc gives back the end of its heap alone: in a process that serves
for months each page is touched at some time, and its memory is as large as all of its largest moments together.
"""

from __future__ import annotations

import asyncio
import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# It takes one to three milliseconds for a heap of 30 MB.
EVERY: Final = 10.0


def heap_trim() -> Callable[[], object] | None:
    """Return what gives free pages of the heap back (malloc_trim(3)), or None where the C library has no such function."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    return lambda: trim(0)


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Gives it back by ``trim`` for ever, with a ``pause`` of so many seconds between."""

    trim: Callable[[], object] | None
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def follow(self) -> None:
        """Go on until cancelled; where nothing can be given back there is nothing to do."""
        while self.trim is not None:
            await self.pause(EVERY)
            self.trim()
