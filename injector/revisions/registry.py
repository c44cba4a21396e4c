"""What is served: an immutable snapshot of revisions and tags, swapped whole.

A request takes ``registry.snapshot`` once and needs no lock: what it holds never changes, and a swap is one assignment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from injector.errors import UnknownRevisionError
from injector.revisions.tags import DEFAULT_TAG, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from injector.istio.revision import Revision
    from injector.revisions.tags import Tag

DEFAULT_REVISION: Final = "default"
# An error message stays readable in `kubectl` output; who has more revisions finds them on the status page.
_NAMES_IN_MESSAGE: Final = 20


@dataclass(frozen=True, slots=True)
class Candidate:
    """The revision that a tag's shadow tries, and the percentage of requests that it is tried on."""

    revision: Revision
    sample: float


@dataclass(frozen=True, slots=True)
class Resolved:
    """The revision for one request, the tag that led to it, if one did, and that tag's candidate, if it has one."""

    revision: Revision
    tag: str | None = None
    candidate: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The revisions and tags served at one moment.

    Args:
        revisions: by name.
        tags: by name; each names revisions that are served.
        default: the name that requests without one are resolved by, or None where nothing says which it is.
    """

    revisions: Mapping[str, Revision] = field(default_factory=lambda: MappingProxyType({}))
    tags: Mapping[str, Tag] = field(default_factory=lambda: MappingProxyType({}))
    default: str | None = None

    @property
    def names(self) -> frozenset[str]:
        """Every value of the label ``istio.io/rev`` that a webhook's path of this injector answers for.

        Where something is the default, whatever its name, Istio's webhooks for ``default`` lead to it.
        """
        return frozenset((*self.revisions, *self.tags, *((DEFAULT_REVISION,) if self.default is not None else ())))

    def resolve(self, name: str, workload: Callable[[], Sequence[str]] | None = None) -> Resolved:
        """Return the revision that serves requests for ``name``: a revision, a tag, or empty for the default.

        ``workload`` returns what tells the workload from others, and is asked only where a tag has several revisions
        to choose from. Without it such a tag stands for its heaviest revision.

        Raises:
            UnknownRevisionError: nothing is served under the name.
        """
        wanted = name or self.default
        if wanted is None:
            raise UnknownRevisionError(
                "no default revision",
                where="path /inject",
                hint=f"name a revision, or tag one `default`; {self._known()}",
            )
        tag = self.tags.get(wanted)
        if tag is not None:
            return self._tagged(tag, workload)
        revision = self.revisions.get(wanted)
        if revision is None:
            raise UnknownRevisionError(f"no revision or tag {wanted!r} is served here", hint=self._known())
        return Resolved(revision)

    def _tagged(self, tag: Tag, workload: Callable[[], Sequence[str]] | None) -> Resolved:
        name = tag.revision if workload is None or tag.sole else chosen(tag.weights, tag.salt or tag.name, workload())
        shadow = tag.shadow
        candidate = None if shadow is None else Candidate(self.revisions[shadow.revision], shadow.sample)
        return Resolved(self.revisions[name], tag.name, candidate)

    def _known(self) -> str:
        names = [*sorted(self.revisions), *sorted(self.tags)]
        if not names:
            return "none is served"
        more = f" and {len(names) - _NAMES_IN_MESSAGE} more" if len(names) > _NAMES_IN_MESSAGE else ""
        return f"known are {', '.join(names[:_NAMES_IN_MESSAGE])}{more}"


class Registry:
    """The one place that says what is served now."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._snapshot = snapshot or Snapshot()
        self._listeners: list[Callable[[], None]] = []

    @property
    def snapshot(self) -> Snapshot:
        """What is served now; hold on to it for the length of one request."""
        return self._snapshot

    def swap(self, snapshot: Snapshot) -> None:
        """Serve ``snapshot`` from now on, and call the listeners."""
        self._snapshot = snapshot
        for listener in self._listeners:
            listener()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after each swap, on the thread of the swap: the event loop's while a server runs."""
        self._listeners.append(listener)


def snapshot_of(revisions: Iterable[Revision], tags: Mapping[str, Tag], *, default: str | None = None) -> Snapshot:
    """Return the snapshot of ``revisions`` and of ``tags`` that lead to them; ``default`` is the source's own."""
    by_name = {revision.name: revision for revision in revisions}
    return Snapshot(
        MappingProxyType(by_name), MappingProxyType(dict(tags)), default_name(by_name, tags, stated=default)
    )


def default_name(revisions: Collection[str], tags: Collection[str], *, stated: str | None = None) -> str | None:
    """Return the name that a request without one is resolved by; None where nothing says which it is."""
    if DEFAULT_TAG in tags or DEFAULT_REVISION in revisions:
        return DEFAULT_REVISION
    if len(revisions) == 1:
        return next(iter(revisions))
    return stated if stated in revisions else None
