"""Sources of revisions in files: a directory, single files, the embedded revisions, and a combination of two sources.

A folder may be a mounted ConfigMap, whose files are links into ``..data``. Names that start with a dot belong to the kubelet or an editor
and are never revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from injector.errors import ConfigError, DataError, ManifestError
from injector.istio.labels import DEFAULT_NAME
from injector.istio.proxyconfig import GROUP, KIND, ProxyConfigResource, ProxyConfigs, read_proxy_config_resource
from injector.kube.yaml import objects_in
from injector.revisions.files import read_nonempty, required_text
from injector.revisions.names import check_name
from injector.revisions.source import SETTINGS_KEY, ClusterFacts, RawRevision, SourceState, parse_settings
from injector.revisions.tags import Tag, parse_tags

CONFIG_FILES: Final = ("config", "config.yaml")
TAGS_FILE: Final = "tags.yaml"
SHARED_MESH_FILE: Final = "shared-mesh"
PROXY_CONFIGS_FILE: Final = "proxyconfigs.yaml"


_PACKAGE: Final = Path(__file__).resolve().parents[1]
_IN_WHEEL: Final = _PACKAGE / "_revisions"
# A source tree, and an editable install of it, has them at the top.
EMBEDDED: Final = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent / "revisions"
"""The folder of the embedded revisions: two examples, which are used only if the user asks for them."""


def read_directory(path: Path) -> SourceState:
    """Read the revisions below one directory, its ``tags.yaml`` and its ``proxyconfigs.yaml``.

    Returns:
        Every revision that can be read, and the errors of the others.

    Raises:
        ConfigError: the directory itself cannot be read, or its ProxyConfigs are not valid.
    """
    folders = _folders(path)
    facts = ClusterFacts(proxy_configs=read_proxy_configs(path / PROXY_CONFIGS_FILE))
    revisions: list[RawRevision] = []
    failures: dict[str, DataError] = {}
    for folder in folders:
        try:
            revisions.append(replace(read_folder(folder), facts=facts))
        except DataError as error:
            failures[folder.name] = error
    tags, tags_error = _tags(path / TAGS_FILE)
    return SourceState(tuple(revisions), failures, tags, tags_error, facts=facts)


def _folders(path: Path) -> list[Path]:
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise ConfigError(
            f"cannot be read as a directory of revisions: {error.strerror}",
            where=str(path),
            hint="give --revisions-dir a folder with one folder for each revision",
        ) from error
    return [entry for entry in entries if not entry.name.startswith(".") and _is_folder(entry)]


def _is_folder(entry: Path) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return True  # a link that may not be followed; reading its files says why


def _tags(path: Path) -> tuple[dict[str, Tag], DataError | None]:
    try:
        text = read_nonempty(path)
        return ({} if text is None else parse_tags(text, where=str(path))), None
    except DataError as error:
        return {}, error


def read_proxy_configs(path: Path) -> ProxyConfigs:
    """Read ProxyConfig resources as ``kubectl get proxyconfigs -A -o yaml`` prints them; none if the file does not exist.

    They are checked as Istio's validating webhook does it (``ValidateProxyConfig`` in pkg/config/validation/validation.go, 1.30.3).

    Raises:
        ConfigError: a resource is not valid, or the file cannot be read.
    """
    resources: dict[str, ProxyConfigResource] = {}
    try:
        for where, item in objects_in(read_nonempty(path) or "", where=str(path)):
            if item.get("kind") != KIND or not str(item.get("apiVersion")).startswith(f"{GROUP}/"):
                raise ConfigError("an object of another kind", where=where, hint=f"keep only {GROUP} {KIND} objects")
            resource = read_proxy_config_resource(item, where=where)
            if (fault := resource.fault()) or str(resource) in resources:
                what = fault or "it occurs twice"
                raise ConfigError(what, where=f"{where}: {KIND} {resource}", hint="correct it, or delete it")
            resources[str(resource)] = resource
    except ManifestError as error:
        raise ConfigError(error.what, where=error.where, hint=error.hint) from error
    return ProxyConfigs.of(resources.values())


def read_folder(folder: Path) -> RawRevision:
    """Read one revision's folder. Raises DataError if its name cannot name a revision, it has no config, or a file cannot be read."""
    name = check_name(folder.name, where=str(folder))
    config = next((text for file in CONFIG_FILES if (text := read_nonempty(folder / file)) is not None), None)
    if config is None:
        raise ConfigError(
            f"it has no `{CONFIG_FILES[0]}`",
            where=str(folder),
            hint="put the key `config` of ConfigMap istio-sidecar-injector there",
        )
    return RawRevision(
        name=name,
        config=config,
        values=read_nonempty(folder / "values"),
        mesh=read_nonempty(folder / "mesh"),
        shared_mesh=read_nonempty(folder / SHARED_MESH_FILE),
        settings=parse_settings(read_nonempty(folder / SETTINGS_KEY), where=str(folder / SETTINGS_KEY)),
        origin=str(folder),
    )


def read_single(
    config: Path,
    values: Path | None = None,
    mesh: Path | None = None,
    *,
    name: str = DEFAULT_NAME,
    settings: Mapping[str, Any] | None = None,
    read: Callable[[Path], str | None] = read_nonempty,
) -> SourceState:
    """Read the revision of ``--injectConfig`` and its companions by ``read``.

    Raises ConfigError if a file or the name cannot be used.
    """
    check_name(name, where="--revision")
    files = {key: path for key, path in (("config", config), ("values", values), ("mesh", mesh)) if path is not None}
    texts = {key: required_text(path, read) for key, path in files.items()}
    raw = RawRevision(
        name=name,
        config=texts["config"],
        values=texts.get("values"),
        mesh=texts.get("mesh"),
        settings=settings or {},
        origin=str(config),
        files={key: str(path) for key, path in files.items()},
    )
    return SourceState((raw,), default=name)


def merge_states(first: SourceState, second: SourceState) -> SourceState:
    """Return two states as one. The first takes precedence; a note says which revisions and tags of the second are hidden.

    An operator can thus put a revision of the cluster into a folder to try a change. The facts of both, of which the second is a cluster,
    apply to all revisions.
    """
    own = first.names
    hidden = [raw for raw in second.revisions if raw.name in own]
    facts = replace(second.facts, proxy_configs=first.facts.proxy_configs.merge_over(second.facts.proxy_configs))
    raws = (*first.revisions, *(raw for raw in second.revisions if raw.name not in own))
    return replace(
        first,
        revisions=tuple(replace(raw, facts=facts) for raw in raws),
        failures={**_without_names(second.failures, own), **first.failures},
        tags={**second.tags, **first.tags},
        tags_error=first.tags_error or second.tags_error,
        default=first.default or second.default,
        notes=_notes(first, second, hidden),
        tag_faults={**_without_names(second.tag_faults, first.tags), **first.tag_faults},
        facts=facts,
        webhook_faults=(*first.webhook_faults, *second.webhook_faults),
    )


def _without_names(errors: Mapping[str, DataError], own: Collection[str]) -> dict[str, DataError]:
    """Return the errors of the second source whose names the first does not have."""
    return {name: error for name, error in errors.items() if name not in own}


def _notes(first: SourceState, second: SourceState, hidden: list[RawRevision]) -> dict[str, tuple[str, ...]]:
    notes = {**second.notes, **first.notes}
    for raw in hidden:
        notes[raw.name] = (*notes.get(raw.name, ()), f"{raw.origin} has the same name and is not served")
    for name, tag in first.tags.items():
        other = second.tags.get(name)
        if other is not None and (other.weights, other.namespaces) != (tag.weights, tag.namespaces):
            said = f"tag `{name}` leads here; the cluster's tag, which leads to `{other.revision}`, is ignored"
            notes[tag.revision] = (*notes.get(tag.revision, ()), said)
    return notes
