"""The mesh config: the key ``mesh`` of ConfigMap ``istio``, with each minor's defaults below it and a pod's ProxyConfig above it.

The defaults are those of ``DefaultProxyConfig`` and ``DefaultMeshConfig`` at the last tag of each minor (pkg/config/mesh/mesh.go;
pilot/pkg/model/context.go before 1.4). The merging follows ``ApplyMeshConfig``, ``MergeProxyConfig`` and ``ApplyProxyConfig`` in
pkg/config/mesh/mesh.go (1.30.3), ``mergeWithPrecedence`` in pilot/pkg/model/proxy_config.go, and ``cleanProxyConfig`` in
pkg/kube/inject/template.go. Values are in the plain form of ``proto.Message``: durations in nanoseconds, enums as numbers, wrapped
scalars as the scalar.

``mesh_faults`` validates the parts that Istio 1.31 and later have; earlier minors do not read them. It follows
``validateConnectionSettings``, ``ValidateZoneAwareLbSetting``, ``validateMeshConfigDefaultTrafficPolicy`` and, after 1.31,
``validateMeshConfigDefaultInboundHTTPRetryPolicy`` in pkg/config/validation/agent/validation.go (release-1.31 and master). istiod keeps
its last mesh config if the new one has such a fault.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from injector.errors import AnnotationError, ConfigError, DataError
from injector.golang.strconv import quote
from injector.golang.time import SECOND
from injector.gotemplate.values import Pointer
from injector.istio.behaviours import ABSENT, OLDEST, Minor, values_of_minor
from injector.istio.frozen import frozen
from injector.istio.proto import (
    DURATION,
    WRAPPERS,
    Message,
    mesh_config_type,
    message_type,
    parse_message,
    proxy_config_type,
)
from injector.kube.yaml import load_yaml
from injector.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Fields = Mapping[str, Any]

_ZIPKIN: Final = {"zipkin": {"address": "zipkin.istio-system:9411"}}
_ANYWHERE: Final = ["*"]
_PROVIDERS: Final = [
    {"name": "prometheus", "prometheus": {}},
    {"name": "stackdriver", "stackdriver": {}},
    {"name": "envoy", "envoyFileAccessLog": {"path": "/dev/stdout"}},
]


PROXY_DEFAULTS: Final[dict[str, dict[Minor, Any]]] = {
    "configPath": {OLDEST: "/etc/istio/proxy", (1, 6): "./etc/istio/proxy"},
    "binaryPath": {OLDEST: "/usr/local/bin/envoy"},
    "serviceCluster": {OLDEST: "istio-proxy"},
    "drainDuration": {OLDEST: 2 * SECOND, (1, 1): 45 * SECOND},
    "parentShutdownDuration": {OLDEST: 3 * SECOND, (1, 1): 60 * SECOND, (1, 17): ABSENT},
    "terminationDrainDuration": {(1, 7): 5 * SECOND},
    "discoveryAddress": {
        OLDEST: "istio-pilot:15007",
        (1, 1): "istio-pilot:15010",
        (1, 6): "istiod.istio-system.svc:15012",
    },
    "discoveryRefreshDelay": {OLDEST: 1 * SECOND, (1, 1): ABSENT},
    "connectTimeout": {OLDEST: 1 * SECOND, (1, 6): ABSENT},
    "envoyMetricsService": {(1, 3): {}, (1, 9): ABSENT},
    "envoyAccessLogService": {(1, 3): {}, (1, 9): ABSENT},
    "proxyAdminPort": {OLDEST: 15000},
    "controlPlaneAuthPolicy": {(1, 7): 1},
    "concurrency": {(1, 6): 2, (1, 18): ABSENT},
    "statNameLength": {(1, 1): 189},
    "statusPort": {(1, 6): 15020},
    "tracing": {(1, 6): _ZIPKIN, (1, 22): ABSENT},
}

MESH_DEFAULTS: Final[dict[str, dict[Minor, Any]]] = {
    "disablePolicyChecks": {(1, 1): True, (1, 8): ABSENT},
    "ingressClass": {OLDEST: "istio", (1, 1): ABSENT, (1, 6): "istio"},
    "ingressControllerMode": {OLDEST: 3, (1, 1): ABSENT, (1, 6): 3},
    "ingressService": {(1, 1): "istio-ingressgateway"},
    "rdsRefreshDelay": {OLDEST: 1 * SECOND, (1, 1): ABSENT},
    "sdsRefreshDelay": {OLDEST: 15 * SECOND, (1, 1): ABSENT},
    "sdsUdsPath": {(1, 6): "unix:./etc/istio/proxy/SDS", (1, 8): ABSENT},
    "enableTracing": {OLDEST: True},
    "accessLogFile": {OLDEST: "/dev/stdout", (1, 6): ABSENT},
    "protocolDetectionTimeout": {(1, 3): 100_000_000, (1, 6): 5 * SECOND, (1, 8): 0},
    "trustDomain": {(1, 6): "cluster.local"},
    "enableAutoMtls": {(1, 4): False, (1, 6): True},
    "outboundTrafficPolicy": {(1, 1): {"mode": 1}},
    "inboundTrafficPolicy": {(1, 22): {"mode": 0}},
    "localityLbSetting": {(1, 6): {"enabled": True}},
    "rootNamespace": {(1, 1): "istio-system"},
    "proxyListenPort": {OLDEST: 15001},
    "proxyInboundListenPort": {(1, 18): 15006},
    "connectTimeout": {OLDEST: 1 * SECOND, (1, 6): 10 * SECOND},
    "defaultServiceExportTo": {(1, 1): _ANYWHERE},
    "defaultVirtualServiceExportTo": {(1, 1): _ANYWHERE},
    "defaultDestinationRuleExportTo": {(1, 1): _ANYWHERE},
    "dnsRefreshRate": {(1, 1): 5 * SECOND, (1, 14): 60 * SECOND},
    "enablePrometheusMerge": {(1, 18): True},
    "defaultProviders": {(1, 11): {"accessLogging": ["envoy"]}, (1, 12): {}},
    "extensionProviders": {(1, 11): _PROVIDERS[2:], (1, 12): _PROVIDERS},
}


def default_proxy_config(minor: Minor) -> dict[str, Any]:
    """Return the ProxyConfig that ``minor`` starts from, in plain form."""
    return values_of_minor(minor, PROXY_DEFAULTS)


def default_mesh_config(minor: Minor) -> dict[str, Any]:
    """Return the MeshConfig that ``minor`` starts from, in plain form, its ``defaultConfig`` included."""
    return {**values_of_minor(minor, MESH_DEFAULTS), "defaultConfig": default_proxy_config(minor)}


@dataclass(frozen=True, slots=True)
class MeshFacts:
    """A mesh config, and the fields that post-processing and the template data read."""

    mesh_config: Message
    mesh_pointer: Pointer
    proxy_config: Pointer
    concurrency: int | None
    status_port: int
    interception_mode: str
    hold_application: bool
    prometheus_merge: bool | None
    inbound_traffic_policy: str
    image_type: str | None
    root_namespace: str
    sds_uds_path: str
    enable_sds_token_mount: bool


def mesh_facts(mesh_config: Message) -> MeshFacts:
    """Read the fields of a parsed mesh config (istio.io/api mesh/v1alpha1)."""
    mesh = mesh_config.values
    proxy, pointer = mesh["defaultConfig"], mesh_config.field("DefaultConfig")
    concurrency_is_plain = pointer.target.kind.by_json["concurrency"].kind == "int32"
    policy = mesh.get("inboundTrafficPolicy") or {}
    image = proxy.get("image")
    return MeshFacts(
        mesh_config=mesh_config,
        mesh_pointer=Pointer("*v1alpha1.MeshConfig", mesh_config),
        proxy_config=pointer,
        concurrency=proxy.get("concurrency", 0 if concurrency_is_plain else None),
        status_port=proxy.get("statusPort", 0),
        interception_mode=str(pointer.target.field("InterceptionMode")),
        hold_application=bool(proxy.get("holdApplicationUntilProxyStarts")),
        prometheus_merge=mesh.get("enablePrometheusMerge"),
        inbound_traffic_policy="localhost" if policy.get("mode") == _LOCALHOST else "passthrough",
        image_type=None if image is None else image.get("imageType", ""),
        root_namespace=mesh.get("rootNamespace", ""),
        sds_uds_path=mesh.get("sdsUdsPath", ""),
        enable_sds_token_mount=mesh.get("enableSdsTokenMount", False),
    )


# The number of InboundTrafficPolicy.Mode LOCALHOST.
_LOCALHOST: Final = 1
# From this minor on, proxyMetadata is merged by key; before, the overlay replaces it.
_METADATA_MERGED: Final[Minor] = (1, 10)
_PROVIDERS_MERGED: Final[Minor] = (1, 11)
_ALIASES_SORTED: Final[Minor] = (1, 12)
# istiod merges the ConfigMap of SHARED_MESH_CONFIG below its own mesh config from this minor on.
_SHARED: Final[Minor] = (1, 10)
MOST_VALUES: Final = 2_000
"""The largest number of values in the ProxyConfig of a pod, keys included: an admission reads each more than once."""
_HEADERS: Final = ("forwardedClientCert", "requestId", "attemptCount", "server", "envoyDebugHeaders")
# From this minor on, protoToJSON leaves out the fields of a ProxyConfig that equal the defaults.
_DEFAULTS_LEFT_OUT: Final[Minor] = (1, 6)
_EMPTY_METADATA_LEFT_OUT: Final[Minor] = (1, 9)


def parse_mesh_config(text: str | None, minor: Minor, *, where: str = "mesh", shared: str | None = None) -> Message:
    """Read a mesh config on top of the ``shared`` one, and of the minor's defaults; None gives these alone.

    A shared mesh config that is not valid is ignored, as istiod does it. Raises ConfigError if a type is wrong or Istio refuses a value.
    """
    base = default_mesh_config(minor)
    if shared is not None and minor >= _SHARED:
        with suppress(DataError):
            base = dict(_apply_mesh_config(shared, minor, base, where).values)
    return _apply_mesh_config(text, minor, base, where)


def _apply_mesh_config(text: str | None, minor: Minor, defaults: Mapping[str, Any], where: str) -> Message:
    data = None if text is None else load_yaml(text, where=where)
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise ConfigError("a mesh config must be a mapping", where=where, hint="give the key `mesh` of ConfigMap istio")
    merged = parse_message(mesh_config_type(minor), data, base=defaults, where=where)
    overlay = data.get("defaultConfig")
    proxy = defaults["defaultConfig"]
    if overlay is not None:
        proxy = _merge_proxy_config(proxy, overlay, minor, where)
    fields = {**merged.values, "defaultConfig": proxy}
    if minor >= _PROVIDERS_MERGED:
        fields["extensionProviders"] = _merge_providers(defaults["extensionProviders"], merged.values)
        own = {} if data.get("defaultProviders") is None else merged.values["defaultProviders"]
        fields["defaultProviders"] = {**defaults["defaultProviders"], **own}
    if minor >= _ALIASES_SORTED and "trustDomainAliases" in fields:
        fields["trustDomainAliases"] = sorted({*fields["trustDomainAliases"], *defaults.get("trustDomainAliases", ())})
    fault = next(mesh_faults(fields), "")
    if fault:
        raise ConfigError(fault, where=where, hint="correct the mesh config; istiod refuses it too")
    return Message(merged.kind, frozen(fields))


def _merge_providers(defaults: list[Any], document: Mapping[str, Any]) -> list[Any]:
    """Return the default extension providers and those of the document, which replace default ones of the same name."""
    by_name = {item["name"]: item for item in defaults}
    by_name.update((item.get("name", ""), item) for item in document["extensionProviders"])
    return list(by_name.values())


def read_proxy_config(data: Any, minor: Minor, *, base: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return the fields of a ProxyConfig that the minor reads from JSON data, in plain form, on top of ``base``.

    Raises ConfigError if the document is not a mapping, or a field has the wrong type.
    """
    return dict(parse_message(proxy_config_type(minor), data, base=base, where=where).values)


def _merge_proxy_config(base: Mapping[str, Any], overlay: Any, minor: Minor, where: str) -> dict[str, Any]:
    merged = read_proxy_config(overlay, minor, base=base, where=where)
    if minor >= _METADATA_MERGED and (base.get("proxyMetadata") or merged.get("proxyMetadata")):
        merged["proxyMetadata"] = {**(base.get("proxyMetadata") or {}), **(merged.get("proxyMetadata") or {})}
    old, new = base.get("proxyHeaders"), merged.get("proxyHeaders")
    if old is not None and new is not None:
        unset = {name: old[name] for name in _HEADERS if name in old and new.get(name) is None}
        merged["proxyHeaders"] = {**new, **unset}
    return merged


_JSON: Final = "json"
_GOGO: Final = "gogo"
_APPLIED: Final[Memo[tuple[str, Message, Minor, str], Message]] = Memo(256, 256 << 10, lambda key: len(key[0]))
"""Results by the arguments. Mesh configs never change, so they are compared by identity."""


def overlaid_mesh_config(texts: Iterable[str], mesh: Message, minor: Minor, merge: str) -> Message:
    """Return the mesh config with ProxyConfigs on top of its default ProxyConfig, the last one on top.

    ``merge`` is one of ``Behaviours.proxy_config_merge``. If it is not empty, the mesh config's own ProxyConfig is also merged into the
    minor's defaults, as ``EffectiveProxyConfig`` does it (pilot/pkg/model/proxy_config.go). Raises AnnotationError if a text is not a
    ProxyConfig.
    """
    effective = mesh.derive(_with_effective_default, minor, merge) if merge else mesh
    for text in texts:
        effective = _APPLIED.get((text, effective, minor, merge), _apply_proxy_config)
    return effective


def _with_effective_default(mesh: Message, minor: Minor, merge: str) -> Message:
    own = mesh.values["defaultConfig"]
    proxy = _with_precedence(default_proxy_config(minor), own, minor, merge)
    return mesh if proxy == own else Message(mesh.kind, frozen({**mesh.values, "defaultConfig": proxy}))


def _apply_proxy_config(key: tuple[str, Message, Minor, str]) -> Message:
    text, mesh, minor, merge = key
    where = "metadata.annotations[proxy.istio.io/config]"
    base = mesh.values["defaultConfig"]
    try:
        data = load_yaml(text, where=where, most=MOST_VALUES)
        data = {} if data is None else data
        if merge:
            overlay = parse_message(proxy_config_type(minor), data, where=where)
            proxy = _with_precedence(base, overlay.values, minor, merge)
        else:
            proxy = _merge_proxy_config(base, data, minor, where)
    except DataError as error:
        raise AnnotationError(f"could not parse proxy config: {error.what}", where=where, hint=error.hint) from error
    return Message(mesh.kind, frozen({**mesh.values, "defaultConfig": proxy}))


def _with_precedence(base: Mapping[str, Any], overlay: Mapping[str, Any], minor: Minor, merge: str) -> dict[str, Any]:
    """Return one ProxyConfig on top of another: numbers, texts and enums that are zero, and empty lists, override nothing."""
    kind = message_type(proxy_config_type(minor))
    if merge == _JSON:
        return _merge_proxy_config(base, Message(kind, overlay).json_value(), minor, "")
    merged = _merge_message(kind.name, base, overlay, durations=merge == _GOGO)
    return {**merged, **{name: overlay[name] for name in ("concurrency", "image") if name in overlay}}


def _merge_message(
    type_name: str, base: Mapping[str, Any], overlay: Mapping[str, Any], *, durations: bool
) -> dict[str, Any]:
    """Merge two messages as ``proto.Merge`` does: messages and maps field by field, lists one after the other.

    A duration is replaced, or with ``durations`` merged as a message: its seconds and its nanoseconds each override if they are not zero.
    """
    kind = message_type(type_name)
    merged = dict(base)
    for name, value in overlay.items():
        field, old = kind.by_json[name], base.get(name)
        if field.oneof and old is None:
            merged = {key: member for key, member in merged.items() if kind.by_json[key].oneof != field.oneof}
        if field.map_key:
            merged[name] = {**(old or {}), **value}
        elif field.repeated:
            merged[name] = [*(old or ()), *value]
        elif field.type == DURATION:
            merged[name] = _merge_duration(old or 0, value) if durations else value
        elif field.kind == "message" and field.type not in WRAPPERS:
            merged[name] = _merge_message(field.type, old or {}, value, durations=durations)
        elif field.oneof or (value or old is None if field.type in WRAPPERS else not field.codec.is_zero(value)):
            merged[name] = value
    return merged


def _merge_duration(old: int, new: int) -> int:
    old_seconds, old_nanos = divmod(old, SECOND)
    seconds, nanos = divmod(new, SECOND)
    return (seconds or old_seconds) * SECOND + (nanos or old_nanos)


def proto_to_json(message: Message, minor: Minor) -> str:
    """Return a message as the template function protoToJSON does: a ProxyConfig without the minor's defaults."""
    if message.kind is not message_type(proxy_config_type(minor)) or minor < _DEFAULTS_LEFT_OUT:
        return message.go_string()
    defaults = default_proxy_config(minor)
    fields = message.kind.by_json
    values = {
        name: value
        for name, value in message.values.items()
        if name not in defaults or fields[name].write(value) != fields[name].write(defaults[name])
    }
    if minor >= _EMPTY_METADATA_LEFT_OUT and not values.get("proxyMetadata"):
        values.pop("proxyMetadata", None)
    return Message(message.kind, values).go_string()


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
# fmt: off
_RETRY_ON: Final = frozenset({
    "5xx", "gateway-error", "reset", "reset-before-request", "connect-failure", "retriable-4xx", "refused-stream",
    "retriable-status-codes", "retriable-headers", "envoy-ratelimited", "http3-post-connect-failure", "cancelled",
    "deadline-exceeded", "internal", "resource-exhausted", "unavailable",
})
# fmt: on
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
