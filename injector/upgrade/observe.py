"""The watches of a runner, the facts that they remember of objects, and the workloads of a plan as a step observes them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.listwatch import ListWatch
from injector.cluster.resources import BUDGETS, DEPLOYMENTS, GATEWAY, GATEWAY_GROUP, PODS, Resource, Scope
from injector.errors import ClusterError
from injector.injection.tools.drift import injected_revision
from injector.istio.labels import REVISION_LABEL
from injector.kube.objects import mapping_at, mappings_at
from injector.kube.pods import controller_of, has_ended
from injector.kube.selectors import Selector
from injector.revisions.tags import workload_key
from injector.upgrade.document import GROUP, MAX_RESTARTS
from injector.upgrade.gatewaywave import ObservedGateway
from injector.upgrade.observation import ObservedWorkload
from injector.upgrade.plan import (
    RESTARTABLE,
    ROLLOUT,
    ROLLOUT_GROUP,
    STAYS,
    Key,
    available_pods,
    desired_pods,
    key_of,
    restart_of,
)
from injector.upgrade.statefulset import newest_template, unready_pod

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from injector.cluster.client import KubeClient
    from injector.fleet.gateways import Gateway, GatewayView
    from injector.istio.ownership import TagObjects
    from injector.metrics import Metrics
    from injector.revisions.tags import Tag
    from injector.upgrade.plan import Plan

MARK: Final = f"{GROUP}/restarted-by"
"""The annotation of a workload with the mark of its last restart."""
_MAX_TEXT: Final = 100
"""Characters of an annotation that are remembered. The texts of upgrades are shorter, and users can write 250 KB."""
_MAX_MESSAGE: Final = 200
"""Characters of a condition's message that are remembered: the cause is at its beginning."""
LIST_PATIENCE: Final = 10.0
"""Seconds after which a runner shows that it lives, and why it waits, although a list is not complete."""
_CRASH_LOOP: Final = "CrashLoopBackOff"
_PULL_FAULTS: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})
PULL_PATIENCE: Final = 60.0
"""Seconds after which an image that cannot be pulled is a fault: a registry may fail for a moment. The kubelet tries again after 10, 20
and 40 seconds."""
_FAULTS: Final = frozenset(
    {
        _CRASH_LOOP,
        *_PULL_FAULTS,
        "CreateContainerConfigError",
        "CreateContainerError",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""The reasons of waiting containers that do not start by themselves soon."""


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """A workload as far as its object tells, its version, and the labels of its pod template.

    ``ordered`` is the hash of the newest template of a StatefulSet that waits for each of its pods; empty for any other workload.
    If istiod has created it for a Gateway of the Gateway API, ``gateway`` is the Gateway's name, and ``revision`` that of the istiod.
    """

    observed: ObservedWorkload
    version: str
    pod_labels: Mapping[str, str]
    ordered: str = ""
    gateway: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts about a pod: its workload, the revision of its sidecar, its container restarts, a container that does not start, its UID.

    ``trouble`` says why it is not scheduled, or not ready. A pod of a StatefulSet that is not ready has a ``name``, and the hash of its
    ``template``.
    """

    key: Key
    revision: str
    restarts: int
    fault: str
    trouble: str = ""
    uid: str = ""
    name: str = ""
    template: str = ""


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
    desired = desired_pods(kind, spec, status)
    available = available_pods(kind, status)
    view = ObservedWorkload(
        key=key_of(obj),
        mark=str((meta.get("annotations") or {}).get(MARK, ""))[:_MAX_TEXT],
        complete=_is_complete(kind, meta, spec, status, desired) and available >= desired,
        desired=desired,
        disrupts=restart_of(obj).disrupts,
        unavailable=max(desired - available, 0),
        rollout_fault=_progress_fault(meta, status),
        # The API server refuses its new pods, for example by a quota.
        trouble=_condition_message(status, "ReplicaFailure", "True"),
    )
    labels, ordered = mapping_at(spec, "template", "metadata", "labels"), newest_template(obj)
    template = mapping_at(spec, "template", "metadata")
    owner = controller_of(meta) or next(iter(meta.get("ownerReferences") or ()), {})
    is_gateways = owner.get("kind") == GATEWAY and str(owner.get("apiVersion", "")).startswith(f"{GATEWAY_GROUP}/")
    gateway = str(owner.get("name", "")) if is_gateways else ""
    revision = str(mapping_at(template, "annotations").get(REVISION_LABEL, "")) if gateway else ""
    return WorkloadFacts(view, str(meta.get("resourceVersion", "")), labels, ordered, gateway, revision)


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


def _progress_fault(meta: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Return why the rollout of the newest pod template was given up. The Deployment controller stores what it observed last."""
    if str(status.get("observedGeneration", "")) != str(meta.get("generation", "")):
        return ""
    for condition in mappings_at(status, "conditions"):
        if condition.get("type") == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            return "its progress deadline is exceeded"
    return ""


def _condition_message(status: Mapping[str, Any], kind: str, value: str) -> str:
    """Return the message of a condition that has this value; empty if it has not."""
    conditions = mappings_at(status, "conditions")
    messages = (
        str(condition.get("message") or condition.get("reason") or kind)
        for condition in conditions
        if condition.get("type") == kind and condition.get("status") == value
    )
    return next(messages, "")[:_MAX_MESSAGE]


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
    # The first of them that is not fulfilled has the cause.
    stages = (_condition_message(status, kind, "False") for kind in ("PodScheduled", "Initialized", "Ready"))
    trouble = next(filter(None, stages), "")
    name, template = unready_pod(pod) if key.kind == "StatefulSet" else ("", "")
    return PodFacts(key, revision[:_MAX_TEXT], restarts, fault, trouble, str(meta.get("uid", "")), name, template)


def budget_facts(item: Mapping[str, Any]) -> BudgetFacts | None:
    """Return the facts about a PodDisruptionBudget; None if it has no valid selector, and so no pods.

    An older API server accepted invalid values of labels in a selector, and the eviction API ignores such an object.
    """
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    selector = None if spec.get("selector") is None else Selector.compile_valid(spec["selector"])
    if selector is None:
        return None
    place, allowed = meta["namespace"], status.get("disruptionsAllowed")
    return BudgetFacts(place, f"{place}/{meta['name']}", selector, not isinstance(allowed, int) or allowed < 1)


@dataclass
class Observer:
    """Combines what is remembered of the objects with a plan.

    It remembers when each workload changed last, and was available last, and since when the image of a pod cannot be pulled.

    ``target`` is the name that the new revision writes into pods. A new pod may have ``max_restarts`` restarts of a container.
    """

    target: str
    max_restarts: int = MAX_RESTARTS
    _changed: dict[Key, tuple[ObservedWorkload, float]] = field(default_factory=dict)
    _available: dict[Key, float] = field(default_factory=dict)
    _pulling: dict[str, float] = field(default_factory=dict)

    def observe(
        self,
        plan: Plan,
        workloads: Iterable[WorkloadFacts],
        pods: Iterable[PodFacts],
        budgets: Iterable[BudgetFacts],
        restarting: Collection[str],
        now: float,
    ) -> tuple[list[ObservedWorkload], frozenset[str]]:
        """Return the workloads of the plan, and the PodDisruptionBudgets that allow no disruption.

        A workload that is being restarted counts for the limits although the tag no longer leads its pods.
        """
        facts = {workload.observed.key: workload for workload in workloads}
        pods_of, budgets_of = defaultdict[Key, list[PodFacts]](list), defaultdict[str, list[BudgetFacts]](list)
        pulling = dict[str, float]()
        for pod in pods:
            pods_of[pod.key].append(pod)
            if pod.fault in _PULL_FAULTS:
                pulling[pod.uid] = self._pulling.get(pod.uid, now)
        self._pulling = pulling
        for budget in budgets:
            budgets_of[budget.namespace].append(budget)
        entries = {entry.key: entry for entry in plan.entries if entry.wave is not None}
        views = []
        for key in [*entries, *(key for key in facts if str(key) in restarting and key not in entries)]:
            known, entry = facts.get(key), entries.get(key)
            if known is None:
                continue
            names = frozenset(
                budget.name for budget in budgets_of.get(key.namespace, ()) if budget.selector.matches(known.pod_labels)
            )
            action, wave = (STAYS, -1) if entry is None or entry.wave is None else (entry.action, entry.wave)
            view = replace(known.observed, action=action, wave=wave, budgets=names)
            own = pods_of.get(key, ())
            views.append(_with_broken(self._with_pods(view, own, plan.outdated, now), known, own))
        exhausted = frozenset(budget.name for own in budgets_of.values() for budget in own if budget.is_exhausted)
        return views, exhausted

    def _with_pods(
        self, view: ObservedWorkload, pods: Sequence[PodFacts], outdated: frozenset[str], now: float
    ) -> ObservedWorkload:
        new = [pod for pod in pods if pod.revision == self.target and pod.uid not in outdated]
        view = replace(view, new=len(new), old=len(pods) - len(new), fault=self._fault(new, now))
        before, since = self._changed.get(view.key, (None, now))
        if before != view:
            since = now
        self._changed[view.key] = view, since
        available = self._available.get(view.key, now) if view.unavailable else now
        self._available[view.key] = available
        pod_trouble = (pod.fault or pod.trouble for pod in pods if pod.trouble or pod.fault)
        trouble = view.trouble or next(pod_trouble, "")
        starting = next((_not_started(pod) for pod in new if pod.fault and self._may_recover(pod, now)), "")
        return replace(view, trouble=trouble, starting=starting, quiet=now - since, incomplete=now - available)

    def _fault(self, new: Sequence[PodFacts], now: float) -> str:
        broken = next((pod for pod in new if pod.fault and not self._may_recover(pod, now)), None)
        if broken is not None:
            return _not_started(broken)
        restarts = max((pod.restarts for pod in new), default=0)
        if restarts > self.max_restarts:
            return f"a new pod restarted {restarts} times"
        return ""

    def _may_recover(self, pod: PodFacts, now: float) -> bool:
        """Tell whether a pod may still start by itself. One that starts before its proxy crashes once or twice."""
        if pod.fault in _PULL_FAULTS:
            return now - self._pulling.get(pod.uid, now) < PULL_PATIENCE
        return pod.fault == _CRASH_LOOP and pod.restarts <= self.max_restarts


def _not_started(pod: PodFacts) -> str:
    return f"a new pod does not start: {pod.fault}"


def _with_broken(view: ObservedWorkload, known: WorkloadFacts, pods: Sequence[PodFacts]) -> ObservedWorkload:
    """Return a workload with its pods that are not ready and that its controller does not replace by itself."""
    if not known.ordered:
        return view
    broken = tuple(sorted(pod.name for pod in pods if pod.name))
    stuck = tuple(sorted(pod.name for pod in pods if pod.name and pod.template != known.ordered))
    return replace(view, broken=broken, stuck=stuck) if broken else view


def _observed_gateway(
    gateway: Gateway, view: GatewayView, after: TagObjects, deployment: WorkloadFacts | None
) -> ObservedGateway:
    owners, fault = view.owners(gateway), gateway.fault
    if deployment is not None and not fault:
        pods = deployment.observed
        if deployment.revision not in ("", *owners):
            fault = f"its {pods.key.kind} is that of revision {deployment.revision}"
        elif not pods.complete:
            fault = f"pods of its {pods.key.kind} that are not available: {pods.unavailable} of {pods.desired}"
    name = f"{gateway.namespace}/{gateway.name}"
    workload = "" if deployment is None else deployment.observed.key.name
    return ObservedGateway(name, gateway.pin, gateway.version, owners, view.owners(gateway, after), fault, workload)


@dataclass
class Watches:
    """The watches of one upgrade, and what they remember. ``resources`` has the kinds that can be restarted."""

    resources: dict[str, Resource]
    facts: dict[str, Mapping[str, Any]]
    _lists: list[ListWatch]
    _tasks: list[asyncio.Task[None]]

    @classmethod
    @asynccontextmanager
    async def open(cls, client: KubeClient, metrics: Metrics, name: str) -> AsyncIterator[Watches]:
        """Watch all workloads, pods and PodDisruptionBudgets. Raises ClusterError if a list is forbidden.

        If a list is not complete after ``LIST_PATIENCE``, the watches have a ``fault`` until it is.
        """
        rollout = await client.find_resource(ROLLOUT, ROLLOUT_GROUP)
        resources = {**RESTARTABLE, **({} if rollout is None else {ROLLOUT: rollout})}
        keeps: dict[str, tuple[Resource, Callable[[Mapping[str, Any]], Any]]] = {
            kind: (resource, partial(workload_facts, kind=kind)) for kind, resource in resources.items()
        }
        keeps |= {PODS.kind: (PODS, pod_facts), BUDGETS.kind: (BUDGETS, budget_facts)}
        watches = cls(resources, {kind: {} for kind in keeps}, [], [])
        for kind, (resource, keep) in keeps.items():
            scope = Scope(resource, watch_name=f"{name}/{kind}")
            changed = partial(watches.facts.__setitem__, kind)
            watches._lists.append(ListWatch(client, scope, keep=keep, changed=changed, metrics=metrics))
        watches._tasks.extend(asyncio.create_task(listing.run()) for listing in watches._lists)
        try:
            await watches._wait_until_listed()
            yield watches
        finally:
            for task in watches._tasks:
                task.cancel()
            await asyncio.gather(*watches._tasks, return_exceptions=True)
            for kind in keeps:
                metrics.watch_synced.remove(f"{name}/{kind}")

    async def _wait_until_listed(self) -> None:
        now = asyncio.get_running_loop().time
        end = now() + LIST_PATIENCE
        while now() < end and not all(listing.synced.is_set() for listing in self._lists):
            await asyncio.sleep(0.05)
            for listing in self._lists:
                if listing.state.last_fault == "forbidden" and not listing.synced.is_set():
                    hint = "grant the permission to list and watch it"
                    raise ClusterError(listing.fault, hint=hint, reason="forbidden")

    @property
    def fault(self) -> str:
        """Why the watches do not show the cluster as it is now; empty if they do."""
        faults = (
            listing.fault or ("" if listing.synced.is_set() else f"{listing}: the first list is not complete")
            for listing in self._lists
        )
        return next(filter(None, faults), "")

    def snapshot(self) -> tuple[list[WorkloadFacts], Iterable[PodFacts], Iterable[BudgetFacts]]:
        """Return the workloads of all kinds that can be restarted, the pods, and the PodDisruptionBudgets."""
        workloads = [workload for kind in self.resources for workload in self.facts[kind].values()]
        return workloads, self.facts[PODS.kind].values(), self.facts[BUDGETS.kind].values()

    def gateways(self, view: GatewayView, wanted: Tag | None) -> list[ObservedGateway]:
        """Return the Gateways of a view, with the owners that they have if the tag is written as wanted, and the pods of each.

        An upgrade without a tag writes none.
        """
        deployments = {
            f"{facts.observed.key.namespace}/{facts.gateway}": facts
            for facts in self.facts[DEPLOYMENTS.kind].values()
            if facts.gateway
        }
        after = view.objects if wanted is None else view.objects.with_tag(wanted.name, wanted.revision)
        return [
            _observed_gateway(gateway, view, after, deployments.get(f"{gateway.namespace}/{gateway.name}"))
            for gateway in view.gateways
        ]

    def workload(self, key: Key) -> WorkloadFacts | None:
        """Return a workload; None if it does not exist."""
        return self.facts[key.kind].get(f"{key.namespace}/{key.name}")
