"""Compares the pods that this injector gives a new revision with the answers of the running istiod of that revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from injector.errors import ClusterError
from injector.fleet.compare import Comparer, NamespaceLabels, Side
from injector.fleet.istiod import open_istiods, random_notes
from injector.fleet.istiodoptions import ISTIOD
from injector.fleet.progress import Progress, no_progress
from injector.fleet.proof import DIFFERS, DOCUMENTED, NOT_COMPARED, SAME, Proof, WorkloadProof
from injector.injection.result import ENFORCE, Unanswered
from injector.injection.tools.podchanges import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.compare import Comparison
    from injector.fleet.istiodoptions import IstiodOptions
    from injector.injection.tools.podchanges import Change
    from injector.istio.revision import Revision
    from injector.kube.podtemplates import Created, WorkloadKey


def prove(
    revision: Revision,
    workloads: Sequence[Created],
    labels: NamespaceLabels,
    kubeconfig: Kubeconfig,
    options: IstiodOptions,
    progress: Progress = no_progress,
) -> Proof:
    """Return the outcome for the pods of workloads, if a revision injects them. ``labels`` are those of the namespaces.

    If the istiod cannot be asked any more, the proof says so for every workload that has not been compared by then.

    Raises:
        InjectorError: the istiod is not known, see ``find_istiod``.
    """
    name = revision.name
    with open_istiods(kubeconfig, options) as session:
        istiod = session.find(name)
        sides = Side(f"{ISTIOD}{name}", revision, istiod.where), Side(name, revision)
        comparer = Comparer(sides, frozenset(KINDS), ENFORCE, labels, keeps_pods=False)
        comparisons: list[Comparison] = []
        outcomes: dict[WorkloadKey, WorkloadProof] = {}
        try:
            for comparison in session.compare((istiod, None), comparer, workloads, progress):
                comparisons.append(comparison)
                outcomes[comparison.workload.key] = _outcome(comparison)
        except ClusterError as error:
            fault = WorkloadProof(NOT_COMPARED, reason="; ".join(filter(None, (error.what, error.hint))))
            outcomes |= {workload.key: fault for workload in workloads if workload.key not in outcomes}
    return Proof(istiod.where, outcomes, tuple(random_notes(comparisons)))


def _outcome(comparison: Comparison) -> WorkloadProof:
    if isinstance(comparison.old, Unanswered):
        return WorkloadProof(NOT_COMPARED, reason=comparison.old.detail)
    paths = _paths(comparison.changes)
    if comparison.known:
        return WorkloadProof(DOCUMENTED, paths, comparison.known)
    return WorkloadProof(DIFFERS, paths) if paths else WorkloadProof(SAME)


def _paths(changes: Sequence[Change]) -> tuple[str, ...]:
    """Return the paths of changes. One without a path has the two sides, that of istiod first."""
    return tuple(dict.fromkeys(change.path or f"{change.kind} {change.old} -> {change.new}" for change in changes))
