"""Where commands and controllers find revisions: a directory, or Istio's namespace of a cluster.

This module does not load the client of the API server, see ``view``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from injector.errors import UnknownRevisionError, UsageError
from injector.istio.labels import DEFAULT_NAME
from injector.revisions.directory import EMBEDDED, TAGS_FILE, read_directory
from injector.revisions.source import Overrides, build

if TYPE_CHECKING:
    from pathlib import Path

    from injector.istio.revision import Revision
    from injector.revisions.registry import ResolvedName
    from injector.revisions.source import RawRevision, SourceState
    from injector.revisions.tags import TagWorkload

REVISIONS_DIR_VARIABLE: Final = "INJECTOR_REVISIONS_DIR"
IN_DIRECTORY: Final = f"--revisions-dir DIR (or {REVISIONS_DIR_VARIABLE})"
"""How to say that revisions are in a directory, for ``no_source``."""


@dataclass(frozen=True, slots=True)
class RevisionSources:
    """Where a command finds revisions: in a directory, or else in Istio's namespace of the cluster.

    ``overrides`` are the settings of revisions that flags replace.
    """

    revisions_dir: Path | None
    istio_namespace: str
    overrides: Overrides = field(default_factory=Overrides)


@dataclass(frozen=True, slots=True)
class RevisionList:
    """The revisions and tags of a source. ``where`` and ``tags_where`` name the source and the place of its tags in messages.

    ``build`` raises a DataError if the revision is not valid, and a ClusterError if the nodes cannot be read. It uses the facts of the
    cluster if the revisions are ``of_cluster``.
    """

    state: SourceState
    where: str
    tags_where: str
    build: Callable[[RawRevision], Revision] = build
    of_cluster: bool = False

    def find(self, name: str) -> RawRevision:
        """Return the revision that ``name`` leads to, as ``resolve``. Raises DataError if it cannot be read."""
        return self.state.revision(self.resolve(name).revision)

    def resolve(self, name: str, workload: Callable[[], TagWorkload] | None = None) -> ResolvedName:
        """Return the name of the revision that ``name``, a revision, a tag, or empty for the default, leads to for a workload.

        Raises:
            UsageError: no revision or tag has this name.
            DataError: the tags cannot be read.
        """
        try:
            return self.state.resolve(name, workload)
        except UnknownRevisionError as error:
            if self.state.tags_error is not None:
                raise self.state.tags_error from None
            if (fault := self.state.fault_of_tag(name or DEFAULT_NAME)) is not None:
                where = f"{self.tags_where}: {fault.where}"
                raise UsageError(fault.what, where=where, hint=fault.hint) from None
            raise UsageError(error.what, where=self.where, hint=error.hint) from None


def directory_revisions(directory: Path) -> RevisionList:
    """Return the revisions of a directory. Raises ConfigError if the directory cannot be read."""
    where = "the embedded examples" if directory == EMBEDDED else str(directory)
    return RevisionList(read_directory(directory), where, f"{directory}/{TAGS_FILE}")
