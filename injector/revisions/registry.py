"""The registry: an immutable snapshot of the revisions and tags that are served, replaced as a whole.

A request reads ``registry.snapshot`` once and needs no lock: a snapshot never changes, and a swap is one assignment. The server, the
commands and ``explain`` all resolve names with ``resolve_name``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from injector.errors import UnknownRevisionError
from injector.hints import first_of
from injector.istio.labels import DEFAULT_NAME

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.revisions.tags import Tag, TagWorkload


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """The revision that a name leads to, and the tag in between, if there is one; ``reason`` is that of its ``Choice``."""

    revision: str
    tag: Tag | None = None
    reason: str = ""


def resolve_name(
    name: str,
    revisions: Collection[str],
    tags: Mapping[str, Tag],
    *,
    default: str | None,
    workload: Callable[[], TagWorkload] | None = None,
) -> ResolvedName:
    """Return the revision that ``name`` leads to.

    Args:
        name: a revision, a tag, or empty for the default. ``default`` means the same unless a revision or tag has this name.
        revisions: the names of all revisions.
        tags: all tags; a tag takes precedence over a revision of the same name.
        default: the name for requests without one; see ``default_name``.
        workload: returns the workload. It is called only if a tag distributes workloads over several revisions.
            Without it such a tag leads to the revision with the largest weight.

    Raises:
        UnknownRevisionError: no revision or tag has this name, or the tag leads to a missing revision.
    """
    wanted = name if name in tags or name in revisions or name not in ("", DEFAULT_NAME) else default
    if wanted is None:
        hint = f"name a revision, or create the tag `default`; {_known_names(revisions, tags)}"
        raise UnknownRevisionError("no default revision", where="path /inject", hint=hint)
    tag = tags.get(wanted)
    revision, reason = (wanted, "") if tag is None else tag.choice_for(workload)
    if revision not in revisions:
        raise UnknownRevisionError(f"there is no revision or tag {revision!r}", hint=_known_names(revisions, tags))
    return ResolvedName(revision, tag, reason)


def default_name(revisions: Collection[str], tags: Collection[str], *, stated: str | None = None) -> str | None:
    """Return the name for requests without one; None without a default.

    It is the tag or the revision ``default``, else the only revision, else ``stated`` by the source.
    """
    if DEFAULT_NAME in tags or DEFAULT_NAME in revisions:
        return DEFAULT_NAME
    if len(revisions) == 1:
        return next(iter(revisions))
    return stated if stated in revisions else None


def _known_names(revisions: Collection[str], tags: Collection[str]) -> str:
    names = first_of(sorted({*revisions, *tags}))
    return f"known are {names}" if names else "there are no revisions"


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
    """The revisions that are served at one moment, the tags, which lead only to these, and the name for requests without one."""

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
        """Return the revision that serves requests for ``name``; see ``resolve_name``."""
        target = resolve_name(name, self.revisions, self.tags, default=self.default, workload=workload)
        if target.tag is None:
            return Resolved(self.revisions[target.revision])
        shadow = target.tag.shadow
        candidate = None if shadow is None else Candidate(self.revisions[shadow.revision], shadow.sample)
        return Resolved(self.revisions[target.revision], target.tag.name, candidate, target.reason)


class Registry:
    """Holds the current snapshot. Use the same one for all of a request."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self.snapshot = snapshot or Snapshot()
        self._listeners: list[Callable[[], None]] = []

    def swap(self, snapshot: Snapshot) -> None:
        """Serve ``snapshot`` from now on and call the listeners: the answer cache forgets its answers, and watches are started."""
        self.snapshot = snapshot
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

    ``default`` is the one that the source states. ``removed`` are the revisions that the source no longer has. One of them becomes the
    default only if there are no others.
    """
    by_name = {revision.name: revision for revision in revisions}
    present = by_name.keys() - set(removed) or by_name
    return Snapshot(
        MappingProxyType(by_name), MappingProxyType(dict(tags)), default_name(present, tags, stated=default)
    )
