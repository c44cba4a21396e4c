"""Upgrades with gateways on a real API server: injected ones last, and then each Gateway of the Gateway API changes its owner alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from injector.istio.labels import TEMPLATES
from injector.upgrade.observe import MARK
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.fleet import LONG, NEW, OLD, PLACES, World, fleet_of, pods_of, world_of
from tests.e2e.gateways import PLACE, Istiods
from tests.manifests import namespace_of, workload
from tests.revisions.fakes import WITH_GATEWAY

SHORTEST = 4.0
"""Seconds between two changes: a Gateway must be in service for five, and the controller looks three times a second."""
LIMITS = {"workloads": 20, "unavailablePods": 40, "unavailablePodsPerNamespace": 20}

EDGES = tuple(
    workload("Deployment", f"edge-{name}", "dev", annotations={TEMPLATES: "gateway"}, replicas=2) for name in "ab"
)
"""Injected gateways, in the namespace of the first wave."""


def check_steps(istiods: Istiods, count: int) -> None:
    """Check that each Gateway changed its owner once, in its wave, and while all others were in service."""
    assert istiods.faults == []
    assert sorted(name for step in istiods.steps for name in step.changed) == sorted(istiods.owners)
    assert len(istiods.steps) == count
    assert {step.step for step in istiods.steps} == {"MovingGateways"}
    assert istiods.overlaps == []
    assert all(later.time - earlier.time > SHORTEST for earlier, later in pairwise(istiods.steps))


def check_injected_gateways(world: World) -> None:
    """Check that the injected gateways were restarted after all other workloads, and one after the other."""
    deployments = [item["metadata"] for item in world.items("deployments")]
    tokens = {meta["name"]: int(meta["annotations"][MARK].rpartition("/")[2]) for meta in deployments}
    edges = [name for name in tokens if name.startswith("edge-")]
    assert min(tokens[name] for name in edges) > max(token for name, token in tokens.items() if name not in edges)
    pods = [pod["metadata"] for pod in world.items("pods") if not pod["metadata"].get("deletionTimestamp")]
    first, second = (
        sorted(meta["creationTimestamp"] for meta in pods if meta["labels"]["app"] == name) for name in edges
    )
    assert first[-1] <= second[0]


def upgrade_and_roll_back(world: World, count: int) -> float:
    """Move the fleet and the Gateways forward and back; the seconds between the first and the last Gateway."""
    istiods = Istiods(world.cluster)
    world.cluster.apply(namespace_of(PLACE, {"istio.io/rev": "prod"}))
    istiods.install(count)
    before, pods = istiods.labels(), sum(world.revisions().values())
    with istiods.running():
        world.until(lambda: len(istiods.in_service) == count)
        document = world.document(
            "edge", {"namespaces": ["dev"]}, {"name": "rest"}, gateways={"soak": "1s"}, limits=LIMITS
        )
        planned = world.injector("upgrade", "plan", str(document))
        assert "injected-gateways   2" in planned.stdout
        assert f"{count} gateways: owner 1-28 to 1-30, one at a time after the waves: " in planned.stdout, (
            planned.output
        )

        code, said = world.run(document)
        assert (code, world.state("edge")["phase"]) == (0, "Completed"), said
        world.until(lambda: set(istiods.in_service.values()) == {NEW})
        assert (world.revisions(), istiods.labels()) == ({NEW: pods}, before)
        check_steps(istiods, count)
        check_injected_gateways(world)
        took = istiods.steps[-1].time - istiods.steps[0].time

        istiods.steps.clear()
        assert world.injector("upgrade", "rollback", "edge").exit_code == 0
        code, said = world.run("edge")
        assert (code, world.state("edge")["phase"]) == (4, "RolledBack"), said
        world.until(lambda: set(istiods.in_service.values()) == {OLD})
        assert (world.revisions(), istiods.labels()) == ({OLD: pods}, before)
        # The pins of a rollback are written without a wait, so that pods of other Gateways may still be replaced by their own revision.
        istiods.overlaps.clear()
        check_steps(istiods, count)
    return took


def test_gateways_change_their_owner_one_at_a_time_forward_and_back(nodes: Cluster, tmp_path: Path) -> None:
    with world_of(nodes, (*fleet_of(PLACES, 6, 0, 0), *EDGES), tmp_path, config=WITH_GATEWAY) as world:
        upgrade_and_roll_back(world, 4)


@pytest.mark.skipif(not LONG, reason="it takes ten minutes: set E2E_LONG=1")
def test_a_hundred_workloads_and_twelve_gateways(nodes: Cluster, tmp_path: Path, figure: Figure) -> None:
    fleet = (*fleet_of(PLACES, 70, 20, 10), *EDGES)
    with world_of(nodes, fleet, tmp_path, config=WITH_GATEWAY) as world:
        took = upgrade_and_roll_back(world, 12)
        figure(f"{len(fleet)} workloads with {pods_of(fleet)} pods, and 12 Gateways one at a time in {took:.0f} s")
