"""The facts that a runner remembers of the objects that it watches, and the workloads of a plan as a step sees them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from injector.injection.tools.drift import injected_revision
from injector.kube.pods import has_ended, mapping_at
from injector.kube.selectors import Selector
from injector.revisions.tags import workload_key
from injector.upgrade.document import GROUP
from injector.upgrade.plan import ROLLOUT, Key, key_of, restart_of
from injector.upgrade.step import ObservedWorkload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from injector.upgrade.plan import Plan

MARK: Final = f"{GROUP}/restarted-by"
"""The annotation of a workload with the mark of its last restart."""
_MAX_TEXT: Final = 100
"""Characters of an annotation that are remembered. The texts of upgrades are shorter, and users can write 250 KB."""
_FAULTS: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""The reasons of waiting containers that do not start by themselves soon."""


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """A workload as far as its object tells, its version, and the labels of its pod template."""

    observed: ObservedWorkload
    version: str
    pod_labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts about a pod: its workload, the revision of its sidecar, its container restarts, and a container that does not start."""

    key: Key
    revision: str
    restarts: int
    fault: str


@dataclass(frozen=True, slots=True)
class BudgetFacts:
    """The facts about a PodDisruptionBudget; its name begins with its namespace."""

    namespace: str
    name: str
    selector: Selector
    is_exhausted: bool


def workload_facts(item: Mapping[str, Any], kind: str) -> WorkloadFacts:
    """Return the facts about a workload of a kind; the objects of a list do not name theirs."""
    obj = {**item, "kind": kind}
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    desired = int(status.get("desiredNumberScheduled") or 0)
    if kind != "DaemonSet":
        desired = int(1 if spec.get("replicas") is None else spec["replicas"])
    available = int(status.get("numberAvailable" if kind == "DaemonSet" else "availableReplicas") or 0)
    workload = ObservedWorkload(
        key=key_of(obj),
        mark=str((meta.get("annotations") or {}).get(MARK, ""))[:_MAX_TEXT],
        complete=_is_complete(kind, meta, spec, status, desired) and available >= desired,
        desired=desired,
        disrupts=restart_of(obj).disrupts,
        unavailable=max(desired - available, 0),
        fault=_progress_fault(status),
    )
    return WorkloadFacts(
        workload, str(meta.get("resourceVersion", "")), mapping_at(spec, "template", "metadata", "labels")
    )


def _is_complete(
    kind: str, meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any], desired: int
) -> bool:
    """Return whether every pod belongs to the newest pod template.

    Follows ``kubectl rollout status`` (k8s.io/kubectl 0.35, pkg/polymorphichelpers/rollout_status.go).
    """
    if kind == ROLLOUT:
        wanted = spec.get("restartAt")
        is_seen = str(status.get("observedGeneration", "")) == str(meta.get("generation", ""))
        return is_seen and status.get("phase") == "Healthy" and (not wanted or status.get("restartedAt") == wanted)
    if int(status.get("observedGeneration") or 0) < int(meta.get("generation") or 0):
        return False
    if kind == "DaemonSet":
        return int(status.get("updatedNumberScheduled") or 0) >= desired
    replicas, updated = (int(status.get(name) or 0) for name in ("replicas", "updatedReplicas"))
    if kind == "StatefulSet":
        # The StatefulSet controller counts no updated pods once both revisions are one.
        return status.get("currentRevision") == status.get("updateRevision") and replicas == desired
    return updated >= desired and replicas == updated


def _progress_fault(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            return "its progress deadline is exceeded"
    return ""


def pod_facts(pod: Mapping[str, Any]) -> PodFacts | None:
    """Return the facts about a pod; None if it has ended, is being deleted, or has no sidecar."""
    meta, status = pod["metadata"], pod.get("status") or {}
    revision = injected_revision(pod)
    if revision is None or has_ended(pod):
        return None
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    reasons = [mapping_at(container, "state", "waiting").get("reason") for container in statuses]
    fault = next((str(reason) for reason in reasons if reason in _FAULTS), "")
    restarts = max((int(container.get("restartCount") or 0) for container in statuses), default=0)
    key = Key(*workload_key(pod, str(meta.get("namespace", ""))))
    return PodFacts(key, revision[:_MAX_TEXT], restarts, fault)


def budget_facts(item: Mapping[str, Any]) -> BudgetFacts | None:
    """Return the facts about a PodDisruptionBudget; None if it has no valid selector, and so no pods.

    An older API server accepted invalid values of labels in a selector, and the eviction API ignores such an object.
    """
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    selector = None if spec.get("selector") is None else Selector.compile_valid(spec["selector"])
    if selector is None:
        return None
    place, is_exhausted = meta["namespace"], int(status.get("disruptionsAllowed") or 0) < 1
    return BudgetFacts(place, f"{place}/{meta['name']}", selector, is_exhausted)


@dataclass
class Observer:
    """Combines what is remembered of the objects with a plan. It remembers when each workload changed last, and was available last.

    ``target`` is the name that the new revision writes into pods. A new pod may have ``max_restarts`` restarts of a container.
    """

    target: str
    max_restarts: int
    _changed: dict[Key, tuple[ObservedWorkload, float]] = field(default_factory=dict)
    _available: dict[Key, float] = field(default_factory=dict)

    def observe(
        self,
        plan: Plan,
        workloads: Iterable[WorkloadFacts],
        pods: Iterable[PodFacts],
        budgets: Iterable[BudgetFacts],
        now: float,
    ) -> tuple[list[ObservedWorkload], frozenset[str]]:
        """Return the workloads of the plan, and the PodDisruptionBudgets that allow no disruption."""
        facts = {workload.observed.key: workload for workload in workloads}
        by_key, by_namespace = defaultdict[Key, list[PodFacts]](list), defaultdict[str, list[BudgetFacts]](list)
        for pod in pods:
            by_key[pod.key].append(pod)
        for budget in budgets:
            by_namespace[budget.namespace].append(budget)
        observed = []
        for entry in plan.entries:
            known = facts.get(entry.key)
            if known is not None and entry.wave is not None:
                own = by_namespace.get(entry.key.namespace, ())
                names = frozenset(budget.name for budget in own if budget.selector.matches(known.pod_labels))
                observation = replace(known.observed, action=entry.action, wave=entry.wave, budgets=names)
                observed.append(self._with_pods(observation, by_key.get(entry.key, ()), now))
        exhausted = frozenset(budget.name for own in by_namespace.values() for budget in own if budget.is_exhausted)
        return observed, exhausted

    def _with_pods(self, workload: ObservedWorkload, pods: Sequence[PodFacts], now: float) -> ObservedWorkload:
        new = [pod for pod in pods if pod.revision == self.target]
        workload = replace(workload, new=len(new), old=len(pods) - len(new), fault=self._fault(new) or workload.fault)
        before, since = self._changed.get(workload.key, (None, now))
        if before != workload:
            since = now
        self._changed[workload.key] = workload, since
        available = self._available.get(workload.key, now) if workload.unavailable else now
        self._available[workload.key] = available
        return replace(workload, quiet=now - since, incomplete=now - available)

    def _fault(self, new: Sequence[PodFacts]) -> str:
        crashing = next((pod.fault for pod in new if pod.fault), "")
        if crashing:
            return f"a new pod does not start: {crashing}"
        restarts = max((pod.restarts for pod in new), default=0)
        if restarts > self.max_restarts:
            return f"a new pod restarted {restarts} times"
        return ""
