"""ProxyConfigs: the annotation ``proxy.istio.io/config`` and its validation, and ProxyConfig resources.

The validation follows ``validateProxyConfig`` in pkg/kube/inject/validate.go and ``ValidateMeshConfigProxyConfig`` in
pkg/config/validation/agent at the last tag of each minor (``ValidateProxyConfig`` in pkg/config/validation before 1.13). The annotation is
read on top of the minor's defaults, not of the mesh config's, and the error names every fault.

Resources (networking.istio.io/v1beta1) follow ``ProxyConfigs`` and ``toMeshConfigProxyConfig`` in pilot/pkg/model/proxy_config.go, and
``sortConfigByCreationTime`` in pilot/pkg/model/config.go (1.30.3). Istio 1.13 was the first release that reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, DataError
from injector.golang.netip import is_address, split_host_port
from injector.golang.strconv import atoi, quote
from injector.golang.time import SECOND, go_duration
from injector.istio.behaviours import DEVELOPMENT
from injector.istio.frozen import frozen
from injector.istio.mesh import MOST_VALUES, connection_faults, default_proxy_config, duration_fault, read_proxy_config
from injector.istio.proto import parse_message, proxy_config_type
from injector.kube.yaml import load_yaml
from injector.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from injector.istio.behaviours import Behaviours, Minor

_HOUR: Final = 3600 * SECOND
_TRACERS: Final = ("lightstep", "zipkin", "datadog")
_DOMAIN_LABEL = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?", re.ASCII)
_MAX_DOMAIN: Final = 255
_CONFIG_MAP: Final = "configmap://"
_SIMPLE: Final = 1
_MUTUAL: Final = 2


_VALIDATED: Final[Memo[tuple[str, Minor], str]] = Memo(256, 256 << 10, lambda key: len(key[0]))
"""Few pods have their own ProxyConfig, and the replicas of a workload have the same."""


def validate_proxy_config(text: str, minor: Minor) -> str:
    """Return the error of Istio's ``minor`` for a ProxyConfig, or an empty text if it is valid."""
    return _VALIDATED.get((text, minor), _validate_proxy_config)


def _validate_proxy_config(key: tuple[str, Minor]) -> str:
    text, minor = key
    try:
        data = load_yaml(text, most=MOST_VALUES)
        config = read_proxy_config({} if data is None else data, minor, base=default_proxy_config(minor))
    except DataError as error:
        return f"failed to convert to apply proxy config: {error.what}"
    return join_errors([fault for fault in _faults(config, minor) if fault])


def join_errors(faults: Sequence[str], colon: str = ":", bullet: str = "\n\t* ", end: str = "\n\n") -> str:
    """Return errors as hashicorp/go-multierror prints them; an empty text if there are none."""
    head = "1 error occurred" if len(faults) == 1 else f"{len(faults)} errors occurred"
    return "".join((head, colon, *(bullet + fault for fault in faults), end)) if faults else ""


def _faults(config: Mapping[str, Any], minor: Minor) -> Iterator[str]:
    if not config.get("configPath"):
        yield "config path must be set"
    if not config.get("binaryPath"):
        yield "binary path must be set"
    if "tracingServiceName" not in config and not config.get("serviceCluster"):
        yield f"service cluster must be {'specified' if minor >= (1, 13) else 'set'}"
    yield from _drain_faults(config, minor)
    address = config.get("discoveryAddress")
    if address:
        yield _with_prefix("invalid discovery address:", _address_fault(address, minor))
    else:
        yield "discovery address must be set to the proxy discovery service"
    tracing = config.get("tracing") or {}
    yield from _tracing_faults(tracing, minor)
    for fault in _tls_faults(tracing.get("tlsSettings") or {}, minor):
        yield _with_prefix("invalid tracing TLS config:", fault)
    yield from _service_faults(config, minor)
    yield _with_prefix("invalid proxy admin port:", port_fault(config.get("proxyAdminPort", 0)))
    yield _auth_policy_fault(config.get("controlPlaneAuthPolicy", 0), minor)
    if minor >= (1, 11):
        yield _with_prefix("invalid status port:", port_fault(config.get("statusPort", 0)))
    if minor >= (1, 14) and "privateKeyProvider" in config:
        word = "confguration" if minor <= (1, 20) else "configuration"
        for fault in _key_provider_faults(config["privateKeyProvider"], word, minor):
            yield _with_prefix(f"invalid private key provider {word}:", fault)
    yield from connection_faults(config)


def _with_prefix(prefix: str, fault: str) -> str:
    return f"{prefix} {fault}" if fault else ""


def _address_fault(address: str, minor: Minor) -> str:
    # IPv6 zones are valid since Go's package netip is used.
    return proxy_address_fault(address, zones=minor >= (1, 16))


def _auth_policy_fault(policy: int, minor: Minor) -> str:
    if policy in (0, 1):
        return ""
    prefix = "invalid authentication policy: " if minor >= (1, 11) else ""
    return f'{prefix}unrecognized control plane auth policy "{policy}"'


def _service_faults(config: Mapping[str, Any], minor: Minor) -> Iterator[str]:
    for label, value in (
        ("statsd udp", config.get("statsdUdpAddress")),
        ("envoy metrics service", config.get("envoyMetricsServiceAddress")),
        ("envoy metrics service", (config.get("envoyMetricsService") or {}).get("address")),
        ("envoy access log service", (config.get("envoyAccessLogService") or {}).get("address")),
    ):
        if value:
            yield _with_prefix(f"invalid {label} address {quote(value)}:", _address_fault(value, minor))


def _drain_faults(config: Mapping[str, Any], minor: Minor) -> Iterator[str]:
    """Yield the faults of the drain duration and, up to 1.16, of the parent shutdown duration."""
    both = minor <= (1, 16)
    drain, parent = config.get("drainDuration") or 0, config.get("parentShutdownDuration") or 0
    faults = [_with_prefix("invalid drain duration:", duration_fault(drain))]
    if both:
        faults.append(_with_prefix("invalid parent shutdown duration:", duration_fault(parent)))
    if not any(faults):
        if drain % SECOND:
            faults.append("drain time only supports durations to seconds precision")
        if both and parent % SECOND:
            faults.append("parent shutdown time only supports durations to seconds precision")
        if both and parent <= drain:
            than = f"must be greater than drain time {go_duration(drain)}"
            faults.append(f"parent shutdown time {go_duration(parent)} {than}")
        if drain > _HOUR and minor <= (1, 21):
            faults.append(f"drain time {go_duration(drain)} must be <1h0m0s")
        if both and parent > _HOUR:
            faults.append(f"parent shutdown time {go_duration(parent)} must be <1h0m0s")
    for fault in faults:
        yield _with_prefix("invalid parent and drain time combination", fault) if both else fault


def _tracing_faults(tracing: Mapping[str, Any], minor: Minor) -> Iterator[str]:
    for name in _TRACERS:
        tracer = tracing.get(name)
        if tracer is None:
            continue
        address = tracer.get("address", "")
        if name == "lightstep":
            yield "" if address else "invalid lightstep config: address is required"
            yield _with_prefix("invalid lightstep config: invalid lightstep address:", _address_fault(address, minor))
            yield "" if tracer.get("accessToken") else "invalid lightstep config: access token is required"
            continue
        # The agent replaces $(HOST_IP) before it connects; Istio checks the address without it.
        if name == "datadog" or minor >= (1, 8):
            address = address.replace("$(HOST_IP)", "127.0.0.1", 1)
        yield _with_prefix(f"invalid {name} config:", _address_fault(address, minor))


def _tls_faults(settings: Mapping[str, Any], minor: Minor) -> Iterator[str]:
    """Yield the faults of a client's TLS settings outside a namespace (ValidateTLS)."""
    mode, credential = settings.get("mode", 0), settings.get("credentialName", "")
    if minor >= (1, 26) and credential.startswith(_CONFIG_MAP):
        yield f"invalid configmap:// credentialName: {_config_map_fault(credential)}"
    if minor >= (1, 19) and settings.get("insecureSkipVerify"):
        named = settings.get("caCertificates") or settings.get("subjectAltNames")
        if mode == _SIMPLE and (named or credential):
            yield (
                "cannot specify CaCertificates or CredentialName or SubjectAltNames when InsecureSkipVerify is set true"
            )
        if mode == _MUTUAL and named:
            yield "cannot specify CaCertificates or SubjectAltNames when InsecureSkipVerify is set true"
    if minor >= (1, 7) and mode in (_SIMPLE, _MUTUAL) and credential:
        crl = minor >= (1, 22)
        files = ("clientCertificate", "caCertificates", "privateKey", *(("caCrl",) if crl else ()))
        if any(settings.get(name) for name in files):
            what = "client certificates or CA certificate" + (" or CA CRL" if crl else "")
            yield f"cannot specify {what} If credentialName is set"
        return
    if mode == _MUTUAL:
        yield "" if settings.get("clientCertificate") else "client certificate required for mutual tls"
        yield "" if settings.get("privateKey") else "private key required for mutual tls"


def _config_map_fault(name: str) -> str:
    namespace, slash, rest = name.removeprefix(_CONFIG_MAP).partition("/")
    missing = "" if slash else "namespace and name"
    if slash and not (namespace and rest.partition("/")[0]):
        missing = "name" if namespace else "namespace"
    if missing:
        return f"invalid resource name {quote(name)}. Expected {missing}"
    return 'namespace must match the configuration namespace ""'


def _key_provider_faults(provider: Mapping[str, Any], word: str, minor: Minor) -> Iterator[str]:
    for name in ("cryptomb", "qat") if minor >= (1, 17) else ("cryptomb",):
        if name in provider:
            delay = provider[name].get("pollDelay")
            if not delay:
                yield "pollDelay is required" if delay is None else "pollDelay must be non zero"
            return
    yield f"private key provider {word} is required"
    yield "unknown private key provider"


def proxy_address_fault(text: str, *, zones: bool = True) -> str:
    """Return why a text is not a valid ``host:port``, or an empty text if it is valid (ValidateProxyAddress).

    ``zones`` says whether an IPv6 address may have a zone, as from Istio 1.16 on.
    """
    host, port, fault = split_host_port(text)
    if fault:
        detail = f"address {text}: {fault}" if text else fault
        return f"unable to split {quote(text)}: {detail}"
    number, fault = atoi(port)
    if fault:
        return f"port ({port}) is not a number: {fault}"
    fault = port_fault(number)
    if fault:
        return fault
    valid = _is_domain(host) or is_address(host, zones=zones)
    return "" if valid else f"{quote(host)} is not a valid hostname or an IP address"


def port_fault(port: int) -> str:
    """Return why a number is not a valid port, or an empty text if it is valid (ValidatePort)."""
    return "" if 1 <= port <= 65535 else f"port number {port} must be in the range 1..65535"  # noqa: PLR2004 - TCP's range


def _is_domain(text: str) -> bool:
    if not 0 < len(text) <= _MAX_DOMAIN:
        return False
    *parents, last = text.split(".")
    if not atoi(last)[1]:
        return False
    named = parents if parents and not last else [*parents, last]
    return all(_DOMAIN_LABEL.fullmatch(label) for label in named)


GROUP: Final = "networking.istio.io"
KIND: Final = "ProxyConfig"
_FIELDS: Final = {"concurrency": "concurrency", "environmentVariables": "proxyMetadata", "image": "image"}
"""The fields of a resource, and their names in the ProxyConfig of a mesh config."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProxyConfigResource:
    """One resource.

    ``created`` is the time of its creation as Kubernetes writes it, empty if it has none. ``selector`` are the labels that a pod must have;
    None if the resource is for the whole namespace. ``fields`` is JSON data, by the names in the ProxyConfig of a mesh config.
    """

    namespace: str
    name: str
    created: str
    selector: Mapping[str, str] | None
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether the resource is for some pods of its namespace, and one with these labels is among them."""
        return bool(self.selector) and (self.selector or {}).items() <= labels.items()

    def fault(self) -> str:
        """Return why Istio's validating webhook refuses the resource, empty if it does not."""
        if "*" in "".join(chain.from_iterable((self.selector or {}).items())):
            return "wildcards are not allowed in a selector"
        if "" in (self.selector or {}):
            return "a label in the selector has no name"
        negative = str(self.fields.get("concurrency", "")).startswith("-")
        return "concurrency must be greater than or equal to 0" if negative else ""

    def proxy_config(self, behaviours: Behaviours) -> dict[str, Any]:
        """Return the ProxyConfig that the minor makes of the resource, as JSON data."""
        known = dict(deepcopy(self.fields))
        if not behaviours.proxy_config_image:
            known.pop("image", None)
        return known


def read_proxy_config_resource(item: Mapping[str, Any], *, where: str = "") -> ProxyConfigResource:
    """Read a resource as the API server or a file has it. Raises ConfigError if it has no name or namespace, or a field of a wrong type."""
    metadata, spec = (item.get(key) or {} for key in ("metadata", "spec"))
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise ConfigError("`metadata` or `spec` is not a mapping", where=where, hint="write it as kubectl prints it")
    namespace, name, created = (metadata.get(key) or "" for key in ("namespace", "name", "creationTimestamp"))
    if not all(isinstance(text, str) and text for text in (namespace, name)):
        hint = "write `metadata: {namespace: NAMESPACE, name: NAME}`"
        raise ConfigError("a ProxyConfig without a namespace or a name", where=where, hint=hint)
    place = f"{where}: ProxyConfig {namespace}/{name}".removeprefix(": ")
    if not isinstance(created, str) or (created and not _TIME.fullmatch(created)):
        raise ConfigError("`metadata.creationTimestamp` is not a time", where=place, hint="write 2026-01-31T12:00:00Z")
    fields = {theirs: spec[own] for own, theirs in _FIELDS.items() if spec.get(own) is not None}
    try:
        parse_message(proxy_config_type(DEVELOPMENT), fields, where=place)
    except ConfigError as error:
        error.what = error.what.replace("`proxyMetadata", "`environmentVariables", 1)
        raise
    return ProxyConfigResource(namespace, name, created, _selector(spec.get("selector"), place), frozen(fields))


def _selector(selector: Any, where: str) -> Mapping[str, str] | None:
    if selector is None:
        return None
    labels = (selector.get("matchLabels") or {}) if isinstance(selector, dict) else None
    if not isinstance(labels, dict) or not all(isinstance(label, str) for label in labels.values()):
        hint = "write `selector: {matchLabels: {NAME: VALUE}}`"
        raise ConfigError("`selector.matchLabels` is not a mapping of texts", where=where, hint=hint)
    match_labels: Mapping[str, str] = frozen(labels)
    return match_labels


@dataclass(frozen=True, slots=True)
class Applying:
    """The resources that apply to a pod: ``below`` its annotation ``proxy.istio.io/config``, the last one on top, and ``above`` it."""

    below: tuple[ProxyConfigResource, ...] = ()
    above: tuple[ProxyConfigResource, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxyConfigs:
    """The resources of a cluster, by namespace."""

    by_namespace: Mapping[str, tuple[ProxyConfigResource, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, resources: Iterable[ProxyConfigResource]) -> ProxyConfigs:
        """Return the collection of these resources."""
        by_namespace: dict[str, list[ProxyConfigResource]] = {}
        for resource in sorted(resources, key=str):
            by_namespace.setdefault(resource.namespace, []).append(resource)
        return cls(frozen({namespace: tuple(in_namespace) for namespace, in_namespace in by_namespace.items()}))

    def merge_over(self, others: ProxyConfigs) -> ProxyConfigs:
        """Return the resources of both; these take the place of those of the same name."""
        if not self.by_namespace:
            return others
        both = (resource for some in (others, self) for resource in chain.from_iterable(some.by_namespace.values()))
        return ProxyConfigs.of({str(resource): resource for resource in both}.values())

    def applying(self, root: str, namespace: str, labels: Mapping[str, str], behaviours: Behaviours) -> Applying:
        """Return the resources that apply to a pod in ``namespace``; ``root`` is the root namespace of its mesh.

        They are that of the root namespace, then that of its own namespace, then that whose selector the pod matches. The oldest one of
        each kind applies.
        """
        if not behaviours.proxy_config_merge or not self.by_namespace:
            return _NONE

        def first(place: str, matches: Callable[[ProxyConfigResource], bool]) -> tuple[ProxyConfigResource, ...]:
            return tuple(sorted(filter(matches, self.by_namespace.get(place, ())), key=order)[:1])

        def order(resource: ProxyConfigResource) -> tuple[str, str]:
            return (
                resource.created,
                f"{resource.name}.{resource.namespace}" if behaviours.proxy_configs_by_full_name else resource.name,
            )

        def is_for_all(resource: ProxyConfigResource) -> bool:
            return resource.selector is None

        below = tuple(resource for place in dict.fromkeys((root, namespace)) for resource in first(place, is_for_all))
        return Applying(below, first(namespace, lambda resource: resource.selects(labels)))


_NONE: Final = Applying()
