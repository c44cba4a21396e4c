"""Istio's template functions.

Follows ``createInjectionFuncmap``, ``appendMultusNetwork`` and ``otelResourceAttributes`` in pkg/kube/inject/template.go (1.30.3),
webhook.go or inject.go before 1.14. Some functions replace sprig's of the same name and behave differently: ``indent`` does not indent
the first line, ``contains`` takes the needle first, ``env`` takes a default, ``omit`` works on map[string]string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError
from injector.golang.json import go_json, load_json
from injector.golang.time import go_duration
from injector.gotemplate import costs
from injector.gotemplate.budget import reserve
from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import sprint
from injector.gotemplate.sprig.strings import lower, trim
from injector.gotemplate.values import Func, Map, Pointer, json_data, type_of
from injector.istio.behaviours import ABSENT, OLDEST, Minor, values_of_minor
from injector.istio.config import float_numbers
from injector.istio.mesh import proto_to_json
from injector.istio.proto import Message, WellKnown
from injector.kube.yaml import dump_yaml
from injector.memo import Memo

if TYPE_CHECKING:
    from injector.gotemplate.costs import Cost

_ATTRIBUTE_PREFIX: Final = "resource.opentelemetry.io/service."


def istio_functions(minor: Minor, env: Mapping[str, str]) -> dict[str, Func]:
    """Return the functions that Istio's ``minor`` adds to those of Go and sprig.

    ``env`` takes the place of istiod's environment, which the function ``env`` reads.
    """
    functions = {
        name: Func(name, f"func{signature}", call, cost=cost)
        for name, (signature, call, cost) in values_of_minor(minor, _FUNCTIONS).items()
    }
    if minor >= (1, 4):
        functions["protoToJSON"] = Func(
            "protoToJSON", f"func({_ANY}) string", partial(_proto_to_json, minor), cost=costs.JSON
        )
    if minor >= (1, 5):
        functions["env"] = Func("env", "func(string, string) string", partial(_env, env), cost=costs.NOTHING)
    return functions


def _env(variables: Mapping[str, str], key: str, default: str) -> str:
    return variables.get(key) or default


def _target(value: Any) -> Any:
    return value.target if isinstance(value, Pointer) else value


def _proto_to_json(minor: Minor, message: Any) -> str:
    target = _target(message)
    if isinstance(target, Message):
        return target.derive(proto_to_json, minor)
    if isinstance(target, WellKnown):
        return go_json(target.json)
    if target is None:
        return "{}"
    raise FuncError(f"wrong type for value; expected proto.Message; got {type_of(message)}")


def _format_duration(duration: Any, *, unset: str = "0s") -> str:
    target = _target(duration)
    return unset if target is None else go_duration(target.plain)


def _isset(entries: Mapping[str, str], key: str) -> bool:
    return key in entries


def _directory(path: str) -> str:
    """Return the path up to and including its last slash, as Go's path.Split."""
    return path[: path.rfind("/") + 1]


def _contains(needle: str, haystack: str) -> bool:
    return needle in haystack


def exclude_inbound_port(port: Any, excluded: str) -> str:
    """Add a port to the comma-separated list ``excluded``, unless it is empty, 0 or already in the list."""
    text = trim(sprint(port))
    if text in ("", "0"):
        return excluded
    ports = excluded.split(",")
    if text in ports:
        return excluded
    return ",".join([trim(item) for item in ports if trim(item)] + [text])


def _value_or_default(value: Any, default: Any) -> Any:
    """Return ``default`` for nil and the empty string, else ``value``."""
    return default if value is None or (type(value) is str and not value) else value


def _to_json(entries: Mapping[str, str]) -> str:
    return go_json(dict(entries), sort_keys=True)


def _from_json(text: str) -> Any:
    """Decode JSON; if it is not valid, return the string ``{}``, as Istio does."""
    try:
        return float_numbers(load_json(text))
    except DataError:
        return "{}"


def _struct_to_json(value: Any) -> str:
    return "{}" if value is None else go_json(json_data(value))


def _to_yaml(value: Any, *, fold: bool = True) -> str:
    """Write a value as sigs.k8s.io/yaml does, with its last newline; a value that JSON cannot express gives an empty text.

    1.7 to 1.9 do not fold long lines.
    """
    try:
        data = json_data(value)
        return _YAML.get((repr(data), fold), lambda _: dump_yaml(data, fold=fold))
    except (DataError, FuncError):
        return ""


_YAML: Final[Memo[tuple[str, bool], str]] = Memo(256, 256 << 10, lambda key: len(key[0]))
"""Texts by the data as Python prints it: most are the resources of the proxy. 4 percent of a request."""


def _indent(spaces: int, source: str) -> str:
    """Indent every line but the first."""
    if abs(spaces) > 1000:  # noqa: PLR2004 - no YAML nests so deep; a hostile number must not allocate
        raise FuncError(f"indent {spaces} is too wide")
    return source.replace("\n", "\n" + " " * abs(spaces))


def _annotation(meta: Any, name: str, default: Any) -> str:
    """Return a pod's annotation, or ``default`` printed as fmt.Sprint does."""
    value: str | None = meta.field("Annotations").get(name)
    if value is not None:
        return value
    if default.__class__ is str:
        return default
    text = sprint(default)
    reserve(len(text))
    return text


def _ports(containers: Iterable[Any], *, skip: str = "", protocols: frozenset[str] = frozenset({"UDP", "SCTP"})) -> str:
    """Return the ports of containers, joined by commas, except those of the container ``skip`` and of some protocols."""
    return ",".join(
        str(port.field("ContainerPort"))
        for container in containers
        if not skip or container.field("Name") != skip
        for port in container.field("Ports")
        if port.field("Protocol") not in protocols
    )


def _string_map(entries: dict[str, str], *, nil: bool = False) -> Map:
    return Map("string", "string", entries, nil=nil)


def _omit(entries: Mapping[str, str], *keys: str) -> Map:
    return _string_map({key: value for key, value in entries.items() if key not in keys})


def _strdict(*pairs: str) -> Map:
    """Make a map[string]string of alternating keys and values; a last key without a value gets the empty string."""
    values = [*pairs[1::2], ""]
    return _string_map(dict(zip(pairs[::2], values, strict=False)))


def _merge_maps(*maps: Mapping[str, str]) -> Map:
    """Merge maps; the later ones win."""
    merged: dict[str, str] = {}
    for entries in maps:
        merged.update(entries)
    return _string_map(merged, nil=not maps)


def _to_json_map(*maps: Mapping[str, str]) -> str:
    """Return the merged maps as JSON; no maps at all give ``null``, as a nil map does in Go."""
    return _to_json(_merge_maps(*maps)) if maps else "null"


def _omit_nil(value: Any) -> Any:
    """Remove nil values from JSON data, and the maps and lists that this empties."""
    return _without_nil(value)[0]


def _without_nil(value: Any) -> tuple[Any, bool]:
    """Return the value and whether it was changed."""
    if value is None:
        return None, True
    if isinstance(value, dict):
        pairs = {key: _without_nil(item) for key, item in value.items()}
        if not any(changed for _, changed in pairs.values()):
            return value, False
        return {key: item for key, (item, _) in pairs.items() if item is not None} or None, True
    if isinstance(value, list):
        items = [_without_nil(item) for item in value]
        if not any(changed for _, changed in items):
            return value, False
        return [item for item, _ in items if item is not None] or None, True
    return value, False


def append_multus_network(existing: str, network: str, *, once: bool = True, namespaced: bool = True) -> str:
    """Append a network to the annotation ``k8s.v1.cni.cncf.io/networks``, a comma-separated text or a JSON array.

    ``once`` skips a network that is already listed, and an array that is not valid JSON (since 1.9). ``namespaced`` splits
    ``namespace/name`` into two fields of the JSON object (since 1.23).
    """
    if not existing:
        return network
    end = existing.rfind("]")
    if end < 0:
        listed = once and network in (item.strip() for item in existing.split(","))
        return existing if listed else f"{existing}, {network}"
    namespace, _, name = network.partition("/") if namespaced and "/" in network else ("", "", network)
    if once:
        networks = _networks(existing)
        if networks is None or any(
            item.get("name") == name and (not namespaced or (item.get("namespace") or "") == namespace)
            for item in networks
        ):
            return existing
    added = f', {{"name": "{name}", "namespace": "{namespace}"}}' if namespace else f', {{"name": "{name}"}}'
    return existing[:end] + added + existing[end:]


def _networks(text: str) -> list[dict[str, Any]] | None:
    try:
        networks = load_json(text)
    except DataError:
        return None
    valid = isinstance(networks, list) and all(isinstance(item, dict) for item in networks)
    return networks if valid else None


def _otel_resource_attributes(
    mesh_config: Any,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    namespace: str,
    containers: Sequence[Any],
) -> str:
    """Return the pod's OpenTelemetry attributes as ``key=value`` pairs, if a provider asks for the semantic conventions.

    Annotations override the pod's own data. ``service.instance.id`` contains ``$(POD_NAME)``, which Kubernetes expands: a pod has no
    name yet when it is injected.
    """
    message = _target(mesh_config)
    if message is None or not message.derive(_has_enriching_provider):
        return ""
    attributes = {
        "namespace": annotations.get(_ATTRIBUTE_PREFIX + "namespace") or namespace,
        "version": annotations.get(_ATTRIBUTE_PREFIX + "version")
        or labels.get("app.kubernetes.io/version")
        or (_image_version(containers[0].field("Image")) if len(containers) == 1 else ""),
        "instance.id": annotations.get(_ATTRIBUTE_PREFIX + "instance.id")
        or (f"{namespace}.$(POD_NAME).{containers[0].field('Name')}" if containers else ""),
    }
    return ",".join(f"service.{key}={value}" for key, value in attributes.items() if value)


def _has_enriching_provider(message: Any) -> bool:
    for provider in message.field("ExtensionProviders"):
        otel = _get(_target(provider), "GetOpentelemetry")
        if otel is not None and str(_get(otel, "GetServiceAttributeEnrichment")) == "OTEL_SEMANTIC_CONVENTIONS":
            return True
    return False


def _get(message: Any, getter: str) -> Any:
    method = message.method(getter)
    return _target(method.call()) if method is not None else None


def _image_version(image: str) -> str:
    name, _, digest = image.partition("@")
    slash, colon = name.rfind("/"), name.rfind(":")
    tag = name[colon + 1 :] if colon > slash else ""
    return "@".join(part for part in (tag, digest) if part)


_STRING_MAP: Final = "map[string]string"
_ANY: Final = "interface {}"
_DURATION: Final = "*durationpb.Duration"
_OF_CONTAINERS: Final = "([]v1.Container) string"
_OF_NETWORKS: Final = "(string, string) string"
_FUNCTIONS: Final[dict[str, dict[Minor, tuple[str, Callable[..., Any], Cost]]]] = {
    "formatDuration": {
        OLDEST: (f"({_DURATION}) string", partial(_format_duration, unset="1s"), costs.DURATIONS),
        (1, 14): (f"({_DURATION}) string", _format_duration, costs.DURATIONS),
    },
    "isset": {OLDEST: (f"({_STRING_MAP}, string) bool", _isset, costs.NOTHING)},
    "excludeInboundPort": {OLDEST: (f"({_ANY}, string) string", exclude_inbound_port, costs.PARTS)},
    "includeInboundPorts": {
        OLDEST: (_OF_CONTAINERS, partial(_ports, protocols=frozenset()), costs.CONTAINERS),
        (1, 4): (_OF_CONTAINERS, _ports, costs.CONTAINERS),
    },
    "applicationPorts": {
        OLDEST: (_OF_CONTAINERS, partial(_ports, skip="istio-proxy", protocols=frozenset()), costs.CONTAINERS),
        (1, 4): (_OF_CONTAINERS, partial(_ports, skip="istio-proxy"), costs.CONTAINERS),
    },
    "annotation": {OLDEST: (f"(v1.ObjectMeta, string, {_ANY}) string", _annotation, costs.NOTHING)},
    # Later minors have sprig's toJson, which takes any value.
    "toJson": {OLDEST: (f"({_STRING_MAP}) string", _to_json, costs.JSON), (1, 19): ABSENT},
    "toJSON": {(1, 1): (f"({_STRING_MAP}) string", _to_json, costs.JSON)},
    "kubevirtInterfaces": {(1, 1): ("(string) string", str, costs.NOTHING)},
    "valueOrDefault": {
        (1, 1): ("(string, string) string", _value_or_default, costs.NOTHING),
        (1, 2): (f"({_ANY}, {_ANY}) {_ANY}", _value_or_default, costs.NOTHING),
    },
    "fromJSON": {(1, 1): (f"(string) {_ANY}", _from_json, costs.READ_JSON)},
    "toYaml": {
        (1, 1): (f"({_ANY}) string", _to_yaml, costs.YAML),
        (1, 7): (f"({_ANY}) string", partial(_to_yaml, fold=False), costs.YAML),
        (1, 10): (f"({_ANY}) string", _to_yaml, costs.YAML),
    },
    "indent": {(1, 1): ("(int, string) string", _indent, costs.COPY)},
    "directory": {(1, 1): ("(string) string", _directory, costs.SCAN)},
    "contains": {(1, 2): ("(string, string) bool", _contains, costs.PASS)},
    "structToJSON": {(1, 3): (f"({_ANY}) string", _struct_to_json, costs.JSON)},
    "toLower": {(1, 3): ("(string) string", lower, costs.BY_CHARACTER)},
    "appendMultusNetwork": {
        (1, 8): (_OF_NETWORKS, partial(append_multus_network, once=False, namespaced=False), costs.READ_JSON),
        (1, 9): (_OF_NETWORKS, partial(append_multus_network, namespaced=False), costs.READ_JSON),
        (1, 23): (_OF_NETWORKS, append_multus_network, costs.READ_JSON),
    },
    "excludeInterfaces": {(1, 15): ("(string) string", str, costs.NOTHING)},
    "omit": {(1, 18): (f"({_STRING_MAP}, ...string) {_STRING_MAP}", _omit, costs.COPY)},
    "strdict": {(1, 18): (f"(...string) {_STRING_MAP}", _strdict, costs.COPY)},
    "toJsonMap": {(1, 18): (f"(...{_STRING_MAP}) string", _to_json_map, costs.JSON)},
    "mergeMaps": {(1, 21): (f"(...{_STRING_MAP}) {_STRING_MAP}", _merge_maps, costs.COPY)},
    "omitNil": {(1, 28): (f"({_ANY}) {_ANY}", _omit_nil, costs.ANY)},
    "otelResourceAttributes": {
        (1, 30): (
            f"(*v1alpha1.MeshConfig, {_STRING_MAP}, {_STRING_MAP}, string, []v1.Container) string",
            _otel_resource_attributes,
            costs.NOTHING,
        )
    },
}
"""The signature, the function and the cost of each function, by the first minor that has it so."""
