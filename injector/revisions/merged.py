"""Two sources as one: what the first holds, and of the second what the first does not name.

What both name is the first's, and that is noted; so an operator who puts a revision of the cluster into a folder, to
try a change on it, sees which of the two is served.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from injector.errors import DataError
    from injector.revisions.source import RawRevision, RevisionSource, SourceState


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
