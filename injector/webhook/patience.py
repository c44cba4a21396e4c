"""How long a peer may take, and who goes where more are connected than there is room for.

Nothing of this touches an API server: it sends a request at once, reads its answer, and keeps some dozens of connections. What holds one
for longer is broken or hostile, and costs memory and a file of the kernel for as long as it is let.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

# A webhook's timeout is 10 s unless it says otherwise, for all of a call: who takes longer for a part has given up.
HANDSHAKE: Final = 6.0
"""Until the handshake of TLS is done."""
ARRIVAL: Final = 7.0
"""From the first byte of a request to its last; a body alone is answered 408 a second before (``reading``)."""
TAKING: Final = 6.0
"""How long a peer may leave an answer where it is, without taking any of it."""
HASTE: Final = 1.0
"""That, while more than half of the places are taken. The kernel of whoever is alive takes an answer, whatever else he does."""
LOOK: Final = 0.5

# Go's net/http sends a request once the one before it is answered; what others send at once would be kept in memory.
PIPELINED: Final = 1
"""Requests that may wait on a connection for the one before them."""
# Five API servers with 200 calls each on their way (--max-mutating-requests-inflight), or one burst of a thousand.
MOST: Final = 1000
"""Connections of a port. One with TLS takes 15 KiB while it is silent and 40 once it was used, most of them OpenSSL's."""


@dataclass(slots=True)
class Unsent:
    """What a peer has not taken yet: how many bytes, and since when no fewer."""

    size: int = 0
    since: float = 0.0

    def look(self, size: int, now: float, patience: float = TAKING) -> bool:
        """Learn how many bytes there are now; tell whether the peer has taken none for too long, which is ``patience`` in seconds."""
        if size == 0 or size < self.size or self.size == 0:
            self.since = now
        self.size = size
        return now - self.since > patience


def unsent(transport: asyncio.Transport) -> int:
    """Return how many bytes a peer has not confirmed yet: those that the kernel holds (tcp(7), SIOCOUTQ), and those that wait for it."""
    sock = transport.get_extra_info("socket")
    if sock is None or transport.is_closing():
        return 0
    try:
        held: int = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    except OSError:  # gone, or a platform that does not tell
        held = 0
    return held + transport.get_write_buffer_size()


def reset(transport: asyncio.Transport) -> None:
    """End a connection at once: else the kernel would go on for minutes to offer what the peer does not take (socket(7), SO_LINGER)."""
    sock = transport.get_extra_info("socket")
    if sock is not None and not transport.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
