"""The loop of a runner: load the state, observe the cluster, decide, store the decision, act.

The preflight of a wave asks whether the control plane is ready and what may not be written, and creates a pod of each workload as a dry
run.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.listwatch import ListWatch
from injector.cluster.resources import (
    ACCESS_REVIEWS,
    BUDGETS,
    NAMESPACES,
    PODS,
    WEBHOOKS,
    Resource,
    Scope,
    ready_endpoints,
)
from injector.errors import ClusterError
from injector.golang.time import utc_text
from injector.injection.tools.drift import injected_revision
from injector.istio.labels import TAG_LABEL
from injector.kube.pods import trial_pod
from injector.revisions.tags import PIN
from injector.upgrade.gates import evaluate
from injector.upgrade.observe import MARK, Observer, budget_facts, pod_facts, workload_facts
from injector.upgrade.plan import BLOCKED, RESTART, RESTARTABLE, ROLLOUT, ROLLOUT_GROUP, STAYS
from injector.upgrade.state import COMPLETED, PAUSED, RESTARTING, RUNNING, SOAKING, progress_text
from injector.upgrade.step import (
    GATE_INTERVAL,
    INTERVAL,
    PREFLIGHT_GRACE,
    Observation,
    ObservedWorkload,
    mark_of,
    step,
    wants_gates,
    wants_preflight,
)
from injector.upgrade.store import MANAGER, read_tag, tag_before

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from injector.cluster.client import KubeClient
    from injector.metrics import Metrics
    from injector.revisions.tags import Tag
    from injector.upgrade.document import Upgrade
    from injector.upgrade.gates import BearerToken
    from injector.upgrade.plan import Entry, Key, Plan
    from injector.upgrade.state import State
    from injector.upgrade.step import GateResult, Transition
    from injector.upgrade.store import Store, Stored

RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""The annotation of `kubectl rollout restart`."""
PREFLIGHT_INTERVAL: Final = 10.0
EVENTS: Final = Resource("v1", "events", "Event", namespaced=True)
MAX_MESSAGE: Final = 1000
"""The API server accepts 1024 bytes (pkg/apis/core/validation/events.go)."""
PACE: Final = 0.1
"""Seconds between two requests of a preflight, and between two restarts, so that a large wave does not load the API server."""
MAX_FAULTS: Final = 10
"""Faults after which a preflight ends: the others usually have the same cause."""
_TERMINATED: Final = "because it is being terminated"
"""The end of the API server's message if the namespace of a new object is being deleted; the status is 403."""
_WEBHOOK_FAILED: Final = "failed calling webhook"
"""A part of the API server's message if a webhook with failurePolicy Fail cannot be called; the status is 500."""


@dataclass
class Runner:
    """Runs one upgrade. Several runners of one upgrade, in several processes, do no harm.

    Args:
        survey: returns the plan, from the tag before the upgrade, with the classes of change of one wave.
        move_tag: writes a tag, if it is still the second one; it blocks.
        say: reports a new state to people.
    """

    client: KubeClient
    store: Store
    istio_namespace: str
    survey: Callable[[Upgrade, Tag | None, int | None], Awaitable[Plan]]
    move_tag: Callable[[Tag, Tag | None], None]
    metrics: Metrics
    say: Callable[[Upgrade, State], None]
    token: BearerToken | None = None
    clock: Callable[[], float] = time.time
    _resources: dict[str, Resource] = field(default_factory=dict)
    _facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _watches: list[ListWatch] = field(default_factory=list)
    _plan: Plan | None = None
    _observer: Observer | None = None
    _planned_for: tuple[int, bool] | None = None
    """The wave that the plan was made for, and whether a window was open: the wait for one may take days."""
    _last_time: dict[str, float] = field(default_factory=dict)
    """The time of the last preflight, and of the last evaluation of the gates."""
    _refused: dict[str, str] = field(default_factory=dict)
    _failing: dict[str, float] = field(default_factory=dict)
    """The time of the first restart of a workload that failed because a webhook of the API server did."""
    _unauthorized: bool = False
    """Whether the last turn was refused for its credentials."""
    _events: list[asyncio.Task[None]] = field(default_factory=list)
    """They are written beside the loop: a wave may have many namespaces."""

    async def run(self) -> State:
        """Run until the upgrade ends or is paused, and return its state. Raises InjectorError if waiting does not help."""
        self._resources = dict(RESTARTABLE)
        rollout = await self.client.find_resource(ROLLOUT, ROLLOUT_GROUP)
        if rollout is not None:
            self._resources[ROLLOUT] = rollout
        self._watches = self._watch()
        tasks = [asyncio.create_task(watch.run()) for watch in self._watches]
        try:
            await self._wait_until_synced()
            while True:
                state = await self._turn()
                if state is not None and (state.has_ended or state.phase == PAUSED):
                    await asyncio.gather(*self._events)
                    return state
                await asyncio.sleep(INTERVAL)
        finally:
            for task in (*tasks, *self._events):
                task.cancel()
            await asyncio.gather(*tasks, *self._events, return_exceptions=True)
            for name in self._facts:
                self.metrics.watch_synced.remove(f"{self.store.name}/{name}")

    def _watch(self) -> list[ListWatch]:
        watched: dict[str, tuple[Resource, Callable[[Mapping[str, Any]], Any]]] = {
            kind: (resource, partial(workload_facts, kind=kind)) for kind, resource in self._resources.items()
        }
        watched |= {PODS.kind: (PODS, pod_facts), BUDGETS.kind: (BUDGETS, budget_facts)}
        self._facts = {name: {} for name in watched}
        return [
            ListWatch(
                self.client,
                Scope(resource, watch_name=f"{self.store.name}/{name}"),
                keep=keep,
                changed=partial(self._facts.__setitem__, name),
                metrics=self.metrics,
            )
            for name, (resource, keep) in watched.items()
        ]

    async def _wait_until_synced(self) -> None:
        """Wait until everything has been listed. Raises ClusterError if a list is forbidden."""
        while not all(watch.synced.is_set() for watch in self._watches):
            await asyncio.sleep(0.05)
            for watch in self._watches:
                if watch.state.last_fault == "forbidden" and not watch.synced.is_set():
                    raise ClusterError(
                        watch.fault, hint="grant the permission to list and watch it", reason="forbidden"
                    )

    async def _turn(self) -> State | None:
        """Make one step. Return the state; None if the API server cannot be reached, or another runner was faster."""
        try:
            stored = await self.store.existing()
            before, tag = tag_before(stored), await read_tag(self.client, stored.upgrade)
            if stored.state.has_ended or stored.state.phase == PAUSED:
                return stored.state
            if any(watch.fault for watch in self._watches):
                return None
            observation = await self._observe(stored, before, tag)
            decision = step(stored.upgrade, stored.state, observation)
            state = _with_report(decision.state, observation, stored.upgrade)
            last = stored.state
            # A tag moves only if the upgrade was not paused or ended since it was read.
            if state != last or decision.tag is not None:
                stored = await self.store.save(stored, state)
            if state != last:
                self.say(stored.upgrade, state)
                if (last.phase, last.step, last.wave) != (state.phase, state.step, state.wave):
                    self._events.append(asyncio.create_task(self._announce(stored.upgrade, state, observation)))
            await self._act(stored.upgrade, decision, tag)
        except ClusterError as error:
            # After a 401 the client reads the credentials again: an upgrade takes longer than many tokens are valid.
            was_unauthorized, self._unauthorized = self._unauthorized, error.reason == "unauthorized"
            if was_unauthorized and self._unauthorized:
                raise
            if error.reason in ("forbidden", "refused", "missing", "credentials"):
                raise
            return None
        self._unauthorized = False
        return stored.state

    async def _observe(self, stored: Stored, before: Tag | None, tag: Tag | None) -> Observation:
        upgrade, state = stored.upgrade, stored.state
        is_open = upgrade.in_window(self.clock())
        if self._plan is None or (wants_preflight(state) and self._planned_for != (state.wave, is_open)):
            self._plan = await self.survey(upgrade, before, None if state.back else state.wave)
            self._planned_for = state.wave, is_open
        checked = None
        is_wanted = wants_preflight(state) and is_open and (tag is None or upgrade.target in tag.targets)
        if is_wanted and self._is_time("preflight", PREFLIGHT_INTERVAL):
            rollout = self._resources.get(ROLLOUT)
            checked = await preflight(self.client, self._plan, state.wave, self.istio_namespace, rollout)
        hold = "" if state.back else await control_plane_fault(self.client, upgrade.target, self.istio_namespace)
        now = self.clock()
        workloads = [facts for kind in self._resources for facts in self._facts[kind].values()]
        observer = self._observer = self._observer or Observer(self._plan.target, upgrade.gates.max_restarts)
        # In a thread, because the event loop of a server answers admissions: 5,000 workloads take 0.1 s, every two seconds.
        pods, budgets = self._facts[PODS.kind].values(), self._facts[BUDGETS.kind].values()
        observed, exhausted = await asyncio.to_thread(observer.observe, self._plan, workloads, pods, budgets, now)
        gates = await self._gates(
            upgrade, state, [workload.key for workload in observed if workload.wave == state.wave and workload.new]
        )
        return Observation(
            now=now,
            workloads=observed,
            tag=tag,
            tag_before=before,
            exhausted=exhausted,
            hold=hold,
            refused=self._refused,
            preflight=checked,
            gates=gates,
        )

    async def _gates(self, upgrade: Upgrade, state: State, keys: list[Key]) -> tuple[GateResult, ...] | None:
        if not wants_gates(state):
            return None
        is_last = self.clock() - state.since >= upgrade.soak
        if not is_last and not self._is_time("gates", GATE_INTERVAL):
            return None
        return await evaluate(upgrade, state, keys, self.clock(), self.token)

    def _is_time(self, what: str, interval: float) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._last_time.get(what, -interval) < interval:
            return False
        self._last_time[what] = now
        return True

    async def _announce(self, upgrade: Upgrade, state: State, observation: Observation) -> None:
        """Record a new step or phase as an Event in each namespace that it concerns."""
        if state.phase == RUNNING and state.step not in (RESTARTING, SOAKING):
            return
        # A runner that took over has planned no restart of a workload that is restarted already.
        mark = mark_of(upgrade, state)
        concerned = (
            workload for workload in observation.workloads if workload.action == RESTART or workload.mark == mark
        )
        if state.phase in (RUNNING, PAUSED):
            concerned = (workload for workload in concerned if workload.wave == state.wave)
        reason = f"Upgrade{state.step if state.phase == RUNNING else state.phase}"
        progress = f", {progress_text(upgrade, state)}" if not state.has_ended else ""
        what = f"upgrade {upgrade.name} to {upgrade.target}: {state.phase}{progress}"
        kind = "Normal" if state.phase in (RUNNING, COMPLETED) else "Warning"
        for place in sorted({workload.key.namespace for workload in concerned}):
            about = {"apiVersion": "v1", "kind": NAMESPACES.kind, "name": place, "namespace": place}
            await self._record(about, kind, reason, f"{what}; {state.reason}" if state.reason else what)

    async def _record(self, about: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Create an Event, if this is permitted."""
        meta = {"generateName": f"upgrade-{self.store.name}.", "namespace": about["namespace"]}
        at = utc_text(self.clock())
        event = {
            "metadata": meta,
            "involvedObject": about,
            "type": kind,
            "reason": reason,
            "message": message[:MAX_MESSAGE],
            "source": {"component": MANAGER},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        await asyncio.sleep(PACE)
        with suppress(ClusterError):  # the events are not needed
            await self.client.create(EVENTS, event, manager=MANAGER)

    async def _act(self, upgrade: Upgrade, decision: Transition, tag: Tag | None) -> None:
        if decision.tag is not None:
            await asyncio.to_thread(self.move_tag, decision.tag, tag)
        mark = mark_of(upgrade, decision.state)
        for key in decision.restarts:
            facts = self._facts[key.kind].get(f"{key.namespace}/{key.name}")
            # Another runner may have restarted it since the decision; the version would then be a newer one.
            if facts is not None and facts.observed.mark != mark:
                await self._restart(key, facts.version, mark, decision.state.token)

    async def _restart(self, key: Key, version: str, mark: str, token: float) -> None:
        """Restart one workload, if it is still as it was observed."""
        meta = {"name": key.name, "namespace": key.namespace, "resourceVersion": version, "annotations": {MARK: mark}}
        at = utc_text(token)
        spec = (
            {"restartAt": at}
            if key.kind == ROLLOUT
            else {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}
        )
        try:
            resource = self._resources[key.kind]
            await asyncio.sleep(PACE)
            item = await self.client.merge(resource, {"metadata": meta, "spec": spec}, manager=MANAGER)
            self._failing.pop(str(key), None)
            about = {"apiVersion": resource.api_version, "kind": key.kind, "name": key.name, "namespace": key.namespace}
            about["uid"] = item["metadata"]["uid"]
            await self._record(about, "Normal", "UpgradeRestarted", f"restarted by upgrade {mark}")
        except ClusterError as error:
            if error.reason in ("forbidden", "refused"):
                self._refused[str(key)] = error.what
            elif _WEBHOOK_FAILED in error.what:
                # A webhook may concern only a few workloads, so that the others go on.
                if self.clock() - self._failing.setdefault(str(key), self.clock()) > PREFLIGHT_GRACE:
                    self._refused[str(key)] = error.what
            elif error.reason not in ("conflict", "missing"):
                raise


def _with_report(state: State, observation: Observation, upgrade: Upgrade) -> State:
    """Return the state with the progress and the results of gates, for people."""
    mark = mark_of(upgrade, state)
    concerned = [workload for workload in observation.workloads if state.back or workload.wave == state.wave]
    counts = Counter(_progress(workload, state, mark) for workload in concerned)
    gates = state.gates
    if observation.gates is not None:
        gates = {
            gate.name: f"{gate.result}: {gate.detail}" if gate.detail else gate.result for gate in observation.gates
        }
    remaining = sum(_is_left(workload, state) for workload in observation.workloads)
    return replace(
        state, counts=dict(sorted(counts.items())), gates=gates, left=remaining, total=max(state.total, remaining)
    )


def _is_left(workload: ObservedWorkload, state: State) -> bool:
    return bool(
        workload.action != BLOCKED and workload.new if state.back else workload.action == RESTART and workload.old
    )


def _progress(workload: ObservedWorkload, state: State, mark: str) -> str:
    if str(workload.key) in state.restarting:
        return "restarting"
    if workload.action in (BLOCKED, STAYS):
        return workload.action
    return "waiting" if _is_left(workload, state) and workload.mark != mark else "done"


async def control_plane_fault(client: KubeClient, revision: str, istio_namespace: str) -> str:
    """Return why the control plane of a revision is not available; empty if it is, or if it is outside of the cluster."""
    service = "istiod" if revision == "default" else f"istiod-{revision}"
    ready = await ready_endpoints(client, istio_namespace, service)
    return f"Service {istio_namespace}/{service} has no ready endpoint" if ready and not sum(ready) else ""


async def preflight(
    client: KubeClient, plan: Plan, wave: int, istio_namespace: str, rollout: Resource | None
) -> tuple[str, ...]:
    """Return the faults that forbid a wave. ``rollout`` is the resource of Argo Rollouts, if the cluster has it."""
    upgrade = plan.upgrade
    wave_entries = [entry for entry in plan.of_wave(wave) if entry.action == RESTART]
    fault = await control_plane_fault(client, upgrade.target, istio_namespace)
    # Those of later waves too, so that an upgrade does not stop in the middle.
    later = [
        entry for entry in plan.entries if entry.wave is not None and entry.wave >= wave and entry.action == RESTART
    ]
    missing = [fault] if fault else await _missing_permissions(client, upgrade, later, rollout)
    if missing:
        return tuple(missing)
    faults: list[str] = []
    for entry in wave_entries:
        await asyncio.sleep(PACE)
        fault_of_pod = await dry_run_fault(client, plan, entry)
        if fault_of_pod:
            faults.append(f"{entry.key}: {fault_of_pod}")
            if len(faults) == MAX_FAULTS:
                break
    return tuple(faults)


async def _missing_permissions(
    client: KubeClient, upgrade: Upgrade, entries: Sequence[Entry], rollout: Resource | None
) -> list[str]:
    """Return the permissions that are missing. A permission for all namespaces is asked for first, which saves requests."""
    missing = []
    if upgrade.tag and not await _can_move(client, upgrade.tag):
        missing.append(f"no permission to patch {WEBHOOKS.plural}")
    needed: dict[tuple[str, Resource], set[str]] = {}
    for entry in entries:
        resource = RESTARTABLE.get(entry.key.kind, rollout)
        if resource is not None:
            needed.setdefault(("patch", resource), set()).add(entry.key.namespace)
        needed.setdefault(("create", PODS), set()).add(entry.key.namespace)
    for (verb, resource), namespaces in needed.items():
        if not await _is_allowed(client, verb, resource, ""):
            for namespace in sorted(namespaces):
                await asyncio.sleep(PACE)
                if not await _is_allowed(client, verb, resource, namespace):
                    missing.append(f"no permission to {verb} {resource.plural} in namespace {namespace}")
    return missing


async def _can_move(client: KubeClient, tag: str) -> bool:
    """Tell whether the webhooks of a tag can be patched: all of the cluster, or those that a role names."""
    if await _is_allowed(client, "patch", WEBHOOKS, ""):
        return True
    names = await client.all(Scope(WEBHOOKS, labels=f"{TAG_LABEL}={tag}"), lambda item: str(item["metadata"]["name"]))
    return bool(names) and all([await _is_allowed(client, "patch", WEBHOOKS, "", name) for name in names])


async def _is_allowed(client: KubeClient, verb: str, resource: Resource, namespace: str, name: str = "") -> bool:
    group = resource.api_version.rpartition("/")[0]
    attributes = {"verb": verb, "group": group, "resource": resource.plural, "namespace": namespace, "name": name}
    manifest = {"metadata": {}, "spec": {"resourceAttributes": attributes}}
    answer = await client.create(ACCESS_REVIEWS, manifest, manager=MANAGER)
    return bool((answer.get("status") or {}).get("allowed"))


async def dry_run_fault(client: KubeClient, plan: Plan, entry: Entry) -> str:
    """Return why a new pod of a workload would not have a valid sidecar of the new revision; empty if it would.

    The API server calls the webhooks as for a real pod. If the tag has not moved yet, a pin asks for the new revision.
    """
    pin = {PIN: plan.upgrade.target} if plan.upgrade.tag else {}
    pod = trial_pod(entry.workload.created.pod, entry.key.namespace, annotations=pin)
    try:
        created = await client.create(PODS, pod, manager=MANAGER, dry_run=True)
    except ClusterError as error:
        if error.reason == "missing" or error.what.endswith(_TERMINATED):
            return ""  # the workload disappears with its namespace
        if error.refuses_object or _WEBHOOK_FAILED in error.what:
            return f"the API server refuses its pod: {error.what}"
        raise
    revision = injected_revision(created)
    if revision == plan.target:
        return ""
    return f"a new pod gets {f'revision {revision}' if revision else 'no sidecar'} instead of {plan.target}"
