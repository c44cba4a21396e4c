"""Istio's template functions.

Follows pkg/kube/inject/template.go ``createInjectionFuncmap`` (1.30.3). Some shadow sprig's functions of the same name with other
semantics: ``indent`` leaves the first line alone, ``contains`` takes the needle first, ``env`` takes a default, ``omit`` works on
map[string]string.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError
from injector.golang.json import go_json
from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import sprint
from injector.gotemplate.sprig.strings import lower, trim
from injector.gotemplate.values import Func, Map, Pointer
from injector.istio import mesh, multus
from injector.istio.goview import plain
from injector.istio.minor import NEWEST, OLDEST
from injector.istio.otel import otel_resource_attributes
from injector.istio.values import float_numbers
from injector.kube.serial import load_json
from injector.kube.yaml import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from injector.istio.minor import Minor

_NON_TCP: Final = frozenset({"UDP", "SCTP"})
_PROXY: Final = "istio-proxy"


@dataclass(frozen=True, slots=True)
class _Row:
    """A function under one name from the minor ``first`` to the minor ``last``; ``make`` builds it for a minor and its environment."""

    name: str
    signature: str
    make: Callable[[Minor, Mapping[str, str]], Callable[..., Any]]
    first: Minor
    last: Minor = NEWEST


def istio_functions(minor: Minor, env: Mapping[str, str]) -> dict[str, Func]:
    """Return the functions that Istio's ``minor`` adds to Go's and sprig's.

    ``env`` stands for istiod's environment, which the function ``env`` reads.
    """
    return {
        row.name: Func(row.name, row.signature, row.make(minor, env)) for row in _ROWS if row.first <= minor <= row.last
    }


def _same(call: Callable[..., Any]) -> Callable[[Minor, Mapping[str, str]], Callable[..., Any]]:
    return lambda _minor, _env: call


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
        return "{}" if message is None else mesh.proto_to_json(message, self.minor)


@dataclass(frozen=True, slots=True)
class _FormatDuration:
    """``formatDuration``: a protobuf duration as Go's time.Duration prints it."""

    unset: str

    def __call__(self, duration: Any) -> str:
        target = duration.target if isinstance(duration, Pointer) else duration
        return self.unset if target is None else mesh.format_duration(target)


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
    text = trim(sprint(port))
    if text in ("", "0"):
        return excluded
    ports = excluded.split(",")
    if text in ports:
        return excluded
    return ",".join([trim(item) for item in ports if trim(item)] + [text])


def value_or_default(value: Any, default: Any) -> Any:
    """Return ``default`` for nil and the empty string, else ``value``."""
    return default if value is None or (type(value) is str and not value) else value


def to_json(entries: Mapping[str, str]) -> str:
    """Return a map[string]string as JSON; a nil map gives ``{}``."""
    return go_json(dict(entries), sort_keys=True)


def from_json(text: str) -> Any:
    """Return decoded JSON; as Istio, the string ``{}`` where it does not decode."""
    try:
        return float_numbers(load_json(text))
    except DataError:
        return "{}"


def struct_to_json(value: Any) -> str:
    """Return any value as encoding/json prints it; nil gives ``{}``."""
    return "{}" if value is None else go_json(plain(value))


def to_yaml(value: Any, *, fold: bool = True) -> str:
    """Return any value as sigs.k8s.io/yaml prints it, with its last newline, or nothing for what JSON does not have.

    1.7 to 1.9 do not fold long lines.
    """
    try:
        return dump_yaml(plain(value), fold=fold)
    except (DataError, FuncError):
        return ""


def indent(spaces: int, source: str) -> str:
    """Return ``source`` with every line but the first indented.

    Raises:
        FuncError: the indentation is absurd (Go would try it).
    """
    if abs(spaces) > 1000:  # noqa: PLR2004 - no YAML nests so deep; a hostile number must not allocate
        raise FuncError(f"indent {spaces} is too wide")
    return source.replace("\n", "\n" + " " * max(spaces, -spaces))


def annotation(meta: Any, name: str, default: Any) -> str:
    """Return a pod's annotation, or ``default`` printed as fmt.Sprint does."""
    value = meta.field("Annotations").get(name)
    return value if value is not None else sprint(default)


@dataclass(frozen=True, slots=True)
class _Ports:
    """``includeInboundPorts`` and ``applicationPorts``: the ports of containers, joined by commas."""

    ignored_protocols: frozenset[str]
    ignored_container: str = ""

    def __call__(self, containers: Iterable[Any]) -> str:
        return ",".join(
            str(port.field("ContainerPort"))
            for container in containers
            if not self.ignored_container or container.field("Name") != self.ignored_container
            for port in container.field("Ports")
            if port.field("Protocol") not in self.ignored_protocols
        )


def _ports(container: str) -> Callable[[Minor, Mapping[str, str]], Callable[..., Any]]:
    return lambda minor, _env: _Ports(_NON_TCP if minor >= (1, 4) else frozenset(), container)


def _string_map(entries: dict[str, str]) -> Map:
    return Map("string", "string", entries)


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


_STRING_MAP: Final = "map[string]string"
_ANY: Final = "interface {}"
_ROWS: Final = (
    _Row(
        "formatDuration",
        f"func({_ANY}) string",
        lambda minor, _: _FormatDuration("1s" if minor < (1, 14) else "0s"),
        OLDEST,
    ),
    _Row("isset", f"func({_STRING_MAP}, string) bool", _same(isset), OLDEST),
    _Row("excludeInboundPort", f"func({_ANY}, string) string", _same(exclude_inbound_port), OLDEST),
    _Row("includeInboundPorts", "func([]v1.Container) string", _ports(""), OLDEST),
    _Row("applicationPorts", "func([]v1.Container) string", _ports(_PROXY), OLDEST),
    _Row("annotation", f"func(v1.ObjectMeta, string, {_ANY}) string", _same(annotation), OLDEST),
    # Later minors have sprig's toJson, which takes anything.
    _Row("toJson", f"func({_STRING_MAP}) string", _same(to_json), OLDEST, (1, 18)),
    _Row("toJSON", f"func({_STRING_MAP}) string", _same(to_json), (1, 1)),
    _Row("kubevirtInterfaces", "func(string) string", _same(str), (1, 1)),
    _Row("valueOrDefault", "func(string, string) string", _same(value_or_default), (1, 1), (1, 1)),
    _Row("valueOrDefault", f"func({_ANY}, {_ANY}) {_ANY}", _same(value_or_default), (1, 2)),
    _Row("fromJSON", f"func(string) {_ANY}", _same(from_json), (1, 1)),
    _Row("toYaml", f"func({_ANY}) string", _same(to_yaml), (1, 1), (1, 6)),
    _Row("toYaml", f"func({_ANY}) string", _same(partial(to_yaml, fold=False)), (1, 7), (1, 9)),
    _Row("toYaml", f"func({_ANY}) string", _same(to_yaml), (1, 10)),
    _Row("indent", "func(int, string) string", _same(indent), (1, 1)),
    _Row("directory", "func(string) string", _same(directory), (1, 1)),
    _Row("contains", "func(string, string) bool", _same(flipped_contains), (1, 2)),
    _Row("structToJSON", f"func({_ANY}) string", _same(struct_to_json), (1, 3)),
    _Row("toLower", "func(string) string", _same(lower), (1, 3)),
    _Row("protoToJSON", f"func({_ANY}) string", lambda minor, _: _ProtoToJson(minor), (1, 4)),
    _Row("env", "func(string, string) string", lambda _, env: _Env(env), (1, 5)),
    _Row("appendMultusNetwork", "func(string, string) string", lambda minor, _: multus.AppendNetwork.of(minor), (1, 8)),
    _Row("excludeInterfaces", "func(string) string", _same(str), (1, 15)),
    _Row("omit", f"func({_STRING_MAP}, ...string) {_STRING_MAP}", _same(omit), (1, 18)),
    _Row("strdict", f"func(...string) {_STRING_MAP}", _same(strdict), (1, 18)),
    _Row("toJsonMap", f"func(...{_STRING_MAP}) string", _same(to_json_map), (1, 18)),
    _Row("mergeMaps", f"func(...{_STRING_MAP}) {_STRING_MAP}", _same(merge_maps), (1, 21)),
    _Row("omitNil", f"func({_ANY}) {_ANY}", _same(omit_nil), (1, 28)),
    _Row(
        "otelResourceAttributes",
        f"func(*v1alpha1.MeshConfig, {_STRING_MAP}, {_STRING_MAP}, string, []v1.Container) string",
        _same(otel_resource_attributes),
        (1, 30),
    ),
)
