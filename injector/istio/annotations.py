"""The annotations and labels that Istio's injector reads, and which of their values it refuses.

Follows pkg/kube/inject/validate.go at the last tag of each minor (inject.go before 1.5): a pod with a refused value is not admitted.
Only annotations of the pod count, whatever template it asks for.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from injector.errors import DataError
from injector.golang.strconv import parse_uint, quote
from injector.gotemplate.sprig.strings import SPACE, trim
from injector.istio.addresses import NET_PREFIXES, NETIP_PREFIXES, parse_prefix
from injector.istio.behaviours import NEWEST, OLDEST, Minor
from injector.istio.proxyconfig import validate_proxy_config
from injector.kube.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTERFACE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.\-]*", re.ASCII)
# Linux's IFNAMSIZ, less the final zero.
_INTERFACE_LENGTH: Final = 15
# The valid items at the start of a list, each with its comma. The lists are long: Python code for each item, let alone each character,
# takes five to twenty times as long.
_PORTS = re.compile(
    rf"(?:[{SPACE}]*+0*+(?:(?<=0)|6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{{2}}|6[0-4][0-9]{{3}}|[1-5][0-9]{{4}}|[0-9]{{1,4}})[{SPACE}]*+,)*+"
)
_INTERFACES = re.compile(rf"(?:[{SPACE}]*+[a-zA-Z][a-zA-Z0-9_.\-]{{0,{_INTERFACE_LENGTH - 1}}}[{SPACE}]*+,)*+")
LONGEST_LIST: Final = 128 * 1024 - 1
"""Bytes of a list of ranges, ports or interfaces.

Istio has no limit of its own. Its templates give each list to istio-init and istio-validation as one argument, and Linux starts no
process with an argument of 128 KiB or more (MAX_ARG_STRLEN, execve(2)), so no pod with a longer list can start.
"""
# Up to here the texts name the number that Go read: 0 where it read none, 65535 where it is too great.
_LAST_PORT_NUMBER: Final[Minor] = (1, 10)
_FIRST_NETIP: Final[Minor] = (1, 16)
_FIRST_NONE_MODE: Final[Minor] = (1, 1)
_FIRST_UNORDERED: Final[Minor] = (1, 2)


class RefusedError(Exception):
    """A value that a validator refuses; the text is Istio's reason."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation that the injector reads.

    ``validate`` takes the value and the minor and raises ``RefusedError``; ``first`` and ``last`` are the minors that validate it.
    """

    name: str
    purpose: str
    validate: Callable[[str, Minor], None] | None = None
    first: Minor = OLDEST
    last: Minor = NEWEST


def parse_bool(text: str) -> bool | None:
    """Return what Go's strconv.ParseBool makes of a text; None where it is no boolean."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def validate_annotations(annotations: Mapping[str, str], minor: Minor) -> str:
    """Return what Istio's ``minor`` says of the annotations that it refuses, empty where it refuses none.

    Istio since 1.2 walks a Go map, so the order of several faults is random there; here it is by name. Before, it is that of its table.
    """
    listed = minor < _FIRST_UNORDERED
    faults = []
    for name in filter(annotations.__contains__, _TABLE) if listed else sorted(annotations):
        validate = _validator(name, minor)
        if validate is None:
            continue
        try:
            validate(annotations[name], minor)
        except RefusedError as error:
            if listed:
                head = f"injection failed. Invalid value for annotation {name}: {annotations[name]}. Error: "
            else:
                head = f"invalid value '{annotations[name]}' for annotation '{name}': "
            faults.append(f"{head}{error}")
    if not faults:
        return ""
    head = "1 error occurred" if len(faults) == 1 else f"{len(faults)} errors occurred"
    if listed:
        return f"{head}:\n\n* " + "\n* ".join(faults)
    return f"{head}:\n\t* " + "\n\t* ".join(faults) + "\n\n"


def _validator(name: str, minor: Minor) -> Callable[[str, Minor], None] | None:
    row = _BY_NAME.get(name)
    return row.validate if row is not None and row.first <= minor <= row.last else None


def list_too_long(annotations: Mapping[str, str], minor: Minor) -> tuple[str, int] | None:
    """Return the first list annotation longer than ``LONGEST_LIST`` and its size in bytes; None if there is none."""
    for name in sorted(_LISTS & annotations.keys()):
        size = len(annotations[name].encode(errors="surrogatepass"))
        if size > LONGEST_LIST and _validator(name, minor) is not None:
            return name, size
    return None


def _doubtful_items(value: str, valid: re.Pattern[str]) -> Iterator[str]:
    """Yield the items of a comma-separated list except those that ``valid`` steps over; the last item is always among them."""
    start = end = 0
    while end >= 0:
        match = valid.match(value, start)
        start = match.end() if match else start
        end = value.find(",", start)
        yield value[start:] if end < 0 else value[start:end]
        start = end + 1


def checked_annotations(annotations: Mapping[str, str], minor: Minor) -> tuple[str, ...]:
    """Return those of a pod's annotations whose values Istio's ``minor`` checks, by name."""
    return tuple(name for name in sorted(annotations) if _validator(name, minor) is not None)


def known_annotations(minor: Minor) -> frozenset[str]:
    """Return the annotations that Istio's ``minor`` knows: up to 1.8 those of its table, validated or not, then those that it reads."""
    known = {
        name
        for name, first in _TABLE.items()
        if first <= minor and (name not in _BY_NAME or minor <= _BY_NAME[name].last)
    }
    read = {row.name for row in ANNOTATIONS if row.first <= minor <= row.last} if minor > _LAST_TABLE else set()
    return frozenset(known | read)


def _parse_uint(text: str, bits: int) -> None:
    _, fault = parse_uint(text, bits)
    if fault:
        raise RefusedError(fault)


def _parse_port(text: str, minor: Minor) -> None:
    number, fault = parse_uint(trim(text), 16)
    if fault:
        shown = number if minor <= _LAST_PORT_NUMBER else text
        raise RefusedError(f"failed parsing port '{shown}': {fault}")


def _port_list(label: str, *, wildcard: bool) -> Callable[[str, Minor], None]:
    def validate(value: str, minor: Minor) -> None:
        if wildcard and value == "*":
            return
        for text in _doubtful_items(trim(value), _PORTS) if trim(value) else ():
            try:
                _parse_port(text, minor)
            except RefusedError as error:
                shown = "0" if minor <= _LAST_PORT_NUMBER else text
                raise RefusedError(f"{label} invalid: failed parsing port '{shown}': {error}") from error

    return validate


def _cidr_list(label: str, *, wildcard: bool) -> Callable[[str, Minor], None]:
    def validate(value: str, minor: Minor) -> None:
        if not value or (wildcard and value == "*"):
            return
        netip = minor >= _FIRST_NETIP
        for text in _doubtful_items(value, NETIP_PREFIXES if netip else NET_PREFIXES):
            fault = parse_prefix(text, netip=netip)
            if fault:
                raise RefusedError(f"{label} invalid: failed parsing cidr '{text}': {fault}")

    return validate


def _interception_mode(value: str, minor: Minor) -> None:
    modes = ("REDIRECT", "TPROXY", "NONE") if minor >= _FIRST_NONE_MODE else ("REDIRECT", "TPROXY")
    if value not in modes:
        hint = "use REDIRECT,TPROXY,NONE: " if minor >= _FIRST_NONE_MODE else ""
        raise RefusedError(f"interceptionMode invalid, {hint}{value}" if hint else f"interceptionMode invalid: {value}")


def _status_port(value: str, minor: Minor) -> None:
    try:
        _parse_port(value, minor)
    except RefusedError as error:
        raise RefusedError(f"excludeInboundPorts invalid: {error}") from error


def _uint32(value: str, _minor: Minor) -> None:
    _parse_uint(value, 32)


def _boolean(value: str, _minor: Minor) -> None:
    if parse_bool(value) is None:
        raise RefusedError(f"strconv.ParseBool: parsing {quote(value)}: invalid syntax")


def _quantity(value: str, _minor: Minor) -> None:
    if any(unicodedata.category(char) == "Cc" for char in value):
        raise RefusedError("value contains control characters")
    try:
        parse_quantity(value)
    except DataError as error:
        raise RefusedError(error.what) from error


def _interfaces(value: str, _minor: Minor) -> None:
    for name in map(trim, _doubtful_items(value, _INTERFACES)) if value else ():
        if not name:
            raise RefusedError("empty interface name")
        if len(name.encode()) > _INTERFACE_LENGTH:
            raise RefusedError(f"interface name {quote(name)} too long (max {_INTERFACE_LENGTH} chars)")
        if not _INTERFACE.fullmatch(name):
            raise RefusedError(f"interface name {quote(name)} contains invalid characters")


def _proxy_config(value: str, minor: Minor) -> None:
    fault = validate_proxy_config(value, minor)
    if fault:
        raise RefusedError(fault)


_TRAFFIC: Final = "traffic.sidecar.istio.io/"
_READINESS: Final = "readiness.status.sidecar.istio.io/"
ANNOTATIONS: Final[tuple[Annotation, ...]] = (
    Annotation("sidecar.istio.io/inject", "asks for the sidecar, or for none"),
    Annotation("sidecar.istio.io/status", "what an injection added"),
    Annotation("inject.istio.io/templates", "the templates to inject", None, (1, 9)),
    Annotation("proxy.istio.io/overrides", "the pod's own settings of injected containers", None, (1, 9)),
    Annotation("proxy.istio.io/config", "ProxyConfig of this pod", _proxy_config, (1, 6)),
    Annotation("sidecar.istio.io/interceptionMode", "how traffic reaches the proxy", _interception_mode),
    Annotation(
        f"{_TRAFFIC}includeOutboundIPRanges",
        "ranges that go through the proxy",
        _cidr_list("includeIPRanges", wildcard=True),
    ),
    Annotation(
        f"{_TRAFFIC}excludeOutboundIPRanges", "ranges that do not", _cidr_list("excludeIPRanges", wildcard=False)
    ),
    Annotation(
        f"{_TRAFFIC}includeInboundPorts",
        "ports that go through the proxy",
        _port_list("includeInboundPorts", wildcard=True),
    ),
    Annotation(
        f"{_TRAFFIC}excludeInboundPorts", "ports that do not", _port_list("excludeInboundPorts", wildcard=False)
    ),
    Annotation(f"{_TRAFFIC}includeOutboundPorts", "outbound ports that go through the proxy", None, (1, 9)),
    Annotation(
        f"{_TRAFFIC}excludeOutboundPorts",
        "outbound ports that do not",
        _port_list("excludeOutboundPorts", wildcard=False),
        (1, 2),
    ),
    Annotation(f"{_TRAFFIC}excludeInterfaces", "interfaces left alone", _interfaces, (1, 30)),
    Annotation(f"{_TRAFFIC}kubevirtInterfaces", "interfaces of virtual machines", _interfaces, (1, 30)),
    Annotation("istio.io/reroute-virtual-interfaces", "interfaces of virtual machines", _interfaces, (1, 30)),
    Annotation("status.sidecar.istio.io/port", "the agent's port", _status_port),
    Annotation(f"{_READINESS}initialDelaySeconds", "the proxy's readiness probe", _uint32),
    Annotation(f"{_READINESS}periodSeconds", "the proxy's readiness probe", _uint32),
    Annotation(f"{_READINESS}failureThreshold", "the proxy's readiness probe", _uint32),
    Annotation(
        f"{_READINESS}applicationPorts",
        "ports the agent waits for",
        _port_list("readinessApplicationPorts", wildcard=True),
        last=(1, 4),
    ),
    Annotation("sidecar.istio.io/rewriteAppHTTPProbers", "whether probes go through the agent", None, (1, 2)),
    Annotation("prometheus.istio.io/merge-metrics", "whether metrics are merged", _boolean, (1, 6)),
    Annotation("sidecar.istio.io/enableCoreDump", "whether the proxy may dump core", _boolean, (1, 5), (1, 24)),
    Annotation("sidecar.istio.io/proxyCPU", "the proxy's CPU request", _quantity, (1, 27)),
    Annotation("sidecar.istio.io/proxyMemory", "the proxy's memory request", _quantity, (1, 27)),
    Annotation("sidecar.istio.io/proxyCPULimit", "the proxy's CPU limit", _quantity, (1, 27)),
    Annotation("sidecar.istio.io/proxyMemoryLimit", "the proxy's memory limit", _quantity, (1, 27)),
    Annotation("sidecar.istio.io/proxyImage", "the proxy's image"),
    Annotation("sidecar.istio.io/proxyImageType", "the type of the proxy's image", None, (1, 13)),
    Annotation("sidecar.istio.io/nativeSidecar", "whether the proxy is a native sidecar", None, (1, 24)),
    Annotation("sidecar.istio.io/capNetBindService", "whether the proxy binds low ports", None, (1, 24)),
    Annotation("sidecar.istio.io/logLevel", "the proxy's log level"),
    Annotation("sidecar.istio.io/componentLogLevel", "log levels of the proxy's components"),
    Annotation("sidecar.istio.io/agentLogLevel", "the agent's log level"),
    Annotation("sidecar.istio.io/bootstrapOverride", "a ConfigMap with Envoy's bootstrap"),
    Annotation("sidecar.istio.io/userVolume", "volumes of the proxy's own"),
    Annotation("sidecar.istio.io/userVolumeMount", "mounts of the proxy's own"),
    Annotation("k8s.v1.cni.cncf.io/networks", "the pod's Multus networks", None, (1, 6)),
)
_BY_NAME: Final = {row.name: row for row in ANNOTATIONS}
_LISTS: Final = frozenset(
    {
        "istio.io/reroute-virtual-interfaces",
        f"{_READINESS}applicationPorts",
        f"{_TRAFFIC}excludeInboundPorts",
        f"{_TRAFFIC}excludeInterfaces",
        f"{_TRAFFIC}excludeOutboundIPRanges",
        f"{_TRAFFIC}excludeOutboundPorts",
        f"{_TRAFFIC}includeInboundPorts",
        f"{_TRAFFIC}includeOutboundIPRanges",
        f"{_TRAFFIC}kubevirtInterfaces",
    }
)
# The annotations of Istio's own table, which 1.0 to 1.8 have (annotationRegistry, then AnnotationValidation), by the first minor with
# each; in the order of 1.0, which 1.1 keeps.
_LAST_TABLE: Final[Minor] = (1, 8)
_TABLE: Final[Mapping[str, Minor]] = {
    "sidecar.istio.io/inject": (1, 0),
    "sidecar.istio.io/status": (1, 0),
    "sidecar.istio.io/proxyImage": (1, 0),
    "sidecar.istio.io/interceptionMode": (1, 0),
    "status.sidecar.istio.io/port": (1, 0),
    f"{_READINESS}initialDelaySeconds": (1, 0),
    f"{_READINESS}periodSeconds": (1, 0),
    f"{_READINESS}failureThreshold": (1, 0),
    f"{_READINESS}applicationPorts": (1, 0),
    f"{_TRAFFIC}includeOutboundIPRanges": (1, 0),
    f"{_TRAFFIC}excludeOutboundIPRanges": (1, 0),
    f"{_TRAFFIC}includeInboundPorts": (1, 0),
    f"{_TRAFFIC}excludeInboundPorts": (1, 0),
    f"{_TRAFFIC}kubevirtInterfaces": (1, 1),
    "sidecar.istio.io/rewriteAppHTTPProbers": (1, 2),
    f"{_TRAFFIC}excludeOutboundPorts": (1, 2),
    "sidecar.istio.io/controlPlaneAuthPolicy": (1, 3),
    "sidecar.istio.io/discoveryAddress": (1, 3),
    "sidecar.istio.io/proxyCPU": (1, 3),
    "sidecar.istio.io/proxyMemory": (1, 3),
    "sidecar.istio.io/bootstrapOverride": (1, 3),
    "sidecar.istio.io/statsInclusionPrefixes": (1, 3),
    "sidecar.istio.io/statsInclusionSuffixes": (1, 3),
    "sidecar.istio.io/statsInclusionRegexps": (1, 3),
    "sidecar.istio.io/userVolume": (1, 3),
    "sidecar.istio.io/userVolumeMount": (1, 3),
    "sidecar.istio.io/enableCoreDump": (1, 5),
    "prometheus.istio.io/merge-metrics": (1, 6),
    "proxy.istio.io/config": (1, 6),
    "k8s.v1.cni.cncf.io/networks": (1, 6),
}
