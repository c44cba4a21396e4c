"""``injector upgrade`` on a real API server with controllers, a scheduler and nodes: no pod is lost, whatever is killed meanwhile."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from injector.cluster.client import KubeClient
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.fleet import FLEET, LONG, NEW, OLD, PLACES, PODS, RUN_LIMIT, World, fleet_of, name_of, pods_of, world_of
from tests.e2e.watcher import Watcher

KILLS = 50 if LONG else 3


def test_a_fleet_moves_within_the_limits_though_its_runners_are_killed(
    nodes: Cluster, tmp_path: Path, figure: Figure
) -> None:
    fleet = fleet_of(PLACES, 60, 20, 10) if LONG else FLEET
    with world_of(nodes, fleet, tmp_path) as world:
        _killed_runners_move_a_fleet(world, fleet, figure)


def _killed_runners_move_a_fleet(world: World, fleet: Sequence[dict[str, Any]], figure: Figure) -> None:
    limits = {"workloads": 3, "unavailablePods": 3, "unavailablePodsPerNamespace": 2}
    document = world.resource("fleet", {"namespaces": ["dev"]}, {"name": "rest"}, limits=limits, soak="5s")
    chance = random.Random(18)  # noqa: S311 -- the same moments in every run
    # Each kill follows when so many workloads are done, at a random moment: the kills are spread over the whole run.
    done_at = sorted(chance.randrange(len(fleet)) for _ in range(KILLS))
    runners = [world.start(document), world.start(document)]
    steps: Counter[str] = Counter()
    with Watcher(world).running() as watcher:
        for turn, done in enumerate(done_at):
            world.until(partial(_has_done, world, "fleet", fleet, done))
            time.sleep(chance.uniform(0, 3))
            assert runners[turn % 2].poll() is None
            steps[world.state("fleet").get("step", "before the start")] += 1
            runners[turn % 2].kill()
            runners[turn % 2].communicate()
            runners[turn % 2] = world.start(document)
        assert world.state("fleet")["phase"] == "Running"
        said = [runner.communicate(timeout=RUN_LIMIT)[0] for runner in runners]

    assert [runner.returncode for runner in runners] == [0, 0], said
    assert world.state("fleet")["phase"] == "Completed", said
    assert world.revisions() == {NEW: pods_of(fleet)}
    assert world.templates() == {name_of(item): 2 for item in fleet}
    assert watcher.restarting <= 3
    assert watcher.unavailable <= 3
    assert watcher.in_a_place <= 2
    assert not [*watcher.wrong, *watcher.mixed]
    figure(
        f"{KILLS} kills of one of two runners ({dict(steps)}): {len(fleet)} workloads moved, each restarted once; "
        f"at most {watcher.restarting} restarts and {watcher.unavailable} pods at once"
    )
    listed = world.cluster.kubectl("get", "upgrades").stdout.splitlines()
    assert [line.split()[:4] for line in listed] == [["NAME", "FROM", "TO", "PHASE"], ["fleet", OLD, NEW, "Completed"]]
    changed = {"spec": {"waves": [{"name": "all"}]}}
    refused = world.cluster.kubectl("patch", "upgrade", "fleet", "--type=merge", "-p", json.dumps(changed))
    assert "its tag, from, to, waves, importanceLabel and injectedGateways.last must stay" in refused.stderr
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
            world.until(partial(has_done, done))
            world.replica.close()
            time.sleep(3)
            world.start_injector()
        world.until(partial(has_done, len(FLEET)))
        said, _ = runner.communicate(timeout=RUN_LIMIT)
    assert (runner.returncode, world.state("down")["phase"]) == (0, "Completed"), said
    assert (world.revisions(), set(world.templates().values())) == ({NEW: PODS}, {2})
    assert not [*watcher.wrong, *watcher.mixed]


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
        assert world.templates() == {name_of(item): 2 for item in LARGE}
        assert watcher.restarting <= 40
        assert watcher.unavailable <= 60
        assert watcher.in_a_place <= 5
        assert not [*watcher.wrong, *watcher.mixed]
        rate = max(sum(at <= moment < at + 10 for moment in requests) for at in requests) / 10
        figure(
            f"{len(LARGE)} workloads in three waves by {sort}: {took:.0f} s, {len(requests) / len(LARGE):.1f} requests for "
            f"each workload, at most {rate:.1f} requests a second; seen: at most {watcher.restarting} restarts, "
            f"{watcher.unavailable} pods away, {watcher.in_a_place} in a namespace, and none of {watcher.pods} pods wrong"
        )
