"""The changes that another revision would make to the pods of workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from injector.errors import InvalidPodError, ManifestError
from injector.fleet.dryrun import refusal
from injector.fleet.minors import MinorChanges, read_minor_changes
from injector.fleet.podmessages import PodMessages
from injector.fleet.processes import in_processes
from injector.fleet.routing import find_called, pod_labels
from injector.fleet.workloads import read_targets
from injector.golang.json import dump_json, load_json
from injector.injection.pipeline import answers_to
from injector.injection.result import Answer, Injected, RequestFacts
from injector.injection.tools.podchanges import Change, changes
from injector.istio.analysis import OWN_CODES, Diagnostic, Mesh, analyze, in_order, item_of_workload
from injector.kube.podsecurity import enforced_level, level_of

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.resources import ObjectReader
    from injector.fleet.files import ReaderSession
    from injector.fleet.manifests import WorkloadFiles
    from injector.fleet.progress import Progress
    from injector.fleet.view import ClusterView
    from injector.istio.revision import Revision
    from injector.kube.podtemplates import Created

T = TypeVar("T")

_IN_FILES: Final = "the files' webhooks"

NamespaceLabels: TypeAlias = "Mapping[str, Mapping[str, str]]"
"""The labels of namespaces by name."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two revisions: the name on the command line, and the revision that it refers to.

    ``webhook`` is the address of a running istiod that answers for it; empty if this injector does.
    """

    name: str
    revision: Revision
    webhook: str = ""

    def __str__(self) -> str:
        if self.webhook:
            return f"{self.name} ({self.webhook})"
        revision = self.revision
        target = f"revision {revision.name}, " if revision.name != self.name else ""
        return f"{self.name} ({target}Istio {revision.istio_version})"

    def data(self) -> dict[str, str]:
        """Return it as JSON data."""
        if self.webhook:
            return {"name": self.name, "webhook": self.webhook}
        return {"name": self.name, "revision": self.revision.name, "istioVersion": self.revision.istio_version}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One workload, the result of both revisions for its pod, and the differences.

    ``messages`` are the injector's own about the pod of the new revision.
    ``levels`` are the strictest levels of Pod Security that the injected pods pass, by their side.
    The injected pods are only kept for a unified diff: for 5,300 workloads they take 170 MB. The workload's own pod is kept as JSON.

    If a running istiod answered for a side, ``known`` says why its answer differs from ours, if docs/compatibility.md says so, and
    ``random`` has the paths that differ among its own answers, which are not among the changes.
    """

    workload: Created
    old: Answer
    new: Answer
    changes: tuple[Change, ...]
    levels: Mapping[str, str]
    pod_json: bytes
    messages: tuple[Diagnostic, ...] = ()
    known: str = ""
    random: tuple[str, ...] = ()

    @property
    def pod(self) -> dict[str, Any]:
        """A new copy of the workload's pod."""
        pod: dict[str, Any] = load_json(self.pod_json)
        return pod


@dataclass(frozen=True, slots=True)
class Comparer:
    """How to compare workloads.

    Attributes:
        kinds: the kinds of changes to show.
        guard: one of ``result.GUARDS``.
        labels: the labels of each namespace that is known, which tell what Pod Security enforces.
        keeps_pods: whether to keep the injected pods.
        finder: finds the injector's own messages.
        envs: the variables of the proxy that the path of the webhook sets.
    """

    sides: tuple[Side, Side]
    kinds: frozenset[str]
    guard: str
    labels: NamespaceLabels
    keeps_pods: bool
    finder: PodMessages = field(default_factory=PodMessages)
    envs: Mapping[str, str] = field(default_factory=dict)

    def with_webhooks(self, old: str, new: str) -> Comparer:
        """Return a comparer whose sides are answered by running istiods at these addresses, if they are not empty."""
        sides = replace(self.sides[0], webhook=old), replace(self.sides[1], webhook=new)
        return replace(self, sides=sides)

    def answers(self, workload: Created) -> tuple[Answer, Answer]:
        """Return the answers of the webhooks of both revisions. A refusal is an answer too."""
        requests = (self._request(side.revision, workload) for side in self.sides)
        old, new = answers_to(workload.pod, *requests, policy=enforced_level(self.labels.get(workload.namespace, {})))
        return old, new

    def _request(self, revision: Revision, workload: Created) -> tuple[Revision, RequestFacts]:
        namespace = workload.namespace
        return revision, RequestFacts(namespace, self.envs, revision.namespaces.get(namespace), self.guard)

    def result(self, workload: Created, answers: tuple[Answer, Answer] | None = None) -> Comparison:
        """Compare the answers to a workload, by default those of the webhooks."""
        old, new = answers or self.answers(workload)
        names = self.sides[0].revision.written, self.sides[1].revision.written
        levels = {
            side: level_of(answer.shared_pod)
            for side, answer in (("old", old), ("new", new))
            if isinstance(answer, Injected)
        }
        all_changes = changes(old, new, workload.pod, names, tuple(levels.values()))
        wanted = tuple(change for change in all_changes if change.kind in self.kinds)
        messages = self._messages(workload, new)
        if not self.keeps_pods:
            old, new = _without_pod(old), _without_pod(new)
        return Comparison(replace(workload, pod={}), old, new, wanted, levels, dump_json(workload.pod), messages)

    def _messages(self, workload: Created, new: Answer) -> tuple[Diagnostic, ...]:
        """Return the injector's own messages about a workload that the new revision injects."""
        item = item_of_workload(workload)
        own = [message for message in analyze([item], Mesh()) if message.code.startswith(OWN_CODES)]
        about_pod = self.finder.about(self.sides[1].revision, item, self.labels.get(workload.namespace), new)
        return tuple(replace(message, item=replace(message.item, pod=None)) for message in in_order((*own, *about_pod)))


def _without_pod(answer: Answer) -> Answer:
    if isinstance(answer, Injected):
        return Injected({}, b"[]", answer.templates, answer.warnings, answer.findings)
    return answer


def compare_injected(
    session: ReaderSession, view: ClusterView, comparer: Comparer, files: WorkloadFiles, progress: Progress
) -> list[Comparison]:
    """Return the comparisons of the workloads of a cluster that a webhook injects. Raises ManifestError if none is."""
    return _of_cluster(session, files, partial(_compare, view, comparer), progress)


def injected_workloads(
    session: ReaderSession, view: ClusterView, files: WorkloadFiles, progress: Progress
) -> list[Created]:
    """Return the workloads of a cluster that a webhook injects. Raises ManifestError if none is."""
    return _of_cluster(session, files, partial(_if_injected, view), progress)


def injected_in_files(workloads: Sequence[Created], view: ClusterView) -> list[Created]:
    """Return the workloads of files, without those that no webhook of the files injects. Raises ManifestError if none is injected."""
    return _without_skipped([_if_injected(view, workload) for workload in workloads], _IN_FILES)


def _of_cluster(
    session: ReaderSession, files: WorkloadFiles, function: Callable[[Created], T | None], progress: Progress
) -> list[T]:
    results = read_targets(session, files.namespace, files.others, function, selector=files.selector, progress=progress)
    return _without_skipped(
        results, "the cluster's webhooks" if files.namespace is None else f"namespace {files.namespace}"
    )


def compare_files(
    workloads: Sequence[Created], view: ClusterView, comparer: Comparer, progress: Progress
) -> list[Comparison]:
    """Return the comparisons of the workloads of files, without those that no webhook of the files injects.

    Raises ManifestError if none is injected.
    """
    results = in_processes(partial(_compare, view, comparer), workloads)
    return _without_skipped(list(progress(results, "workloads", length=len(workloads))), _IN_FILES)


def _compare(view: ClusterView, comparer: Comparer, workload: Created) -> Comparison | None:
    """Compare a workload; None if no webhook injects it."""
    return None if _if_injected(view, workload) is None else comparer.result(workload)


def _if_injected(view: ClusterView, workload: Created) -> Created | None:
    """Return a workload; None if no webhook injects it. Files may leave out webhooks and namespaces: then it counts."""
    is_known = workload.namespace in view.namespaces and not view.assumed
    if is_known and not find_called(view.webhooks, pod_labels(workload, view.namespaces[workload.namespace])):
        return None
    return workload


def _without_skipped(results: Sequence[T | None], where: str) -> list[T]:
    injected = [result for result in results if result is not None]
    if not injected:
        what = f"none of {len(results)} workloads is injected"
        raise ManifestError(what, where=where, hint="run `injector explain` for one of them")
    return injected


async def changes_of_comparisons(
    comparer: Comparer, comparisons: Iterable[Comparison], reader: ObjectReader
) -> MinorChanges:
    """Return what breaks between the minors of the two revisions for the compared workloads and the objects beside them."""
    old, new = (side.revision for side in comparer.sides)
    workloads = (replace(comparison.workload, pod=comparison.pod) for comparison in comparisons)
    return await read_minor_changes(reader, old, new, workloads)


async def check_comparison(comparer: Comparer, client: KubeClient, comparison: Comparison) -> Comparison:
    """Compare with the API server's refusal in place of a new pod that it refuses, and of an old one then too."""
    workload = replace(comparison.workload, pod=comparison.pod)
    old, injected = comparer.answers(workload)
    new = await _dry_run(client, workload, injected)
    old = old if new is injected else await _dry_run(client, workload, old)
    return comparer.result(workload, (old, new))


async def _dry_run(client: KubeClient, workload: Created, answer: Answer) -> Answer:
    said = await refusal(client, answer.pod, workload.namespace) if isinstance(answer, Injected) else None
    return answer if said is None else InvalidPodError(said, where="dry run")
