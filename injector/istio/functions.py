"""Istio's template functions.

Follows pkg/kube/inject/template.go ``createInjectionFuncmap`` (1.30.3). Some shadow sprig's functions of the same name with other
semantics: ``indent`` leaves the first line alone, ``contains`` takes the needle first, ``env`` takes a default, ``omit`` works on
map[string]string.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from injector.gotemplate.errors import FuncError
from injector.gotemplate.printf import sprint
from injector.gotemplate.values import Func, Map, Pointer
from injector.istio import meshconfig, multus
from injector.istio.goview import plain
from injector.istio.otel import otel_resource_attributes
from injector.istio.values import float_numbers
from injector.kube.serial import dump_yaml, go_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from injector.istio.minor import Minor

_NON_TCP = frozenset({"UDP", "SCTP"})
_PROXY = "istio-proxy"


def istio_functions(minor: Minor, env: Mapping[str, str]) -> dict[str, Func]:
    """Return the functions that Istio's ``minor`` adds to Go's and sprig's.

    ``env`` stands for istiod's environment, which the function ``env`` reads.
    """
    table: tuple[tuple[str, str, Callable[..., Any], Minor], ...] = (
        ("formatDuration", "func(*durationpb.Duration) string", format_duration, (1, 0)),
        ("isset", "func(map[string]string, string) bool", isset, (1, 0)),
        ("excludeInboundPort", "func(interface {}, string) string", exclude_inbound_port, (1, 0)),
        ("includeInboundPorts", "func([]v1.Container) string", include_inbound_ports, (1, 0)),
        ("kubevirtInterfaces", "func(string) string", str, (1, 0)),
        ("excludeInterfaces", "func(string) string", str, (1, 13)),
        ("applicationPorts", "func([]v1.Container) string", application_ports, (1, 0)),
        ("annotation", "func(v1.ObjectMeta, string, interface {}) string", annotation, (1, 0)),
        ("valueOrDefault", "func(interface {}, interface {}) interface {}", value_or_default, (1, 0)),
        ("toJSON", "func(map[string]string) string", to_json, (1, 0)),
        ("fromJSON", "func(string) interface {}", from_json, (1, 1)),
        ("structToJSON", "func(interface {}) string", struct_to_json, (1, 4)),
        ("protoToJSON", "func(protoreflect.ProtoMessage) string", _ProtoToJson(minor), (1, 4)),
        ("toYaml", "func(interface {}) string", to_yaml, (1, 0)),
        ("indent", "func(int, string) string", indent, (1, 0)),
        ("directory", "func(string) string", directory, (1, 0)),
        ("contains", "func(string, string) bool", flipped_contains, (1, 2)),
        ("toLower", "func(string) string", str.lower, (1, 2)),
        ("appendMultusNetwork", "func(string, string) string", multus.append_multus_network, (1, 8)),
        ("env", "func(string, string) string", _Env(env), (1, 9)),
        ("omit", "func(map[string]string, ...string) map[string]string", omit, (1, 16)),
        ("strdict", "func(...string) map[string]string", strdict, (1, 16)),
        ("toJsonMap", "func(...map[string]string) string", to_json_map, (1, 16)),
        ("mergeMaps", "func(...map[string]string) map[string]string", merge_maps, (1, 16)),
        ("omitNil", "func(interface {}) interface {}", omit_nil, (1, 29)),
        (
            "otelResourceAttributes",
            "func(*v1alpha1.MeshConfig, map[string]string, map[string]string, string, []v1.Container) string",
            otel_resource_attributes,
            (1, 29),
        ),
    )
    return {name: Func(name, signature, call) for name, signature, call, first in table if minor >= first}


@dataclass(frozen=True, slots=True)
class _Env:
    """``env``: a feature variable of the revision, or the default where it is unset or empty."""

    variables: Mapping[str, str]

    def __call__(self, key: str, default: str) -> str:
        return self.variables.get(key) or default


@dataclass(frozen=True, slots=True)
class _ProtoToJson:
    """``protoToJSON``: a message as JSON, a ProxyConfig without what equals the minor's defaults."""

    minor: Minor

    def __call__(self, message: Any) -> str:
        if isinstance(message, Pointer):
            message = message.target
        return "{}" if message is None else meshconfig.proto_to_json(message, self.minor)


def format_duration(duration: Any) -> str:
    """Return a protobuf duration as Go's time.Duration prints it."""
    target = duration.target if isinstance(duration, Pointer) else duration
    return "0s" if target is None else meshconfig.format_duration(target)


def isset(entries: Mapping[str, str], key: str) -> bool:
    """Return whether ``key`` is in the map."""
    return key in entries


def directory(path: str) -> str:
    """Return the path up to and including its last slash, as Go's path.Split."""
    return path[: path.rfind("/") + 1]


def flipped_contains(needle: str, haystack: str) -> bool:
    """Return whether ``haystack`` contains ``needle``: the arguments in the order a pipeline wants."""
    return needle in haystack


def exclude_inbound_port(port: Any, excluded: str) -> str:
    """Return the port list ``excluded`` with ``port`` added, unless it is empty, 0 or already there."""
    text = sprint(port).strip()
    if text in ("", "0"):
        return excluded
    ports = excluded.split(",")
    if text in ports:
        return excluded
    return ",".join([item.strip() for item in ports if item.strip()] + [text])


def value_or_default(value: Any, default: Any) -> Any:
    """Return ``default`` for nil and the empty string, else ``value``."""
    return default if value is None or (type(value) is str and not value) else value


def to_json(entries: Mapping[str, str]) -> str:
    """Return a map[string]string as JSON; a nil map gives ``{}``."""
    return go_json(dict(entries), sort_keys=True)


def from_json(text: str) -> Any:
    """Return decoded JSON; as Istio, the string ``{}`` where it does not decode."""
    try:
        return float_numbers(json.loads(text))
    except ValueError:
        return "{}"


def struct_to_json(value: Any) -> str:
    """Return any value as encoding/json prints it; nil gives ``{}``."""
    return "{}" if value is None else go_json(plain(value), sort_keys=True)


def to_yaml(value: Any) -> str:
    """Return any value as sigs.k8s.io/yaml prints it, with its last newline."""
    return dump_yaml(plain(value))


def indent(spaces: int, source: str) -> str:
    """Return ``source`` with every line but the first indented.

    Raises:
        FuncError: the indentation is absurd (Go would try it).
    """
    if spaces > 1000:  # noqa: PLR2004 - no YAML nests so deep; a hostile number must not allocate
        raise FuncError(f"indent {spaces} is too wide")
    return source.replace("\n", "\n" + " " * max(spaces, -spaces))


def annotation(meta: Any, name: str, default: Any) -> str:
    """Return a pod's annotation, or ``default`` printed as fmt.Sprint does."""
    value = meta.field("Annotations").get(name)
    return value if value is not None else sprint(default)


def include_inbound_ports(containers: Iterable[Any]) -> str:
    """Return the TCP ports of all containers."""
    return ",".join(port for container in containers for port in _tcp_ports(container))


def application_ports(containers: Iterable[Any]) -> str:
    """Return the TCP ports of all containers but the proxy; templates up to 1.9 use it."""
    return include_inbound_ports(item for item in containers if item.field("Name") != _PROXY)


def _tcp_ports(container: Any) -> Iterable[str]:
    return (
        str(port.field("ContainerPort")) for port in container.field("Ports") if port.field("Protocol") not in _NON_TCP
    )


def omit(entries: Mapping[str, str], *keys: str) -> Map:
    """Return a map[string]string without ``keys``."""
    return _string_map({key: value for key, value in entries.items() if key not in keys})


def strdict(*pairs: str) -> Map:
    """Return a map[string]string of alternating keys and values; a last key alone maps to the empty string."""
    values = [*pairs[1::2], ""]
    return _string_map(dict(zip(pairs[::2], values, strict=False)))


def merge_maps(*maps: Mapping[str, str]) -> Map:
    """Return the maps merged, the later ones winning."""
    merged: dict[str, str] = {}
    for entries in maps:
        merged.update(entries)
    return Map("string", "string", merged, nil=not maps)


def to_json_map(*maps: Mapping[str, str]) -> str:
    """Return the merged maps as JSON; no maps at all give ``null``, as a nil map does in Go."""
    return go_json(dict(merge_maps(*maps)), sort_keys=True) if maps else "null"


def omit_nil(value: Any) -> Any:
    """Return JSON data without nil values; what that empties is nil too."""
    return _omit_nil(value)[0]


def _omit_nil(value: Any) -> tuple[Any, bool]:
    if value is None:
        return None, True
    if isinstance(value, dict):
        kept = {key: _omit_nil(item) for key, item in value.items()}
        if not any(changed for _, changed in kept.values()):
            return value, False
        found = {key: item for key, (item, _) in kept.items() if item is not None}
        return found or None, True
    if isinstance(value, list):
        items = [_omit_nil(item) for item in value]
        if not any(changed for _, changed in items):
            return value, False
        return [item for item, _ in items if item is not None] or None, True
    return value, False


def _string_map(entries: dict[str, str]) -> Map:
    return Map("string", "string", entries)
