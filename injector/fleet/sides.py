"""The pods of workloads under two revisions: of this injector, or of the running istiod that `istiod/NAME` names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from injector.cluster.session import open_session
from injector.fleet.compare import (
    Comparer,
    Comparison,
    Side,
    changes_of_comparisons,
    check_comparison,
    compare_files,
    compare_injected,
    injected_in_files,
    injected_workloads,
)
from injector.fleet.dryrun import confirm_items
from injector.fleet.groups import group_to_check
from injector.fleet.istiodoptions import ISTIOD
from injector.fleet.minors import MinorChanges
from injector.fleet.view import build_routed, build_view, read_revisions, read_routes
from injector.kube.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.resources import ObjectReader
    from injector.fleet.files import FileReader, ReaderSession
    from injector.fleet.istiodoptions import IstiodOptions
    from injector.fleet.manifests import WorkloadFiles
    from injector.fleet.progress import Progress
    from injector.fleet.sources import RevisionList, RevisionSources
    from injector.fleet.view import ClusterView
    from injector.kube.podtemplates import Created
    from injector.revisions.source import RawRevision


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparisons of one cluster, or of files, and notes for the user."""

    sides: tuple[Side, Side]
    comparisons: list[Comparison]
    notes: tuple[str, ...]
    minor_changes: MinorChanges = field(default_factory=MinorChanges)


@dataclass(frozen=True, slots=True)
class Sides:
    """The two revisions to compare, by name, and how. ``kinds``, ``guard`` and ``keeps_pods`` are those of the ``Comparer``."""

    names: tuple[str, str]
    sources: RevisionSources
    kinds: frozenset[str]
    guard: str
    istiod: IstiodOptions
    keeps_pods: bool

    @property
    def has_istiod(self) -> bool:
        """Whether a running istiod answers for a side."""
        return any(name.startswith(ISTIOD) for name in self.names)

    def compare_live(self, files: WorkloadFiles, kubeconfig: Kubeconfig, count: int, progress: Progress) -> Compared:
        """Compare the workloads of a cluster that ``files`` selects. The API server checks the new pods of ``count`` of them.

        Raises:
            InjectorError: a name is unknown, or the cluster or an istiod cannot be asked.
        """

        async def read(reader: ObjectReader) -> ClusterView:
            view = await read_routes(reader, files.namespace, await read_revisions(reader, self.sources))
            return await build_view(reader, view, self._raws(view.revisions), self.sources.overrides)

        with open_session(kubeconfig) as session:
            view = session.run(read)
            if self.has_istiod:
                workloads = injected_workloads(session, view, files, progress)
                return self._compare_with_istiods(session, view, workloads, kubeconfig, progress)
            comparer = self._comparer(view)
            comparisons = compare_injected(session, view, comparer, files, progress)
            compared = _with_minor_changes(session, comparer, comparisons, view.built.notes)
        check = partial(check_comparison, comparer)
        comparisons, unconfirmed = confirm_items(comparisons, group_to_check, check, kubeconfig, count)
        return replace(compared, comparisons=comparisons, notes=compared.notes + unconfirmed)

    def view_of_files(self, reader: FileReader, revisions: RevisionList) -> ClusterView:
        """Return the view of files with both revisions built. Raises InjectorError if a name is unknown."""
        view = reader.run(lambda reader: read_routes(reader, None, revisions))
        return build_routed(reader, view, self._raws(revisions), self.sources.overrides)

    def compare_in_files(
        self,
        reader: FileReader,
        view: ClusterView,
        workloads: Sequence[Created],
        kubeconfig: Kubeconfig,
        progress: Progress,
    ) -> Compared:
        """Compare the workloads of files. Raises InjectorError if an istiod cannot be asked."""
        if self.has_istiod:
            return self._compare_with_istiods(reader, view, injected_in_files(workloads, view), kubeconfig, progress)
        comparer = self._comparer(view)
        comparisons = compare_files(workloads, view, comparer, progress)
        return _with_minor_changes(reader, comparer, comparisons, view.built.notes)

    def _compare_with_istiods(
        self,
        objects: ReaderSession,
        view: ClusterView,
        workloads: list[Created],
        kubeconfig: Kubeconfig,
        progress: Progress,
    ) -> Compared:
        from injector.fleet.istiod import open_istiods, random_notes  # noqa: PLC0415 -- it loads the client of the API server

        comparer, state = self._comparer(view), view.revisions.state
        with open_istiods(kubeconfig, self.istiod) as session:
            old, new = (
                session.find(own, state.targets(own)) if name.startswith(ISTIOD) else None
                for name, own in zip(self.names, self._own_names, strict=True)
            )
            comparer = comparer.with_webhooks(*("" if istiod is None else istiod.where for istiod in (old, new)))
            comparisons = list(session.compare((old, new), comparer, workloads, progress))
            before, after = (
                session.side_with_minor(side, istiod, state)
                for side, istiod in zip(comparer.sides, (old, new), strict=True)
            )
        notes = *view.built.notes, *random_notes(comparisons)
        if before is None or after is None:
            unknown = self.names[before is not None]
            note = f"the version of {unknown} is not known, so what breaks between the minors is not reported"
            return Compared(comparer.sides, comparisons, (*notes, escape_line(note)))
        compared = _with_minor_changes(objects, replace(comparer, sides=(before, after)), comparisons, notes)
        return replace(compared, sides=comparer.sides)

    def _comparer(self, view: ClusterView) -> Comparer:
        revisions = map(view.built.revision, self._raws(view.revisions))
        old, new = map(Side, self.names, revisions)
        return Comparer((old, new), self.kinds, self.guard, view.namespaces, keeps_pods=self.keeps_pods)

    @property
    def _own_names(self) -> list[str]:
        return [name.removeprefix(ISTIOD) for name in self.names]

    def _raws(self, revisions: RevisionList) -> list[RawRevision]:
        """Return the revisions of both sides. An istiod whose name is not among them has the revision of the other side.

        Raises UsageError if a name is unknown.
        """
        first, second = self._own_names
        istiods = [
            name.startswith(ISTIOD) and own not in revisions.state.served_names
            for name, own in zip(self.names, self._own_names, strict=True)
        ]
        if istiods[0] != istiods[1]:
            first = second = second if istiods[0] else first
        return [revisions.find(name) for name in (first, second)]


def _with_minor_changes(
    session: ReaderSession, comparer: Comparer, comparisons: list[Comparison], notes: tuple[str, ...]
) -> Compared:
    """Return comparisons with what breaks between the minors of the two revisions."""
    changed = session.run(partial(changes_of_comparisons, comparer, comparisons))
    return Compared(comparer.sides, comparisons, (*notes, *changed.notes), changed)
