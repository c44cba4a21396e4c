"""The mesh config that each Istio minor starts from: one table of fields, each with the minors that set it.

Read in ``DefaultProxyConfig`` and ``DefaultMeshConfig`` at the last tag of each minor (pkg/config/mesh/mesh.go; pilot/pkg/model/context.go
before 1.4). Values are in the plain form of ``proto.Message``: durations in nanoseconds, enums as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from injector.istio.minor import NEWEST, OLDEST, Minor

_SECOND: Final = 1_000_000_000
_ZIPKIN: Final = {"zipkin": {"address": "zipkin.istio-system:9411"}}
_ANYWHERE: Final = ["*"]
_PROVIDERS: Final = [
    {"name": "prometheus", "prometheus": {}},
    {"name": "stackdriver", "stackdriver": {}},
    {"name": "envoy", "envoyFileAccessLog": {"path": "/dev/stdout"}},
]


@dataclass(frozen=True, slots=True)
class Default:
    """A field's default from the minor ``first`` to the minor ``last``."""

    field: str
    value: Any
    first: Minor = OLDEST
    last: Minor = NEWEST


PROXY_DEFAULTS: Final[tuple[Default, ...]] = (
    Default("configPath", "/etc/istio/proxy", last=(1, 5)),
    Default("configPath", "./etc/istio/proxy", first=(1, 6)),
    Default("binaryPath", "/usr/local/bin/envoy"),
    Default("serviceCluster", "istio-proxy"),
    Default("drainDuration", 2 * _SECOND, last=(1, 0)),
    Default("drainDuration", 45 * _SECOND, first=(1, 1)),
    Default("parentShutdownDuration", 3 * _SECOND, last=(1, 0)),
    Default("parentShutdownDuration", 60 * _SECOND, first=(1, 1), last=(1, 16)),
    Default("terminationDrainDuration", 5 * _SECOND, first=(1, 7)),
    Default("discoveryAddress", "istio-pilot:15007", last=(1, 0)),
    Default("discoveryAddress", "istio-pilot:15010", first=(1, 1), last=(1, 5)),
    Default("discoveryAddress", "istiod.istio-system.svc:15012", first=(1, 6)),
    Default("discoveryRefreshDelay", 1 * _SECOND, last=(1, 0)),
    Default("connectTimeout", 1 * _SECOND, last=(1, 5)),
    Default("envoyMetricsService", {}, first=(1, 3), last=(1, 8)),
    Default("envoyAccessLogService", {}, first=(1, 3), last=(1, 8)),
    Default("proxyAdminPort", 15000),
    Default("controlPlaneAuthPolicy", 1, first=(1, 7)),
    Default("concurrency", 2, first=(1, 6), last=(1, 17)),
    Default("statNameLength", 189, first=(1, 1)),
    Default("statusPort", 15020, first=(1, 6)),
    Default("tracing", _ZIPKIN, first=(1, 6), last=(1, 21)),
)

MESH_DEFAULTS: Final[tuple[Default, ...]] = (
    Default("disablePolicyChecks", value=True, first=(1, 1), last=(1, 7)),
    Default("ingressClass", "istio", last=(1, 0)),
    Default("ingressClass", "istio", first=(1, 6)),
    Default("ingressControllerMode", 3, last=(1, 0)),
    Default("ingressControllerMode", 3, first=(1, 6)),
    Default("ingressService", "istio-ingressgateway", first=(1, 1)),
    Default("rdsRefreshDelay", 1 * _SECOND, last=(1, 0)),
    Default("sdsRefreshDelay", 15 * _SECOND, last=(1, 0)),
    Default("sdsUdsPath", "unix:./etc/istio/proxy/SDS", first=(1, 6), last=(1, 7)),
    Default("enableTracing", value=True),
    Default("accessLogFile", "/dev/stdout", last=(1, 5)),
    Default("protocolDetectionTimeout", 100_000_000, first=(1, 3), last=(1, 5)),
    Default("protocolDetectionTimeout", 5 * _SECOND, first=(1, 6), last=(1, 7)),
    Default("protocolDetectionTimeout", 0, first=(1, 8)),
    Default("trustDomain", "cluster.local", first=(1, 6)),
    Default("enableAutoMtls", value=False, first=(1, 4), last=(1, 5)),
    Default("enableAutoMtls", value=True, first=(1, 6)),
    Default("outboundTrafficPolicy", {"mode": 1}, first=(1, 1)),
    Default("inboundTrafficPolicy", {"mode": 0}, first=(1, 22)),
    Default("localityLbSetting", {"enabled": True}, first=(1, 6)),
    Default("rootNamespace", "istio-system", first=(1, 1)),
    Default("proxyListenPort", 15001),
    Default("proxyInboundListenPort", 15006, first=(1, 18)),
    Default("connectTimeout", 1 * _SECOND, last=(1, 5)),
    Default("connectTimeout", 10 * _SECOND, first=(1, 6)),
    Default("defaultServiceExportTo", _ANYWHERE, first=(1, 1)),
    Default("defaultVirtualServiceExportTo", _ANYWHERE, first=(1, 1)),
    Default("defaultDestinationRuleExportTo", _ANYWHERE, first=(1, 1)),
    Default("dnsRefreshRate", 5 * _SECOND, first=(1, 1), last=(1, 13)),
    Default("dnsRefreshRate", 60 * _SECOND, first=(1, 14)),
    Default("enablePrometheusMerge", value=True, first=(1, 18)),
    Default("defaultProviders", {"accessLogging": ["envoy"]}, first=(1, 11), last=(1, 11)),
    Default("defaultProviders", {}, first=(1, 12)),
    Default("extensionProviders", _PROVIDERS[2:], first=(1, 11), last=(1, 11)),
    Default("extensionProviders", _PROVIDERS, first=(1, 12)),
)


def default_proxy_config(minor: Minor) -> dict[str, Any]:
    """Return the ProxyConfig that ``minor`` starts from, in plain form."""
    return {row.field: row.value for row in PROXY_DEFAULTS if row.first <= minor <= row.last}


def default_mesh_config(minor: Minor) -> dict[str, Any]:
    """Return the MeshConfig that ``minor`` starts from, in plain form, its ``defaultConfig`` included."""
    fields = {row.field: row.value for row in MESH_DEFAULTS if row.first <= minor <= row.last}
    return {**fields, "defaultConfig": default_proxy_config(minor)}
