"""An upgrade day on a real API server with nodes: ``scripts/reliability upgradeday``.

A fleet goes from 1-28 to 1-30, towards 1-31, back, and to 1-31. Two replicas of ``serve --upgrades`` run the upgrades with the permissions
that the chart grants. One of them is killed by SIGKILL every half minute, and everything happens that people and other tools do to a
cluster. Each row has what ``injector upgrade status`` said in one line. A watcher counts the changes of each pod template, and the pods of
workloads that are complete.

``--only fleet`` moves 500 workloads, each of which is restarted once. ``--only memory`` is about a replica that runs ten upgrades.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from injector.injection.tools.drift import injected_revision
from injector.istio.webhooks.configurations import revision_webhook, tag_webhook
from injector.upgrade.store import UPGRADES
from tests.deploy import rendering
from tests.deploy.rendering import NAMESPACE, permissions
from tests.e2e.cluster import Cluster, running
from tests.e2e.controlplane import UNAVAILABLE, missing
from tests.e2e.fleet import CRD, HOME, NEW, OLD, World, fleet_of, world_of
from tests.e2e.served import of_cluster
from tests.e2e.watcher import Watcher
from tests.factories import make_container
from tests.manifests import control_plane, make_object, namespace_of, workload
from tests.reliability.long.rows import Row, finish, parser
from tests.reliability.replicas import Replica, resident

LAST: Final = "1-31"
PLACES: Final = tuple(f"place-{number}" for number in range(10))
FIRST, SECOND = PLACES[:2], PLACES[2:5]
MOVED_AWAY: Final = PLACES[9]
UNLABELLED: Final = "place"
"""A namespace whose label leads to no revision."""
PINNED: Final = ("pinned", "labelled")
WAVES: Final = ({"namespaces": [*FIRST]}, {"namespaces": [*SECOND]}, {"name": "rest"})
LIMITS: Final = {"workloads": 30, "unavailablePods": 60, "unavailablePodsPerNamespace": 15}
TIMEOUT: Final = 240
"""Seconds for the restart of one workload. A rollout takes ten on an idle machine."""
LIMIT: Final = 3600.0
"""Seconds until something must happen."""
OUTAGE: Final = 40.0
RUNS: Final = 10
MOST_GROWTH: Final = 20.0
"""MiB."""


@dataclass
class Day:
    """A fleet, the replicas that run its upgrades, and what happened."""

    world: World
    watcher: Watcher
    account: Path
    replicas: list[Replica] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    kills: int = 0

    def start_replica(self) -> Replica:
        flags = ("--insecure-http", "--upgrades", *of_cluster(self.world.cluster, HOME, kubeconfig=self.account))
        replica = Replica(self.world.folder / f"replica-{len(self.replicas)}.log", flags)
        self.replicas.append(replica)
        replica.start()
        return replica

    @contextmanager
    def killing(self) -> Iterator[None]:
        """Kill a replica, and start it again, at random moments as long as the block runs."""
        chance, end = Random(42), threading.Event()  # noqa: S311 -- not secret

        def kill() -> None:
            while not end.wait(chance.uniform(10, 60)):
                replica = chance.choice(self.replicas)
                self.kill(replica)
                asyncio.run(replica.until_ready())

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def kill(self, *replicas: Replica) -> None:
        for replica in replicas:
            replica.kill()
        for replica in replicas:
            replica.start()
            self.kills += 1

    def kubectl(self, *arguments: str) -> str:
        done = self.world.cluster.kubectl(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *arguments: str) -> None:
        """Run a command of the injector as a user does."""
        done = self.world.injector(*arguments)
        assert done.exit_code == 0, done.output
        self.say(f"$ injector {' '.join(arguments)}")

    def status(self, name: str) -> str:
        """Return what ``upgrade status`` says in one line."""
        done = self.world.injector("upgrade", "status", name)
        return next(iter((done.stdout or done.stderr).splitlines()), "")

    def say(self, what: str) -> None:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")

    def state(self, name: str) -> dict[str, Any]:
        """Return the status of an upgrade: without the command, which takes much processor time."""
        path = f"/apis/{UPGRADES.api_version}/{UPGRADES.plural}/{name}"
        status = self.world.cluster.request(path)[1].get("status", {})
        error = status.get("runner", {}).get("lastError", "")
        return {"phase": "Running", "wave": 0, "counts": {}, "progress": "", "reason": "", "error": error, **status}

    def until(self, condition: Callable[[dict[str, Any]], object], name: str) -> dict[str, Any]:
        """Wait for a state of an upgrade, and return it."""
        deadline, line = time.monotonic() + LIMIT, ""
        while not condition(state := self.state(name)):
            if line != (line := f"{state['phase']}, {state['progress']}; {state['reason']}; {state['error']}"):
                self.say(line)
            assert time.monotonic() < deadline, line
            time.sleep(1)
        return state

    def until_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait for a phase. Any other one that needs a person is a failure."""
        state = self.until(lambda state: state["phase"] not in ("Running", "RollingBack"), name)
        assert state["phase"] == phase, self.status(name)
        return state

    def until_done(self, name: str, wave: int, count: int) -> None:
        """Wait until so many workloads of a wave are done."""
        self.until(lambda state: state["wave"] == wave and state["counts"].get("done", 0) >= count, name)

    def row(self, what: str, name: str, end: str, *words: str) -> None:
        """Record what ``status`` says now, which must have the words; ``end`` tells how it goes on."""
        line = self.status(name)
        self.say(f"## {what}: {line}")
        self.rows.append(
            Row(f"upgrade day {len(self.rows) + 1:02}, {what}", end, line, all(word in line for word in words))
        )


def main() -> int:
    """Run the trials; the exit status tells whether all targets are met."""
    options_of = parser(__doc__)
    options_of.add_argument("--only", choices=TRIALS, default="day", help="the trial (default %(default)s)")
    options_of.add_argument("--workloads", type=int, metavar="COUNT", help="default: 250, or 500 of `fleet`")
    options = options_of.parse_args()
    if reason := missing(nodes=True) or rendering.missing():
        print(f"error: {reason}", file=sys.stderr)
        return UNAVAILABLE
    trial, size = TRIALS[options.only]
    with tempfile.TemporaryDirectory() as folder, day_of(Path(folder), options.workloads or size) as day:
        rows = trial(day)
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")
    command = "scripts/reliability upgradeday"
    return finish(
        {command if options.only == "day" else f"{command} --only {options.only}": rows}, record=options.record
    )


@contextmanager
def day_of(folder: Path, count: int) -> Iterator[Day]:
    """A fleet whose injectors have the permissions of the chart."""
    values = {
        "fromCluster": {"enabled": True},
        "upgrades": {"enabled": True, "namespaces": [*PLACES], "tags": ["prod"]},
        "watchDrift": True,
    }
    granted = permissions(values)
    stateful_sets, daemon_sets = count // 8, count // 12
    fleet = fleet_of(PLACES, count - stateful_sets - daemon_sets, stateful_sets, daemon_sets)
    with running(Cluster(folder / "cluster", controllers=True, nodes=3, objects=CRD)) as cluster:
        cluster.apply(*(namespace_of(name) for name in (NAMESPACE, HOME, *PLACES)), *granted)
        account = cluster.kubeconfig_of("injector", NAMESPACE)
        with world_of(cluster, fleet, folder, account=account) as world:
            world.places = {*world.places, UNLABELLED}
            cluster.apply(*control_plane(HOME, LAST, tag="1.31.0"), revision_webhook(LAST, world.webhooks))
            with Watcher(world).running() as watcher:
                day = Day(world, watcher, account)
                try:
                    yield day
                finally:
                    for replica in day.replicas:
                        replica.kill()


def wait(condition: Callable[[], object]) -> None:
    """Wait until something is seen."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(1)


# The day


def upgrade_day(day: Day) -> Sequence[Row]:
    """Return the rows of a day."""
    day.start_replica()
    day.start_replica()
    prepare_obstacles(day)
    with day.killing():
        to_new(day)
        check_direction(day, f"{OLD} to {NEW}", NEW)
        day.watcher.turn(NEW, LAST)
        towards_last(day)
    return day.rows


def prepare_obstacles(day: Day) -> None:
    """Add what is in the way of an upgrade: a full quota, a budget, pins, a broken and a halted workload, and a bare pod."""
    cluster = day.world.cluster
    pinned = workload("Deployment", "pinned", PLACES[3], annotations={"revision-injector/pin": OLD}, replicas=2)
    labelled = workload("Deployment", "labelled", UNLABELLED, labels={"istio.io/rev": OLD}, replicas=2)
    halted = workload("Deployment", "halted", PLACES[5], replicas=2)
    broken = workload("Deployment", "broken", PLACES[4], replicas=4, pod={"nodeSelector": {"cluster": "open"}})
    bare = make_object("Pod", "bare", PLACES[5], {"app": "bare"}, spec={"containers": [make_container()]})
    cluster.apply(namespace_of(UNLABELLED), pinned, labelled, halted, bare)
    names = f"{PLACES[3]}/pinned", f"{UNLABELLED}/labelled", f"{PLACES[5]}/halted"
    wait(lambda: all(day.watcher.is_complete(f"Deployment {name}") for name in names))
    cluster.apply({**halted, "spec": {**halted["spec"], "paused": True}}, broken)
    set_quota(day, sum(pod["metadata"]["namespace"] == PLACES[1] for pod in day.world.items("pods")))
    set_budget(day, 0)


def set_quota(day: Day, pods: int) -> None:
    day.world.cluster.apply(make_object("ResourceQuota", "pods", PLACES[1], spec={"hard": {"pods": str(pods)}}))


def set_budget(day: Day, count: int) -> None:
    selector = {"matchLabels": {"app": "web-0"}}
    budget = {**make_object("PodDisruptionBudget", "web", PLACES[2]), "apiVersion": "policy/v1"}
    day.world.cluster.apply({**budget, "spec": {"selector": selector, "maxUnavailable": count}})


def to_new(day: Day) -> None:
    """From 1-28 to 1-30, with everything in the way that can be."""
    name = day.world.resource("to-1-30", *WAVES, limits=LIMITS, timeout=f"{TIMEOUT}s", soak="5s")
    day.until_phase(name, "Paused")
    day.row("a namespace with a full quota", name, "raise the quota, resume", "Paused", "exceeded quota")
    set_quota(day, 1000)
    day.command("upgrade", "resume", name)

    day.until_done(name, 0, 1)
    other = day.world.resource("other", {"weight": 50}, {"weight": 100})
    day.until(lambda state: "is under way" in state["error"], other)
    day.row("a second upgrade of the tag", other, "delete it", "to-1-30")
    day.kubectl("delete", "upgrade", other)

    day.until(lambda state: "PodDisruptionBudget" in state["reason"], name)
    day.row("a PodDisruptionBudget of 0", name, "raise it", f"PodDisruptionBudget {PLACES[2]}/web")
    set_budget(day, 1)
    day.until_phase(name, "Paused")
    day.row("pods broken before", name, "label the nodes, resume", "Paused", f"{PLACES[4]}/broken", "node")
    day.kubectl("label", "nodes", "--all", "cluster=open")
    day.command("upgrade", "resume", name)

    day.until_done(name, 2, 2)
    day.say("API outage")
    day.world.cluster.stop()
    time.sleep(OUTAGE / 2)
    day.row("the API server is down", name, "none: it goes on when the API server does", "error")
    time.sleep(OUTAGE / 2)
    day.world.cluster.start()
    day.until_done(name, 2, 4)
    day.row("the API server is back", name, "none", "Running, wave rest, Restarting")
    day.kubectl("label", "namespace", MOVED_AWAY, f"istio.io/rev={OLD}", "--overwrite")
    day.until_done(name, 2, 8)
    write_as_istioctl(day)
    day.until_phase(name, "Paused")
    day.row("istioctl tag set", name, "resume: the tag is written again", "Paused", "istioctl", f"leads to `{OLD}`")
    day.command("upgrade", "resume", name)

    state = day.until_phase(name, "Incomplete")
    reasons = {item["workload"]: item["reason"] for item in state["remaining"]}
    day.say(json.dumps(reasons, indent=1))
    day.row("work is left", name, "resume the rollout, delete the pod, label the namespace, resume", "Incomplete")
    day.kubectl("rollout", "resume", "deployment/halted", "-n", PLACES[5])
    day.kubectl("delete", "pod", "bare", "-n", PLACES[5])
    day.kubectl("label", "namespace", MOVED_AWAY, "istio.io/rev=prod", "--overwrite")
    day.command("upgrade", "resume", name)
    day.until_phase(name, "Completed")
    day.row("all is done", name, "Completed, pinned workloads stay", "to-1-30: Completed")


def write_as_istioctl(day: Day) -> None:
    """Write the tag as ``istioctl tag set prod --revision 1-28 --overwrite`` does."""
    flags = ("--server-side", "--force-conflicts", "--field-manager=istioctl")
    done = day.world.cluster.kubectl("apply", *flags, "-f", "-", stdin=tag_webhook("prod", OLD, day.world.webhooks))
    assert done.returncode == 0, done.stderr


def towards_last(day: Day) -> None:
    """From 1-30 towards 1-31, which disappears, back to 1-30, and to 1-31 without 1-30."""
    day.kubectl("delete", "deployment", "pinned", "-n", PLACES[3])
    waves = WAVES[0], WAVES[-1]
    spec = {"from": NEW, "to": LAST, "limits": LIMITS, "timeout": f"{TIMEOUT}s", "soak": "5s"}
    name = day.world.resource("to-1-31", *waves, **spec)
    day.until_done(name, 1, 4)
    with removed(day, LAST):
        day.kill(*day.replicas)
        day.until(lambda state: "no revision is called" in state["error"], name)
        day.row("the new revision is gone", name, "roll back", LAST)
        check_direction(day, f"{NEW} towards {LAST}")
        day.watcher.turn(LAST, NEW)
        day.command("upgrade", "rollback", name)
        day.until_phase(name, "RolledBack")
    day.row("the end of the rollback", name, f"RolledBack, all pods have {NEW}", "RolledBack")
    check_direction(day, f"{LAST} back to {NEW}", NEW)

    day.watcher.turn(NEW, LAST)
    day.kubectl("patch", "upgrade", name, "--type=merge", "-p", json.dumps({"spec": {"run": 2}}))
    day.until(lambda state: state["run"] == 2 and state["wave"] == 1 and state["counts"].get("done", 0) >= 4, name)
    with removed(day, NEW):
        day.kill(*day.replicas)
        day.until_phase(name, "Completed")
    day.row("the old revision is gone", name, "none: Completed", "Completed")
    check_direction(day, f"{NEW} to {LAST}", LAST)


@contextmanager
def removed(day: Day, revision: str) -> Iterator[None]:
    """Delete the ConfigMaps of a revision, and create them again after the block."""
    names = (f"istio-sidecar-injector-{revision}", f"istio-{revision}")
    day.say(f"delete the ConfigMaps of {revision}")
    day.kubectl("delete", "configmap", *names, "-n", HOME)
    yield
    day.world.cluster.apply(*control_plane(HOME, revision, tag=f"{revision.replace('-', '.')}.0"))


def check_direction(day: Day, what: str, target: str = "") -> None:
    """Record the restarts and the pods since the last turn; all pods must have ``target`` if it is given."""
    watcher = day.watcher
    again = {name for name, count in watcher.restarts.items() if count > 1}
    pods = [pod for pod in day.world.items("pods") if pod["metadata"]["labels"]["app"] not in PINNED]
    revisions = Counter(injected_revision(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp"))
    restarted = sum(count > 0 for count in watcher.restarts.values())
    pods_text = f"{len(watcher.wrong)} wrong pods; pods at the end: {dict(revisions)}"
    figure = f"{restarted} restarted, {len(again - watcher.mixed)} twice; {pods_text}"
    if watcher.mixed:
        figure += (
            f"; {len(again & watcher.mixed)} restarted again since another writer moved the tag during their rollout"
        )
    day.say(f"## {what}: {figure}; {again} mixed: {watcher.mixed}; wrong: {watcher.wrong}")
    met = not watcher.wrong and again <= watcher.mixed and (not target or {*revisions} == {target})
    end = "0 workloads restarted twice, 0 pods of a complete workload without its sidecar or with the wrong one"
    name = f"upgrade day {len(day.rows) + 1:02}, {what}, after {day.kills} kills"
    day.rows.append(Row(name, end, figure, met))


# The other trials


def large_fleet(day: Day) -> Sequence[Row]:
    """Return the row of a fleet that moves while nothing else happens."""
    day.start_replica()
    began = time.monotonic()
    name = day.world.resource("large", {"weight": 10}, {"weight": 50}, {"weight": 100}, limits=LIMITS, soak="5s")
    day.until_phase(name, "Completed")
    watcher = day.watcher
    counts = Counter(watcher.restarts.values())
    what = f"{time.monotonic() - began:.0f} s; at most {watcher.restarting} workloads at once, {watcher.unavailable} pods away"
    figure = (
        f"{counts[1]} of {counts.total()} restarted once, {len(watcher.wrong)} of {watcher.pods} pods wrong, in {what}"
    )
    met = {*counts} == {1} and not watcher.wrong and {*day.world.revisions()} == {NEW}
    met = met and watcher.restarting <= LIMITS["workloads"] and watcher.unavailable <= LIMITS["unavailablePods"]
    return [Row(f"upgrade of {counts.total()} workloads with nodes", "each restarted once, limits kept", figure, met)]


def ten_upgrades(day: Day) -> Sequence[Row]:
    """Return the row of the memory of a replica that runs ten upgrades, forward and back."""
    replica = day.start_replica()
    asyncio.run(replica.until_ready())
    size, sizes = len(day.watcher.names()), [resident(replica.pid)]
    for number in range(RUNS):
        old, new = (OLD, NEW) if number % 2 == 0 else (NEW, OLD)
        waves = {"weight": 20}, {"weight": 100}
        name = day.world.resource(f"number-{number}", *waves, limits=LIMITS, soak="1s", **{"from": old, "to": new})
        day.until_phase(name, "Completed")
        sizes.append(resident(replica.pid))
        day.say(f"RSS {sizes[-1]:.1f} MiB")
    growth = sizes[-1] - sizes[0]
    first = sizes[1] - sizes[0]
    figure = f"{growth:.1f} MiB, of which {first:.1f} in the first, to {sizes[-1]:.0f} MiB"
    what = f"memory of a replica that ran {RUNS} upgrades of {size} workloads"
    return [Row(what, f"< +{MOST_GROWTH:g} MiB", figure, growth < MOST_GROWTH)]


TRIALS: Final[dict[str, tuple[Callable[[Day], Sequence[Row]], int]]] = {
    "day": (upgrade_day, 250),
    "fleet": (large_fleet, 500),
    "memory": (ten_upgrades, 100),
}

if __name__ == "__main__":
    sys.exit(main())
