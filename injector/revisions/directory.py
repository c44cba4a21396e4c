"""Revisions from files: a folder each, single files, the embedded ones, and two sources as one.

A folder may be a mounted ConfigMap, whose files are links into ``..data``; names that start with a dot are the
kubelet's or an editor's own and never a revision's.

What both name is the first's, and that is noted; so an operator who puts a revision of the cluster into a folder, to
try a change on it, sees which of the two is served.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, DataError
from injector.istio.webhooks import DEFAULT_NAME
from injector.kube.yaml import load_yaml
from injector.revisions.names import checked_name
from injector.revisions.source import RawRevision, SourceState
from injector.revisions.tags import Tag, parse_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from injector.revisions.source import RevisionSource

CONFIG_FILES: Final = ("config", "config.yaml")
TAGS_FILE: Final = "tags.yaml"
SETTINGS_FILE: Final = "revision.yaml"


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """The revisions below one directory, and its ``tags.yaml``."""

    path: Path
    default: str | None = None

    def read(self) -> SourceState:
        """Return every revision that can be read, and what is wrong with the others.

        Raises:
            ConfigError: the directory itself cannot be read.
        """
        revisions: list[RawRevision] = []
        failures: dict[str, DataError] = {}
        for folder in self._folders():
            try:
                revisions.append(read_folder(folder))
            except DataError as error:
                failures[folder.name] = error
        tags, tags_error = self._tags()
        return SourceState(tuple(revisions), failures, tags, tags_error, self.default)

    def _folders(self) -> list[Path]:
        try:
            entries = sorted(self.path.iterdir())
        except OSError as error:
            raise ConfigError(
                f"cannot be read as a directory of revisions: {error.strerror}",
                where=str(self.path),
                hint="give --revisions-dir a folder with one folder for each revision",
            ) from error
        return [entry for entry in entries if not entry.name.startswith(".") and entry.is_dir()]

    def _tags(self) -> tuple[dict[str, Tag], DataError | None]:
        path = self.path / TAGS_FILE
        try:
            text = written_text(path)
            return ({} if text is None else parse_tags(text, where=str(path))), None
        except DataError as error:
            return {}, error


def read_folder(folder: Path) -> RawRevision:
    """Read one revision's folder.

    Raises:
        DataError: its name cannot name a revision, it has no config, or a file cannot be read.
    """
    name = checked_name(folder.name, where=str(folder))
    config = next((text for file in CONFIG_FILES if (text := written_text(folder / file)) is not None), None)
    if config is None:
        raise ConfigError(
            f"it has no `{CONFIG_FILES[0]}`",
            where=str(folder),
            hint="put the key `config` of ConfigMap istio-sidecar-injector there",
        )
    return RawRevision(
        name=name,
        config=config,
        values=written_text(folder / "values"),
        mesh=written_text(folder / "mesh"),
        mesh_networks=written_text(folder / "meshNetworks"),
        settings=_settings(folder / SETTINGS_FILE),
        origin=str(folder),
    )


def written_text(path: Path) -> str | None:
    """Return the text of a file that is served; None where there is none.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, or is empty: so is one that somebody is about to write, and a mesh
            config without a word would be served as Istio's defaults, tags without a word as none.
    """
    text = read_text(path)
    if text is not None and not text.strip():
        raise ConfigError("is empty", where=str(path), hint="write it, or delete it")
    return text


def read_text(path: Path) -> str | None:
    """Return the text of a file; None where there is none.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", where=str(path), hint="make it a readable file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 at byte {error.start}", where=str(path), hint="save it as UTF-8") from error


def _settings(path: Path) -> dict[str, Any]:
    text = written_text(path)
    raw = None if text is None else load_yaml(text, where=str(path))
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError("it is no mapping", where=str(path), hint='write lines such as `istioVersion: "1.24"`')
    return raw


@dataclass(frozen=True, slots=True)
class SingleSource:
    """The one revision that ``--injectConfig`` and its companions describe."""

    config: Path
    values: Path | None = None
    mesh: Path | None = None
    name: str = DEFAULT_NAME
    settings: Mapping[str, Any] = field(default_factory=dict)

    def read(self) -> SourceState:
        """Return the revision.

        Raises:
            ConfigError: a file is not there or cannot be read, or the name cannot be a revision's.
        """
        raw = RawRevision(
            name=checked_name(self.name, where="--revision"),
            config=required_text(self.config, written_text),
            values=None if self.values is None else required_text(self.values, written_text),
            mesh=None if self.mesh is None else required_text(self.mesh, written_text),
            mesh_networks=None,
            settings=self.settings,
            origin=str(self.config),
            files=self._files(),
        )
        return SourceState((raw,), default=raw.name)

    def _files(self) -> dict[str, str]:
        named = {"config": self.config, "values": self.values, "mesh": self.mesh}
        return {key: str(path) for key, path in named.items() if path is not None}


def required_text(path: Path, read: Callable[[Path], str | None] = read_text) -> str:
    """Return the text of a file that must be there.

    Raises:
        ConfigError: it is not there, or ``read`` refuses it.
    """
    text = read(path)
    if text is None:
        raise ConfigError("there is no such file", where=str(path), hint="check the path")
    return text


EMBEDDED_DEFAULT: Final = "stable"

_PACKAGE: Final = Path(__file__).resolve().parents[1]
# A wheel holds them inside the package; a source tree, and an editable install of it, at its top.
_PLACES: Final = (_PACKAGE / "_revisions", _PACKAGE.parent / "revisions")


def embedded_source() -> DirectorySource:
    """Return the source of the embedded revisions; ``stable`` is its default."""
    place = next((place for place in _PLACES if place.is_dir()), _PLACES[0])
    return DirectorySource(place, default=EMBEDDED_DEFAULT)


@dataclass(frozen=True, slots=True)
class MergedSource:
    """The revisions of ``first``, and those of ``second`` under other names."""

    first: RevisionSource
    second: RevisionSource

    def read(self) -> SourceState:
        """Return what both hold.

        Raises:
            ConfigError: one of them cannot be reached at all.
        """
        return merged(self.first.read(), self.second.read())


def merged(first: SourceState, second: SourceState) -> SourceState:
    """Return what both hold; what a cluster says of nodes and namespaces counts for the revisions of both."""
    own = {*(raw.name for raw in first.revisions), *first.failures}
    hidden = [raw for raw in second.revisions if raw.name in own]
    return replace(
        first,
        revisions=(
            *(replace(raw, facts=second.facts) for raw in first.revisions),
            *(raw for raw in second.revisions if raw.name not in own),
        ),
        failures={**_unnamed(second.failures, own), **first.failures},
        tags={**second.tags, **first.tags},
        tags_error=first.tags_error or second.tags_error,
        default=first.default or second.default,
        notes=_notes(first, second, hidden),
        tag_faults={**_unnamed(second.tag_faults, first.tags), **first.tag_faults},
        facts=second.facts,
    )


def _unnamed(errors: Mapping[str, DataError], own: Collection[str]) -> dict[str, DataError]:
    """Return what is wrong with those of the second that the first does not name."""
    return {name: error for name, error in errors.items() if name not in own}


def _notes(first: SourceState, second: SourceState, hidden: list[RawRevision]) -> dict[str, tuple[str, ...]]:
    notes = {**second.notes, **first.notes}
    for raw in hidden:
        notes[raw.name] = (*notes.get(raw.name, ()), f"{raw.origin} has the same name and is not served")
    for name, tag in first.tags.items():
        other = second.tags.get(name)
        if other is not None and other.weights != tag.weights:
            said = f"tag `{name}` leads here; that the cluster's leads to `{other.revision}` does not count"
            notes[tag.revision] = (*notes.get(tag.revision, ()), said)
    return notes
