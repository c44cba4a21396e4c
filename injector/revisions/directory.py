"""Revisions from a directory: a folder each, its files named as the keys of Istio's ConfigMaps.

A folder may be a mounted ConfigMap, whose files are links into ``..data``; names that start with a dot are the
kubelet's or an editor's own and never a revision's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, DataError
from injector.kube.serial import load_yaml
from injector.revisions.source import RawRevision, SourceState, checked_name
from injector.revisions.tags import Tag, parse_tags

if TYPE_CHECKING:
    from pathlib import Path

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
