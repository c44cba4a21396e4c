"""One revision from files, as the flags of the old injector and of istioctl name them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError
from injector.revisions.directory import read_text, written_text
from injector.revisions.source import RawRevision, SourceState, checked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

DEFAULT_NAME: Final = "default"


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
