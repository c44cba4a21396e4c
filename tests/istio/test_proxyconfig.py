"""What ``validateProxyConfig`` (pkg/kube/inject/validate.go) and ``ValidateMeshConfigProxyConfig`` (pkg/config/validation/agent) refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.istio.proxyconfig import port_fault, proxy_address_fault, validate_proxy_config

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor

NEWEST: Minor = (1, 30)


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
        "privateKeyProvider: null",
        "statusPort: ' 80 '",
        "drainDuration: 2h",
        "tracing: {tlsSettings: {}}",
        "tracing: {tlsSettings: {mode: ISTIO_MUTUAL, credentialName: c, caCrl: r}}",
        "tracing: {tlsSettings: {mode: MUTUAL, credentialName: c}}",
        "tracing: {tlsSettings: {mode: MUTUAL, clientCertificate: c, privateKey: k}}",
        "tracing: {tlsSettings: {mode: SIMPLE, insecureSkipVerify: true}}",
        "tracing: {tlsSettings: {mode: MUTUAL, insecureSkipVerify: true, credentialName: c}}",
    ],
)
def test_a_valid_proxy_config_is_accepted(text: str) -> None:
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
def test_a_fault_of_a_proxy_config_has_istios_words(text: str, fault: str) -> None:
    assert validate_proxy_config(text, NEWEST) == _one(fault)


def test_every_fault_is_named() -> None:
    assert validate_proxy_config("{configPath: '', statusPort: 0}", NEWEST) == (
        "2 errors occurred:\n\t* config path must be set\n"
        "\t* invalid status port: port number 0 must be in the range 1..65535\n\n"
    )


TLS = "invalid tracing TLS config:"
MAP = f"{TLS} invalid configmap:// credentialName:"
KEYS = "invalid private key provider configuration:"
WRONG_KEYS = "invalid private key provider confguration:"
SHUTDOWN = "invalid parent and drain time combination"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (
            "privateKeyProvider: {}",
            [f"{KEYS} private key provider configuration is required", f"{KEYS} unknown private key provider"],
        ),
        (
            "privateKeyProvider: {qat: null}",
            [f"{KEYS} private key provider configuration is required", f"{KEYS} unknown private key provider"],
        ),
        (
            "tracing: {tlsSettings: {mode: MUTUAL}}",
            [f"{TLS} client certificate required for mutual tls", f"{TLS} private key required for mutual tls"],
        ),
        (
            "tracing: {tlsSettings: {mode: SIMPLE, credentialName: c, caCrl: r}}",
            [f"{TLS} cannot specify client certificates or CA certificate or CA CRL If credentialName is set"],
        ),
        (
            "tracing: {tlsSettings: {mode: SIMPLE, insecureSkipVerify: true, credentialName: c}}",
            [
                f"{TLS} cannot specify CaCertificates or CredentialName or SubjectAltNames when InsecureSkipVerify is set true"
            ],
        ),
        (
            "tracing: {tlsSettings: {mode: MUTUAL, insecureSkipVerify: true, subjectAltNames: [a], credentialName: c}}",
            [f"{TLS} cannot specify CaCertificates or SubjectAltNames when InsecureSkipVerify is set true"],
        ),
        (
            "tracing: {tlsSettings: {credentialName: 'configmap://a'}}",
            [f'{MAP} invalid resource name "configmap://a". Expected namespace and name'],
        ),
        (
            "tracing: {tlsSettings: {credentialName: 'configmap:///a'}}",
            [f'{MAP} invalid resource name "configmap:///a". Expected namespace'],
        ),
        (
            "tracing: {tlsSettings: {credentialName: 'configmap://a/'}}",
            [f'{MAP} invalid resource name "configmap://a/". Expected name'],
        ),
        (
            "tracing: {tlsSettings: {credentialName: 'configmap://a/b'}}",
            [f'{MAP} namespace must match the configuration namespace ""'],
        ),
    ],
)
def test_each_fault_of_keys_and_tls_is_named(text: str, faults: list[str]) -> None:
    head = "1 error occurred" if len(faults) == 1 else f"{len(faults)} errors occurred"
    assert validate_proxy_config(text, NEWEST) == f"{head}:\n\t* " + "\n\t* ".join(faults) + "\n\n"


@pytest.mark.parametrize(
    ("text", "without", "having", "fault"),
    [
        ("statusPort: 0", (1, 10), (1, 11), "invalid status port: port number 0 must be in the range 1..65535"),
        ("controlPlaneAuthPolicy: 7", None, (1, 10), 'unrecognized control plane auth policy "7"'),
        ("serviceCluster: ''", None, (1, 12), "service cluster must be set"),
        ("privateKeyProvider: {cryptomb: {}}", (1, 13), (1, 14), f"{WRONG_KEYS} pollDelay is required"),
        ("privateKeyProvider: {qat: {}}", None, (1, 20), f"{WRONG_KEYS} pollDelay is required"),
        (
            "discoveryAddress: '[fe80::1%e]:80'",
            (1, 16),
            (1, 15),
            'invalid discovery address: "fe80::1%e" is not a valid hostname or an IP address',
        ),
        (
            "tracing: {zipkin: {address: '$(HOST_IP):1'}}",
            (1, 8),
            (1, 7),
            'invalid zipkin config: "$(HOST_IP)" is not a valid hostname or an IP address',
        ),
        (
            "tracing: {tlsSettings: {mode: SIMPLE, credentialName: c, caCertificates: a}}",
            (1, 6),
            (1, 7),
            f"{TLS} cannot specify client certificates or CA certificate If credentialName is set",
        ),
        (
            "tracing: {tlsSettings: {mode: SIMPLE, insecureSkipVerify: true, caCertificates: c}}",
            (1, 18),
            (1, 19),
            f"{TLS} cannot specify CaCertificates or CredentialName or SubjectAltNames when InsecureSkipVerify is set true",
        ),
        (
            "tracing: {tlsSettings: {credentialName: 'configmap://a/b'}}",
            (1, 25),
            (1, 26),
            f'{MAP} namespace must match the configuration namespace ""',
        ),
        ("drainDuration: 2h", (1, 22), (1, 21), "drain time 2h0m0s must be <1h0m0s"),
        (
            "drainDuration: 90s",
            (1, 17),
            (1, 16),
            f"{SHUTDOWN} parent shutdown time 1m0s must be greater than drain time 1m30s",
        ),
        (
            "parentShutdownDuration: 0s",
            (1, 17),
            (1, 16),
            f"{SHUTDOWN} invalid parent shutdown duration: duration must be greater than 1ms",
        ),
        (
            "parentShutdownDuration: 60500ms",
            (1, 17),
            (1, 16),
            f"{SHUTDOWN} parent shutdown time only supports durations to seconds precision",
        ),
        ("parentShutdownDuration: 2h", (1, 17), (1, 6), f"{SHUTDOWN} parent shutdown time 2h0m0s must be <1h0m0s"),
    ],
)
def test_a_minor_refuses_what_its_validation_refuses(
    text: str, without: Minor | None, having: Minor, fault: str
) -> None:
    assert validate_proxy_config(text, having) == _one(fault)
    assert without is None or validate_proxy_config(text, without) == ""


def test_qat_is_unknown_before_1_17() -> None:
    assert validate_proxy_config("privateKeyProvider: {qat: {pollDelay: 1s}}", (1, 16)) == (
        f"2 errors occurred:\n\t* {WRONG_KEYS} private key provider confguration is required\n"
        f"\t* {WRONG_KEYS} unknown private key provider\n\n"
    )


def test_an_empty_lightstep_config_has_three_faults() -> None:
    faults = validate_proxy_config("tracing: {lightstep: {}}", NEWEST)
    assert faults.startswith("3 errors occurred:\n\t* invalid lightstep config: address is required\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("statusPort: '--5'", "`statusPort` is '--5'"),
        (f"statusPort: {'9' * 5000}", f"`statusPort` is '{'9' * 99}..."),
        ("statusPort: x", "`statusPort` is 'x'"),
        ("[]", "`` is a list"),
        ("a", "`` is 'a'"),
    ],
)
def test_a_value_that_is_not_a_proxy_config_is_refused(text: str, why: str) -> None:
    assert validate_proxy_config(text, NEWEST) == f"failed to convert to apply proxy config: {why}"


def test_invalid_yaml_is_refused() -> None:
    assert validate_proxy_config("{", NEWEST).startswith("failed to convert to apply proxy config: ")


@pytest.mark.parametrize(
    "text",
    [
        "istiod.istio-system.svc:15012",
        "istiod.istio-system.svc.:15012",
        "zipkin:1",
        "zipkin:65535",
        "1.2.3.4:80",
        "[::1]:80",
        "[fe80::1%eth0]:80",
        "zipkin:+80",
        f"a.{'9' * 20}:80",
        f"{'a' * 63}:80",
        f"{'a.' * 127}a:80",
    ],
)
def test_a_name_or_an_address_with_a_port_is_a_proxy_address(text: str) -> None:
    assert proxy_address_fault(text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("zipkin", 'unable to split "zipkin": address zipkin: missing port in address'),
        ("", 'unable to split "": missing port in address'),
        ("[::1]", 'unable to split "[::1]": address [::1]: missing port in address'),
        ("[::1]a:80", 'unable to split "[::1]a:80": address [::1]a:80: missing port in address'),
        ("[::1]:80:90", 'unable to split "[::1]:80:90": address [::1]:80:90: too many colons in address'),
        ("[::1:80", "unable to split \"[::1:80\": address [::1:80: missing ']' in address"),
        ("a[b:80", "unable to split \"a[b:80\": address a[b:80: unexpected '[' in address"),
        ("[[a]:80", "unable to split \"[[a]:80\": address [[a]:80: unexpected '[' in address"),
        ("a]b:80", "unable to split \"a]b:80\": address a]b:80: unexpected ']' in address"),
        ('a"b', 'unable to split "a\\"b": address a"b: missing port in address'),
        ("a:-1", "port number -1 must be in the range 1..65535"),
        (f"a:{'9' * 20}", f'port ({"9" * 20}) is not a number: strconv.Atoi: parsing "{"9" * 20}": value out of range'),
        ("a.5:80", '"a.5" is not a valid hostname or an IP address'),
        ("[fe80::1%]:80", '"fe80::1%" is not a valid hostname or an IP address'),
        ("::1:80", 'unable to split "::1:80": address ::1:80: too many colons in address'),
        ("a:b:80", 'unable to split "a:b:80": address a:b:80: too many colons in address'),
        ("zipkin:", 'port () is not a number: strconv.Atoi: parsing "": invalid syntax'),
        ("zipkin:http", 'port (http) is not a number: strconv.Atoi: parsing "http": invalid syntax'),
        ("zipkin:0", "port number 0 must be in the range 1..65535"),
        ("zipkin:65536", "port number 65536 must be in the range 1..65535"),
        (":80", '"" is not a valid hostname or an IP address'),
        ("foo_bar:80", '"foo_bar" is not a valid hostname or an IP address'),
        ("foo..bar:80", '"foo..bar" is not a valid hostname or an IP address'),
        ("-foo:80", '"-foo" is not a valid hostname or an IP address'),
        ("*.foo:80", '"*.foo" is not a valid hostname or an IP address'),
        (f"{'a' * 64}:80", f'"{"a" * 64}" is not a valid hostname or an IP address'),
        (f"{'a.' * 127}aa:80", f'"{"a." * 127}aa" is not a valid hostname or an IP address'),
    ],
)
def test_an_invalid_proxy_address_has_istios_error(text: str, why: str) -> None:
    assert proxy_address_fault(text) == why


@pytest.mark.parametrize("port", [1, 15020, 65535])
def test_a_port_is_between_1_and_65535(port: int) -> None:
    assert port_fault(port) == ""


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_other_numbers_are_not_ports(port: int) -> None:
    assert port_fault(port) == f"port number {port} must be in the range 1..65535"


def test_an_address_with_a_zone_is_refused_if_zones_are_not_allowed() -> None:
    why = '"fe80::1%eth0" is not a valid hostname or an IP address'
    assert proxy_address_fault("[fe80::1%eth0]:80", zones=False) == why
    assert proxy_address_fault("[fe80::1]:80", zones=False) == ""
