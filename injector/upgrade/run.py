"""The loop of a runner: load the state, observe the cluster, decide, store the decision, act."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from injector.cluster.resources import DEPLOYMENTS, Resource
from injector.cluster.session import ThreadSession
from injector.errors import ClusterError, InjectorError, UsageError
from injector.fleet.gateways import PIN_MANAGER, read_gateways
from injector.golang.time import utc_text
from injector.istio.labels import REVISION_LABEL
from injector.upgrade.events import EventWriter
from injector.upgrade.gates import evaluate
from injector.upgrade.observation import Observation, ObservedWorkload
from injector.upgrade.observe import MARK, Observer, Watches
from injector.upgrade.plan import BLOCKED, DONE, RESTART, ROLLOUT, STAYS, Key
from injector.upgrade.preflight import PACE, WEBHOOK_FAILED, control_plane_fault, preflight
from injector.upgrade.remaining import gateways_left, work_left
from injector.upgrade.state import (
    BY_USER,
    GATEWAYS,
    MOVING,
    PAUSED,
    PREFLIGHT,
    SOAKING,
    needs_approval,
    new_state,
)
from injector.upgrade.status import HEARTBEAT
from injector.upgrade.step import (
    GATE_INTERVAL,
    INTERVAL,
    PREFLIGHT_GRACE,
    STABLE_AFTER,
    is_of_run,
    mark_of,
    step,
    tag_to_write,
    wants_gates,
    wants_gateways,
    wants_preflight,
    wants_remaining,
    writes_tag_back,
)
from injector.upgrade.store import MANAGER
from injector.upgrade.tag import TagView, read_tag, tag_before, tag_data, write_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from injector.cluster.client import KubeClient
    from injector.cluster.session import Session
    from injector.metrics import Metrics
    from injector.revisions.tags import Tag
    from injector.upgrade.document import Upgrade
    from injector.upgrade.gates import Tokens
    from injector.upgrade.gatewaywave import LabelChange, ObservedGateway
    from injector.upgrade.observation import GateResult
    from injector.upgrade.state import State
    from injector.upgrade.step import Transition
    from injector.upgrade.store import Store, Stored
    from injector.upgrade.survey import Survey, Surveyor

RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""The annotation of `kubectl rollout restart`."""
PREFLIGHT_INTERVAL: Final = 10.0
SURVEY_INTERVAL: Final = 10.0
"""Seconds between two surveys of the work that is left at the end."""
_FATAL: Final = ("forbidden", "refused", "missing", "credentials")
"""The reasons of errors for which waiting does not help."""


@dataclass
class Memory:
    """What a runner remembers from one turn to the next. A runner that takes over needs none of it.

    Attributes:
        survey: the last survey.
        surveyed: the rollback, the wave, and whether the preflight could begin, for which it was made; ``retries`` are those of that state.
        tried: the workloads of this survey whose dry runs have succeeded, while a preflight is under way.
        observer: the times of the last changes of workloads.
        last_times: the time of the last preflight, survey for the end, and evaluation of the gates.
        gateways: the resource of Gateways; None if it was not needed or the cluster does not have it.
        refused: the restarts that the API server refused: the mark, the time of the first try, and the reason.
        last: the state after the last turn.
        stepped: the time of the last step.
        is_unauthorized: whether the last turn was refused for its credentials.
        error: why the last turn failed.
    """

    survey: Survey | None = None
    surveyed: tuple[bool, int, bool] | None = None
    retries: Mapping[str, float] = field(default_factory=dict)
    tried: set[Key] = field(default_factory=set)
    observer: Observer | None = None
    last_times: dict[str, float] = field(default_factory=dict)
    gateways: Resource | None = None
    refused: dict[str, tuple[str, float, str]] = field(default_factory=dict)
    last: State | None = None
    stepped: float = 0.0
    is_unauthorized: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs upgrades of one cluster. Several runners of one upgrade, in several processes, do no harm.

    Args:
        say: reports a new state to people.
        tokens: the bearer tokens of the gates.
        write_tag: writes a tag of the cluster; it blocks.
    """

    client: KubeClient
    surveyor: Surveyor
    istio_namespace: str
    metrics: Metrics
    say: Callable[[Upgrade, State], None]
    tokens: Tokens | None = None
    clock: Callable[[], float] = time.time
    write_tag: Callable[[Session, str, Tag, TagView], None] = write_tag

    async def run(self, store: Store) -> State:
        """Run an upgrade until it ends or is paused, and return its state. Raises InjectorError if waiting does not help."""
        stored = await self._start(store)
        async with Watches.open(self.client, self.metrics, store.name) as watches:
            events = EventWriter(self.client, store.name, self.clock)
            await events.tell_of_dead_runner(stored, store.runner)
            async with events.beside():
                return await Run(self, store, watches, events).until_end()

    async def _start(self, store: Store) -> Stored:
        """Return the upgrade that was started, or start it.

        Raises:
            InjectorError: another upgrade that excludes it is under way, or a revision or the tag does not exist or does not fit.
        """
        stored = await store.load()
        if not stored.is_new:
            return stored
        upgrade = stored.upgrade
        await store.check_rival(upgrade)
        begin = await self.surveyor.start(upgrade)
        tag, now = tag_data(begin.tag), self.now()
        state = new_state(upgrade, now, tag, begin.sidecars, stored.state, begin.pins)
        state = replace(state, fingerprint=begin.fingerprint)
        try:
            return await store.save(stored, state)
        except ClusterError as error:
            again = await store.load()
            if error.reason != "conflict" or again.is_new:  # its resource was changed in the meantime
                raise
            return again  # another runner has started it in the meantime

    def now(self) -> float:
        """Return the time in whole seconds, as a state stores it."""
        return float(int(self.clock()))


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one upgrade."""

    runner: Runner
    store: Store
    watches: Watches
    events: EventWriter
    memory: Memory = field(default_factory=Memory)

    async def until_end(self) -> State:
        """Make steps until the upgrade ends or is paused."""
        while True:
            state = await self._try_step()
            if state is not None and (state.has_ended or state.phase == PAUSED):
                return state
            await asyncio.sleep(INTERVAL)

    async def _try_step(self) -> State | None:
        """Make one step. Return the state; None if the API server cannot be reached, or another runner was faster."""
        memory = self.memory
        try:
            state = await self._step()
        except ClusterError as error:
            # After a 401 the client reads the credentials again: an upgrade takes longer than many tokens are valid.
            was_unauthorized, memory.is_unauthorized = memory.is_unauthorized, error.reason == "unauthorized"
            if error.reason in _FATAL or (was_unauthorized and memory.is_unauthorized):
                raise
            if error.reason != "conflict":
                memory.error = str(error)
                await self._show_error()
            return None
        memory.is_unauthorized, memory.error = False, ""
        return state

    async def _show_error(self) -> None:
        """Store the error of a step, as far as the API server can be reached: the runner lives, and people see why it cannot go on."""
        with suppress(InjectorError):
            stored = await self.store.load()
            if stored.is_due and self.runner.now() - stored.heartbeat.time >= HEARTBEAT:
                await self.store.note(self.memory.error)

    async def _step(self) -> State:
        stored = await self.store.load()
        state = stored.state
        if state is None:
            raise UsageError(f"the state of upgrade {self.store.name} was removed", hint="run it again")
        if state.has_ended or state.phase == PAUSED:
            if state.cause == BY_USER and self.memory.last not in (None, state):
                self.events.announce(stored, state, ())
            return state
        last, tag = state, await read_tag(self.runner.client, stored.upgrade)
        state = self._without_gap(stored, state)
        observation = await self._observe(stored, state, tag)
        self.memory.stepped = self.runner.now()
        decision = step(stored.upgrade, state, observation)
        state = self._with_report(stored.upgrade, decision.state, observation)
        # A tag moves only if the upgrade was not paused or ended since it was read.
        is_late = self.runner.now() - stored.heartbeat.time >= HEARTBEAT
        if state != last or decision.tag is not None or is_late or stored.heartbeat.error:
            stored = await self.store.save(stored, state, error=self.memory.error)
        if state != last:
            self.runner.say(stored.upgrade, state)
            if _stage(last) != _stage(state):
                self.events.announce(stored, state, observation.workloads)
        self.memory.last = state
        await self._act(stored.upgrade, decision, tag)
        return state

    def _without_gap(self, stored: Stored, state: State) -> State:
        """Return the state without the time in which no runner made a step: it does not count for the timeouts of restarts.

        Without an API server, no controller replaces pods either.
        """
        # A heartbeat with an error is that of a runner that cannot make a step.
        last_heartbeat = 0.0 if stored.heartbeat.error else stored.heartbeat.time
        now, last_step = self.runner.now(), max(self.memory.stepped, last_heartbeat)
        return state.postpone(now, now - last_step) if now - last_step > STABLE_AFTER else state

    async def _observe(self, stored: Stored, state: State, tag: TagView) -> Observation:
        """Observe what the next step needs. A rollback moves the tag before it asks for anything else."""
        upgrade, runner, watches, memory = stored.upgrade, self.runner, self.watches, self.memory
        before = tag_before(upgrade, state)
        base = Observation(runner.now(), (), watches.fault, tag.tag, tag.fault, tag.writer, before)
        if base.blind and not writes_tag_back(state):
            return base
        gateways = await self._gateways(upgrade, state, tag.tag, before)
        base = replace(base, gateways=gateways)
        if writes_tag_back(state):
            return base
        survey, is_end = await self._survey(upgrade, state, before)
        plan = survey.plan.without(state.skipped)
        remaining = None
        if is_end:
            remaining = (*work_left(plan, survey.workloads, state.namespaces), *gateways_left(upgrade, state))
        is_open, checked = upgrade.in_window(base.now), None
        is_prepared = tag.tag is None or upgrade.target in tag.tag.targets
        is_open = is_open and not needs_approval(upgrade, state)
        if wants_preflight(state) and is_open and is_prepared and self._is_time("preflight", PREFLIGHT_INTERVAL):
            rollout = watches.resources.get(ROLLOUT)
            checked = await preflight(runner.client, plan, state.wave, runner.istio_namespace, rollout, memory.tried)
            if checked is None:
                del memory.last_times["preflight"]  # it goes on in the next step
        hold = "" if state.back else await control_plane_fault(runner.client, upgrade.target, runner.istio_namespace)
        rival = await self.store.rival(stored) if not state.back and state.step in (PREFLIGHT, MOVING) else ""
        now = runner.now()
        observer = memory.observer = memory.observer or Observer(plan.target)
        observer.max_restarts = upgrade.gates.max_restarts  # it may change while the upgrade is under way
        # In a thread, because the event loop of a server answers admissions: 5,000 workloads take 0.1 s, every two seconds.
        views, exhausted = await asyncio.to_thread(observer.observe, plan, *watches.snapshot(), state.restarting, now)
        injected_gateways = {entry.key for entry in plan.entries if entry.is_gateway}
        gates = await self._gates(upgrade, state, _keys_for_gates(state, views, gateways), injected_gateways)
        return replace(
            base,
            now=now,
            workloads=views,
            rival=rival,
            exhausted=exhausted,
            hold=hold,
            refused=self._refusals(upgrade, state, now),
            preflight=checked,
            gates=gates,
            remaining=remaining,
        )

    async def _survey(self, upgrade: Upgrade, state: State, before: Tag | None) -> tuple[Survey, bool]:
        """Return the survey of this wave, a new one if the last one is of another wave, and whether it is new for the end."""
        memory, surveyor = self.memory, self.runner.surveyor
        # The wait for a window or an approval may take days.
        is_open = upgrade.in_window(self.runner.now()) and not needs_approval(upgrade, state)
        wanted = state.back, state.wave, wants_preflight(state) and is_open
        is_retried = memory.retries != state.retries
        is_end = wants_remaining(state) and self._is_time("survey", SURVEY_INTERVAL)
        is_other = wants_preflight(state) and memory.surveyed != wanted
        if memory.survey is None or is_end or is_other or is_retried or memory.survey.plan.is_back != state.back:
            memory.survey = await surveyor.survey(upgrade, state, before, is_compared=not state.back)
            memory.surveyed, memory.retries, memory.tried = wanted, state.retries, set()
        return memory.survey, is_end

    async def _gateways(
        self, upgrade: Upgrade, state: State, tag: Tag | None, before: Tag | None
    ) -> list[ObservedGateway]:
        """Return the Gateways if the next step needs them. It returns none if they may not be listed: the preflight reports it.

        Raises ClusterError if they are to be released: a Gateway that is not observed would count as deleted.
        """
        wanted = tag_to_write(upgrade, state, tag, before) or tag or before
        if not wants_gateways(upgrade, state, tag, before):
            return []
        memory, runner = self.memory, self.runner
        known = {} if memory.survey is None else memory.survey.plan.gateway_view.revisions
        revisions = {upgrade.source: None, upgrade.target: None, **known}
        view = await read_gateways(runner.client, runner.istio_namespace, revisions, {})
        memory.gateways = view.resource
        if view.unknown and state.gateways and state.step == GATEWAYS:
            raise ClusterError(view.unknown, hint="grant the permission to list it", reason="forbidden")
        return self.watches.gateways(view, wanted)

    async def _gates(
        self, upgrade: Upgrade, state: State, keys: list[Key], injected_gateways: set[Key]
    ) -> tuple[GateResult, ...] | None:
        if not wants_gates(state):
            return None
        now = self.runner.now()
        is_over = state.step == SOAKING and now - state.since >= upgrade.soak_of(state.wave)
        if not is_over and not self._is_time("gates", GATE_INTERVAL):
            return None
        return await evaluate(upgrade, state, keys, now, self.runner.tokens, gateways=injected_gateways)

    def _is_time(self, what: str, interval: float) -> bool:
        now, last_times = asyncio.get_running_loop().time(), self.memory.last_times
        if now - last_times.get(what, -interval) < interval:
            return False
        last_times[what] = now
        return True

    def _with_report(self, upgrade: Upgrade, state: State, observation: Observation) -> State:
        """Return the state with the progress and the results of gates, for people."""
        survey = self.memory.survey
        if survey is not None:
            places = {entry.key.namespace for entry in survey.plan.entries if not entry.workload.has_own_label}
            state = replace(state, namespaces=tuple(sorted({*state.namespaces, *places})))
        gates = state.gates
        if observation.gates is not None:
            gates = {gate.name: ": ".join(filter(None, (gate.result, gate.detail))) for gate in observation.gates}
        if observation.blind or not observation.workloads:
            return replace(state, gates=gates)
        concerned = [view for view in observation.workloads if state.back or view.wave == state.wave]
        counts = Counter(_progress(upgrade, view, state) for view in concerned)
        left = sum(_progress(upgrade, view, state) in _UNFINISHED for view in observation.workloads)
        total = max(state.total, left)
        return replace(state, counts=dict(sorted(counts.items())), gates=gates, left=left, total=total)

    # Actions

    async def _act(self, upgrade: Upgrade, decision: Transition, tag: TagView) -> None:
        if decision.tag is not None:
            session = ThreadSession(asyncio.get_running_loop(), self.runner.client)
            await asyncio.to_thread(self.runner.write_tag, session, self.runner.istio_namespace, decision.tag, tag)
        for change in decision.labels:
            await self._write_label(upgrade, change)
        for key in decision.restarts:
            mark = mark_of(upgrade, decision.state, str(key))
            workload = self.watches.workload(key)
            # Another runner may have restarted it since the decision; the version would then be a newer one.
            if workload is not None and workload.observed.mark != mark:
                await self._restart(key, workload.version, mark, decision.state.token_of(str(key)))

    async def _write_label(self, upgrade: Upgrade, change: LabelChange) -> None:
        """Write the label of one Gateway, if it is still as it was observed."""
        resource = self.memory.gateways
        if resource is None:
            return
        namespace, _, name = change.name.partition("/")
        labels = {REVISION_LABEL: change.label}
        meta = {"name": name, "namespace": namespace, "resourceVersion": change.version, "labels": labels}
        try:
            item = await self.runner.client.merge(resource, {"metadata": meta}, manager=PIN_MANAGER)
        except ClusterError as error:
            if error.reason not in ("conflict", "missing"):
                raise
            return
        about = {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "namespace": namespace}
        about["uid"] = item["metadata"].get("uid", "")
        what = "follows its tag again" if change.label is None else f"has label {REVISION_LABEL}={change.label}"
        await self.events.record(about, "Normal", "UpgradeGateway", f"{what}, by upgrade {upgrade.name}")

    async def _restart(self, key: Key, version: str, mark: str, token: float) -> None:
        """Restart one workload, if it is still as it was observed."""
        meta = {"name": key.name, "namespace": key.namespace, "resourceVersion": version, "annotations": {MARK: mark}}
        at, refused = utc_text(token), self.memory.refused
        spec = (
            {"restartAt": at}
            if key.kind == ROLLOUT
            else {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}
        )
        resource = self.watches.resources[key.kind]
        try:
            await asyncio.sleep(PACE)
            item = await self.runner.client.merge(resource, {"metadata": meta, "spec": spec}, manager=MANAGER)
        except ClusterError as error:
            if error.reason in ("forbidden", "refused") or WEBHOOK_FAILED in error.what:
                # It is tried again for a while. It may concern only a few workloads, so that the others go on.
                known, since, _ = refused.get(str(key), ("", 0.0, ""))
                refused[str(key)] = mark, since if known == mark else self.runner.now(), error.what
            elif error.reason not in ("conflict", "missing"):
                raise
            return
        refused.pop(str(key), None)
        about = {"apiVersion": resource.api_version, "kind": key.kind, "name": key.name, "namespace": key.namespace}
        about["uid"] = item["metadata"]["uid"]
        await self.events.record(about, "Normal", "UpgradeRestarted", f"restarted by upgrade {mark}")

    def _refusals(self, upgrade: Upgrade, state: State, now: float) -> dict[str, str]:
        """Return the restarts with the present marks that the API server has refused for a while."""
        return {
            name: reason
            for name, (own, since, reason) in self.memory.refused.items()
            if own == mark_of(upgrade, state, name) and now - since > PREFLIGHT_GRACE
        }


def _keys_for_gates(state: State, views: Sequence[ObservedWorkload], gateways: Sequence[ObservedGateway]) -> list[Key]:
    """Return the workloads that the gates ask about: those of the wave, or the Deployments of the Gateways that were released."""
    if state.step != GATEWAYS:
        return [view.key for view in views if view.wave == state.wave and view.new]
    released = [
        view
        for view in gateways or ()
        if view.deployment and view.name in state.gateways and state.gateways[view.name].moving
    ]
    return [Key(view.name.partition("/")[0], DEPLOYMENTS.kind, view.deployment) for view in released]


def _stage(state: State) -> tuple[object, ...]:
    """Return the part of a state whose changes are recorded as Events."""
    return state.phase, state.step, state.wave, state.waits_for_approval


def _is_left(view: ObservedWorkload, state: State) -> bool:
    return bool(view.action != BLOCKED and view.new if state.back else view.action == RESTART and view.old)


_UNFINISHED: Final = ("restarting", "waiting")
"""The progress of workloads that are still to be restarted, or not complete."""


def _progress(upgrade: Upgrade, view: ObservedWorkload, state: State) -> str:
    mark = mark_of(upgrade, state, view.name)
    if view.name in state.restarting:
        return "restarting"
    if view.action in (BLOCKED, STAYS):
        return view.action
    if _is_left(view, state) and view.mark != mark:
        return "waiting"
    # A later mark is needed after another writer has moved the tag.
    return "current" if view.action == DONE and not is_of_run(upgrade, state, view.mark) else "done"
