"""Random upgrades of a simulated cluster: ``python -m tests.upgrade.simulation RUNS [FIRST_SEED]`` makes many of them.

Some workloads are injected gateways, in the last wave with limits of their own. Two runners see workloads and pods as they were up to six
seconds ago, each at another moment; Gateways are listed anew, but their pods are as old. The runners die between the decision, its
storing and its actions, are refused by a version that has changed, and act late. Users pause, promote, approve and roll back, and skip
and retry workloads. Workloads are deleted, scaled, and moved away by the label of their namespace; Gateways are deleted, and some are
never in service. The simulation raises AssertionError if a workload is restarted twice for one mark, or although it is skipped, or before
the approval of its wave, if a limit is exceeded, if a Gateway changes its owner with the tag or beside another one, or if an upgrade ends
with work that it does not name.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from injector.errors import UsageError
from injector.revisions.tags import Tag, tag_annotations
from injector.upgrade.commands import apply_command, retry_workload, skip_workload
from injector.upgrade.gatewaywave import LabelChange, ObservedGateway
from injector.upgrade.observation import Observation, ObservedWorkload
from injector.upgrade.plan import BLOCKED, RESTART, STAYS, Key
from injector.upgrade.remaining import gateways_left
from injector.upgrade.state import INCOMPLETE, PAUSED, Remaining, State, TagBefore, needs_approval, new_state
from injector.upgrade.step import mark_of, step, tag_to_write, wants_gateways, wants_remaining
from tests.upgrade.fleets import NEW, OLD, PROD, upgrade

INTERVAL: Final = 2.0
"""Seconds between two looks of a runner."""

TICKS: Final = 3000
SECONDS: Final = 2.0
"""Seconds between two steps of a runner."""
LATE: Final = 3
"""Ticks that an observation, or an action after a decision, may be late."""


@dataclass
class SimulatedWorkload:
    """A Deployment: its pods by revision, and how many of them are to be replaced since its last restart."""

    key: Key
    wave: int
    disrupts: int
    pods: Counter[str]
    action: str = RESTART
    is_routed: bool = True
    desired: int = 2
    away: int = 0
    stale: Counter[str] = field(default_factory=Counter)
    mark: str = ""
    version: int = 0
    changed: float = 0.0
    marks: list[str] = field(default_factory=list)

    @property
    def is_rolling(self) -> bool:
        return bool(self.away or self.stale.total())


@dataclass
class SimulatedGateway:
    """A Gateway with its label, and the time until which it is not in service. One that ``is_broken`` never is."""

    name: str
    label: str | None
    first_label: str | None
    is_broken: bool = False
    version: int = 0
    busy_until: float = 0.0
    is_moving: bool = False


@dataclass
class World:
    """A cluster, its Upgrade, and the clock."""

    random: Random
    spec: dict[str, Any]
    now: float = 1_000_000.0
    tag: Tag = PROD
    version: int = 0
    workloads: dict[str, SimulatedWorkload] = field(default_factory=dict)
    history: deque[tuple[dict[str, SimulatedWorkload], set[str]]] = field(
        default_factory=lambda: deque(maxlen=LATE + 1)
    )
    """The workloads, and the Gateways that were not in service."""
    pending: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    skipped: dict[str, float] = field(default_factory=dict)
    gateways: dict[str, SimulatedGateway] = field(default_factory=dict)
    approved: set[int] = field(default_factory=set)
    retried: set[str] = field(default_factory=set)
    """The marks of workloads that are tried again."""

    def __post_init__(self) -> None:
        self.upgrade = upgrade(**self.spec)
        before = TagBefore(revision=PROD.revision, annotations=tag_annotations(PROD))
        self.state: State = new_state(self.upgrade, self.now, before, (OLD, NEW))
        for index in range(self.random.randint(1, 12)):
            place = f"n{index % 2}"
            wave = self.upgrade.injected_gateway_wave if self.chance(0.2) else index % 2
            key = Key(place, "Deployment", f"w{index}")
            desired = self.random.randint(1, 3)
            disrupts = self.random.randint(0, min(desired, 2))
            action = BLOCKED if self.random.random() < 0.05 else RESTART
            pods = Counter({OLD: desired})
            self.workloads[str(key)] = SimulatedWorkload(key, wave, disrupts, pods, action, desired=desired)

        for index in range(self.random.randint(0, 4)):
            label = self.random.choice([None, None, "prod"])
            name = f"n{index % 2}/g{index}"
            self.gateways[name] = SimulatedGateway(name, label, label, is_broken=self.chance(0.1))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # The cluster

    def revision_for(self, workload: SimulatedWorkload) -> str:
        if not workload.is_routed:
            return OLD
        weights = self.tag.namespaces.get(workload.key.namespace, self.tag.weights)
        return max(weights, key=lambda weight: weight[1])[0]

    def tick(self) -> None:
        self.now += SECONDS
        for workload in self.workloads.values():
            if workload.is_rolling and self.chance(0.5):
                self._replace_pod(workload)
        if self.chance(0.004):
            self.workloads.pop(self.random.choice([*self.workloads, ""]), None)
        if self.chance(0.002):
            self.gateways.pop(self.random.choice([*self.gateways, ""]), None)
        if self.chance(0.002):
            self.tag = PROD  # another writer moves it back
        if self.workloads and self.chance(0.003):
            self._change(self.random.choice([*self.workloads.values()]))
        late = [action for at, action in self.pending if at <= self.now]
        self.pending = [(at, action) for at, action in self.pending if at > self.now]
        for action in late:
            action()
        before = self.history[-1][0] if self.history else {}
        snapshot = {
            name: before[name]
            if name in before and before[name].version == workload.version
            else replace(workload, pods=workload.pods.copy(), stale=workload.stale.copy())
            for name, workload in self.workloads.items()
        }
        broken = {gateway.name for gateway in self.gateways.values() if not self.is_in_service(gateway)}
        self.history.append((snapshot, broken))
        self.check_limits()

    def _replace_pod(self, workload: SimulatedWorkload) -> None:
        if workload.away:
            workload.away -= 1
            workload.pods[self.revision_for(workload)] += 1
        elif not workload.disrupts:  # a surge: the new pod comes first
            workload.pods[self.revision_for(workload)] += 1
        for revision in [*workload.stale]:
            if workload.stale[revision] and workload.away < max(workload.disrupts, 0) + (not workload.disrupts):
                workload.stale[revision] -= 1
                workload.pods[revision] -= 1
                workload.away += bool(workload.disrupts)
                break
        workload.version += 1
        workload.changed = self.now

    def _change(self, workload: SimulatedWorkload) -> None:
        """A user scales a workload up, or moves its namespace away from the tag."""
        if self.chance(0.5):
            workload.desired += 1
            workload.pods[self.revision_for(workload)] += 1
        else:
            workload.is_routed = False
        workload.version += 1

    def restart(self, name: str, version: int, mark: str) -> None:
        """Restart a workload, if it is as it was observed."""
        workload = self.workloads.get(name)
        if workload is None or workload.version != version or workload.mark == mark:
            self.counts["restart with an old version"] += 1
            return
        assert mark not in workload.marks, f"{name} is restarted again for {mark}"
        is_forward = mark not in self.retried and not self.state.back and workload.is_rolling and workload.pods[NEW]
        assert not is_forward, f"{name} is restarted during a rollout that moves it"
        since = self.skipped[name] if name in self.state.skipped else self.now
        assert self.now - since <= LATE * SECONDS, f"{name} is restarted although it is skipped"
        if not self.state.back:
            needs = self.upgrade.waves[workload.wave].approval
            assert not needs or workload.wave in self.approved, f"{name} is restarted without an approval"
            if workload.wave == self.upgrade.injected_gateway_wave:
                self.counts["restarts of gateways"] += 1
                others = [
                    other for other in self.workloads.values() if other.is_rolling and other.wave != workload.wave
                ]
                assert not others or others[0].mark in self.retried, f"{name} is restarted beside {others[0].key}"
        self.counts["restarts of retries"] += mark in self.retried
        workload.marks.append(mark)
        workload.mark, workload.stale, workload.version = mark, workload.pods.copy(), workload.version + 1
        workload.changed = self.now
        self.counts["restarts"] += 1
        self.check_limits()

    def write_tag(self, tag: Tag, expected: Tag) -> None:
        if self.tag == expected:
            owners = {name: self.owner_of(gateway) for name, gateway in self.gateways.items()}
            self.tag = tag
            changed = [name for name, gateway in self.gateways.items() if self.owner_of(gateway) != owners[name]]
            assert not changed, f"the tag changes the owner of {changed}"

    def owner_of(self, gateway: SimulatedGateway, tag: Tag | None = None) -> str:
        return (tag or self.tag).revision if gateway.label in (None, "prod") else gateway.label

    def write_label(self, change: LabelChange) -> None:
        gateway = self.gateways.get(change.name)
        if gateway is None or str(gateway.version) != change.version:
            self.counts["label of an old version"] += 1
            return
        owner = self.owner_of(gateway)
        gateway.label, gateway.version = change.label, gateway.version + 1
        is_moved = self.owner_of(gateway) != owner
        # A pin during a move does not end the move.
        gateway.is_moving = is_moved or (gateway.is_moving and gateway.busy_until > self.now)
        gateway.busy_until = max(gateway.busy_until, self.now + self.random.choice([0, 2, 8, 20, 60]))
        self.counts["owner changes"] += is_moved
        # One that was not in service before holds up no other one.
        views = [other for other in self.gateways.values() if other.is_moving and not other.is_broken]
        moving = [view.name for view in views if view.busy_until > self.now]
        assert not is_moved or len(moving) <= self.upgrade.gateways.limit, f"{moving} change their owner at once"

    def is_in_service(self, gateway: SimulatedGateway) -> bool:
        return not gateway.is_broken and gateway.busy_until <= self.now

    def observed_gateways(self, wanted: Tag) -> list[ObservedGateway]:
        _, broken = self.random.choice(self.history)
        return [
            ObservedGateway(
                gateway.name,
                gateway.label,
                str(gateway.version),
                (self.owner_of(gateway),),
                (self.owner_of(gateway, wanted),),
                "not Programmed" if gateway.name in broken else "",
            )
            for gateway in self.gateways.values()
        ]

    def check_limits(self) -> None:
        rolling = [workload for workload in self.workloads.values() if workload.is_rolling]
        gateways = [workload for workload in rolling if workload.wave == self.upgrade.injected_gateway_wave]
        others = [workload for workload in rolling if workload not in gateways]
        for group, limits in (
            (gateways, self.upgrade.limits_of(self.upgrade.injected_gateway_wave)),
            (others, self.upgrade.limits),
        ):
            assert len(group) <= limits.workloads, f"{len(group)} workloads are restarted at once"
            assert sum(workload.away for workload in group) <= limits.unavailable_pods
            for place in {workload.key.namespace for workload in group}:
                away = sum(workload.away for workload in group if workload.key.namespace == place)
                assert away <= limits.unavailable_pods_per_namespace, f"{away} pods of {place} are away"

    # A runner

    def run_once(self) -> None:
        """One turn of a runner, which may die at each point."""
        state, version, document, tag = self.state, self.version, self.upgrade, self.tag
        if state.has_ended or state.phase == PAUSED:
            return
        workloads, _ = self.random.choice(self.history)
        pods_by_name, _ = self.random.choice(self.history)
        views = [self._view(workload, pods_by_name.get(name, workload)) for name, workload in workloads.items()]
        remaining = self.remaining(state) if wants_remaining(state) else None
        observation = Observation(
            self.now,
            [view for view in views if view.action != STAYS or view.name in state.restarting],
            tag=tag,
            tag_before=PROD,
            preflight=(),
            gates=(),
            remaining=remaining,
            gateways=self.observed_gateways(tag_to_write(document, state, tag, PROD) or tag)
            if wants_gateways(document, state, tag, PROD)
            else (),
        )
        decision = step(document, state, observation)
        if self.chance(0.1):
            self.counts["died before storing"] += 1
            return
        if decision.state != state or decision.tag is not None:
            if self.version != version or self.chance(0.05):
                self.counts["conflicts"] += 1
                return
            self.state, self.version = decision.state, version + 1
        if self.chance(0.1):
            self.counts["died before acting"] += 1
            return
        delay = self.random.choice([0, 0, 0, 1, LATE]) * SECONDS
        versions = {name: workload.version for name, workload in workloads.items()}

        def act() -> None:
            if decision.tag is not None:
                self.write_tag(decision.tag, tag)
            for change in decision.labels:
                self.write_label(change)
            for key in decision.restarts:
                self.restart(str(key), versions[str(key)], mark_of(document, decision.state, str(key)))

        if delay:
            self.pending.append((self.now + delay, act))
        else:
            act()

    def _view(self, workload: SimulatedWorkload, pods: SimulatedWorkload) -> ObservedWorkload:
        stays = not workload.is_routed or str(workload.key) in self.state.skipped
        return ObservedWorkload(
            key=workload.key,
            action=STAYS if stays else workload.action,
            wave=-1 if stays else workload.wave,
            desired=workload.desired,
            disrupts=workload.disrupts,
            mark=workload.mark,
            complete=not workload.is_rolling,
            new=pods.pods[NEW],
            old=pods.pods[OLD],
            unavailable=workload.away,
            quiet=self.now - max(workload.changed, pods.changed),
        )

    def remaining(self, state: State) -> tuple[Remaining, ...]:
        """The work that a survey finds now."""
        wrong = NEW if state.back else OLD
        workloads = [
            Remaining(name, "reason", "remedy") for name, workload in self.workloads.items() if workload.pods[wrong]
        ]
        return (*workloads, *gateways_left(self.upgrade, state))

    def command(self, verb: str) -> None:
        was_waiting = needs_approval(self.upgrade, self.state)
        try:
            self.state, self.version = apply_command(self.state, verb, self.upgrade, self.now), self.version + 1
        except UsageError:
            return
        self.counts[verb] += 1
        if verb == "promote" and was_waiting:
            self.counts["approval"] += 1
            self.approved.add(self.state.wave)

    def skip_or_retry(self) -> None:
        """A user leaves out a workload, or tries one again."""
        workload = self.random.choice([*self.workloads.values()])
        name = str(workload.key)
        if not workload.is_routed or workload.action != RESTART:
            return
        self.version += 1
        if self.chance(0.3) and not self.state.has_ended:
            self.state = skip_workload(self.state, name, self.upgrade)
            self.skipped[name] = self.now
            self.counts["skip"] += 1
            return
        has_begun = self.state.back or workload.wave <= self.state.wave
        self.state = retry_workload(self.state, name, self.upgrade, self.now, has_begun=has_begun)
        self.skipped.pop(name, None)
        self.counts["retry"] += 1
        if has_begun:
            self.retried.add(mark_of(self.upgrade, self.state, name))

    def check_end(self) -> None:
        """Check that everything that is left is named. What a user changes after the survey is not its business."""
        state = self.state
        wrong = NEW if state.back else OLD
        named = {item.workload for item in state.remaining}
        unmoved = {name for name, workload in self.workloads.items() if workload.pods[wrong]}
        unmoved |= {
            f"Gateway {gateway.name}" for gateway in self.gateways.values() if gateway.label != gateway.first_label
        }
        assert unmoved <= named, f"{state.phase} with {unmoved - named} unnamed"
        assert bool(unmoved) <= (state.phase == INCOMPLETE), f"{state.phase} with {unmoved}"


def simulate(seed: int) -> Counter[str]:
    """Simulate an upgrade to its end, and return counts of what happened. Raises AssertionError if a rule is broken."""
    random = Random(seed)  # noqa: S311 -- not for secrets
    waves: list[dict[str, Any]] = random.choice(
        [
            [{"name": "one", "namespaces": ["n0"]}, {"name": "rest"}],
            [{"name": "one", "importance": "low"}, {"name": "rest"}],
        ]
    )
    waves = [{**wave, "approval": random.random() < 0.2} for wave in waves]
    limits = {
        "workloads": random.randint(1, 4),
        "unavailablePods": random.randint(2, 8),
        "unavailablePodsPerNamespace": random.randint(2, 4),
    }
    injected = {"approval": random.random() < 0.2, "limits": {"workloads": random.randint(1, 2)}}
    gateways = random.choice([1, 1, 1, 2])
    spec = {"waves": waves, "soak": "10s", "timeout": "1h", "limits": limits, "injectedGateways": injected}
    world = World(
        random,
        {**spec, "gateways": {"soak": "6s", "limit": gateways}, "onFailure": random.choice(["Pause", "Rollback"])},
    )
    world.tick()
    rollback_at = random.randint(1, 120) if world.chance(0.4) else 0
    for number in range(1, TICKS):
        for _ in range(2):
            if world.chance(0.7):
                world.run_once()
        if world.state.has_ended:
            world.check_end()
            if world.state.phase == INCOMPLETE and world.workloads and world.chance(0.5):
                world.counts["commands after the end"] += 1
                world.skip_or_retry()
                continue
            world.counts[world.state.phase] += 1
            return world.counts
        if number == rollback_at:
            world.command("rollback")
        elif world.state.phase == PAUSED:
            world.command("resume" if world.chance(0.2) else "pause")
        elif needs_approval(world.upgrade, world.state):
            if world.chance(0.1):
                world.command("promote")
        elif world.workloads and world.chance(0.02):
            world.skip_or_retry()
        elif world.chance(0.005):
            world.command(random.choice(["pause", "promote"]))
        world.tick()
    raise AssertionError(f"it does not end: {world.state}")


def main() -> None:
    """Simulate as many upgrades as the first argument says, and print what happened."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    total = Counter[str]()
    faults = Counter[str]()
    for seed in range(first, first + count):
        try:
            total += simulate(seed)
        except AssertionError as error:
            faults[str(error).split("(")[0][:60]] += 1
            sys.stderr.write(f"seed {seed}: {error}\n")
    sys.stdout.write(f"runs: {count}, faults: {faults.total()}, {dict(total)}\n")


if __name__ == "__main__":
    main()
