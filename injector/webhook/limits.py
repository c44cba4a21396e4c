"""The limits of the server, each with its reason. ``settings.py`` has those that a user may change.

The limits of connections depend on the open files of the process. If the connections of strangers took all of them, the server could
neither accept the next connection, nor answer a probe, nor read its configuration.
"""

from __future__ import annotations

import logging
import resource
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_log = logging.getLogger(__name__)

# Bodies of requests, in bytes.
MAX_BODY: Final = 8 * 1024 * 1024
"""Of a request. Objects have up to 3 MiB of protobuf (k8s.io/apiserver, MaxRequestBodyBytes), may come twice, and are larger as JSON."""
MAX_BODIES: Final = 64 * 1024 * 1024
"""Of all requests together: a quarter of the memory limit in ``deploy/``. Bodies that are still arriving may have half of it:
with a quarter, 54 of 200 reviews of 140 KB that come at once are refused, and with all of it a flood takes the process to 290 MiB."""
MAX_VALUES: Final = 250_000
"""More than the largest object of etcd has. Without the limit a body of empty lists would take half a second and 200 MB to decode."""
SMALL_BODY: Final = 64 * 1024
"""A body whose values are not counted: they take little time to decode, however many there are."""

# Injections.
THREADS: Final = 3
"""A slow tenant keeps one busy, a slow revision two, and one is free for the others. Each may use the memory of a template's budget."""
TURN: Final = 0.002
"""Seconds of a turn within which a thread begins injections: three of usual pods."""
TURN_REQUESTS: Final = 8
"""Of a turn."""
MAX_TENANTS: Final = 4096
"""Pairs of a revision and a namespace whose used time is known."""
MAX_CACHED: Final = 16 * 1024 * 1024
"""Bytes of the answer cache. A pod takes about 20 KiB, so about 800 workloads can scale at the same time."""
LARGEST_SHARE: Final = 16
"""An answer that would take more than this part of the cache is not cached: it would take the places of 50 workloads or more."""
MAX_SHADOWED: Final = 100
"""Admissions that wait for a shadow, so that a deployment of a hundred pods is compared completely."""
MAX_SHADOWED_BYTES: Final = 4 * 1024 * 1024
"""Bytes of their reviews. Decoded, they take about ten times as much memory."""

# Connections.
MAX_CONNECTIONS: Final = 1000
"""Of a port. Five API servers with 200 calls each (--max-mutating-requests-inflight). With TLS one takes 15 KiB, and 40 KiB once used."""
MAX_HANDSHAKES: Final = 600
"""Of a port, with a complete hello: three API servers that open 200 connections at once. With 250, those of one busy API server that
created 500 pods at once ended each other's handshakes. One takes 35 KiB, before the client is known. A client loses its handshake if it
does not answer while so many others begin, which takes 0.6 s at least."""
MAX_CONTINUED: Final = 16
"""Of these handshakes, those whose client has sent more than its hello, and not all. One takes 180 KiB if the client announces a message of
the greatest length that OpenSSL accepts: 110 MiB for 600. With 40, a flood of 1,500 such clients took 54 MiB, and with 16 it takes 46 MiB.
API servers send all that follows their hello at once, so they take no place."""
MIN_CONNECTIONS: Final = 16
"""Of a port. With fewer, an API server and the probes would take each other's places."""
OPERATIONS_SHARE: Final = 5
"""If files are scarce, the port of operations gets a fifth of the connections: probes and scrapes need few."""
RESERVED_FILES: Final = 96
"""Files for all else: the configuration, certificates, the client of the cluster, and connections that are being replaced."""
MAX_FILES: Final = 4 * MAX_CONNECTIONS + RESERVED_FILES
"""Of both ports. As many connections as are served may wait for their handshake, so that a burst of MAX_CONNECTIONS loses none."""
BACKLOG: Final = 1024
"""Length of the kernel's queue of connections."""
ACCEPTED_AT_ONCE: Final = 64
"""Connections to take out of the kernel's queue in one pass of the event loop. It takes a twentieth of the time of a handshake each."""
UNREAD_HELLOS: Final = 4 * ACCEPTED_AT_ONCE
"""Of the connections that wait, those whose hello is not read yet. It takes two passes of the event loop, in which others are accepted."""
PASSES_BETWEEN: Final = 4
"""Passes of the event loop between the beginnings of two handshakes. A handshake takes 1 ms, and an empty pass a twentieth of it."""
MAX_HEAD: Final = 16 * 1024
"""Bytes of a request that are not its body: its head, or the sizes of its chunks and its trailers. aiohttp would accept a mebibyte, and
keeps it twice: 300 clients that never ended their head took 470 MB."""
LEAST_CHUNKS: Final = 64
"""The size of the chunks of a body may be a part of it: a proxy can send chunks of 512 bytes."""
MAX_HEADERS: Final = 64
"""An API server sends ten. One takes 350 bytes, however short it is."""
MAX_REQUESTS: Final = 2
"""Of a connection, that aiohttp reads ahead. Its own limit is 32. No API server sends a request before it has the answer to the last."""
READ_BUFFER: Final = 4 * 1024
"""Size of asyncio's read buffers. With TLS it allocates and zeroes one per connection: 256 KiB by default, 250 MB for 1,000 connections.
Without TLS it allocates one for each read and shrinks it, which fragments the heap. Chunks of one byte take ten times their size."""
PLAIN_REVIEW_BUFFER: Final = 16 * 1024
"""The same for reviews without TLS, whose clients are trusted: most are one read. With less, a cached answer takes a fifth longer."""

# Times in seconds. None affects an API server: it connects, sends a request at once, reads the response and keeps the connection
# (k8s.io/apimachinery, SetTransportDefaults).
ACCEPT_RETRY: Final = 1.0
"""Until a port without a free file accepts connections again."""
HANDSHAKE_TIMEOUT: Final = 6.0
"""From accepting a connection to the end of the TLS handshake."""
REQUEST_TIMEOUT: Final = 8.0
"""From the first byte of a request to its last. A slower connection is closed."""
BODY_TIMEOUT: Final = 6.0
"""For the body of a request. A slower request gets status 408."""
WRITE_TIMEOUT: Final = 6.0
"""For writing a response. If the peer does not read it, the connection is closed."""
CHECK_INTERVAL: Final = 1.0
"""Between two checks of REQUEST_TIMEOUT and WRITE_TIMEOUT: a timer for each request would take 5 % of the time of a cached answer."""
KEEPALIVE_TIMEOUT: Final = 120.0
"""For an idle connection. Longer than the 90 s of API servers, which must be the side that closes."""
LINGER_TIMEOUT: Final = 2.0
"""For reading the rest of a refused body, so that the client sees the response."""
TLS_SHUTDOWN_TIMEOUT: Final = 1.0
"""For the peer's confirmation at the end of a TLS connection."""
DRAIN_TIMEOUT: Final = 4.0
"""For answering the remaining requests after the shutdown delay. With a delay of 5 s the process ends within 10 s."""
DRAIN_INTERVAL: Final = 0.02
"""Between two checks for idle connections in a drain."""
QUIET_TIME: Final = 1.0
"""A drain does not close connections that were used within this time, since they are likely to be used again."""
CLEANUP: Final = 0.25
"""Seconds that aiohttp waits, twice, for connections that are still open at the end. Their requests are incomplete."""
RETRY_AFTER: Final = 1
"""Until a rejected client may try again; it has 10 s by default (admissionregistration/v1, timeoutSeconds)."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The numbers of connections of both ports."""

    webhook: int = MAX_CONNECTIONS
    operations: int = MAX_CONNECTIONS


def connection_limits() -> ConnectionLimits:
    """Raise the soft limit of open files as far as needed and allowed, and return the limits that it allows. The log says both."""
    files = _raise_soft_limit(MAX_FILES)
    limits = limits_for(files)
    scarce = limits.webhook < MAX_CONNECTIONS
    _log.log(
        logging.WARNING if scarce else logging.INFO,
        "at most %d connections to the webhook and %d to operations: the process may open %s files%s",
        limits.webhook,
        limits.operations,
        "any number of" if files == resource.RLIM_INFINITY else files,
        f"; raise its limit of open files to {MAX_FILES}" if scarce else "",
    )
    return limits


def limits_for(files: int) -> ConnectionLimits:
    """Return the limits for a process that may open so many files."""
    free = ((MAX_FILES if files == resource.RLIM_INFINITY else files) - RESERVED_FILES) // 2
    operations = min(MAX_CONNECTIONS, max(MIN_CONNECTIONS, free // OPERATIONS_SHARE, free - MAX_CONNECTIONS))
    return ConnectionLimits(min(MAX_CONNECTIONS, max(MIN_CONNECTIONS, free - operations)), operations)


def _raise_soft_limit(wanted: int) -> int:
    """Return the soft limit of open files, after raising it up to ``wanted`` if the hard limit allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS refuses more than its own maximum
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
