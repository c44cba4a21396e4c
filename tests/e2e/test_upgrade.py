"""``injector upgrade`` on a real API server with controllers, a scheduler and nodes: no pod is lost, whatever is killed meanwhile."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from injector.cluster.client import KubeClient
from injector.injection.tools.drift import injected_revision
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.fleet import FLEET, LONG, NEW, OLD, PLACES, PODS, RUN_LIMIT, World, fleet_of, name_of, pods_of, world_of
from tests.e2e.served import until

KILLS = 50 if LONG else 5


@dataclass
class Watcher:
    """An independent observer, which sees every change of the workloads and pods by watches of its own.

    Attributes:
        restarting: the most workloads whose rollout was not complete.
        unavailable: the most pods that were not available.
        in_a_place: the most of them in one namespace.
        wrong: the pods without a sidecar, those of an unknown revision, and those of the old one after one of the new one.
    """

    world: World
    restarting: int = 0
    unavailable: int = 0
    in_a_place: int = 0
    wrong: list[str] = field(default_factory=list)
    pods: int = 0
    _now: dict[tuple[str, str, str], tuple[bool, int]] = field(default_factory=dict)
    _moved: set[tuple[str, str]] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def saw(self, kind: str, item: dict[str, Any]) -> None:
        meta = item["metadata"]
        if meta["namespace"] not in self.world.places:
            return
        with self._lock:
            if kind == "pods":
                self._saw_pod(item)
                return
            self._now[kind, meta["namespace"], meta["name"]] = rolling(item)
            away: Counter[str] = Counter()
            for (_, place, _), (_, missing) in self._now.items():
                away[place] += missing
            self.restarting = max(self.restarting, sum(each for each, _ in self._now.values()))
            self.unavailable = max(self.unavailable, away.total())
            self.in_a_place = max(self.in_a_place, *away.values())

    def _saw_pod(self, pod: dict[str, Any]) -> None:
        meta, revision = pod["metadata"], injected_revision(pod)
        if meta["uid"] in self._known:
            return
        self._known.add(meta["uid"])
        self.pods += 1
        key = meta["namespace"], meta["labels"]["app"]
        if revision == NEW:
            self._moved.add(key)
        elif revision != OLD or key in self._moved:
            self.wrong.append(f"{meta['namespace']}/{meta['name']}: {revision}")

    @contextmanager
    def running(self) -> Iterator[Watcher]:
        """Watch as long as the block runs, from a complete list on."""
        paths = {"pods": "/api/v1/pods"}
        paths |= {kind: f"/apis/apps/v1/{kind}" for kind in ("deployments", "statefulsets", "daemonsets")}
        with ExitStack() as streams:
            for kind, path in paths.items():
                with self._open(path) as answer:
                    listed = json.load(answer)
                for each in listed["items"]:
                    self.saw(kind, each)
                stream = streams.enter_context(
                    self._open(f"{path}?watch=true&resourceVersion={listed['metadata']['resourceVersion']}")
                )
                thread = threading.Thread(target=self._follow, args=(kind, stream), daemon=True)
                thread.start()
                streams.callback(partial(self._end, stream, thread))
            yield self

    def _open(self, path: str) -> Any:
        return urllib.request.urlopen(f"{self.world.cluster.url}{path}", context=self.world.cluster.tls)  # noqa: S310 -- loopback

    def _follow(self, kind: str, stream: Any) -> None:
        with suppress(OSError, HTTPException):  # `_end` ends it
            for line in stream:
                event = json.loads(line)
                assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                self.saw(kind, event["object"])

    def _end(self, stream: Any, thread: threading.Thread) -> None:
        assert thread.is_alive(), "the watch has ended"
        stream.fp.raw._sock.shutdown(socket.SHUT_RDWR)  # ends the read of the other thread
        thread.join()


def rolling(item: dict[str, Any]) -> tuple[bool, int]:
    """Whether a workload's rollout is not complete, and its pods that are not available."""
    status, generation = item["status"], item["metadata"]["generation"]
    wanted = item["spec"].get("replicas", status.get("desiredNumberScheduled", 0))
    updated = status.get("updatedReplicas", status.get("updatedNumberScheduled", 0))
    available = status.get("availableReplicas", status.get("numberAvailable", 0))
    is_seen = status.get("observedGeneration", 0) >= generation and status.get("replicas", wanted) == wanted
    # A StatefulSet has no updated pods once both revisions are one.
    is_updated = updated == wanted or status.get("currentRevision", "") == status.get("updateRevision", None)
    return not (is_seen and is_updated and available == wanted), max(wanted - available, 0)


def test_a_fleet_moves_within_the_limits_though_its_runners_are_killed(
    nodes: Cluster, tmp_path: Path, figure: Figure
) -> None:
    fleet = fleet_of(PLACES, 60, 20, 10) if LONG else FLEET
    with world_of(nodes, fleet, tmp_path) as world:
        _killed_runners_move_a_fleet(world, fleet, figure)


def _killed_runners_move_a_fleet(world: World, fleet: Sequence[dict[str, Any]], figure: Figure) -> None:
    limits = {"workloads": 3, "unavailablePods": 3, "unavailablePodsPerNamespace": 2}
    document = world.resource("fleet", {"namespaces": ["dev"]}, {"name": "rest"}, limits=limits, soak="20s")
    chance = random.Random(18)  # noqa: S311 -- the same moments in every run
    # Each kill follows when so many workloads are done, at a random moment: the kills are spread over the whole run.
    done_at = sorted(chance.randrange(len(fleet)) for _ in range(KILLS))
    runners = [world.start(document), world.start(document)]
    steps: Counter[str] = Counter()
    with Watcher(world).running() as watcher:
        for turn, done in enumerate(done_at):
            until(partial(_has_done, world, "fleet", fleet, done))
            time.sleep(chance.uniform(0, 3))
            assert runners[turn % 2].poll() is None
            steps[world.state("fleet").get("step", "before the start")] += 1
            runners[turn % 2].kill()
            runners[turn % 2].communicate()
            runners[turn % 2] = world.start(document)
        assert world.state("fleet")["phase"] == "Running"
        said = [each.communicate(timeout=RUN_LIMIT)[0] for each in runners]

    assert [each.returncode for each in runners] == [0, 0], said
    assert world.state("fleet")["phase"] == "Completed", said
    assert world.revisions() == {NEW: pods_of(fleet)}
    assert world.templates() == {name_of(each): 2 for each in fleet}
    assert watcher.restarting <= 3
    assert watcher.unavailable <= 3
    assert watcher.in_a_place <= 2
    assert not watcher.wrong
    figure(
        f"{KILLS} kills of one of two runners ({dict(steps)}): {len(fleet)} workloads moved, each restarted once; "
        f"at most {watcher.restarting} restarts and {watcher.unavailable} pods at once"
    )
    listed = world.cluster.kubectl("get", "upgrades").stdout.splitlines()
    assert [line.split()[:4] for line in listed] == [["NAME", "FROM", "TO", "PHASE"], ["fleet", OLD, NEW, "Completed"]]
    changed = {"spec": {"waves": [{"name": "all"}]}}
    refused = world.cluster.kubectl("patch", "upgrade", "fleet", "--type=merge", "-p", json.dumps(changed))
    assert "its tag, from, to and waves must stay" in refused.stderr
    tag = world.cluster.get("mutatingwebhookconfiguration", "istio-revision-tag-prod")["metadata"]
    assert tag["labels"]["istio.io/rev"] == NEW
    assert not any(tag.get("annotations", {}).get(f"revision-injector/{name}") for name in ("weights", "namespaces"))


def _has_done(world: World, name: str, fleet: Sequence[dict[str, Any]], count: int) -> bool:
    """Whether so many workloads are done, as the state of the upgrade says."""
    state = world.state(name)
    return not count or (bool(state.get("total")) and len(fleet) - state["left"] >= count)


def test_a_stopped_injector_stops_the_preflight_and_a_restart_loses_no_pod(world: World) -> None:
    document = world.document("down", {"namespaces": ["dev"]}, {"name": "rest"})
    world.replica.close()
    code, said = world.run(document)
    assert (code, world.state("down")["phase"]) == (3, "Paused"), said
    reason = world.state("down")["reason"]
    assert reason.startswith("preflight: DaemonSet dev/agent-0: the API server refuses its pod: "), reason
    assert 'failed calling webhook "rev.namespace.sidecar-injector.istio.io"' in reason, reason
    assert (world.revisions(), set(world.templates().values())) == ({OLD: PODS}, {1})

    world.start_injector()
    world.injector("upgrade", "resume", "down")
    runner = world.start(document)

    def has_done(count: int) -> bool:
        """Look at the upgrade. If the preflight of a wave met a restart, it is paused: resume it."""
        nonlocal runner
        if runner.poll() is not None and world.state("down")["phase"] == "Paused":
            assert world.state("down")["reason"].startswith("preflight: ")
            world.injector("upgrade", "resume", "down")
            runner = world.start(document)
        return _has_done(world, "down", FLEET, count)

    with Watcher(world).running() as watcher:
        for done in (2, 7):
            until(partial(has_done, done))
            world.replica.close()
            time.sleep(3)
            world.start_injector()
        until(partial(has_done, len(FLEET)))
        said, _ = runner.communicate(timeout=RUN_LIMIT)
    assert (runner.returncode, world.state("down")["phase"]) == (0, "Completed"), said
    assert (world.revisions(), set(world.templates().values())) == ({NEW: PODS}, {2})
    assert not watcher.wrong


LARGE_PLACES = [f"place-{number}" for number in range(60)]
LARGE = fleet_of(LARGE_PLACES, 500, 40, 10)
LARGE_WAVES: dict[str, list[dict[str, Any]]] = {
    "weights": [{"weight": 10}, {"weight": 50}, {"weight": 100}],
    "namespaces": [{"namespaces": LARGE_PLACES[:6]}, {"namespaces": LARGE_PLACES[6:30]}, {"name": "rest"}],
}


@pytest.mark.skipif(not LONG, reason="it takes ten minutes: set E2E_LONG=1")
@pytest.mark.parametrize("sort", LARGE_WAVES)
def test_a_large_fleet_moves_and_each_workload_is_restarted_once(
    sort: str, nodes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> None:
    requests: list[float] = []
    send = KubeClient._request

    def counted(self: KubeClient, *arguments: Any, **named: Any) -> Any:
        requests.append(time.monotonic())
        return send(self, *arguments, **named)

    limits = {"workloads": 40, "unavailablePods": 60, "unavailablePodsPerNamespace": 5}
    with world_of(nodes, LARGE, tmp_path) as world:
        document = world.document("large", *LARGE_WAVES[sort], limits=limits)
        monkeypatch.setattr(KubeClient, "_request", counted)
        began = time.monotonic()
        with Watcher(world).running() as watcher:
            result = world.injector("upgrade", "run", str(document))
        took = time.monotonic() - began

        assert result.exit_code == 0, result.output
        assert world.revisions() == {NEW: pods_of(LARGE)}
        assert world.templates() == {name_of(each): 2 for each in LARGE}
        assert watcher.restarting <= 40
        assert watcher.unavailable <= 60
        assert watcher.in_a_place <= 5
        assert not watcher.wrong
        rate = max(sum(at <= each < at + 10 for each in requests) for at in requests) / 10
        figure(
            f"{len(LARGE)} workloads in three waves by {sort}: {took:.0f} s, {len(requests) / len(LARGE):.1f} requests for "
            f"each workload, at most {rate:.1f} requests a second; seen: at most {watcher.restarting} restarts, "
            f"{watcher.unavailable} pods away, {watcher.in_a_place} in a namespace, and none of {watcher.pods} pods wrong"
        )
