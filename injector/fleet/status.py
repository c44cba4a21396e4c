"""The sidecars of running pods, compared with those that new pods would get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec

from injector.cluster.resources import PODS, RUNNING, Scope
from injector.errors import DataError
from injector.fleet.replicas import NO_REPLICAS
from injector.fleet.routing import PodLabels, Route, destination, find_called, requested_name, route_by
from injector.fleet.view import ClusterView, notes_of_unknown_namespaces, read_view, with_replicas
from injector.fleet.workloads import read_running, results_of_texts
from injector.golang.json import load_json
from injector.injection import containers as c
from injector.injection.pipeline import answers_to
from injector.injection.result import RequestFacts, Skipped
from injector.injection.tools.drift import (
    CURRENT,
    MISSING,
    OLDER_REVISION,
    UNKNOWN_REVISION,
    Drift,
    as_created,
    drift_of,
    injected_revision,
    of_replica,
)
from injector.kube.admission import canonical_json
from injector.kube.pods import has_ended
from injector.kube.podsecurity import enforced_level
from injector.memo import Memo
from injector.revisions.tags import key_of_normal_pod, workload_of_pod

if TYPE_CHECKING:
    from injector.fleet.files import ReaderSession
    from injector.fleet.progress import Progress
    from injector.fleet.sources import RevisionSources
    from injector.istio.webhooks.reading import LiveWebhook

_REPLICAS: Final = 20
"""The number of statuses to keep. The pods of two ReplicaSets may alternate in the API server's order, those of many rarely do."""
_REPLICAS_SIZE: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class SidecarStatus:
    """The sidecar of a pod compared with the one that it would get now.

    ``workload`` is the namespace, kind and name of the pod's workload. ``has`` and ``gets`` are revisions, None for no sidecar.
    """

    workload: tuple[str, ...]
    has: str | None
    gets: str | None
    drift: Drift


def sidecar_status(pod: Mapping[str, Any], view: ClusterView) -> SidecarStatus | None:
    """Return the status of a pod that has not ended, or None if it has no sidecar and would get none.

    Raises:
        ManifestError: the pod cannot be read.
        KeyError: the labels of its namespace are not known.
    """
    meta = pod["metadata"]
    running: c.Pod = read_running(pod)
    try:
        created: dict[str, Any] | None = as_created(running)
    except DataError:
        created = None  # the original pod cannot be restored, but its revision can be compared
    own_labels = c.labels_of(running if created is None else created)
    namespace = meta["namespace"]
    workload = workload_of_pod(running, namespace, key_of_normal_pod)
    labels = PodLabels(view.namespaces[namespace], own_labels, running if created is None else created, workload)
    sidecar = injected_revision(running)
    has = None if sidecar is None else sidecar or "(no name)"
    gets, drift = _compare(running, created, labels, view)
    return None if has is None and drift.state == CURRENT else SidecarStatus(labels.workload.key, has, gets, drift)


def _compare(running: c.Pod, created: c.Pod | None, labels: PodLabels, view: ClusterView) -> tuple[str | None, Drift]:
    """Return the revision that a new pod would get, None for no sidecar, and how the running one differs."""
    matching = find_called(view.webhooks, labels)
    if not matching:
        wanted = requested_name(view.webhooks, labels)
        return wanted, drift_of(running, None) if wanted is None else Drift(UNKNOWN_REVISION)
    try:
        routed = route_by(matching, view, labels)
    except DataError:
        return _compare_with_replicas(running, matching, labels, view)
    if isinstance(routed, Route):
        revision = view.built.revisions.get(routed.raw.name)
        if revision is None:
            return _compare_with_replicas(running, matching, labels, view)
        if created is None:
            is_current = injected_revision(running) == revision.written
            return revision.name, Drift(CURRENT if is_current else OLDER_REVISION)
        namespace = created["metadata"].get("namespace", "")
        facts = RequestFacts(namespace, routed.envs, revision.namespaces.get(namespace))
        (answer,) = answers_to(created, (revision, facts), policy=enforced_level(labels.namespace))
        return None if isinstance(answer, Skipped) else revision.name, drift_of(running, answer)
    return _compare_with_replicas(running, matching, labels, view)


def _compare_with_replicas(
    running: c.Pod, matching: list[LiveWebhook], labels: PodLabels, view: ClusterView
) -> tuple[str | None, Drift]:
    """Compare a pod with the last good revision that the replicas serve, by its name: its template is not known here."""
    name = destination(matching, view, labels)
    served = view.replicas.revisions.get(name)
    if served is None:
        return name or requested_name(view.webhooks, labels), Drift(UNKNOWN_REVISION)
    has = injected_revision(running)
    if has is None:
        return served.name, Drift(MISSING)
    return served.name, Drift(CURRENT if has == served.written else OLDER_REVISION)


_Fields: TypeAlias = dict[str, msgspec.Raw] | list[msgspec.Raw] | str | int | float | bool | None
_OUTLINE: Final = msgspec.json.Decoder(dict[str, _Fields])
_DECODED: Final = frozenset({"name", "generateName", "namespace", "deletionTimestamp", "phase"})


def _outline(text: bytes) -> dict[str, Any]:
    """Return a pod, given as JSON, of which ``has_ended`` and ``of_replica`` can tell what they need.

    The rest is not decoded: ``PodStatuses`` needs it only of the first replica. Raises ManifestError if it is not JSON.
    """
    pod: dict[str, Any]
    try:
        pod = _OUTLINE.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return cast("dict[str, Any]", load_json(text))
    for part in ("metadata", "status"):
        fields = pod.get(part)
        if isinstance(fields, dict):
            pod[part] = {key: load_json(bytes(raw)) if key in _DECODED else raw for key, raw in fields.items()}
    return pod


class PodStatuses:
    """Finds the status of one pod after another, once for the replicas of a workload, which the API server lists one after another.

    ``computed`` has the statuses by the JSON that replicas have in common.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.computed = Memo[bytes, SidecarStatus | None](_REPLICAS, _REPLICAS_SIZE, len)

    def of(self, text: bytes) -> SidecarStatus | str | None:
        """Return the status of a pod, given as JSON, or its namespace if the labels of that are not known.

        None if it has no status or has ended. Raises ManifestError if it cannot be read.
        """
        pod = _outline(text)
        namespace = str(pod["metadata"].get("namespace", ""))
        if namespace not in self._view.namespaces:
            return namespace
        return None if has_ended(pod) else self.of_running(pod)

    def of_running(self, pod: c.Pod) -> SidecarStatus | None:
        """Return the status of a pod that has not ended, and whose namespace is known. Raises ManifestError if it cannot be read."""
        _, replica = canonical_json(of_replica(pod))
        try:
            return self.computed.get(replica, self._compute)
        except DataError as error:
            meta = pod["metadata"]
            error.where = f"Pod {meta.get('namespace', '')}/{meta.get('name', '')}: {error.where}".removesuffix(": ")
            raise

    def _compute(self, replica: bytes) -> SidecarStatus | None:
        return sidecar_status(load_json(replica), self._view)


def read_statuses(
    session: ReaderSession, sources: RevisionSources, namespace: str | None, selector: str, progress: Progress
) -> tuple[list[SidecarStatus], list[str]]:
    """Return the statuses of the pods that the selector of kubectl matches, and notes for the user."""
    view = session.run(lambda reader: read_view(reader, sources, namespace))
    if view.has_unusable_revisions:
        view = session.run(partial(with_replicas, view))
    scope = Scope(PODS, namespace or "", labels=selector, fields=RUNNING)
    statuses = results_of_texts(session, scope, lambda: PodStatuses(view).of, progress=progress)
    unknown = {status for status in statuses if isinstance(status, str)}
    notes = [*view.notes]
    if not view.webhooks:
        notes.append("no webhook calls an injector: none has a path /inject and a rule for pods")
    notes += notes_of_unknown_namespaces(unknown)
    for name, error in view.built.failures.items():
        served = f"; {view.replicas.about(name)}" if view.replicas != NO_REPLICAS else ""
        notes.append(f"a revision cannot be used: {error}{served}")
    notes += [f"a tag cannot be used: {error}" for error in view.revisions.state.tag_faults.values()]
    return [status for status in statuses if isinstance(status, SidecarStatus)], notes
