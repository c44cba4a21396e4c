"""What a source of revisions gives: texts as Istio's ConfigMaps hold them, and the tags."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from injector.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.errors import DataError
    from injector.revisions.tags import Tag

# RFC 1123 label, as Kubernetes checks it (k8s.io/apimachinery/pkg/util/validation, IsDNS1123Label).
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)

RESERVED_NAMES: Final = frozenset({"cluster", "net"})
"""Names that the path ``/inject/...`` gives another meaning: Istio's ``/inject/cluster/C/net/N``."""


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


def is_label(name: str) -> bool:
    """Tell whether ``name`` is a DNS-1123 label."""
    return _LABEL.fullmatch(name) is not None


def checked_name(name: str, *, where: str, kind: str = "revision") -> str:
    """Return ``name`` if it can name a revision or a tag.

    Raises:
        ConfigError: it is no DNS-1123 label, or the path of requests gives it another meaning.
    """
    if not is_label(name):
        raise ConfigError(
            f"{name[:80]!r} cannot name a {kind}",
            where=where,
            hint="use at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends",
        )
    if name in RESERVED_NAMES:
        raise ConfigError(
            f"`{name}` cannot name a {kind}",
            where=where,
            hint=f"choose another: /inject/{name}/... is Istio's own path",
        )
    return name
