"""How often an API server that is down is asked by a whole process, however many watches it has.

Each list/watch waits by itself (``watchstate``), and seven of them come to more than a request a second. None of them waits
longer, since each must be back within 5 s; so they take turns while nothing is answered, and whoever is answered first lets
all others go.
"""

from __future__ import annotations

import asyncio
from typing import Final

GAP: Final = 1.0
"""Seconds between two requests to an API server that is down."""


class Pace:
    """Lets requests through at once, and one a second from when one failed until one is answered."""

    def __init__(self) -> None:
        self._next = 0.0
        self._answering = asyncio.Event()
        self._answering.set()

    async def turn(self) -> None:
        """Wait until a request may be sent."""
        loop = asyncio.get_running_loop()
        while not self._answering.is_set():
            wait = self._next - loop.time()
            if wait <= 0:
                self._next = loop.time() + GAP
                return
            try:
                async with asyncio.timeout(wait):
                    await self._answering.wait()
            except TimeoutError:
                continue

    def failed(self) -> None:
        """Note that a request was not answered, or that the API server says that it cannot."""
        self._next = asyncio.get_running_loop().time() + GAP
        self._answering.clear()

    def answered(self) -> None:
        """Note that one was answered."""
        self._answering.set()
