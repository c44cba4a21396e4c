"""Validation of the parts of a mesh config that Istio 1.31 and later have; earlier minors do not read them.

Follows ``validateConnectionSettings``, ``ValidateZoneAwareLbSetting``, ``validateMeshConfigDefaultTrafficPolicy`` and, after 1.31,
``validateMeshConfigDefaultInboundHTTPRetryPolicy`` in pkg/config/validation/agent/validation.go (release-1.31 and master). istiod keeps
its last mesh config if the new one has such a fault. Values are in the plain form of ``proto.Message``.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from injector.golang.strconv import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Fields = Mapping[str, Any]

_MILLISECOND: Final = 1_000_000
_CONNECTION_LEAST: Final = {
    "listener_per_connection_buffer_limit_bytes": 0,
    "cluster_per_connection_buffer_limit_bytes": 0,
    "http_idle_timeout": 0,
    "http_max_connection_duration": 0,
    "http_drain_timeout": 0,
    "http_request_timeout": 0,
    "http_request_headers_timeout": 0,
    "http_stream_idle_timeout": 0,
    "http_max_stream_duration": 0,
    "http_max_concurrent_streams": 1,
    "http2_initial_stream_window_size": 65535,
    "http2_initial_connection_window_size": 65535,
    "listener_connection_limit": 1,
    "global_downstream_connection_limit": 1,
}
"""The least value of each field of connectionSettings."""
_AT_LEAST: Final = {0: "non-negative", 1: "positive"}
_TOPOLOGY: Final = frozenset(
    f"topology.{name}" for name in ("kubernetes.io/region", "kubernetes.io/zone", "istio.io/subzone")
)
_HTTP_COUNTS: Final = {
    "http1MaxPendingRequests": "http1 max pending requests",
    "http2MaxRequests": "http2 max requests",
    "maxRequestsPerConnection": "max requests per connection",
    "maxRetries": "max retries",
    "maxConcurrentStreams": "max concurrent streams",
}
_UPGRADE: Final = 2
"""The number of H2UpgradePolicy UPGRADE."""
_RETRY_ON: Final = frozenset(
    (
        *(
            "5xx",
            "gateway-error",
            "reset",
            "reset-before-request",
            "connect-failure",
            "retriable-4xx",
            "refused-stream",
        ),
        *("retriable-status-codes", "retriable-headers", "envoy-ratelimited", "http3-post-connect-failure"),
        *("cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable"),
    )
)
_STATUSES: Final = frozenset(str(status.value) for status in HTTPStatus)


def mesh_faults(mesh: Fields) -> Iterator[str]:
    """Yield the faults of a mesh config, in Istio's words."""
    yield from connection_faults(mesh.get("defaultConfig") or {})
    yield from _zone_faults(mesh.get("zoneAwareLbSetting") or {})
    policy = mesh.get("defaultTrafficPolicy") or {}
    yield from _pool_faults(policy.get("connectionPool"))
    yield from _outlier_faults(policy.get("outlierDetection") or {})
    retry = mesh.get("defaultInboundHttpRetryPolicy")
    for fault in _retry_faults(retry or {}):
        yield f"invalid default inbound http retry policy: {fault}"


def connection_faults(proxy_config: Fields) -> Iterator[str]:
    """Yield the faults of the connectionSettings of a ProxyConfig."""
    settings = proxy_config.get("connectionSettings") or {}
    for name, least in _CONNECTION_LEAST.items():
        value = settings.get(re.sub("_([a-z])", lambda match: match[1].upper(), name))
        if value is not None and value < least:
            yield f"invalid connection settings: {name} must be {_AT_LEAST.get(least, f'at least {least}')}"


def duration_fault(nanoseconds: int) -> str:
    """Return why a duration is not valid, or an empty text if it is valid (ValidateDuration)."""
    if nanoseconds < _MILLISECOND:
        return "duration must be greater than 1ms"
    return "only durations to ms precision are supported" if nanoseconds % _MILLISECOND else ""


def _duration_faults(fields: Fields, *names: str) -> Iterator[str]:
    for name in names:
        fault = "" if fields.get(name) is None else duration_fault(fields[name])
        if fault:
            yield fault


def _zone_faults(setting: Fields) -> Iterator[str]:
    for label in setting.get("failoverPriority") or ():
        if label in _TOPOLOGY:
            what = f"'failover_priority' for zone aware lb must not use topology label '{label}'"
            yield f"{what}; region- and zone-level routing are handled automatically"
    for failover in setting.get("failover") or ():
        regions = failover.get("from", ""), failover.get("to", "")
        if regions[0] == regions[1]:
            yield "zone aware lb failover settings must specify different regions"
        if any("/" in region for region in regions):
            what = "zone aware lb failover only specifies region"
            yield f"{what}; zone and subzone failover are handled automatically"
        if any("*" in region for region in regions):
            yield "zone aware lb failover region should not contain '*' wildcard"


def _pool_faults(pool: Fields | None) -> Iterator[str]:
    if pool is None:
        return
    http, tcp = pool.get("http"), pool.get("tcp")
    if http is None and tcp is None:
        yield "connection pool must have at least one field"
    http, tcp = http or {}, tcp or {}
    yield from (f"{what} must be non-negative" for name, what in _HTTP_COUNTS.items() if http.get(name, 0) < 0)
    yield from _duration_faults(http, "idleTimeout")
    if http.get("h2UpgradePolicy") == _UPGRADE and http.get("useClientProtocol"):
        yield "use client protocol must not be true when H2UpgradePolicy is UPGRADE"
    if tcp.get("maxConnections", 0) < 0:
        yield "max connections must be non-negative"
    yield from _duration_faults(tcp, "connectTimeout", "maxConnectionDuration")
    if abs(tcp.get("idleTimeout") or 0) >= _MILLISECOND:
        yield from _duration_faults(tcp, "idleTimeout")
    yield from _duration_faults(tcp.get("tcpKeepalive") or {}, "time", "interval")


def _outlier_faults(outlier: Fields) -> Iterator[str]:
    yield from _duration_faults(outlier, "baseEjectionTime", "interval")
    if not outlier.get("splitExternalLocalOriginErrors") and (outlier.get("consecutiveLocalOriginFailures") or 0) > 0:
        what = "outlier detection consecutive local origin failures is specified"
        yield f"{what}, but split external local origin errors is set to false"
    for name in ("maxEjectionPercent", "minHealthPercent"):
        value = outlier.get(name, 0)
        if not 0 <= value <= 100:  # noqa: PLR2004 - a percentage
            yield f"percentage {value} is not in range 0..100"


def _retry_faults(retry: Fields) -> Iterator[str]:
    attempts, policies = retry.get("attempts", 0), retry.get("retryOn", "")
    if attempts < 0:
        yield "attempts cannot be negative"
    if attempts == 0 and (
        policies or any(retry.get(name) is not None for name in ("perTryTimeout", "retryRemoteLocalities"))
    ):
        yield "http retry policy configured when attempts are set to 0 (disabled)"
    yield from _duration_faults(retry, "perTryTimeout")
    for policy in policies.split(",") if policies else ():
        if policy not in _RETRY_ON and policy.lstrip("+").lstrip("0") not in _STATUSES:
            yield f"{quote(policy)} is not a valid retryOn policy"
    yield from _duration_faults(retry, "backoff")
    if attempts == 0 and retry.get("backoff") is not None:
        yield "backoff configured when attempts are set to 0 (disabled)"
