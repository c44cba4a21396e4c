"""Waits for the first message of a TLS connection before anything is spent on it: who says nothing costs a socket and no more.

OpenSSL and asyncio take 15 KiB and more for a connection from its first moment on, and hostile callers open them by the thousand. So
what a caller sends is looked at in the kernel, where it stays (recv(2), MSG_PEEK), until his ClientHello is there in full.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

# RFC 8446, 5.1: the type of a record, its version, and its length, which is 2^14 at most.
HEADER: Final = 5
HANDSHAKE_RECORD: Final = 22
LONGEST: Final = 1 << 14


async def client_hello(sock: socket.socket) -> bool:
    """Wait until the first record of a connection is there in full, or what comes is none, which TLS itself will refuse.

    Args:
        sock: a connected socket that does not block; nothing is read from it.

    Returns:
        False where the caller has hung up.
    """
    missing = _missing(sock)
    if missing:
        # The kernel tells no sooner than so many bytes are there (socket(7), SO_RCVLOWAT).
        try:
            while missing:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, missing)
                await _readable(sock)
                before, missing = missing, _missing(sock)
                if missing == before:
                    # The caller sends no more, or the kernel has no room for all of it.
                    break
        finally:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    return missing is not None


def _missing(sock: socket.socket) -> int | None:
    """Return how many bytes there have to be to know more, 0 where nothing more needs to be known, None where the caller has hung up."""
    try:
        there = sock.recv(HEADER + LONGEST, socket.MSG_PEEK)
    except BlockingIOError:
        return HEADER
    except OSError:
        return None
    if not there:
        return None
    if there[0] != HANDSHAKE_RECORD:
        return 0
    if len(there) < HEADER:
        return HEADER
    whole = HEADER + int.from_bytes(there[3:HEADER], "big")
    return 0 if len(there) >= whole or whole > HEADER + LONGEST else whole


async def _readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    told = loop.create_future()
    loop.add_reader(sock.fileno(), _tell, told)
    try:
        await told
    finally:
        loop.remove_reader(sock.fileno())


def _tell(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)
