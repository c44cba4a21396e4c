"""How ``injector upgrade`` ends on a real API server: what is left is named."""

from __future__ import annotations

import json
import re
from functools import partial

from tests.e2e.fleet import FLEET, NEW, OLD, ONE_BY_ONE, PODS, WAVES, World, name_of
from tests.factories import make_container
from tests.manifests import make_object, namespace_of, workload


def remaining(world: World, name: str) -> dict[str, str]:
    return {item["workload"]: item["reason"] for item in world.state(name).get("remaining", ())}


def test_work_that_is_left_is_named_and_the_upgrade_is_complete_once_it_is_done(world: World) -> None:
    bare = make_object("Pod", "bare", "shop", {"app": "bare"}, spec={"containers": [make_container()]})
    halted = workload("Deployment", "halted", "pay", replicas=2)
    plain = workload("Deployment", "plain", "pay", replicas=2, pod={"nodeSelector": {}})
    world.cluster.apply(bare, halted)
    world.until_running({OLD: PODS + 3})
    world.cluster.apply({**halted, "spec": {**halted["spec"], "paused": True}})
    world.cluster.kubectl("label", "namespace", "pay", "istio.io/rev-")
    world.until(lambda: world.revision_of_new_pods("pay") is None)
    world.cluster.apply(plain)
    world.until(lambda: world.revisions()[None] == 2)
    world.cluster.kubectl("label", "namespace", "pay", "istio.io/rev=prod")
    world.until(lambda: world.revision_of_new_pods("pay") == OLD)

    code, said = world.run(world.document("left"))
    assert (code, world.state("left")["phase"]) == (6, "Incomplete"), said
    assert remaining(world, "left") == {
        "Deployment pay/halted": "pods with revision 1-28: 2: its rollout is paused",
        "Deployment pay/plain": "pods without a sidecar: 2",
        "Pod shop/bare": "pods with revision 1-28: 1: a bare pod",
    }
    assert "`kubectl rollout restart deployment/plain -n pay`" in said
    assert (world.condition("left", "Completed"), world.condition("left", "Stalled")) == ("False", "True")

    world.cluster.kubectl("rollout", "resume", "deployment/halted", "-n", "pay")
    world.cluster.kubectl("rollout", "restart", "deployment/plain", "-n", "pay")
    world.cluster.kubectl("delete", "pod", "bare", "-n", "shop")
    world.until(lambda: world.revisions()[None] == 0)
    assert world.injector("upgrade", "resume", "left").exit_code == 0
    code, said = world.run("left")
    assert (code, world.state("left")["phase"]) == (0, "Completed"), said
    assert world.revisions() == {NEW: PODS + 4}
    waited = world.cluster.kubectl("wait", "--for=condition=Completed", "--timeout=5s", "upgrade/left")
    assert waited.returncode == 0, waited.stderr


def test_a_namespace_that_is_moved_away_is_named_and_a_second_upgrade_is_refused(world: World) -> None:
    document = world.document("moved", *WAVES, limits=ONE_BY_ONE)
    runner = world.start(document)
    world.until(lambda: world.state("moved").get("wave") == 1, runner)
    world.until(partial(world.has_done, "moved", 1), runner)
    world.injector("upgrade", "pause", "moved")
    said, _ = runner.communicate(timeout=600)
    assert runner.returncode == 3, said
    code, said = world.run(world.document("second", {"weight": 50}, {"weight": 100}))
    assert code == 64, said
    assert "upgrade moved of tag prod is under way" in said
    status = world.injector("upgrade", "status", "second")
    assert "no upgrade is called second" in status.output

    world.cluster.kubectl("label", "namespace", "pay", f"istio.io/rev={OLD}", "--overwrite")
    world.injector("upgrade", "resume", "moved")
    document = world.document("moved", *WAVES)
    code, said = world.run(document)

    assert (code, world.state("moved")["phase"]) == (6, "Incomplete"), said
    names = remaining(world, "moved")
    assert names
    assert all(name.partition(" ")[2].startswith("pay/") for name in names)
    assert all("its namespace leads to 1-28 instead of prod" in reason for reason in names.values())
    assert world.injector("upgrade", "accept", "moved").exit_code == 0
    assert (world.condition("moved", "Completed"), world.run(document)[0]) == ("True", 0)


def test_pinned_workloads_are_in_the_plan_and_keep_their_revision(world: World) -> None:
    hold = workload("Deployment", "hold", "shop", annotations={"revision-injector/pin": OLD}, replicas=1)
    own = workload("Deployment", "own", "solo", labels={"istio.io/rev": OLD}, replicas=2)
    world.places = {*world.places, "solo"}
    world.cluster.apply(namespace_of("solo"), hold, own)
    world.until_running({OLD: PODS + 3})

    for waves in ([{"name": "all"}], [{"weight": 50}, {"weight": 100}]):
        plan = json.loads(world.injector("upgrade", "plan", str(world.document("pin", *waves)), "-o", "json").stdout)
        entries = {f"{item['namespace']}/{item['name']}": item for item in plan["workloads"]}
        assert {(item["action"], item["note"]) for item in (entries["shop/hold"], entries["solo/own"])} == {
            ("stays", f"its pods are pinned to {OLD}"),
            ("stays", f"its pods have their own label istio.io/rev, which leads to {OLD}"),
        }
        assert entries["shop/web-0"]["action"] == "restart"
    code, said = world.run(world.document("pin"))
    assert (code, world.state("pin")["phase"]) == (0, "Completed"), said
    assert world.revisions() == {NEW: PODS, OLD: 3}

    world.cluster.kubectl("delete", "pods", "-A", "-l", "app in (hold, own)")
    world.until_running({NEW: PODS, OLD: 3})


def test_workloads_that_were_broken_before_hold_up_no_other(world: World) -> None:
    world.cluster.apply(workload("Deployment", "old", "shop", replicas=12, pod={"nodeSelector": {"cluster": "none"}}))
    world.until(lambda: sum(pod["metadata"]["labels"]["app"] == "old" for pod in world.items("pods")) == 12)
    limits = {"unavailablePodsPerNamespace": 4}
    code, said = world.run(world.document("before", timeout="40s", limits=limits, onFailure="Rollback"))

    assert (code, world.state("before")["phase"]) == (3, "Paused"), said
    reason = world.state("before")["reason"]
    assert reason.startswith("Deployment shop/old: ")
    assert "; none of its pods was available before the upgrade either: " in reason
    restarts = world.templates()
    assert {restarts[name_of(item)] for item in FLEET} == {2}

    for command in re.findall("`injector ([^`]*)`", reason):
        assert world.injector(*command.split()).exit_code == 0, command
    code, said = world.run("before")
    assert (code, list(remaining(world, "before"))) == (6, ["Deployment shop/old"]), said
