"""The config flow, whole: read a source, build and verify what changed, swap once.

Whatever fails keeps the last good revision. The reports say what is served and what is wrong, revision by revision;
the caller shows them (log, metrics, status page).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from injector.errors import InjectorError
from injector.revisions.build import build, with_facts
from injector.revisions.registry import snapshot_of
from injector.revisions.tags import usable_tags
from injector.revisions.verify import verify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.errors import DataError
    from injector.istio.revision import Revision
    from injector.revisions.registry import Registry
    from injector.revisions.source import RawRevision, RevisionSource, SourceState
    from injector.revisions.tags import Tag


@dataclass(frozen=True, slots=True)
class RevisionState:
    """How one revision stands after a load.

    Args:
        name: its folder's name.
        served: what requests get, if anything; an older one where ``error`` is set.
        error: why what the source holds now is not served.
        loaded_at: when ``served`` was built, in seconds since the epoch.
        notes: what is worth knowing about a revision that is served.
    """

    name: str
    served: Revision | None
    error: InjectorError | None = None
    loaded_at: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What one load came to."""

    revisions: Mapping[str, RevisionState] = field(default_factory=dict)
    tag_errors: tuple[DataError, ...] = ()

    @property
    def errors(self) -> tuple[InjectorError, ...]:
        """Everything that is wrong, revisions first."""
        return tuple(state.error for state in self.revisions.values() if state.error) + self.tag_errors


@dataclass(frozen=True, slots=True)
class _Built:
    raw: RawRevision
    state: RevisionState


class Loader:
    """Brings a registry to what a source holds, as often as it is told to."""

    def __init__(self, source: RevisionSource, registry: Registry) -> None:
        self._source = source
        self._registry = registry
        self._built: dict[str, _Built] = {}
        self.report = LoadReport()

    def load(self, now: float) -> LoadReport:
        """Read the source and serve what of it is good.

        A revision that is gone from the source is gone; one that is there and cannot be used keeps what it served
        before. Tags that cannot be read stay as they were.

        Raises:
            ConfigError: the source cannot be read at all; everything stays as it was.
        """
        state = self._source.read()
        self._built = {raw.name: self._load_one(raw, now) for raw in state.revisions} | self._kept(state)
        served = [built.state.served for built in self._built.values() if built.state.served]
        tags, tag_errors = self._tags(state, {revision.name for revision in served})
        self._registry.swap(snapshot_of(served, tags, default=state.default))
        states = {name: _noted(built.state, state.notes.get(name, ())) for name, built in self._built.items()}
        unread = {
            name: RevisionState(name, None, error) for name, error in state.failures.items() if name not in states
        }
        self.report = LoadReport(dict(sorted((states | unread).items())), tag_errors)
        return self.report

    def _tags(self, state: SourceState, served: set[str]) -> tuple[Mapping[str, Tag], tuple[DataError, ...]]:
        if state.tags_error is None:
            usable, faults = usable_tags(state.tags, served)
            return usable, (*faults, *state.tag_faults)
        kept, _ = usable_tags(self._registry.snapshot.tags, served)
        return kept, (state.tags_error,)

    def _load_one(self, raw: RawRevision, now: float) -> _Built:
        before = self._built.get(raw.name)
        if before is not None and before.raw == raw:
            return before
        if before is not None and before.state.error is None and before.raw == replace(raw, facts=before.raw.facts):
            return _Built(raw, _with_facts(before.state, raw))
        try:
            revision = build(raw)
            return _Built(raw, RevisionState(raw.name, revision, None, now, verify(revision)))
        except InjectorError as error:
            return _Built(raw, _failed(raw.name, before, error))

    def _kept(self, state: SourceState) -> dict[str, _Built]:
        return {
            name: _Built(before.raw, _failed(name, before, error))
            for name, error in state.failures.items()
            if (before := self._built.get(name)) is not None
        }


def _with_facts(state: RevisionState, raw: RawRevision) -> RevisionState:
    return replace(state, served=None if state.served is None else with_facts(state.served, raw))


def _noted(state: RevisionState, notes: tuple[str, ...]) -> RevisionState:
    return replace(state, notes=(*state.notes, *notes)) if notes else state


def _failed(name: str, before: _Built | None, error: InjectorError) -> RevisionState:
    if before is None:
        return RevisionState(name, None, error)
    kept = before.state
    return RevisionState(name, kept.served, error, kept.loaded_at, kept.notes)
