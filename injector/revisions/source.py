"""What a source of revisions gives: texts as Istio's ConfigMaps hold them, and the tags."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from injector.revisions.names import default_name, resolve_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from injector.errors import DataError
    from injector.revisions.names import Target
    from injector.revisions.tags import Tag


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What a cluster says that ``revision.yaml`` says where there is none to ask; a revision's own word comes first."""

    node_versions: tuple[str, ...] = ()
    namespaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawRevision:
    """One revision as text: the keys of Istio's two ConfigMaps, and what ``revision.yaml`` says.

    ``origin`` names where it was read, for messages; ``files`` the file of a key where that is no file of ``origin``.
    """

    name: str
    config: str
    values: str | None
    mesh: str | None
    mesh_networks: str | None
    settings: Mapping[str, Any]
    origin: str
    files: Mapping[str, str] = field(default_factory=dict)
    # Not shown: a fingerprint has them once for all revisions, since they can be thousands of namespaces.
    facts: ClusterFacts = field(default=ClusterFacts(), repr=False)


@dataclass(frozen=True, slots=True)
class SourceState:
    """All that a source holds at one moment.

    Args:
        revisions: what can be read.
        failures: by name, what is there but cannot be read.
        tags: the tags, by name.
        tags_error: why the tags cannot be read; ``tags`` is empty then.
        default: the revision for requests that name none, where the source knows better than the rules.
        notes: by name, what is worth knowing about a revision that can be read.
        tag_faults: by name, what is wrong with tags; one that is not in ``tags`` stays what it was.
        facts: what a cluster says of itself, where the source is one.
    """

    revisions: tuple[RawRevision, ...]
    failures: Mapping[str, DataError] = field(default_factory=dict)
    tags: Mapping[str, Tag] = field(default_factory=dict)
    tags_error: DataError | None = None
    default: str | None = None
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tag_faults: Mapping[str, DataError] = field(default_factory=dict)
    facts: ClusterFacts = ClusterFacts()

    @property
    def names(self) -> frozenset[str]:
        """The names of all revisions, readable or not."""
        return frozenset((*(raw.name for raw in self.revisions), *self.failures))

    @property
    def default_name(self) -> str | None:
        """The name that requests without one get; None if there is no default."""
        return default_name(self.names, self.tags, stated=self.default)

    def resolve(self, name: str, workload: Callable[[], Sequence[str]] | None = None) -> Target:
        """Return the revision that ``name`` leads to, as the server would resolve it; see ``resolve_name``.

        Raises:
            UnknownRevisionError: no revision or tag has this name.
        """
        return resolve_name(name, self.names, self.tags, default=self.default_name, workload=workload)

    def revision(self, name: str) -> RawRevision:
        """Return the revision with this name, which is one of ``names``.

        Raises:
            DataError: it cannot be read.
        """
        if name in self.failures:
            raise self.failures[name]
        return next(raw for raw in self.revisions if raw.name == name)

    @property
    def fingerprint(self) -> str:
        """What tells it from a state with any other text, tag or fault."""
        digest = hashlib.sha256()
        faults, tag_faults = _said(self.failures), _said(self.tag_faults)
        tags_fault = self.tags_error and str(self.tags_error)
        rest = (sorted(self.notes.items()), tag_faults, self.facts)
        for part in (*self.revisions, faults, sorted(self.tags.items()), tags_fault, self.default, *rest):
            digest.update(repr(part).encode() + b"\0")
        return digest.hexdigest()


def _said(errors: Mapping[str, DataError]) -> list[tuple[str, str]]:
    return [(name, str(error)) for name, error in sorted(errors.items())]


class RevisionSource(Protocol):
    """Where revisions come from."""

    def read(self) -> SourceState:
        """Return what it holds now; raise ConfigError where it cannot be reached at all."""
