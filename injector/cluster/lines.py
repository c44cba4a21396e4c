"""Cuts the body of a watch into lines, however the network cut it into pieces."""

from __future__ import annotations

from typing import Final

# An object is at most 1.5 MiB in etcd, 3 MiB in a request; escaping in JSON can double it.
MAX_LINE: Final = 8 * 1024 * 1024


class LineTooLongError(ValueError):
    """A line that no object of the API can be."""


class LineCutter:
    """Takes pieces and gives whole lines; what has no line end yet is held back.

    A line that a cut connection left unfinished is never given: the watch that follows says it again.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._held = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in ``piece``, without their ends; empty ones are left out.

        Raises:
            LineTooLongError: a line is longer than the limit.
        """
        *ended, rest = piece.split(b"\n")
        lines = []
        for part in ended:
            self._hold(part)
            lines.append(bytes(self._held))
            self._held.clear()
        self._hold(rest)
        return [line for line in lines if line.strip()]

    def _hold(self, part: bytes) -> None:
        if len(self._held) + len(part) > self._limit:
            raise LineTooLongError(f"a line is longer than {self._limit} bytes")
        self._held += part
