"""The registry: an immutable snapshot of the revisions and tags that are served, replaced as a whole.

A request reads ``registry.snapshot`` once and needs no lock: a snapshot never changes, and a swap is one assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from injector.istio.webhooks import DEFAULT_NAME
from injector.revisions.names import default_name, resolve_name

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.revisions.tags import Tag, TagWorkload


@dataclass(frozen=True, slots=True)
class Candidate:
    """The candidate of a tag's shadow, and the percentage of requests to try it on."""

    revision: Revision
    sample: float


@dataclass(frozen=True, slots=True)
class Resolved:
    """The revision for one request, with the tag that led to it, the candidate of that tag, if any, and the reason of its choice."""

    revision: Revision
    tag: str | None = None
    candidate: Candidate | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The revisions and tags that are served at one moment.

    Args:
        revisions: by name.
        tags: by name; they lead only to these revisions.
        default: the name for requests without one; None without a default.
    """

    revisions: Mapping[str, Revision] = field(default_factory=lambda: MappingProxyType({}))
    tags: Mapping[str, Tag] = field(default_factory=lambda: MappingProxyType({}))
    default: str | None = None

    @property
    def names(self) -> frozenset[str]:
        """Every value of the label ``istio.io/rev`` that this injector serves.

        If there is a default of any name, Istio's webhooks for ``default`` lead to it.
        """
        return frozenset((*self.revisions, *self.tags, *((DEFAULT_NAME,) if self.default is not None else ())))

    def resolve(self, name: str, workload: Callable[[], TagWorkload] | None = None) -> Resolved:
        """Return the revision that serves requests for ``name``; see ``resolve_name``.

        Raises:
            UnknownRevisionError: no revision or tag has this name.
        """
        target = resolve_name(name, self.revisions, self.tags, default=self.default, workload=workload)
        if target.tag is None:
            return Resolved(self.revisions[target.revision])
        shadow = target.tag.shadow
        candidate = None if shadow is None else Candidate(self.revisions[shadow.revision], shadow.sample)
        return Resolved(self.revisions[target.revision], target.tag.name, candidate, target.reason)


class Registry:
    """Holds the current snapshot."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._snapshot = snapshot or Snapshot()
        self._listeners: list[Callable[[], None]] = []

    @property
    def snapshot(self) -> Snapshot:
        """The current snapshot; use the same one for all of a request."""
        return self._snapshot

    def swap(self, snapshot: Snapshot) -> None:
        """Serve ``snapshot`` from now on and call the listeners."""
        self._snapshot = snapshot
        for listener in self._listeners:
            listener()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after each swap, on the thread of the swap, which is the event loop's in a server."""
        self._listeners.append(listener)


def snapshot_of(
    revisions: Iterable[Revision],
    tags: Mapping[str, Tag],
    *,
    default: str | None = None,
    removed: Collection[str] = (),
) -> Snapshot:
    """Return a snapshot of revisions and tags.

    Args:
        revisions: the revisions.
        tags: the tags, by name.
        default: the default that the source states.
        removed: the revisions that the source no longer has. They are no default, unless there are no others.
    """
    by_name = {revision.name: revision for revision in revisions}
    present = by_name.keys() - set(removed) or by_name
    return Snapshot(
        MappingProxyType(by_name), MappingProxyType(dict(tags)), default_name(present, tags, stated=default)
    )
