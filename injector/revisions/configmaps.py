"""Istio's ConfigMaps in a cluster: the two of each revision.

istiod and its chart name the two ConfigMaps of the default revision ``istio-sidecar-injector`` and ``istio``. Those of other revisions end
in ``-<revision>``. Since Istio 1.6 both have the label ``istio.io/rev``. As for istiod, the name decides; the label only selects them among
the other ConfigMaps of the namespace, some of which also have it (``istio-cni-config``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from injector.errors import ConfigError, DataError
from injector.istio.labels import DEFAULT_NAME, REVISION_LABEL
from injector.memo import Memo
from injector.revisions.names import check_name
from injector.revisions.source import SETTINGS_KEY, ClusterFacts, RawRevision, parse_settings

INJECTOR: Final = "istio-sidecar-injector"
MESH: Final = "istio"
_KEYS: Final = {INJECTOR: ("config", "values", SETTINGS_KEY), MESH: ("mesh", "meshNetworks")}
"""The keys that are read from each ConfigMap."""


_CONFIGS: Final[Memo[str, str]] = Memo(64, 8 << 20, len)
"""Inject configs by themselves. The revisions of a minor mostly have the same one, of 100 KB, which is thus kept once."""


@dataclass(frozen=True, slots=True)
class IstioConfigMap:
    """One of the two ConfigMaps of a revision; ``kind`` is its name without the revision."""

    kind: str
    revision: str
    namespace: str
    name: str
    data: Mapping[str, str]

    @property
    def place(self) -> str:
        """How messages name the ConfigMap."""
        return f"ConfigMap {self.namespace}/{self.name}"


def istio_config_map(item: Mapping[str, Any]) -> IstioConfigMap | None:
    """Return the keys of a ConfigMap that belong to a revision; None for any other ConfigMap."""
    name = str(item["metadata"].get("name", ""))
    kind = next((key for key in _KEYS if name == key or name.startswith(f"{key}-")), None)
    if kind is None:
        return None
    texts = _texts(kind, item)
    # Other ConfigMaps of the chart also start with `istio-`; only a mesh config has one of the keys.
    if kind == MESH and not texts and name != MESH:
        return None
    revision = name.removeprefix(kind).removeprefix("-") or DEFAULT_NAME
    return IstioConfigMap(kind, revision, item["metadata"].get("namespace", ""), name, texts)


def _texts(kind: str, item: Mapping[str, Any]) -> dict[str, str]:
    data = item.get("data")
    texts = {key: data[key] for key in _KEYS[kind] if isinstance(data, dict) and isinstance(data.get(key), str)}
    if "config" in texts:
        texts["config"] = _CONFIGS.get(texts["config"], str)
    return texts


def raw_revisions(
    config_maps: Iterable[IstioConfigMap], *, facts: ClusterFacts | None = None
) -> tuple[tuple[RawRevision, ...], dict[str, DataError]]:
    """Pair the ConfigMaps, and return the revision of each pair and the errors of the others, by name.

    Two namespaces cannot have a revision of the same name: it is an error.
    """
    halves: dict[str, dict[str, dict[str, IstioConfigMap]]] = {}
    # `istio-sidecar-injector` takes precedence over `istio-sidecar-injector-default`, as in istiod.
    for half in sorted(config_maps, key=lambda half: len(half.name)):
        halves.setdefault(half.revision, {}).setdefault(half.namespace, {}).setdefault(half.kind, half)
    revisions: list[RawRevision] = []
    failures: dict[str, DataError] = {}
    for name, by_namespace in sorted(halves.items()):
        pair, *others = by_namespace.values()
        try:
            if others:
                raise _clash(name, (pair, *others))
            revisions.append(_raw_revision(name, pair, facts or ClusterFacts()))
        except DataError as error:
            failures[name] = error
    return tuple(revisions), failures


def _clash(name: str, pairs: Iterable[Mapping[str, IstioConfigMap]]) -> ConfigError:
    places = sorted((pair.get(INJECTOR) or pair[MESH]).place for pair in pairs)
    return ConfigError(
        f"revision `{name}` is also in {', '.join(places[1:])}",
        where=places[0],
        hint="install one of the control planes with another revision",
    )


def named_revision(name: str, items: Mapping[str, Mapping[str, Any]], *, namespace: str) -> RawRevision:
    """Return the revision of the ConfigMaps ``INJECTOR`` and ``MESH``, whatever their names. Raises DataError if it is not valid."""
    pair = {
        kind: IstioConfigMap(kind, name, namespace, item["metadata"]["name"], _texts(kind, item))
        for kind, item in items.items()
    }
    return _raw_revision(name, pair, ClusterFacts())


def _raw_revision(name: str, pair: Mapping[str, IstioConfigMap], facts: ClusterFacts) -> RawRevision:
    for kind in _KEYS:
        if kind not in pair:
            raise _missing(name, kind, next(iter(pair.values())))
    injector, mesh = pair[INJECTOR], pair[MESH]
    origin = injector.place
    if "config" not in injector.data:
        hint = "install the control plane's ConfigMap again, or delete it"
        raise ConfigError("it has no key `config`", where=origin, hint=hint)
    return RawRevision(
        name=check_name(name, where=origin),
        config=injector.data["config"],
        values=injector.data.get("values"),
        mesh=mesh.data.get("mesh"),
        settings=parse_settings(injector.data.get(SETTINGS_KEY), where=f"{origin}: {SETTINGS_KEY}"),
        origin=origin,
        files={"mesh": f"{mesh.place}: mesh"},
        facts=facts,
        namespace=injector.namespace,
    )


def _missing(name: str, missing: str, other: IstioConfigMap) -> ConfigError:
    wanted = missing + other.name.removeprefix(other.kind)
    return ConfigError(
        f"revision `{name}` has no ConfigMap {wanted}",
        where=other.place,
        hint=f"install {wanted} with label {REVISION_LABEL}, or delete {other.name}",
    )
