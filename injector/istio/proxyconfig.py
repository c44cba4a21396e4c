"""Which ProxyConfigs Istio refuses in the annotation ``proxy.istio.io/config``.

Follows ``validateProxyConfig`` in pkg/kube/inject/validate.go and ``ValidateMeshConfigProxyConfig`` in pkg/config/validation/agent
(1.30.3): the annotation is read on top of the defaults, not of the mesh's, and every fault is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError
from injector.istio.addresses import port_fault, proxy_address_fault
from injector.istio.meshdefaults import default_proxy_config
from injector.istio.proto import parse_message
from injector.istio.protoschema import proxy_config_type
from injector.kube.serial import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from injector.istio.minor import Minor

_MILLISECOND: Final = 1_000_000
_SECOND: Final = 1_000_000_000
_TRACERS: Final = ("lightstep", "zipkin", "datadog")


def validate_proxy_config(text: str, minor: Minor) -> str:
    """Return why Istio's ``minor`` refuses a ProxyConfig, empty where it takes it."""
    try:
        data = load_yaml(text)
        kind = proxy_config_type(minor)
        config = parse_message(kind, {} if data is None else data, base=default_proxy_config(minor)).values
    except DataError as error:
        return f"failed to convert to apply proxy config: {error.what}"
    faults = [fault for fault in _faults(config) if fault]
    if not faults:
        return ""
    head = "1 error occurred" if len(faults) == 1 else f"{len(faults)} errors occurred"
    return f"{head}:\n\t* " + "\n\t* ".join(faults) + "\n\n"


def _faults(config: Mapping[str, Any]) -> Iterator[str]:
    if not config.get("configPath"):
        yield "config path must be set"
    if not config.get("binaryPath"):
        yield "binary path must be set"
    if "tracingServiceName" not in config and not config.get("serviceCluster"):
        yield "service cluster must be specified"
    yield _drain_duration_fault(config.get("drainDuration"))
    address = config.get("discoveryAddress")
    if address:
        yield _prefixed("invalid discovery address:", proxy_address_fault(address))
    else:
        yield "discovery address must be set to the proxy discovery service"
    yield from _tracing_faults(config.get("tracing") or {})
    for field, label in (("statsdUdpAddress", "statsd udp"), ("envoyMetricsServiceAddress", "envoy metrics service")):
        value = config.get(field)
        if value:
            yield _prefixed(f'invalid {label} address "{value}":', proxy_address_fault(value))
    for field, label in (
        ("envoyMetricsService", "envoy metrics service"),
        ("envoyAccessLogService", "envoy access log service"),
    ):
        value = (config.get(field) or {}).get("address")
        if value:
            yield _prefixed(f'invalid {label} address "{value}":', proxy_address_fault(value))
    yield _prefixed("invalid proxy admin port:", port_fault(config.get("proxyAdminPort", 0)))
    if config.get("controlPlaneAuthPolicy", 0) not in (0, 1):
        yield f'invalid authentication policy: unrecognized control plane auth policy "{config["controlPlaneAuthPolicy"]}"'
    yield _prefixed("invalid status port:", port_fault(config.get("statusPort", 0)))
    if "privateKeyProvider" in config:
        yield _prefixed(
            "invalid private key provider configuration:", _key_provider_fault(config["privateKeyProvider"])
        )


def _prefixed(prefix: str, fault: str) -> str:
    return f"{prefix} {fault}" if fault else ""


def _drain_duration_fault(nanoseconds: int | None) -> str:
    if nanoseconds is None or nanoseconds < _MILLISECOND:
        return "invalid drain duration: duration must be greater than 1ms"
    if nanoseconds % _MILLISECOND:
        return "invalid drain duration: only durations to ms precision are supported"
    return "drain time only supports durations to seconds precision" if nanoseconds % _SECOND else ""


def _tracing_faults(tracing: Mapping[str, Any]) -> Iterator[str]:
    for name in _TRACERS:
        tracer = tracing.get(name)
        if tracer is None:
            continue
        address = tracer.get("address", "")
        if name == "lightstep":
            yield "" if address else "invalid lightstep config: address is required"
            yield _prefixed("invalid lightstep config: invalid lightstep address:", proxy_address_fault(address))
            yield "" if tracer.get("accessToken") else "invalid lightstep config: access token is required"
            continue
        # The agent replaces $(HOST_IP) before it connects; Istio checks the address without it.
        yield _prefixed(f"invalid {name} config:", proxy_address_fault(address.replace("$(HOST_IP)", "127.0.0.1", 1)))


def _key_provider_fault(provider: Mapping[str, Any]) -> str:
    for name in ("cryptomb", "qat"):
        if name in provider:
            delay = (provider[name] or {}).get("pollDelay")
            if delay is None:
                return "pollDelay is required"
            return "" if delay else "pollDelay must be non zero"
    return "private key provider configuration is required"
