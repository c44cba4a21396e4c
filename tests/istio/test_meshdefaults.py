"""What ``DefaultProxyConfig`` and ``DefaultMeshConfig`` hold (pkg/config/mesh/mesh.go; pilot/pkg/model/context.go before 1.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.istio.mesh import MESH_DEFAULTS, PROXY_DEFAULTS, default_mesh_config, default_proxy_config
from injector.istio.proto import MESH_CONFIG, PROXY_CONFIG, message_type

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor

MINORS = [(1, number) for number in range(31)]
SECOND = 1_000_000_000
ZIPKIN = {"zipkin": {"address": "zipkin.istio-system:9411"}}


@pytest.mark.parametrize(
    ("minor", "expected"),
    [
        (
            (1, 0),
            {
                "configPath": "/etc/istio/proxy",
                "binaryPath": "/usr/local/bin/envoy",
                "serviceCluster": "istio-proxy",
                "drainDuration": 2 * SECOND,
                "parentShutdownDuration": 3 * SECOND,
                "discoveryAddress": "istio-pilot:15007",
                "discoveryRefreshDelay": SECOND,
                "connectTimeout": SECOND,
                "proxyAdminPort": 15000,
            },
        ),
        (
            (1, 5),
            {
                "configPath": "/etc/istio/proxy",
                "binaryPath": "/usr/local/bin/envoy",
                "serviceCluster": "istio-proxy",
                "drainDuration": 45 * SECOND,
                "parentShutdownDuration": 60 * SECOND,
                "discoveryAddress": "istio-pilot:15010",
                "connectTimeout": SECOND,
                "envoyMetricsService": {},
                "envoyAccessLogService": {},
                "proxyAdminPort": 15000,
                "statNameLength": 189,
            },
        ),
        (
            (1, 17),
            {
                "configPath": "./etc/istio/proxy",
                "binaryPath": "/usr/local/bin/envoy",
                "serviceCluster": "istio-proxy",
                "drainDuration": 45 * SECOND,
                "terminationDrainDuration": 5 * SECOND,
                "discoveryAddress": "istiod.istio-system.svc:15012",
                "proxyAdminPort": 15000,
                "controlPlaneAuthPolicy": 1,
                "concurrency": 2,
                "statNameLength": 189,
                "statusPort": 15020,
                "tracing": ZIPKIN,
            },
        ),
        (
            (1, 30),
            {
                "configPath": "./etc/istio/proxy",
                "binaryPath": "/usr/local/bin/envoy",
                "serviceCluster": "istio-proxy",
                "drainDuration": 45 * SECOND,
                "terminationDrainDuration": 5 * SECOND,
                "discoveryAddress": "istiod.istio-system.svc:15012",
                "proxyAdminPort": 15000,
                "controlPlaneAuthPolicy": 1,
                "statNameLength": 189,
                "statusPort": 15020,
            },
        ),
    ],
)
def test_the_proxy_config_of_a_minor_is_istios(minor: Minor, expected: dict[str, Any]) -> None:
    assert default_proxy_config(minor) == expected


def test_the_mesh_config_of_1_0_is_istios() -> None:
    assert default_mesh_config((1, 0)) == {
        "proxyListenPort": 15001,
        "connectTimeout": SECOND,
        "ingressClass": "istio",
        "ingressControllerMode": 3,
        "rdsRefreshDelay": SECOND,
        "enableTracing": True,
        "accessLogFile": "/dev/stdout",
        "defaultConfig": default_proxy_config((1, 0)),
        "sdsRefreshDelay": 15 * SECOND,
    }


def test_the_mesh_config_of_1_30_is_istios() -> None:
    assert default_mesh_config((1, 30)) == {
        "enableTracing": True,
        "protocolDetectionTimeout": 0,
        "ingressService": "istio-ingressgateway",
        "ingressControllerMode": 3,
        "ingressClass": "istio",
        "trustDomain": "cluster.local",
        "enableAutoMtls": True,
        "outboundTrafficPolicy": {"mode": 1},
        "inboundTrafficPolicy": {"mode": 0},
        "localityLbSetting": {"enabled": True},
        "defaultConfig": default_proxy_config((1, 30)),
        "rootNamespace": "istio-system",
        "proxyListenPort": 15001,
        "proxyInboundListenPort": 15006,
        "connectTimeout": 10 * SECOND,
        "defaultServiceExportTo": ["*"],
        "defaultVirtualServiceExportTo": ["*"],
        "defaultDestinationRuleExportTo": ["*"],
        "dnsRefreshRate": 60 * SECOND,
        "enablePrometheusMerge": True,
        "defaultProviders": {},
        "extensionProviders": [
            {"name": "prometheus", "prometheus": {}},
            {"name": "stackdriver", "stackdriver": {}},
            {"name": "envoy", "envoyFileAccessLog": {"path": "/dev/stdout"}},
        ],
    }


@pytest.mark.parametrize(
    ("field", "last_before", "before", "after"),
    [
        ("disablePolicyChecks", (1, 7), True, None),
        ("protocolDetectionTimeout", (1, 5), SECOND // 10, 5 * SECOND),
        ("protocolDetectionTimeout", (1, 7), 5 * SECOND, 0),
        ("dnsRefreshRate", (1, 13), 5 * SECOND, 60 * SECOND),
        ("defaultProviders", (1, 10), None, {"accessLogging": ["envoy"]}),
        ("defaultProviders", (1, 11), {"accessLogging": ["envoy"]}, {}),
    ],
)
def test_a_default_changes_with_its_minor(field: str, last_before: Minor, before: Any, after: Any) -> None:
    assert default_mesh_config(last_before).get(field) == before
    assert default_mesh_config((1, last_before[1] + 1)).get(field) == after


@pytest.mark.parametrize("field", ["envoyMetricsService", "envoyAccessLogService"])
def test_the_services_of_envoy_are_there_from_1_3_to_1_8(field: str) -> None:
    assert [minor for minor in MINORS if field in default_proxy_config(minor)] == MINORS[3:9]


def test_the_one_provider_of_1_11_is_the_access_log() -> None:
    assert [provider["name"] for provider in default_mesh_config((1, 11))["extensionProviders"]] == ["envoy"]


@pytest.mark.parametrize(
    ("field", "last_with"), [("tracing", (1, 21)), ("concurrency", (1, 17)), ("parentShutdownDuration", (1, 16))]
)
def test_a_default_ends_with_its_last_minor(field: str, last_with: Minor) -> None:
    assert field in default_proxy_config(last_with)
    assert field not in default_proxy_config((1, last_with[1] + 1))


@pytest.mark.parametrize("minor", MINORS)
def test_no_minor_has_two_defaults_of_one_field(minor: Minor) -> None:
    for table in (PROXY_DEFAULTS, MESH_DEFAULTS):
        names = [row.name for row in table if row.first <= minor <= row.last]
        assert sorted(names) == sorted(set(names))


def test_every_default_is_a_field_of_its_message() -> None:
    assert {row.name for row in PROXY_DEFAULTS} <= set(message_type(PROXY_CONFIG).by_json)
    assert {row.name for row in MESH_DEFAULTS} <= set(message_type(MESH_CONFIG).by_json)
