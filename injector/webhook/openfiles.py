"""The open files of the process: how many connections they allow.

A connection needs a file. If the connections of strangers took all of them, the server could neither accept the next connection, nor
answer a probe, nor read its configuration.
"""

from __future__ import annotations

import logging
import resource
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 1000
"""Of a port. Five API servers with 200 calls each (--max-mutating-requests-inflight). With TLS one takes 15 KiB, and 40 KiB once used."""
RESERVED: Final = 96
"""Files for all else: the configuration, certificates, the client of the cluster, and connections that are being replaced."""
MIN_CONNECTIONS: Final = 16
"""Of a port. With fewer, an API server and the probes would take each other's places."""
OPERATIONS_SHARE: Final = 5
"""If files are scarce, the port of operations gets a fifth of the connections: probes and scrapes need few."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The numbers of connections of both ports."""

    webhook: int = MAX_CONNECTIONS
    operations: int = MAX_CONNECTIONS


def connection_limits() -> ConnectionLimits:
    """Raise the soft limit of open files as far as needed and allowed, and return the limits that it allows. The log says both."""
    files = _raise_soft_limit(2 * MAX_CONNECTIONS + RESERVED)
    limits = limits_for(files)
    scarce = limits.webhook < MAX_CONNECTIONS
    _log.log(
        logging.WARNING if scarce else logging.INFO,
        "at most %d connections to the webhook and %d to operations: the process may open %s files%s",
        limits.webhook,
        limits.operations,
        "any number of" if files == resource.RLIM_INFINITY else files,
        f"; raise its limit of open files to {2 * MAX_CONNECTIONS + RESERVED}" if scarce else "",
    )
    return limits


def limits_for(files: int) -> ConnectionLimits:
    """Return the limits for a process that may open so many files."""
    free = 2 * MAX_CONNECTIONS if files == resource.RLIM_INFINITY else files - RESERVED
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
