"""Timeouts of connections and requests, in seconds.

An API server connects with TLS, sends a request at once, reads the answer and keeps the connection. The defaults of its client are in
k8s.io/apimachinery, SetTransportDefaults. None of these timeouts affects it.
"""

from __future__ import annotations

from typing import Final

HANDSHAKE: Final = 6.0
"""From the moment a connection is accepted until the TLS handshake is done."""
READ: Final = 6.0
"""For the body of a request. A request that takes longer is answered with 408."""
REQUEST: Final = 8.0
"""From the first byte of a request to its last. A connection that takes longer is closed."""
WRITE: Final = 6.0
"""For the answer. A connection whose peer does not read for that long is closed."""
# A timer for each request would take 5 % of the time of a cached answer.
CHECK: Final = 1.0
"""Between two checks of REQUEST and WRITE. A connection is closed at the first check after its timeout."""
KEEPALIVE: Final = 120.0
"""For an idle connection. The API server closes its own after 90 s, and must be the one that closes."""
LINGER: Final = 2.0
"""How long the rest of a refused body is read and dropped, so that the caller sees the answer."""
TLS_SHUTDOWN: Final = 1.0
"""Until the peer confirms the end of a TLS connection."""
DRAIN: Final = 4.0
"""After the shutdown delay, until the remaining requests are answered. With a delay of 5 s the process ends within 10 s."""
QUIET: Final = 1.0
"""A connection that was used within this time is likely to be used again, so a drain does not close it yet."""
