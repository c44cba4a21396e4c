"""Timeouts of connections and requests, in seconds.

None of these timeouts affects an API server: it connects, sends a request at once, reads the response and keeps the connection
(k8s.io/apimachinery, SetTransportDefaults).
"""

from __future__ import annotations

from typing import Final

HANDSHAKE: Final = 6.0
"""From accepting a connection to the end of the TLS handshake."""
READ: Final = 6.0
"""For the body of a request. A slower request gets status 408."""
REQUEST: Final = 8.0
"""From the first byte of a request to its last. A slower connection is closed."""
WRITE: Final = 6.0
"""For writing a response. If the peer does not read it, the connection is closed."""
# A timer for each request would take 5 % of the time of a cached answer.
CHECK: Final = 1.0
"""Between two checks of REQUEST and WRITE. A connection is closed at the first check after its timeout."""
KEEPALIVE: Final = 120.0
"""For an idle connection. Longer than the 90 s of API servers, which must be the side that closes."""
LINGER: Final = 2.0
"""For reading the rest of a refused body, so that the client sees the response."""
TLS_SHUTDOWN: Final = 1.0
"""For the peer's confirmation at the end of a TLS connection."""
DRAIN: Final = 4.0
"""For answering the remaining requests after the shutdown delay. With a delay of 5 s the process ends within 10 s."""
QUIET: Final = 1.0
"""A drain does not close connections that were used within this time, since they are likely to be used again."""
