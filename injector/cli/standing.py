"""How the pods of a cluster stand to what they would get now, one by one and by workload."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cli.liveroute import asked_name, live_route
from injector.cli.route import NO_WEBHOOK, Labels, Routed
from injector.cli.table import printable
from injector.cli.targets import is_over
from injector.errors import DataError
from injector.injection import containers as c
from injector.injection.drift import (
    CURRENT,
    OLDER_REVISION,
    STATES,
    UNKNOWN,
    Drift,
    as_created,
    drift_of,
    sidecar_of,
)
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.kube.typed import normalise
from injector.revisions.weights import workload_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from injector.cli.surroundings import Surroundings
    from injector.istio.revision import Revision


# A name of Kubernetes' has 253 letters at most, and most have far fewer.
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """How one pod stands: the namespace, kind and name of its workload, what it has and would get, None for no sidecar."""

    workload: tuple[str, ...]
    has: str | None
    gets: str | None
    drift: Drift


@dataclass(frozen=True, slots=True)
class Row:
    """The pods of one workload that stand alike."""

    standing: Standing
    pods: int

    @property
    def data(self) -> dict[str, Any]:
        """The row as JSON data."""
        namespace, kind, name = self.standing.workload
        found: dict[str, Any] = {"namespace": namespace, "kind": kind, "name": name, "pods": self.pods}
        drift = self.standing.drift
        found |= {"has": self.standing.has, "wouldGet": self.standing.gets, "state": drift.state}
        return {**found, "changes": list(drift.kinds)} if drift.kinds else found

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        namespace, kind, name = self.standing.workload
        standing = self.standing
        # Nobody checks the names that a pod's annotations and owners hold.
        told = (namespace, f"{kind}/{name}", str(self.pods), standing.has or "-", standing.gets or "-")
        return (*(printable(text[:_SHOWN]) for text in told), standing.drift.state)


def rows(standings: Iterable[Standing]) -> list[Row]:
    """Return the pods by workload; a workload whose pods stand differently, as in the middle of a rollout, has several rows."""
    counted = Counter(standings)
    ordered = sorted(counted, key=lambda each: (each.workload, STATES.index(each.drift.state), each.has or ""))
    return [Row(each, counted[each]) for each in ordered]


def standing_of(pod: Mapping[str, Any], around: Surroundings) -> Standing | None:
    """Return how a pod stands; None for one that ends or has ended, or that neither has a sidecar nor would get one.

    Raises:
        ManifestError: the pod cannot be read.
        KeyError: nothing is known of its namespace.
    """
    meta = pod["metadata"]
    if is_over(pod):
        return None
    read: c.Pod = normalise({"metadata": meta, "spec": pod.get("spec") or {}}, "v1.Pod")
    namespace_labels = around.namespaces[meta["namespace"]]
    try:
        created: dict[str, Any] | None = as_created(read)
    except DataError:
        created = None  # what it was before cannot be told: its revision still can
    own = c.labels_of(read if created is None else created)
    labels = Labels(namespace_labels, own, workload=workload_key(read, meta["namespace"]))
    found = _judged(read, created, labels, around)
    return None if found.has is None and found.drift.state == CURRENT else found


def _judged(pod: c.Pod, created: c.Pod | None, labels: Labels, around: Surroundings) -> Standing:
    workload, sidecar = tuple(labels.workload), sidecar_of(pod)
    has = None if sidecar is None else str(sidecar)
    try:
        routed = live_route(around, labels)
    except DataError:
        return Standing(workload, has, asked_name(around.webhooks, labels), Drift(UNKNOWN))
    if isinstance(routed, Routed):
        revision = around.built.revisions.get(routed.raw.name)
        if revision is None:
            return Standing(workload, has, routed.raw.name, Drift(UNKNOWN))
        if created is None:
            known = sidecar is not None and sidecar.revision == revision.written
            return Standing(workload, has, revision.name, Drift(CURRENT if known else OLDER_REVISION))
        answer = _answer(revision, created, routed)
        gets = None if isinstance(answer, Skipped) else revision.name
        return Standing(workload, has, gets, drift_of(pod, answer))
    wanted = asked_name(around.webhooks, labels)
    if wanted is not None or routed.reason != NO_WEBHOOK:
        return Standing(workload, has, wanted, Drift(UNKNOWN))
    return Standing(workload, has, None, drift_of(pod, None))


def _answer(revision: Revision, created: c.Pod, routed: Routed) -> Injected | Skipped | DataError:
    namespace = created["metadata"].get("namespace", "")
    facts = RequestFacts(namespace, routed.envs, revision.namespaces.get(namespace))
    try:
        return inject_pod(revision, created, facts)
    except DataError as error:
        return error
