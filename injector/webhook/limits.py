"""The limits of the server, each with its reason. ``settings.py`` has those that a user may change."""

from __future__ import annotations

from typing import Final

# Bodies of requests, in bytes.
MAX_BODY: Final = 8 * 1024 * 1024
"""Of a request. Objects have up to 3 MiB of protobuf (k8s.io/apiserver, MaxRequestBodyBytes), may come twice, and are larger as JSON."""
MAX_BODIES: Final = 64 * 1024 * 1024
"""Of all requests together: a quarter of the memory limit in ``deploy/``. Bodies that are still arriving may have half of it."""
MAX_VALUES: Final = 250_000
"""More than the largest object of etcd has. Without the limit a body of empty lists would take half a second and 200 MB to decode."""
SMALL_BODY: Final = 64 * 1024
"""A body whose values are not counted: they take little time to decode, however many there are."""

# Injections.
THREADS: Final = 3
"""A slow tenant keeps one busy, a slow revision two, and one is free for the others. Each may use the memory of a template's budget."""
MAX_TENANTS: Final = 4096
"""Pairs of a revision and a namespace whose used time is known."""

# Times in seconds. None affects an API server: it connects, sends a request at once, reads the response and keeps the connection
# (k8s.io/apimachinery, SetTransportDefaults).
BODY_TIMEOUT: Final = 6.0
"""For the body of a request. A slower request gets status 408."""
RETRY_AFTER: Final = 1
"""Until a rejected client may try again; it has 10 s by default (admissionregistration/v1, timeoutSeconds)."""
