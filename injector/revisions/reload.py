"""Load the configuration: read a source, build and verify the changes, swap once, and report.

``prepare`` reads, builds and verifies. It takes long, changes nothing, and may run on its own thread. ``adopt`` swaps the result in one
assignment. If a step fails, the last good revision stays in use, and the report has the error.

A revision that the source no longer has is served for some time (``Loader``): tags and namespaces may still name it, and a ConfigMap that
is replaced is missing for a moment.

It is also an error if a source that had revisions becomes empty, because an unmounted folder looks like this, and a cluster after all its
ConfigMaps are deleted. Then the last state stays in use, and every revision reports the error.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from injector.errors import ConfigError, DataError, InjectorError, InternalError, detach, whereabouts
from injector.revisions.files import TimedReads
from injector.revisions.registry import Registry, Snapshot, snapshot_of
from injector.revisions.reports import LoadReport, RevisionState
from injector.revisions.source import build, explain_newer, shared_mesh_notes, with_facts
from injector.revisions.tags import Tag, served_tags, usable_tags
from injector.revisions.verify import RecentPod, verify, verify_recent

if TYPE_CHECKING:
    from injector.revisions.source import ClusterFacts, RawRevision, ReadSource, SourceState

Pods: TypeAlias = Mapping[str, tuple[RecentPod, ...]]


READS: Final = 5
"""The maximum number of reads until two in a row agree; if the source changes in between, three are needed."""

_NO_PODS: Final[Pods] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Built:
    """One revision: the texts of the served build, and the texts tried last; None if they could not be read."""

    good: RawRevision | None
    tried: RawRevision | None
    state: RevisionState

    def fail(self, tried: RawRevision | None, error: InjectorError) -> _Built:
        return _Built(self.good, tried, replace(self.state, error=error))


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of ``prepare``, for ``adopt``."""

    content: object
    built: Mapping[str, _Built]
    snapshot: Snapshot
    report: LoadReport


@dataclass
class Loader:
    """Loads a source into a registry.

    ``keep_removed`` is for how many seconds a revision is served after it was removed from the source.
    """

    read: ReadSource
    registry: Registry
    keep_removed: float = 0.0
    report: LoadReport = field(default_factory=LoadReport)
    _built: Mapping[str, _Built] = field(default_factory=dict)
    _content: object = None
    _reads: TimedReads = field(default_factory=TimedReads)

    def load(self, now: float) -> LoadReport:
        """Read the source and serve its valid revisions and tags.

        An invalid revision or tag keeps its last good state.

        Raises:
            ConfigError: the source cannot be read at all; the last state stays in use.
        """
        prepared = self.prepare(now)
        if prepared is None:
            return self.report
        if prepared.report.source_error is not None:
            raise prepared.report.source_error
        return self.adopt(prepared)

    def prepare(self, now: float, pods: Pods = _NO_PODS, *, again: bool = False) -> Prepared | None:
        """Read the source, build the changes and verify them with built-in pods and ``pods``; nothing is served yet.

        ``again`` also retries revisions that were refused before.

        Returns:
            The state to adopt; None if the source has not changed.
        """
        try:
            state = self._read_stable()
        except ConfigError as error:
            return None if str(error) == self._content else self.fail(error, now)
        same = state.content == self._content and now < self.expires_at
        if same and not (again and self.report.errors):
            return None
        built = {raw.name: self._load_one(raw, now, pods, again=again) for raw in state.revisions}
        for name, failure in state.failures.items():
            built[name] = self._last(name, state.facts).fail(None, failure)
        removed = self._keep_removed(built, now, state.facts)
        built |= removed
        served = [candidate.state.served for candidate in built.values() if candidate.state.served]
        tags, tag_errors = self._tags(state, {revision.name for revision in served}, removed)
        states = {
            name: replace(candidate.state, notes=(*candidate.state.notes, *state.notes.get(name, ())))
            for name, candidate in sorted(built.items())
        }
        report = _detach_errors(LoadReport(states, tag_errors, tags=tags, at=now, webhook_faults=state.webhook_faults))
        snapshot = snapshot_of(served, tags, default=state.default, removed=removed)
        return Prepared(state.content, built, snapshot, report)

    @property
    def expires_at(self) -> float:
        """When the first removed revision is no longer served, in seconds since the epoch; infinity if there is none.

        While the source cannot be loaded, all of them are served.
        """
        if self.report.source_error is not None:
            return math.inf
        times = (candidate.state.removed_until for candidate in self._built.values() if candidate.state.removed_until)
        return min(times, default=math.inf)

    def _keep_removed(self, built: Mapping[str, _Built], now: float, facts: ClusterFacts) -> dict[str, _Built]:
        """Return the revisions that are served although the source no longer has them."""
        removed = {}
        for name, before in self._built.items():
            until, last = before.state.removed_until or now + self.keep_removed, self._last(name, facts)
            if name not in built and last.state.served is not None and now < until:
                removed[name] = replace(last, state=replace(last.state, error=None, removed_until=until))
        return removed

    def adopt(self, prepared: Prepared) -> LoadReport:
        """Serve the prepared state from now on."""
        self.registry.swap(prepared.snapshot)
        self._built, self._content, self.report = prepared.built, prepared.content, prepared.report
        return self.report

    def fail(self, error: InjectorError, now: float) -> Prepared:
        """Return the state to adopt if a load fails as a whole: the last state, with the error for each revision."""
        states = {name: replace(state, error=error) for name, state in self.report.revisions.items()}
        report = _detach_errors(replace(self.report, revisions=states, source_error=error, at=now))
        return Prepared(str(error), self._built, self.registry.snapshot, report)

    def _read_stable(self) -> SourceState:
        """Read the source until two reads agree, so that no change is seen half. Raises ConfigError if it cannot be used."""
        state = self._reads.read(self.read, "the configuration")
        for _ in range(READS):
            if state.content == self._content:
                return state
            before, state = state, self._reads.read(self.read, "the configuration")
            if before.content == state.content:
                if self.registry.snapshot.revisions and not state.revisions and not state.failures:
                    raise ConfigError("all revisions have been removed", hint="add a revision")
                return state
        raise ConfigError("the configuration changes while it is read", hint="wait until the writer has finished")

    def _tags(
        self, state: SourceState, served: set[str], removed: Collection[str]
    ) -> tuple[Mapping[str, Tag], tuple[DataError, ...]]:
        """Return the tags to serve and the errors of the others.

        An invalid tag keeps its last state if it can still be served, else what is left of it.
        """
        last = self.registry.snapshot.tags
        last_usable, _ = usable_tags(last, served)
        if state.tags_error is not None:
            return last_usable, (state.tags_error,)
        usable, faults = usable_tags(state.tags, served)
        preferred = {**served_tags(last, served), **served_tags(state.tags, served), **last_usable, **usable}
        preferred_tags = {name: preferred[name] for name in (*state.tags, *state.tag_faults) if name in preferred}
        return preferred_tags, (
            *faults,
            *_leading_to_removed(preferred_tags.values(), removed),
            *state.tag_faults.values(),
        )

    def _load_one(self, raw: RawRevision, now: float, pods: Pods, *, again: bool) -> _Built:
        last = self._last(raw.name, raw.facts)
        if last.good == raw:
            return _Built(raw, raw, replace(last.state, error=None))
        if last.tried == raw and not again:
            return last
        served = last.state.served
        try:
            revision = build(raw)
            verified = verify(revision)
            notes = verified.notes + shared_mesh_notes(raw, revision)
            if served is not None:
                notes += verify_recent(revision, served, pods.get(raw.name, ()))
            return _Built(raw, raw, RevisionState(raw.name, revision, None, now, notes, failed=verified.failed))
        except InjectorError as error:
            explain_newer(error, raw)
            return last.fail(raw, error)
        except Exception as error:  # noqa: BLE001 -- an internal error in one revision must not affect the others
            what = f"it cannot be built: internal error ({type(error).__name__})"
            hint = "report it, with the log line"
            return last.fail(raw, InternalError(what, where=raw.origin, hint=hint, origin=whereabouts(error)))

    def _last(self, name: str, facts: ClusterFacts) -> _Built:
        """Return the last build of a revision with the current facts. It is not compiled again for them."""
        last = self._built.get(name) or _Built(None, None, RevisionState(name, None))
        if last.state.removed_until:
            last = replace(last, state=replace(last.state, removed_until=0.0))
        if last.good is None or last.state.served is None or last.good.facts == facts:
            return last
        good = replace(last.good, facts=facts)
        return replace(last, good=good, state=replace(last.state, served=with_facts(last.state.served, good)))


def _leading_to_removed(tags: Iterable[Tag], removed: Collection[str]) -> Iterator[ConfigError]:
    for tag in tags:
        if names := [name for name in tag.revisions if name in removed]:
            what = f"it names `{'`, `'.join(names)}`, which was removed and is served for a limited time"
            yield ConfigError(what, where=f"tag `{tag.name}`", hint="add the revision again, or move the tag")


def _detach_errors(report: LoadReport) -> LoadReport:
    """Return a report whose errors have only their texts, so that it keeps no other objects alive."""
    for error in report.errors:
        detach(error)
    return report
