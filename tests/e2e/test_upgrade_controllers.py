"""Upgrades by controllers on a real API server, and how a plain restart script compares."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from injector.injection.tools.drift import injected_revision
from tests.deploy.rendering import permissions
from tests.e2e.conftest import Figure
from tests.e2e.fleet import FLEET, HOME, NEW, OLD, PODS, World, name_of
from tests.e2e.served import Injector, injector, of_cluster
from tests.factories import make_container, proxy_of
from tests.manifests import control_plane, make_object, namespace_of, workload
from tests.revisions.fakes import CONFIG


def test_controllers_with_the_charts_permissions_go_on_if_the_leader_stops(world: World, figure: Figure) -> None:
    cluster, home = world.cluster, "injector-system"

    def grant(*namespaces: str) -> None:
        upgrades = {"enabled": True, "namespaces": list(namespaces), "tags": ["prod"]}
        values = {"fromCluster": {"enabled": True}, "upgrades": upgrades}
        cluster.apply(namespace_of(home), *permissions(values))

    def shows_the_pause(server: Injector) -> bool:
        rows = [(row["name"], row["phase"], row["left"]) for row in server.status()["upgrades"]]
        metric = 'injector_upgrade_phase{phase="Paused",upgrade="up"} 1.0'
        return rows == [("up", "Paused", 13)] and metric in server.text("/metrics")

    def events() -> Counter[tuple[str, str]]:
        reasons = ((event["reason"], event["involvedObject"]["kind"]) for event in cluster.items("/api/v1/events"))
        return Counter(reasons)

    grant("dev", "shop")
    account = cluster.kubeconfig_of("injector", home)
    flags = ("--insecure-http", "--upgrades", *of_cluster(cluster, HOME, kubeconfig=account))
    with ExitStack() as replicas:
        servers = []
        for name in ("a", "b"):
            (world.folder / name).mkdir()
            servers.append(replicas.enter_context(injector(world.folder / name, *flags)))
        world.resource("up", {"namespaces": ["dev"]}, {"name": "rest"})
        world.until(lambda: world.state("up").get("phase") == "Paused")
        assert world.state("up")["reason"] == "preflight: no permission to create pods in namespace pay (and 2 more)"
        assert (world.revisions(), set(world.templates().values())) == ({OLD: PODS}, {1})
        for server in servers:
            world.until(partial(shows_the_pause, server))  # each has a watch of its own

        grant("dev", "shop", "pay")
        world.until(lambda: cluster.is_allowed(f"{home}:injector", verb="create", resource="pods", namespace="pay"))
        world.injector("upgrade", "resume", "up")
        world.until(
            lambda: world.state("up").get("step") == "Restarting" and world.state("up")["counts"].get("done", 0) > 1
        )
        lease = json.loads(cluster.kubectl("get", "lease", "injector-upgrades", "-n", HOME, "-o", "json").stdout)[
            "spec"
        ]
        leader = next(server for server in servers if f"{lease['holderIdentity']} holds" in server.log.read_text())
        leader.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        world.until(lambda: world.state("up").get("phase") == "Completed")
        figure(f"the leader was stopped: another one completed the upgrade {time.monotonic() - stopped:.0f} s later")
        leader.process.send_signal(signal.SIGCONT)
        world.until(lambda: "lost Lease" in leader.log.read_text())
        # Events are written beside the loop, some time after the state.
        world.until(lambda: events()["UpgradeCompleted", "Namespace"])
    assert world.revisions() == {NEW: PODS}
    assert set(world.templates().values()) == {2}
    counts = events()
    # The event of a restart is missing if the leader was stopped between the two.
    restarted = sum(counts["UpgradeRestarted", kind] for kind in ("Deployment", "StatefulSet", "DaemonSet"))
    assert len(FLEET) - 1 <= restarted <= len(FLEET)
    assert {reason for reason, kind in counts if kind == "Namespace"} == {
        "UpgradeRestarting", "UpgradeSoaking", "UpgradePaused", "UpgradeCompleted",
    }  # fmt: skip


@dataclass
class Script:
    """A plain restarter, as fortsa is (commit 5a1ead4, internal/podscanner/pod_scanner.go and internal/annotator/workload_annotator.go).

    It compares the image of each pod's proxy with the one that the webhook gives now, and sets an annotation with the current time.
    """

    world: World
    workloads: dict[str, dict[str, Any]]

    def pods(self, name: str) -> list[dict[str, Any]]:
        meta = self.workloads[name]["metadata"]
        pods = self.world.cluster.items(f"/api/v1/namespaces/{meta['namespace']}/pods?labelSelector=app={meta['name']}")
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    def expected(self, name: str) -> str:
        """The image of a new pod's proxy."""
        obj = self.workloads[name]
        template = obj["spec"]["template"]
        meta = {**template["metadata"], "generateName": "x-", "namespace": obj["metadata"]["namespace"]}
        return str(
            proxy_of(self.world.cluster.tried({**template, "apiVersion": "v1", "kind": "Pod", "metadata": meta}))[
                "image"
            ]
        )

    def outdated(self) -> set[str]:
        owned = [name for name, obj in self.workloads.items() if obj["kind"] != "Pod"]
        return {name for name in owned if any(proxy_of(pod)["image"] != self.expected(name) for pod in self.pods(name))}

    def scan(self) -> set[str]:
        """Restart what is outdated, and return it."""
        names = self.outdated()
        for name in names:
            meta, at = self.workloads[name]["metadata"], {"fortsa.scaffidi.net/restartedAt": str(time.time())}
            patch = json.dumps({"spec": {"template": {"metadata": {"annotations": at}}}})
            kind = self.workloads[name]["kind"]
            self.world.cluster.kubectl(
                "patch", kind, meta["name"], "-n", meta["namespace"], "--type=merge", "-p", patch
            )
        return names


def test_a_plain_restart_script_restarts_too_much_and_too_little(world: World, figure: Figure) -> None:
    cluster = world.cluster
    image = '"{{ annotation .ObjectMeta `sidecar.istio.io/proxyImage` (printf `proxy:%s` .Values.global.tag) }}"'
    config = CONFIG.replace("proxy:{{ .Values.global.tag }}", image)
    for revision, tag in ((OLD, "1.28.0"), (NEW, "1.30.1")):
        cluster.apply(*control_plane(HOME, revision, tag=tag, config=config))
    own = workload("Deployment", "own-image", "shop", replicas=2)
    own["spec"]["template"]["metadata"]["annotations"] = {"sidecar.istio.io/proxyImage": "proxy:own"}
    halted = workload("Deployment", "halted", "pay", replicas=2)
    special = (
        own,
        halted,
        workload("StatefulSet", "on-delete", "shop", replicas=2, updateStrategy={"type": "OnDelete"}),
        workload("Deployment", "slow", "pay", replicas=2, pod={"nodeSelector": {"cluster": "open"}}),
        make_object("Pod", "bare", "shop", {"app": "bare"}, spec={"containers": [make_container()]}),
    )
    script = Script(world, {name_of(item): item for item in (*FLEET, *special)})
    world.until(lambda: script.expected(name_of(own)) == "proxy:own")
    cluster.kubectl("label", "nodes", "--all", "cluster=open")
    cluster.apply(*special)
    world.until_running({OLD: PODS + 9})
    cluster.apply({**halted, "spec": {**halted["spec"], "paused": True}})
    cluster.kubectl("label", "nodes", "--all", "cluster-")  # new pods of `slow` have no place
    stuck = {"StatefulSet shop/on-delete", "Deployment pay/halted"}
    bare = {"Pod shop/bare"}

    plan = json.loads(world.injector("upgrade", "plan", str(world.document("plan")), "-o", "json").stdout)
    actions = {f"{row['kind']} {row['namespace']}/{row['name']}": row["action"] for row in plan["workloads"]}
    assert actions == {name: "blocked" if name in stuck | bare else "restart" for name in script.workloads}

    assert world.injector("tag", "set", "prod", "--revision", NEW, "--overwrite", "-y").exit_code == 0
    world.until(lambda: script.expected(name_of(FLEET[0])) == "proxy:1.30.1")
    first = script.scan()
    assert first == script.workloads.keys() - {name_of(own)} - bare
    world.until(lambda: script.outdated() == stuck | {"Deployment pay/slow"})
    second = script.scan()
    assert second == stuck | {"Deployment pay/slow"}
    unmoved = {name for name in script.workloads if OLD in {injected_revision(pod) for pod in script.pods(name)}}
    assert unmoved == second | {name_of(own)} | bare
    figure(
        f"a plain restart script: {len(first)} of {len(script.workloads)} workloads at once, {len(second)} again and again"
    )
