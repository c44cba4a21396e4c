"""Istio's ConfigMaps as the texts of revisions.

istiod and the chart name them ``istio-sidecar-injector`` and ``istio`` for the default revision, with ``-<revision>``
behind for any other, and label both ``istio.io/rev`` since Istio 1.6. The name decides, as it does for istiod; the label
is how they are found among the other ConfigMaps of the namespace, and some of those have it too (``istio-cni-config``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, DataError
from injector.istio.webhooks import DEFAULT_NAME, REVISION_LABEL
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INJECTOR: Final = "istio-sidecar-injector"
MESH: Final = "istio"
SETTINGS_KEY: Final = "revision.yaml"

_KEYS: Final = {
    INJECTOR: ("config", "values", SETTINGS_KEY),
    MESH: ("mesh", "meshNetworks"),
}
"""The keys that are read, of each ConfigMap."""


@dataclass(frozen=True, slots=True)
class IstioConfigMap:
    """One of the two ConfigMaps of a revision; ``kind`` is its name without the revision."""

    kind: str
    revision: str
    name: str
    data: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RevisionTexts:
    """One revision as its two ConfigMaps hold it; ``settings`` is what ``revision.yaml`` would say."""

    name: str
    config: str
    values: str | None
    mesh: str | None
    mesh_networks: str | None
    origin: str
    files: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """The revisions of a cluster, and what is wrong with those that cannot be read, by name."""

    revisions: tuple[RevisionTexts, ...]
    failures: Mapping[str, DataError]


def istio_config_map(item: Mapping[str, Any]) -> IstioConfigMap | None:
    """Return what of a ConfigMap concerns a revision; None for any other ConfigMap."""
    name = str(item["metadata"].get("name", ""))
    kind = next((each for each in _KEYS if name == each or name.startswith(f"{each}-")), None)
    if kind is None:
        return None
    data = item.get("data") or {}
    texts = {key: data[key] for key in _KEYS[kind] if isinstance(data.get(key), str)}
    # The chart's other ConfigMaps begin with `istio-` too: without the key it is no mesh config.
    if kind == MESH and not texts and name != MESH:
        return None
    return IstioConfigMap(kind, name.removeprefix(kind).removeprefix("-") or DEFAULT_NAME, name, texts)


def revision_texts(config_maps: Iterable[IstioConfigMap], *, namespace: str) -> Found:
    """Pair the ConfigMaps, and return a revision for each pair."""
    halves: dict[str, dict[str, IstioConfigMap]] = {}
    # `istio-sidecar-injector` goes before `istio-sidecar-injector-default`: istiod reads that one.
    for each in sorted(config_maps, key=lambda half: len(half.name)):
        halves.setdefault(each.revision, {}).setdefault(each.kind, each)
    revisions: list[RevisionTexts] = []
    failures: dict[str, DataError] = {}
    for name, pair in sorted(halves.items()):
        try:
            revisions.append(_paired(name, pair, namespace))
        except DataError as error:
            failures[name] = error
    return Found(tuple(revisions), failures)


def _paired(name: str, pair: Mapping[str, IstioConfigMap], namespace: str) -> RevisionTexts:
    for kind in _KEYS:
        if kind not in pair:
            raise _lonely(name, kind, next(iter(pair.values())), namespace)
    injector, mesh = pair[INJECTOR], pair[MESH]
    if "config" not in injector.data:
        raise ConfigError(
            "it has no key `config`",
            where=_place(injector, namespace),
            hint="install the control plane's ConfigMap again, or delete it",
        )
    return RevisionTexts(
        name=name,
        config=injector.data["config"],
        values=injector.data.get("values"),
        mesh=mesh.data.get("mesh"),
        mesh_networks=mesh.data.get("meshNetworks"),
        origin=_place(injector, namespace),
        files={"mesh": f"{_place(mesh, namespace)}: mesh"},
        settings=_settings(injector, namespace),
    )


def _lonely(name: str, missing: str, other: IstioConfigMap, namespace: str) -> ConfigError:
    wanted = missing + other.name.removeprefix(other.kind)
    return ConfigError(
        f"revision `{name}` has no ConfigMap {wanted}",
        where=_place(other, namespace),
        hint=f"install {wanted} with label {REVISION_LABEL}, or delete {other.name}",
    )


def _place(config_map: IstioConfigMap, namespace: str) -> str:
    return f"ConfigMap {namespace}/{config_map.name}"


def _settings(injector: IstioConfigMap, namespace: str) -> dict[str, Any]:
    """Return what ``revision.yaml`` says, and of istiod's own environment what the values know.

    Since Istio 1.22 or so the chart writes ``pilot.env``, istiod's feature variables, into the key ``values``, and
    ``global.platform`` is what it sets ``PLATFORM`` to.
    """
    stated = _mapping(injector.data.get(SETTINGS_KEY), where=f"{_place(injector, namespace)}: {SETTINGS_KEY}")
    env = _environment(injector.data.get("values"))
    said = stated.get("env")
    if env and isinstance(said, dict | None):
        return {**stated, "env": {**env, **(said or {})}}
    return stated


def _environment(values: str | None) -> dict[str, str]:
    try:
        tree = _mapping(values, where="values")
    except DataError:
        return {}  # building the revision says what is wrong with them
    variables = _at(tree, "pilot", "env")
    env = {str(name): _text(value) for name, value in variables.items() if isinstance(value, str | bool | int | float)}
    platform = _at(tree, "global").get("platform")
    return {**({"PLATFORM": platform} if isinstance(platform, str) and platform else {}), **env}


def _at(tree: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        below = tree.get(key)
        tree = below if isinstance(below, dict) else {}
    return tree


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _mapping(text: str | None, *, where: str) -> dict[str, Any]:
    raw = None if text is None else load_yaml(text, where=where)
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError("it is no mapping", where=where, hint='write lines such as `istioVersion: "1.24"`')
    return raw
