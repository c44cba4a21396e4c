"""``injector upgrade`` on a real API server with controllers, a scheduler and nodes."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from injector.cli import main
from injector.injection.tools.drift import injected_revision
from injector.istio.webhooks import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from tests.architecture.serving import free_ports
from tests.e2e.kubelab import Lab, running
from tests.e2e.manifests import control_plane, made, namespace_of
from tests.e2e.served import ROOT, injector, of_cluster, until
from tests.factories import make_container
from tests.webhook.certificates import Order, issue

HOME = "istio-system"
OLD, NEW = "1-28", "1-30"
PLACES = ("dev", "shop", "pay")
RUN_LIMIT = 400.0


@dataclass
class World:
    """A cluster with two revisions, an injector, and the tag prod, which three namespaces use."""

    lab: Lab
    webhooks: WebhookOptions
    folder: Path

    def injector(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--kubeconfig", str(self.lab.kubeconfig)])

    def document(self, name: str, *waves: dict[str, Any], **spec: Any) -> Path:
        path = self.folder / f"{name}.yaml"
        head = {"apiVersion": "revision-injector.dev/v1alpha1", "kind": "Upgrade", "metadata": {"name": name}}
        own = {"tag": "prod", "from": OLD, "to": NEW, "waves": list(waves) or [{"name": "all"}], "soak": "1s"}
        path.write_text(yaml.safe_dump({**head, "spec": {**own, **spec}}))
        return path

    def start(self, document: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "injector", "upgrade", "run", str(document)]
        command += ["--kubeconfig", str(self.lab.kubeconfig)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, document: Path) -> tuple[int, str]:
        """Run an upgrade to its end; the exit code and everything that it said."""
        process = self.start(document)
        said, _ = process.communicate(timeout=RUN_LIMIT)
        return process.returncode, said

    def state(self, name: str) -> dict[str, Any]:
        done = self.injector("upgrade", "status", name, "-o", "json")
        return json.loads(done.stdout) if done.exit_code == 0 else {}

    def items(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.lab.kubectl("get", kind, "-A", "-o", "json").stdout)["items"]
        return [each for each in found if each["metadata"]["namespace"] in PLACES]

    def revisions(self) -> Counter[str | None]:
        """The running pods by the revision of their sidecar."""
        pods = [each for each in self.items("pods") if not each["metadata"].get("deletionTimestamp")]
        return Counter(injected_revision(each) for each in pods)

    def templates(self) -> dict[str, int]:
        """How many pod templates each workload had: one more than its restarts."""
        found: Counter[str] = Counter()
        for each in (*self.items("replicasets"), *self.items("controllerrevisions")):
            (owner,) = each["metadata"]["ownerReferences"]
            found[f"{owner['kind']} {each['metadata']['namespace']}/{owner['name']}"] += 1
        return dict(found)

    def settled(self) -> bool:
        """Whether all pods of all workloads are available."""
        status = [each["status"] for each in (*self.items("deployments"), *self.items("statefulsets"))]
        daemons = [each["status"] for each in self.items("daemonsets")]
        return all(each.get("availableReplicas", 0) == each.get("replicas", -1) for each in status) and all(
            each.get("numberAvailable", 0) == each.get("desiredNumberScheduled", -1) for each in daemons
        )


def workload(kind: str, name: str, place: str, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [make_container()], **spec.pop("pod", {})}}
    own = {"selector": {"matchLabels": labels}, "template": template, **spec}
    if kind != "DaemonSet":
        own["replicas"] = replicas
    if kind == "StatefulSet":
        own["serviceName"] = name
    return {**made(kind, name, place), "apiVersion": "apps/v1", "spec": own}


FLEET = (
    *(workload("Deployment", f"web-{number}", place) for place in PLACES for number in range(3)),
    *(workload("StatefulSet", "db", place) for place in PLACES),
    workload("DaemonSet", "agent", "shop"),
)


@pytest.fixture
def world(built: None, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A fleet on the old revision."""
    del built
    lab = Lab(tmp_path_factory.mktemp("nodes"), controllers=True, nodes=3)
    (port,) = free_ports(1)
    issued = issue(Order(names=("127.0.0.1",)))
    bundle = base64.b64encode(issued.chain_pem).decode()
    options = WebhookOptions(Endpoint(url=f"https://127.0.0.1:{port}"), ca_bundle=bundle)
    certificate, key = map(str, issued.write(tmp_path))
    flags = ("--tlsCertFile", certificate, "--tlsKeyFile", key, *of_cluster(lab, HOME))
    world = World(lab, options, tmp_path)
    with running(lab):
        lab.apply(namespace_of(HOME), *control_plane(HOME, OLD, tag="1.28.0"), *control_plane(HOME, NEW, tag="1.30.1"))
        lab.apply(tag_webhook("prod", OLD, options), *(revision_webhook(name, options) for name in (OLD, NEW)))
        lab.apply(*(namespace_of(place, {"istio.io/rev": "prod"}) for place in PLACES))
        with injector(tmp_path, *flags, port=port):
            lab.apply(*FLEET)
            until(lambda: world.settled() and world.revisions() == {OLD: PODS})
            yield world


PODS = 9 * 2 + 3 * 2 + 3


@dataclass
class Watcher:
    """An independent observer of the limits."""

    world: World
    restarting: int = 0
    unavailable: int = 0
    _end: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self._end.wait(0.1):
            rolling, away = 0, 0
            for each in (*self.world.items("deployments"), *self.world.items("statefulsets")):
                status, wanted = each["status"], each["spec"]["replicas"]
                is_new = status.get("observedGeneration", 0) >= each["metadata"]["generation"]
                updated = status.get("updatedReplicas", 0)
                is_done = (
                    is_new and updated == status.get("replicas", 0) == status.get("availableReplicas", 0) == wanted
                )
                rolling += not (is_done or status.get("currentRevision") == status.get("updateRevision") != None)  # noqa: E711
                away += wanted - status.get("availableReplicas", 0)
            self.restarting, self.unavailable = max(self.restarting, rolling), max(self.unavailable, away)

    @contextmanager
    def running(self) -> Iterator[Watcher]:
        thread = threading.Thread(target=self.watch)
        thread.start()
        try:
            yield self
        finally:
            self._end.set()
            thread.join()


def test_a_fleet_moves_by_namespaces_within_the_limits_though_its_runner_is_killed(world: World) -> None:
    limits = {"workloads": 3, "unavailablePods": 3, "unavailablePodsPerNamespace": 2}
    document = world.document("fleet", {"namespaces": ["dev"]}, {"name": "rest"}, limits=limits)
    chance = random.Random(18)  # noqa: S311 -- the same moments in every run
    with Watcher(world).running() as watcher:
        for _ in range(6):
            first, second = world.start(document), world.start(document)
            time.sleep(chance.uniform(2, 9))
            for each in (first, second):
                each.kill()
                each.communicate()
        code, said = world.run(document)

    assert (code, world.state("fleet")["phase"]) == (0, "Completed"), said
    assert world.revisions() == {NEW: PODS}
    assert world.templates() == {
        f"{each['kind']} {each['metadata']['namespace']}/{each['metadata']['name']}": 2 for each in FLEET
    }
    assert watcher.restarting <= 3
    assert watcher.unavailable <= 3
    tag = world.lab.get("mutatingwebhookconfiguration", "istio-revision-tag-prod")["metadata"]
    assert tag["labels"]["istio.io/rev"] == NEW
    assert not any(tag.get("annotations", {}).get(f"revision-injector/{name}") for name in ("weights", "namespaces"))


def test_a_rollout_that_hangs_pauses_the_upgrade_and_a_rollback_brings_all_back(world: World) -> None:
    world.lab.kubectl("label", "nodes", "--all", "lab=open")
    world.lab.apply(workload("Deployment", "stuck", "shop", 3, pod={"nodeSelector": {"lab": "open"}}))
    until(world.settled)
    world.lab.kubectl("label", "nodes", "--all", "lab-")  # new pods have no place, running ones stay
    document = world.document("stuck", {"namespaces": ["dev"]}, {"name": "rest"}, timeout="20s")

    code, said = world.run(document)
    state = world.state("stuck")
    assert (code, state["phase"]) == (1, "Paused"), said
    assert state["reason"] == "Deployment shop/stuck: not complete after 20 s: 3 pods are left, 0 are not available"
    moved = world.revisions()
    assert moved[NEW] >= 8
    assert moved[OLD] >= 3

    before = world.templates()
    world.lab.kubectl("label", "nodes", "--all", "lab=open")
    assert world.injector("upgrade", "rollback", "stuck").exit_code == 0
    code, said = world.run(document)
    assert (code, world.state("stuck")["phase"]) == (1, "RolledBack"), said
    until(lambda: world.revisions() == {OLD: PODS + 3})
    assert all(count <= before[name] + 1 for name, count in world.templates().items())
    tag = world.lab.get("mutatingwebhookconfiguration", "istio-revision-tag-prod")["metadata"]
    assert tag["labels"]["istio.io/rev"] == OLD


def test_budgets_are_waited_for_and_a_pod_that_is_refused_stops_the_wave_before_it_moves(world: World) -> None:
    selector = {"matchLabels": {"app": "web-0"}}
    budget = {**made("PodDisruptionBudget", "all", "shop"), "apiVersion": "policy/v1"}
    world.lab.apply({**budget, "spec": {"selector": selector, "maxUnavailable": 0}})
    process = world.start(world.document("budget"))
    try:
        until(lambda: "waiting for PodDisruptionBudget shop/all" in world.state("budget").get("reason", ""))
        assert world.templates()["Deployment shop/web-0"] == 1
        world.lab.apply({**budget, "spec": {"selector": selector, "maxUnavailable": 1}})
        said, _ = process.communicate(timeout=RUN_LIMIT)
    finally:
        process.kill()
    assert world.state("budget")["phase"] == "Completed", said

    enforced = {"istio.io/rev": "prod", "pod-security.kubernetes.io/enforce": "restricted"}
    world.lab.apply(namespace_of("pay", enforced))
    back = world.document("back", {"namespaces": ["pay"]}, {"name": "rest"}, **{"from": NEW, "to": OLD})
    code, said = world.run(back)
    assert (code, world.state("back")["phase"]) == (1, "Paused"), said
    assert "preflight: Deployment pay/web-0: the API server refuses its pod" in world.state("back")["reason"]
    assert "violates PodSecurity" in world.state("back")["reason"]
    assert world.revisions() == {NEW: PODS}
