"""The mesh config: the key ``mesh`` of ConfigMap ``istio``, with the ProxyConfig of single pods on top.

Follows ``ApplyMeshConfig``, ``MergeProxyConfig`` and ``ApplyProxyConfig`` in pkg/config/mesh/mesh.go (1.30.3) and ``cleanProxyConfig`` in
pkg/kube/inject/template.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.errors import AnnotationError, ConfigError, DataError
from injector.istio.frozen import frozen
from injector.istio.meshdefaults import default_mesh_config, default_proxy_config
from injector.istio.proto import Message, parse_message, to_json
from injector.istio.protoschema import mesh_config_type, message_type, proxy_config_type
from injector.istio.wellknown import format_duration
from injector.kube.serial import load_yaml
from injector.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.istio.minor import Minor

__all__ = [
    "MOST_VALUES",
    "apply_proxy_config",
    "format_duration",
    "parse_mesh_config",
    "proto_to_json",
    "read_proxy_config",
]

# proxyMetadata is merged by key, and proxyHeaders by field, from these minors on; before, a document's replaces what was there.
_METADATA_MERGED: Final[Minor] = (1, 10)
_HEADERS_MERGED: Final[Minor] = (1, 19)
_PROVIDERS_MERGED: Final[Minor] = (1, 11)
_ALIASES_SORTED: Final[Minor] = (1, 12)
MOST_VALUES: Final = 2_000
"""Values in the ProxyConfig of a pod, keys included: each is looked at more than once for each admission."""
# Before, a ProxyConfig has its service cluster alone, and this field is one that Istio does not know.
_TRACING_NAME: Final = ("tracingServiceName", "tracing_service_name")
_FIRST_TRACING_NAME: Final[Minor] = (1, 13)
_HEADERS: Final = ("forwardedClientCert", "requestId", "attemptCount", "server", "envoyDebugHeaders")
# What protoToJSON leaves out of a ProxyConfig where it equals the minor's default, with the minors that do.
_CLEANED: Final[tuple[tuple[str, Minor, Minor], ...]] = (
    *((name, (1, 6), (9, 9)) for name in ("configPath", "binaryPath", "serviceCluster", "drainDuration")),
    ("parentShutdownDuration", (1, 6), (1, 16)),
    *((name, (1, 7), (9, 9)) for name in ("controlPlaneAuthPolicy", "terminationDrainDuration")),
    *(
        (name, (1, 6), (9, 9))
        for name in (
            "discoveryAddress",
            "envoyMetricsService",
            "envoyAccessLogService",
            "tracing",
            "proxyAdminPort",
            "statNameLength",
            "statusPort",
            "concurrency",
        )
    ),
)


def parse_mesh_config(text: str | None, minor: Minor, *, where: str = "mesh") -> Message:
    """Read a mesh config on top of the minor's defaults; None gives the defaults.

    Raises:
        ConfigError: it is no mapping, or a field has the wrong type.
    """
    data = load_yaml(text, where=where) if text is not None else {}
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError("a mesh config is a mapping", where=where, hint="give the key `mesh` of ConfigMap istio")
    defaults = default_mesh_config(minor)
    merged = parse_message(mesh_config_type(minor), data, base=defaults, where=where)
    overlay = data.get("defaultConfig")
    proxy = defaults["defaultConfig"]
    if overlay is not None:
        proxy = _merged_proxy_config(proxy, overlay, minor, where)
    fields = {**merged.values, "defaultConfig": proxy}
    if minor >= _PROVIDERS_MERGED:
        fields["extensionProviders"] = _merged_providers(defaults["extensionProviders"], merged.values)
    if minor >= _ALIASES_SORTED and "trustDomainAliases" in fields:
        fields["trustDomainAliases"] = sorted(set(fields["trustDomainAliases"]))
    return Message(merged.kind, frozen(fields))


def _merged_providers(defaults: list[Any], document: Mapping[str, Any]) -> list[Any]:
    """Return the default extension providers with those of the document: each takes its name's place, or the last one."""
    by_name = {item["name"]: item for item in defaults}
    by_name.update((item.get("name", ""), item) for item in document["extensionProviders"])
    return list(by_name.values())


def read_proxy_config(data: Any, minor: Minor, *, base: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return the fields of a ProxyConfig, in plain form: what the minor reads of JSON data on top of ``base``.

    Raises:
        ConfigError: it is no mapping, or a field has the wrong type.
    """
    if minor < _FIRST_TRACING_NAME and isinstance(data, dict):
        data = {key: value for key, value in data.items() if key not in _TRACING_NAME}
    return dict(parse_message(proxy_config_type(minor), data, base=base, where=where).values)


def _merged_proxy_config(base: Mapping[str, Any], overlay: Any, minor: Minor, where: str) -> dict[str, Any]:
    merged = read_proxy_config(overlay, minor, base=base, where=where)
    if minor >= _METADATA_MERGED and (base.get("proxyMetadata") or merged.get("proxyMetadata")):
        merged["proxyMetadata"] = {**(base.get("proxyMetadata") or {}), **(merged.get("proxyMetadata") or {})}
    old, new = base.get("proxyHeaders"), merged.get("proxyHeaders")
    if minor >= _HEADERS_MERGED and old is not None and new is not None:
        kept = {name: old[name] for name in _HEADERS if name in old and new.get(name) is None}
        merged["proxyHeaders"] = {**new, **kept}
    return merged


_MESSAGES: Final = 256
_CHARACTERS: Final = 256 << 10
"""How many messages are kept, and how long the annotations that they come from are together. Messages are immutable, so each is known
by its identity. Few workloads have a ProxyConfig of their own, and the others share that of the mesh."""
_APPLIED: Final[Memo[tuple[str, Message, Minor], Message]] = Memo(_MESSAGES, _CHARACTERS, lambda key: len(key[0]) + 1)


def apply_proxy_config(text: str, mesh: Message, minor: Minor) -> Message:
    """Return the mesh config with a pod's annotation ``proxy.istio.io/config`` on top of its default ProxyConfig.

    Raises:
        AnnotationError: the annotation is no ProxyConfig.
    """
    return _APPLIED.get((text, mesh, minor), _apply_proxy_config)


def _apply_proxy_config(key: tuple[str, Message, Minor]) -> Message:
    text, mesh, minor = key
    where = "metadata.annotations[proxy.istio.io/config]"
    try:
        data = load_yaml(text, where=where, most=MOST_VALUES)
        proxy = _merged_proxy_config(mesh.values["defaultConfig"], {} if data is None else data, minor, where)
    except DataError as error:
        raise AnnotationError(f"could not parse proxy config: {error.what}", where=where, hint=error.hint) from error
    return Message(mesh.kind, frozen({**mesh.values, "defaultConfig": proxy}))


_JSON: Final[Memo[tuple[Message, Minor], str]] = Memo(_MESSAGES, _MESSAGES, lambda _key: 1)


def proto_to_json(message: Message, minor: Minor) -> str:
    """Return a message as the template function protoToJSON does: a ProxyConfig without the minor's defaults."""
    return _JSON.get((message, minor), _proto_to_json)


def _proto_to_json(key: tuple[Message, Minor]) -> str:
    message, minor = key
    if message.kind is not message_type(proxy_config_type(minor)):
        return to_json(message)
    defaults = default_proxy_config(minor)
    cleaned = {name for name, first, last in _CLEANED if first <= minor <= last}
    kept = {
        name: value
        for name, value in message.values.items()
        if name not in cleaned or name not in defaults or value != defaults[name]
    }
    return to_json(Message(message.kind, kept))
