"""The body of a request, read into the room that there is for all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    from aiohttp import StreamReader

    from injector.webhook.queue import AdmissionQueue


class TooLargeError(Exception):
    """A body that is larger than one may be."""


class NoRoomError(Exception):
    """A body that does not fit beside those that are being worked on."""


class Body:
    """One body, which holds its room until the block ends.

    What counts is what has come, not what a header announces: so nobody blocks others by promises.
    """

    __slots__ = ("_admittance", "_content", "_size")

    def __init__(self, content: StreamReader, admittance: AdmissionQueue) -> None:
        self._content = content
        self._admittance = admittance
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admittance.release(self._size)

    async def read(self, limit: int) -> bytes:
        """Return all of it.

        Raises:
            TooLargeError: it has more than ``limit`` bytes.
            NoRoomError: all bodies together have more than they may.
        """
        chunks = []
        while chunk := await self._content.readany():
            self._size += len(chunk)
            if not self._admittance.hold(len(chunk)):
                raise NoRoomError
            if self._size > limit:
                raise TooLargeError
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
