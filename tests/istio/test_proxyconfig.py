"""What ``validateProxyConfig`` (pkg/kube/inject/validate.go) and ``ValidateMeshConfigProxyConfig`` (pkg/config/validation/agent) refuse."""

from __future__ import annotations

import pytest

from injector.istio.proxyconfig import validate_proxy_config

NEWEST = (1, 30)


def _one(fault: str) -> str:
    return f"1 error occurred:\n\t* {fault}\n\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        "unknown: 1",
        "statusPort: 1",
        "statusPort: 65535",
        "concurrency: 0",
        "drainDuration: 1s",
        "discoveryAddress: istiod.istio-system.svc:15012",
        "discoveryAddress: '[::1]:15012'",
        "discoveryAddress: 10.0.0.1:1",
        "tracing: {zipkin: {address: '$(HOST_IP):9411'}}",
        "tracing: {datadog: {address: '$(HOST_IP):8126'}}",
        "tracing: {lightstep: {address: 'a:1', accessToken: t}}",
        "tracing: {stackdriver: {}}",
        "envoyMetricsService: {}",
        "tracingServiceName: APP_LABEL_AND_NAMESPACE",
        "controlPlaneAuthPolicy: NONE",
        "privateKeyProvider: {cryptomb: {pollDelay: 10ms}}",
        "privateKeyProvider: {qat: {pollDelay: 1ns}}",
    ],
)
def test_istio_takes(text: str) -> None:
    assert validate_proxy_config(text, NEWEST) == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("configPath: ''", "config path must be set"),
        ("binaryPath: ''", "binary path must be set"),
        ("serviceCluster: ''", "service cluster must be specified"),
        ("drainDuration: 0s", "invalid drain duration: duration must be greater than 1ms"),
        ("drainDuration: -1s", "invalid drain duration: duration must be greater than 1ms"),
        ("drainDuration: 1.0005s", "invalid drain duration: only durations to ms precision are supported"),
        ("drainDuration: 1500ms", "drain time only supports durations to seconds precision"),
        ("discoveryAddress: ''", "discovery address must be set to the proxy discovery service"),
        (
            "discoveryAddress: a",
            'invalid discovery address: unable to split "a": address a: missing port in address',
        ),
        (
            "discoveryAddress: 'a:0'",
            "invalid discovery address: port number 0 must be in the range 1..65535",
        ),
        (
            "discoveryAddress: 'a_b:1'",
            'invalid discovery address: "a_b" is not a valid hostname or an IP address',
        ),
        (
            "tracing: {zipkin: {address: a}}",
            'invalid zipkin config: unable to split "a": address a: missing port in address',
        ),
        (
            "tracing: {datadog: {address: '$(HOST_IP)$(HOST_IP):1'}}",
            'invalid datadog config: "127.0.0.1$(HOST_IP)" is not a valid hostname or an IP address',
        ),
        (
            "tracing: {lightstep: {address: 'a:1'}}",
            "invalid lightstep config: access token is required",
        ),
        (
            "statsdUdpAddress: 'a:70000'",
            'invalid statsd udp address "a:70000": port number 70000 must be in the range 1..65535',
        ),
        (
            "envoyMetricsServiceAddress: 'a:0'",
            'invalid envoy metrics service address "a:0": port number 0 must be in the range 1..65535',
        ),
        (
            "envoyMetricsService: {address: 'a:0'}",
            'invalid envoy metrics service address "a:0": port number 0 must be in the range 1..65535',
        ),
        (
            "envoyAccessLogService: {address: 'a:0'}",
            'invalid envoy access log service address "a:0": port number 0 must be in the range 1..65535',
        ),
        ("proxyAdminPort: 0", "invalid proxy admin port: port number 0 must be in the range 1..65535"),
        ("statusPort: -1", "invalid status port: port number -1 must be in the range 1..65535"),
        ("statusPort: 65536", "invalid status port: port number 65536 must be in the range 1..65535"),
        (
            "controlPlaneAuthPolicy: 7",
            'invalid authentication policy: unrecognized control plane auth policy "7"',
        ),
        (
            "privateKeyProvider: {cryptomb: {}}",
            "invalid private key provider configuration: pollDelay is required",
        ),
        (
            "privateKeyProvider: {qat: {pollDelay: 0s}}",
            "invalid private key provider configuration: pollDelay must be non zero",
        ),
    ],
)
def test_istio_refuses(text: str, fault: str) -> None:
    assert validate_proxy_config(text, NEWEST) == _one(fault)


def test_every_fault_is_named() -> None:
    assert validate_proxy_config("{configPath: '', statusPort: 0}", NEWEST) == (
        "2 errors occurred:\n\t* config path must be set\n"
        "\t* invalid status port: port number 0 must be in the range 1..65535\n\n"
    )


def test_lightstep_without_anything_has_three_faults() -> None:
    faults = validate_proxy_config("tracing: {lightstep: {}}", NEWEST)
    assert faults.startswith("3 errors occurred:\n\t* invalid lightstep config: address is required\n")


@pytest.mark.parametrize(
    ("text", "why"), [("statusPort: x", "`statusPort` is 'x'"), ("[]", "`` is a list"), ("a", "`` is 'a'")]
)
def test_what_is_no_proxy_config_is_said(text: str, why: str) -> None:
    assert validate_proxy_config(text, NEWEST) == f"failed to convert to apply proxy config: {why}"


def test_broken_yaml_is_said() -> None:
    assert validate_proxy_config("{", NEWEST).startswith("failed to convert to apply proxy config: ")
