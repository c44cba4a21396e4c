"""Upgrades in place on a real API server: who has the sidecar of today already is not restarted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.fleet import FLEET, HOME, LONG, OLD, World, fleet_of, name_of, pods_of, world_of
from tests.factories import make_pod
from tests.manifests import control_plane

LARGE_PLACES = [f"place-{number}" for number in range(25)]
LARGE = fleet_of(LARGE_PLACES, 200, 40, 10)
BY_THEMSELVES = ("deployment/web-0 -n dev", "statefulset/db-0 -n shop")


def proxies(world: World) -> Counter[str]:
    """The running pods by the version of their proxy."""
    pods = [pod for pod in world.items("pods") if not pod["metadata"].get("deletionTimestamp")]
    images = (
        container["image"]
        for pod in pods
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
        if container["name"] == "istio-proxy"
    )
    return Counter(image.rpartition(":")[2] for image in images)


def patch_control_plane(world: World, version: str) -> None:
    """Give the proxies of the old revision another version, and wait until the API server's new pods get it."""
    world.cluster.apply(*control_plane(HOME, OLD, tag=version))
    pod = make_pod(namespace=min(world.places))
    world.until(lambda: f":{version}" in json.dumps(world.cluster.tried(pod)))


def test_workloads_restart_once_but_not_those_that_restarted_by_themselves(world: World) -> None:
    pods = pods_of(FLEET)
    patch_control_plane(world, "1.28.3")
    for name in BY_THEMSELVES:
        world.cluster.kubectl("rollout", "restart", *name.split())
    world.until(lambda: not world.unavailable() and proxies(world) == {"1.28.0": pods - 4, "1.28.3": 4})
    document = world.document("patch", {"namespaces": ["dev"]}, {"name": "rest"}, tag=None, to=OLD)

    planned = world.injector("upgrade", "plan", str(document))
    assert planned.stdout.startswith("patch: 1-28 in place\n"), planned.output
    assert f"workloads: {len(FLEET) - 2} restart, 2 done\n" in planned.stdout
    code, said = world.run(document)

    assert (code, world.state("patch")["phase"]) == (0, "Completed"), said
    assert proxies(world) == {"1.28.3": pods}
    assert world.templates() == {name_of(workload): 2 for workload in FLEET}
    code, said = world.run(document)
    assert (code, world.templates()) == (0, {name_of(workload): 2 for workload in FLEET}), said


@pytest.mark.skipif(not LONG, reason="it takes ten minutes: set E2E_LONG=1")
def test_a_large_fleet_is_patched_in_place(nodes: Cluster, tmp_path: Path, figure: Figure) -> None:
    limits = {"workloads": 40, "unavailablePods": 60, "unavailablePodsPerNamespace": 5}
    with world_of(nodes, LARGE, tmp_path) as world:
        patch_control_plane(world, "1.28.3")
        own = [workload for workload in LARGE if workload["kind"] == "Deployment"][::20]
        for workload in own:
            meta = workload["metadata"]
            world.cluster.kubectl("rollout", "restart", f"deployment/{meta['name']}", "-n", meta["namespace"])
        world.until(lambda: not world.unavailable() and proxies(world)["1.28.3"] == 2 * len(own))
        document = world.document("large", {"name": "all"}, tag=None, to=OLD, limits=limits)
        code, said = world.run(document)

        assert code == 0, said
        assert proxies(world) == {"1.28.3": pods_of(LARGE)}
        assert world.templates() == {name_of(workload): 2 for workload in LARGE}
        figure(f"{len(LARGE)} workloads patched in place, each restarted once, {len(own)} of them by themselves before")
