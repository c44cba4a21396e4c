"""The annotations that Istio's injector validates, and those of its own table.

Follows pkg/kube/inject/validate.go at the last tag of each minor (inject.go before 1.5): a pod with an invalid value is not admitted.
Only annotations of the pod count, whatever template it uses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from injector.errors import DataError
from injector.golang.netip import parse_prefix
from injector.golang.strconv import parse_uint, quote
from injector.gotemplate.sprig.strings import trim
from injector.istio.behaviours import DEVELOPMENT, OLDEST, Minor
from injector.istio.proxyconfig import join_errors, validate_proxy_config
from injector.kube.quantity import parse_quantity

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTERFACE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.\-]*", re.ASCII)
# Linux's IFNAMSIZ, less the final zero.
_INTERFACE_LENGTH: Final = 15
LONGEST_LIST: Final = 128 * 1024 - 1
"""Bytes of a list of ranges, ports or interfaces.

Istio has no limit of its own. Its templates give each list to istio-init and istio-validation as one argument, and Linux starts no
process with an argument of 128 KiB or more (MAX_ARG_STRLEN, execve(2)), so no pod with a longer list can start.
"""
# Up to this minor, errors name the number that Go read: 0 if it read none, 65535 if it is too large.
_LAST_PORT_NUMBER: Final[Minor] = (1, 10)
_FIRST_NETIP: Final[Minor] = (1, 16)
_FIRST_NONE_MODE: Final[Minor] = (1, 1)
_FIRST_UNORDERED: Final[Minor] = (1, 2)


Validator: TypeAlias = "Callable[[str, Minor], str]"
"""Returns the reason why Istio's minor refuses a value; an empty text if it does not."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation of Istio; ``validate`` is None if no minor validates it.

    ``first`` is the first minor that validates it, ``last`` the last one that reads it. ``listed`` is the first minor whose table of
    annotations has it (annotationRegistry, then AnnotationValidation, of 1.0 to 1.8). ``is_list`` is whether it is a list of ranges, ports
    or interfaces.
    """

    name: str
    validate: Validator | None = None
    first: Minor = OLDEST
    last: Minor = DEVELOPMENT
    listed: Minor | None = None
    is_list: bool = False


def parse_bool(text: str) -> bool | None:
    """Return the boolean that Go's strconv.ParseBool reads; None if the text is not a boolean."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def validate_annotations(annotations: Mapping[str, str], minor: Minor) -> str:
    """Return the error of Istio's ``minor`` for a pod's annotations, or an empty text if they are valid.

    Several faults are in the order of Istio's table before 1.2. Since then, Istio walks a Go map, so that their order is random; here it
    is by name.
    """
    listed = minor < _FIRST_UNORDERED
    faults = []
    for name in filter(annotations.__contains__, _BY_NAME) if listed else sorted(annotations):
        if fault := annotation_fault(name, annotations[name], minor):
            if listed:
                head = f"injection failed. Invalid value for annotation {name}: {annotations[name]}. Error: "
            else:
                head = f"invalid value '{annotations[name]}' for annotation '{name}': "
            faults.append(f"{head}{fault}")
    return join_errors(faults, ":\n", "\n* ", "") if listed else join_errors(faults)


def annotation_fault(name: str, value: str, minor: Minor) -> str:
    """Return the reason why Istio's ``minor`` refuses the value of an annotation, or an empty text if it does not."""
    validate = _validator(name, minor)
    return "" if validate is None else validate(value, minor)


def _validator(name: str, minor: Minor) -> Validator | None:
    row = _BY_NAME.get(name)
    return row.validate if row is not None and row.first <= minor <= row.last else None


def list_too_long(annotations: Mapping[str, str], minor: Minor) -> tuple[str, int] | None:
    """Return the first list annotation longer than ``LONGEST_LIST`` and its size in bytes; None if there is none."""
    for name in sorted(_LISTS & annotations.keys()):
        size = len(annotations[name].encode(errors="surrogatepass"))
        if size > LONGEST_LIST and _validator(name, minor) is not None:
            return name, size
    return None


def checked_annotations(annotations: Mapping[str, str], minor: Minor) -> tuple[str, ...]:
    """Return the names of a pod's annotations that Istio's ``minor`` validates, in order."""
    return tuple(name for name in sorted(annotations) if _validator(name, minor) is not None)


def known_annotations(minor: Minor) -> frozenset[str]:
    """Return the annotations in Istio's table, which 1.0 to 1.8 have."""
    return frozenset(row.name for row in ANNOTATIONS if row.listed is not None and row.listed <= minor <= row.last)


def _port_fault(text: str, minor: Minor) -> str:
    number, fault = parse_uint(trim(text), 16)
    quoted = number if minor <= _LAST_PORT_NUMBER else text
    return f"failed parsing port '{quoted}': {fault}" if fault else ""


def _port_list(label: str, *, wildcard: bool) -> Validator:
    def validate(value: str, minor: Minor) -> str:
        if wildcard and value == "*":
            return ""
        for text in trim(value).split(",") if trim(value) else ():
            if fault := _port_fault(text, minor):
                quoted = "0" if minor <= _LAST_PORT_NUMBER else text
                return f"{label} invalid: failed parsing port '{quoted}': {fault}"
        return ""

    return validate


def _cidr_list(label: str, *, wildcard: bool) -> Validator:
    def validate(value: str, minor: Minor) -> str:
        if not value or (wildcard and value == "*"):
            return ""
        for text in value.split(","):
            if fault := parse_prefix(text, netip=minor >= _FIRST_NETIP):
                return f"{label} invalid: failed parsing cidr '{text}': {fault}"
        return ""

    return validate


def _interception_mode(value: str, minor: Minor) -> str:
    if minor < _FIRST_NONE_MODE:
        return "" if value in ("REDIRECT", "TPROXY") else f"interceptionMode invalid: {value}"
    valid = value in ("REDIRECT", "TPROXY", "NONE")
    return "" if valid else f"interceptionMode invalid, use REDIRECT,TPROXY,NONE: {value}"


def _status_port(value: str, minor: Minor) -> str:
    fault = _port_fault(value, minor)
    return f"excludeInboundPorts invalid: {fault}" if fault else ""


def _uint32(value: str, _minor: Minor) -> str:
    return parse_uint(value, 32)[1]


def _boolean(value: str, _minor: Minor) -> str:
    return f"strconv.ParseBool: parsing {quote(value)}: invalid syntax" if parse_bool(value) is None else ""


def _quantity(value: str, _minor: Minor) -> str:
    if any(unicodedata.category(char) == "Cc" for char in value):
        return "value contains control characters"
    try:
        parse_quantity(value)
    except DataError as error:
        return error.what
    return ""


def _interfaces(value: str, _minor: Minor) -> str:
    for name in map(trim, value.split(",")) if value else ():
        if not name:
            return "empty interface name"
        if len(name.encode()) > _INTERFACE_LENGTH:
            return f"interface name {quote(name)} too long (max {_INTERFACE_LENGTH} chars)"
        if not _INTERFACE.fullmatch(name):
            return f"interface name {quote(name)} contains invalid characters"
    return ""


PROXY_CONFIG: Final = "proxy.istio.io/config"


def _traffic(name: str, validate: Validator, first: Minor = OLDEST, *, listed: Minor | None = None) -> Annotation:
    """Return the row of a list of traffic to redirect or not."""
    return Annotation(f"traffic.sidecar.istio.io/{name}", validate, first, listed=listed, is_list=True)


_READINESS: Final = "readiness.status.sidecar.istio.io/"
# In the order of the table of 1.0, which 1.1 keeps.
ANNOTATIONS: Final = (
    Annotation("sidecar.istio.io/inject", listed=(1, 0)),
    Annotation("sidecar.istio.io/status", listed=(1, 0)),
    Annotation("sidecar.istio.io/proxyImage", listed=(1, 0)),
    Annotation("sidecar.istio.io/interceptionMode", _interception_mode, listed=(1, 0)),
    Annotation("status.sidecar.istio.io/port", _status_port, listed=(1, 0)),
    Annotation(f"{_READINESS}initialDelaySeconds", _uint32, listed=(1, 0)),
    Annotation(f"{_READINESS}periodSeconds", _uint32, listed=(1, 0)),
    Annotation(f"{_READINESS}failureThreshold", _uint32, listed=(1, 0)),
    Annotation(
        f"{_READINESS}applicationPorts",
        _port_list("readinessApplicationPorts", wildcard=True),
        last=(1, 4),
        listed=(1, 0),
        is_list=True,
    ),
    _traffic("includeOutboundIPRanges", _cidr_list("includeIPRanges", wildcard=True), listed=(1, 0)),
    _traffic("excludeOutboundIPRanges", _cidr_list("excludeIPRanges", wildcard=False), listed=(1, 0)),
    _traffic("includeInboundPorts", _port_list("includeInboundPorts", wildcard=True), listed=(1, 0)),
    _traffic("excludeInboundPorts", _port_list("excludeInboundPorts", wildcard=False), listed=(1, 0)),
    _traffic("kubevirtInterfaces", _interfaces, (1, 30), listed=(1, 1)),
    Annotation("sidecar.istio.io/rewriteAppHTTPProbers", listed=(1, 2)),
    _traffic("excludeOutboundPorts", _port_list("excludeOutboundPorts", wildcard=False), (1, 2), listed=(1, 2)),
    Annotation("sidecar.istio.io/controlPlaneAuthPolicy", listed=(1, 3)),
    Annotation("sidecar.istio.io/discoveryAddress", listed=(1, 3)),
    Annotation("sidecar.istio.io/proxyCPU", _quantity, (1, 27), listed=(1, 3)),
    Annotation("sidecar.istio.io/proxyMemory", _quantity, (1, 27), listed=(1, 3)),
    Annotation("sidecar.istio.io/bootstrapOverride", listed=(1, 3)),
    Annotation("sidecar.istio.io/statsInclusionPrefixes", listed=(1, 3)),
    Annotation("sidecar.istio.io/statsInclusionSuffixes", listed=(1, 3)),
    Annotation("sidecar.istio.io/statsInclusionRegexps", listed=(1, 3)),
    Annotation("sidecar.istio.io/userVolume", listed=(1, 3)),
    Annotation("sidecar.istio.io/userVolumeMount", listed=(1, 3)),
    Annotation("sidecar.istio.io/enableCoreDump", _boolean, (1, 5), (1, 24), listed=(1, 5)),
    Annotation("prometheus.istio.io/merge-metrics", _boolean, (1, 6), listed=(1, 6)),
    Annotation(PROXY_CONFIG, validate_proxy_config, (1, 6), listed=(1, 6)),
    Annotation("k8s.v1.cni.cncf.io/networks", listed=(1, 6)),
    Annotation("sidecar.istio.io/proxyCPULimit", _quantity, (1, 27)),
    Annotation("sidecar.istio.io/proxyMemoryLimit", _quantity, (1, 27)),
    _traffic("excludeInterfaces", _interfaces, (1, 30)),
    Annotation("istio.io/reroute-virtual-interfaces", _interfaces, (1, 30), is_list=True),
)
_BY_NAME: Final = {row.name: row for row in ANNOTATIONS}
_LISTS: Final = frozenset(row.name for row in ANNOTATIONS if row.is_list)
