"""``injector upgrade`` on a real API server with controllers, a scheduler and nodes."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from injector.cli import main
from injector.cluster.client import KubeClient
from injector.injection.tools.drift import injected_revision
from injector.istio.webhooks import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from tests.architecture.serving import free_ports
from tests.deploy.rendering import rendered
from tests.e2e.conftest import Figure
from tests.e2e.kubelab import Lab, running
from tests.e2e.manifests import control_plane, made, namespace_of
from tests.e2e.policies import admission_policy
from tests.e2e.served import ROOT, Injector, injector, of_cluster, started, until
from tests.factories import make_container, make_pod
from tests.revisions.fakes import CONFIG
from tests.webhook.certificates import Order, issue

HOME = "istio-system"
OLD, NEW = "1-28", "1-30"
CRD = ROOT / "deploy" / "chart" / "crds" / "upgrades.yaml"
LONG = bool(os.environ.get("E2E_LONG"))
KILLS = 50 if LONG else 5
HOLD = 30.0 if LONG else 0.0
"""Seconds for which a PodDisruptionBudget allows nothing, after it is waited for."""
PLACES = ("dev", "shop", "pay")
RUN_LIMIT = 400.0


@dataclass
class World:
    """A cluster with two revisions, an injector, and the tag prod, which three namespaces use."""

    lab: Lab
    webhooks: WebhookOptions
    folder: Path
    places: AbstractSet[str]
    serve: Callable[[], AbstractContextManager[Injector]]
    replica: ExitStack = field(default_factory=ExitStack)
    """Ends the injector that runs."""

    server: Injector = field(init=False)

    def start_injector(self) -> None:
        self.server = self.replica.enter_context(self.serve())

    def injector(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--kubeconfig", str(self.lab.kubeconfig)])

    def document(self, name: str, *waves: dict[str, Any], **spec: Any) -> Path:
        path = self.folder / f"{name}.yaml"
        head = {"apiVersion": "revision-injector.dev/v1alpha1", "kind": "Upgrade", "metadata": {"name": name}}
        own = {"tag": "prod", "from": OLD, "to": NEW, "waves": list(waves) or [{"name": "all"}], "soak": "1s"}
        path.write_text(yaml.safe_dump({**head, "spec": {**own, **spec}}))
        return path

    def resource(self, name: str, *waves: dict[str, Any], **spec: Any) -> str:
        """The same as a resource of the cluster; its name."""
        self.lab.kubectl("apply", "-f", str(CRD))
        self.lab.kubectl("wait", "--for=condition=Established", "crd/upgrades.revision-injector.dev")
        self.lab.apply(yaml.safe_load(self.document(name, *waves, **spec).read_text()))
        return name

    def start(self, document: Path | str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "injector", "upgrade", "run", str(document)]
        command += ["--kubeconfig", str(self.lab.kubeconfig)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, document: Path | str) -> tuple[int, str]:
        """Run an upgrade to its end; the exit code and everything that it said."""
        process = self.start(document)
        said, _ = process.communicate(timeout=RUN_LIMIT)
        return process.returncode, said

    def state(self, name: str) -> dict[str, Any]:
        done = self.injector("upgrade", "status", name, "-o", "json")
        return json.loads(done.stdout) if done.exit_code == 0 else {}

    def items(self, kind: str) -> list[dict[str, Any]]:
        found = self.lab.items(f"/api/v1/{kind}" if kind == "pods" else f"/apis/apps/v1/{kind}")
        return [each for each in found if each["metadata"]["namespace"] in self.places]

    def revisions(self) -> Counter[str | None]:
        """The running pods by the revision of their sidecar."""
        pods = [each for each in self.items("pods") if not each["metadata"].get("deletionTimestamp")]
        return Counter(injected_revision(each) for each in pods)

    def outdated(self, place: str) -> set[str]:
        """The workloads of a namespace that have pods of the old revision."""
        pods = [each for each in self.items("pods") if not each["metadata"].get("deletionTimestamp")]
        old = [each["metadata"] for each in pods if injected_revision(each) == OLD]
        return {each["labels"]["app"] for each in old if each["namespace"] == place}

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


def fleet_of(
    places: Sequence[str], deployments: int, stateful_sets: int, daemon_sets: int
) -> tuple[dict[str, Any], ...]:
    """Workloads, in turn in each of the places. Deployments and StatefulSets have two pods, and DaemonSets one on each of three nodes."""
    kinds = {
        "Deployment": ("web", deployments),
        "StatefulSet": ("db", stateful_sets),
        "DaemonSet": ("agent", daemon_sets),
    }
    return tuple(
        workload(kind, f"{name}-{number // len(places)}", places[number % len(places)])
        for kind, (name, count) in kinds.items()
        for number in range(count)
    )


def pods_of(fleet: Sequence[dict[str, Any]]) -> int:
    return sum(3 if each["kind"] == "DaemonSet" else each["spec"]["replicas"] for each in fleet)


FLEET = fleet_of(PLACES, 9, 3, 1)
PODS = pods_of(FLEET)
PODS_OF_DEV = pods_of([each for each in FLEET if each["metadata"]["namespace"] == "dev"])


@pytest.fixture(scope="module")
def shared_nodes(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A cluster with three nodes, for all tests of this module."""
    del built
    with running(Lab(tmp_path_factory.mktemp("nodes"), controllers=True, nodes=3)) as lab:
        yield lab


@pytest.fixture
def nodes(shared_nodes: Lab) -> Lab:
    """The cluster with three nodes, as it was when it started."""
    shared_nodes.delete_namespaces()
    shared_nodes.restore()
    return shared_nodes


@contextmanager
def world_of(lab: Lab, fleet: Sequence[dict[str, Any]], folder: Path) -> Iterator[World]:
    """A fleet on the old revision, on a cluster that holds nothing else."""
    pods = pods_of(fleet)
    (port,) = free_ports(1)
    issued = issue(Order(names=("127.0.0.1",)))
    bundle = base64.b64encode(issued.chain_pem).decode()
    options = WebhookOptions(Endpoint(url=f"https://127.0.0.1:{port}"), ca_bundle=bundle)
    certificate, key = map(str, issued.write(folder))
    flags = ("--tlsCertFile", certificate, "--tlsKeyFile", key, "--watch-drift", *of_cluster(lab, HOME))
    places = {each["metadata"]["namespace"] for each in fleet}
    world = World(lab, options, folder, places, partial(injector, folder, *flags, port=port))
    with world.replica:
        lab.apply(namespace_of(HOME), *control_plane(HOME, OLD, tag="1.28.0"), *control_plane(HOME, NEW, tag="1.30.1"))
        lab.apply(tag_webhook("prod", OLD, options), *(revision_webhook(name, options) for name in (OLD, NEW)))
        lab.apply(*(namespace_of(place, {"istio.io/rev": "prod"}) for place in places))
        world.start_injector()
        for start in range(0, len(fleet), 100):
            lab.apply(*fleet[start : start + 100])
        until(lambda: world.settled() and world.revisions() == {OLD: pods})
        yield world


@pytest.fixture
def world(nodes: Lab, tmp_path: Path) -> Iterator[World]:
    """The small fleet."""
    with world_of(nodes, FLEET, tmp_path) as made:
        yield made


PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")


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
        return urllib.request.urlopen(f"{self.world.lab.url}{path}", context=self.world.lab.tls)  # noqa: S310 -- loopback

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


def test_a_fleet_moves_by_namespaces_within_the_limits_though_its_runners_are_killed(
    nodes: Lab, tmp_path: Path, figure: Figure
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
    listed = world.lab.kubectl("get", "upgrades").stdout.splitlines()
    assert [line.split()[:4] for line in listed] == [["NAME", "FROM", "TO", "PHASE"], ["fleet", OLD, NEW, "Completed"]]
    changed = {"spec": {"waves": [{"name": "all"}]}}
    refused = world.lab.kubectl("patch", "upgrade", "fleet", "--type=merge", "-p", json.dumps(changed))
    assert "its tag, from, to and waves must stay" in refused.stderr
    tag = world.lab.get("mutatingwebhookconfiguration", "istio-revision-tag-prod")["metadata"]
    assert tag["labels"]["istio.io/rev"] == NEW
    assert not any(tag.get("annotations", {}).get(f"revision-injector/{name}") for name in ("weights", "namespaces"))


def _has_done(world: World, name: str, fleet: Sequence[dict[str, Any]], count: int) -> bool:
    """Whether so many workloads are done, as the state of the upgrade says."""
    state = world.state(name)
    return not count or (bool(state.get("total")) and len(fleet) - state["left"] >= count)


def test_an_injector_that_is_down_stops_the_preflight_and_one_that_is_restarted_loses_no_pod(world: World) -> None:
    document = world.document("down", {"namespaces": ["dev"]}, {"name": "rest"})
    world.replica.close()
    code, said = world.run(document)
    assert (code, world.state("down")["phase"]) == (1, "Paused"), said
    reason = world.state("down")["reason"]
    assert reason.startswith("preflight: DaemonSet dev/agent-0: the API server refuses its pod: "), reason
    assert 'failed calling webhook "rev.namespace.sidecar-injector.istio.io"' in reason, reason
    assert (world.revisions(), set(world.templates().values())) == ({OLD: PODS}, {1})

    world.start_injector()
    world.injector("upgrade", "resume", "down")
    with Watcher(world).running() as watcher:
        runner = world.start(document)
        for done in (2, 7):
            until(partial(_has_done, world, "down", FLEET, done))
            world.replica.close()
            time.sleep(3)
            world.start_injector()
        said, _ = runner.communicate(timeout=RUN_LIMIT)
    assert (runner.returncode, world.state("down")["phase"]) == (0, "Completed"), said
    assert (world.revisions(), set(world.templates().values())) == ({NEW: PODS}, {2})
    assert not watcher.wrong


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
    labels = {"from": OLD, "to": NEW}
    left = len(world.outdated("shop"))
    until(lambda: world.server.total("injector_drift_workloads", namespace="shop", **labels) == left)
    assert world.server.total("injector_drift_workloads", namespace="dev") == 0

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
        time.sleep(HOLD)
        assert world.templates()["Deployment shop/web-0"] == 1
        world.lab.apply({**budget, "spec": {"selector": selector, "maxUnavailable": 1}})
        said, _ = process.communicate(timeout=RUN_LIMIT)
    finally:
        process.kill()
    assert world.state("budget")["phase"] == "Completed", said

    world.lab.apply(*admission_policy("pay", "false"))
    until(lambda: "no-net-admin" in world.lab.refusal(make_pod(namespace="pay"), "pay"))
    back = world.document("back", {"namespaces": ["pay"]}, {"name": "rest"}, **{"from": NEW, "to": OLD})
    code, said = world.run(back)
    assert (code, world.state("back")["phase"]) == (1, "Paused"), said
    assert "preflight: Deployment pay/web-0: the API server refuses its pod" in world.state("back")["reason"]
    assert "ValidatingAdmissionPolicy 'no-net-admin'" in world.state("back")["reason"]
    assert world.revisions() == {NEW: PODS}


def test_controllers_with_the_permissions_of_the_chart_run_a_resource_although_the_leader_stops(
    world: World, figure: Figure
) -> None:
    lab, home = world.lab, "injector-system"

    def grant(*namespaces: str) -> None:
        values = {"fromCluster": {"enabled": True}, "upgrades": {"enabled": True, "namespaces": list(namespaces)}}
        granted = [each for each in rendered(values) if each["kind"] == "ServiceAccount" or "Role" in each["kind"]]
        lab.apply(namespace_of(home), *granted)

    def shows_the_pause(server: Injector) -> bool:
        rows = [(each["name"], each["phase"], each["left"]) for each in server.status()["upgrades"]]
        metric = 'injector_upgrade_phase{phase="Paused",upgrade="up"} 1.0'
        return rows == [("up", "Paused", 13)] and metric in server.text("/metrics")

    def events() -> Counter[tuple[str, str]]:
        found = lab.items("/api/v1/events")
        return Counter((each["reason"], each["involvedObject"]["kind"]) for each in found)

    grant("dev", "shop")
    account = lab.kubeconfig_of("injector", home)
    flags = ("--insecure-http", "--upgrades", *of_cluster(lab, HOME, kubeconfig=account))
    lab.kubectl("apply", "-f", str(CRD))
    with ExitStack() as replicas:
        servers = []
        for name in ("a", "b"):
            (world.folder / name).mkdir()
            servers.append(replicas.enter_context(injector(world.folder / name, *flags)))
        world.resource("up", {"namespaces": ["dev"]}, {"name": "rest"})
        until(lambda: world.state("up").get("phase") == "Paused")
        assert world.state("up")["reason"] == "preflight: no permission to create pods in namespace pay (and 2 more)"
        assert (world.revisions(), set(world.templates().values())) == ({OLD: PODS}, {1})
        for server in servers:
            until(partial(shows_the_pause, server))  # each has a watch of its own

        grant("dev", "shop", "pay")
        world.injector("upgrade", "resume", "up")
        until(lambda: world.state("up").get("step") == "Restarting" and world.state("up")["counts"].get("done", 0) > 1)
        lease = json.loads(lab.kubectl("get", "lease", "injector-upgrades", "-n", HOME, "-o", "json").stdout)["spec"]
        leader = next(each for each in servers if f"{lease['holderIdentity']} holds" in each.log.read_text())
        leader.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        until(lambda: world.state("up").get("phase") == "Completed")
        figure(f"the leader was stopped: another one completed the upgrade {time.monotonic() - stopped:.0f} s later")
        leader.process.send_signal(signal.SIGCONT)
        until(lambda: "lost Lease" in leader.log.read_text())
        # Events are written beside the loop, some time after the state.
        until(lambda: events()["UpgradeCompleted", "Namespace"])
    assert world.revisions() == {NEW: PODS}
    assert set(world.templates().values()) == {2}
    found = events()
    # The event of a restart is missing if the leader was stopped between the two.
    restarted = sum(found["UpgradeRestarted", kind] for kind in ("Deployment", "StatefulSet", "DaemonSet"))
    assert len(FLEET) - 1 <= restarted <= len(FLEET)
    assert {reason for reason, kind in found if kind == "Namespace"} == {
        "UpgradeRestarting", "UpgradeSoaking", "UpgradePaused", "UpgradeCompleted",
    }  # fmt: skip


def name_of(obj: dict[str, Any]) -> str:
    return f"{obj['kind']} {obj['metadata']['namespace']}/{obj['metadata']['name']}"


def proxy_of(pod: dict[str, Any]) -> str:
    return str(next(each["image"] for each in pod["spec"]["containers"] if each["name"] == "istio-proxy"))


@dataclass
class Script:
    """A plain restarter, as fortsa is (commit 5a1ead4, internal/podscanner/pod_scanner.go and internal/annotator/workload_annotator.go).

    It compares the image of each pod's proxy with the one that the webhook gives now, and sets an annotation with the current time.
    """

    world: World
    workloads: dict[str, dict[str, Any]]

    def pods(self, name: str) -> list[dict[str, Any]]:
        meta = self.workloads[name]["metadata"]
        pods = self.world.lab.items(f"/api/v1/namespaces/{meta['namespace']}/pods?labelSelector=app={meta['name']}")
        return [each for each in pods if not each["metadata"].get("deletionTimestamp")]

    def expected(self, name: str) -> str:
        """The image of a new pod's proxy."""
        obj = self.workloads[name]
        template = obj["spec"]["template"]
        meta = {**template["metadata"], "generateName": "x-", "namespace": obj["metadata"]["namespace"]}
        return proxy_of(self.world.lab.tried({**template, "apiVersion": "v1", "kind": "Pod", "metadata": meta}))

    def outdated(self) -> set[str]:
        owned = [name for name, obj in self.workloads.items() if obj["kind"] != "Pod"]
        return {name for name in owned if any(proxy_of(pod) != self.expected(name) for pod in self.pods(name))}

    def scan(self) -> set[str]:
        """Restart what is outdated, and return it."""
        found = self.outdated()
        for name in found:
            meta, at = self.workloads[name]["metadata"], {"fortsa.scaffidi.net/restartedAt": str(time.time())}
            patch = json.dumps({"spec": {"template": {"metadata": {"annotations": at}}}})
            kind = self.workloads[name]["kind"]
            self.world.lab.kubectl("patch", kind, meta["name"], "-n", meta["namespace"], "--type=merge", "-p", patch)
        return found


def test_a_plain_restart_script_restarts_too_much_and_too_little(world: World, figure: Figure) -> None:
    lab = world.lab
    image = '"{{ annotation .ObjectMeta `sidecar.istio.io/proxyImage` (printf `proxy:%s` .Values.global.tag) }}"'
    config = CONFIG.replace("proxy:{{ .Values.global.tag }}", image)
    for revision, tag in ((OLD, "1.28.0"), (NEW, "1.30.1")):
        lab.apply(*control_plane(HOME, revision, tag=tag, config=config))
    own = workload("Deployment", "own-image", "shop")
    own["spec"]["template"]["metadata"]["annotations"] = {"sidecar.istio.io/proxyImage": "proxy:own"}
    halted = workload("Deployment", "halted", "pay")
    special = (
        own,
        halted,
        workload("StatefulSet", "on-delete", "shop", updateStrategy={"type": "OnDelete"}),
        workload("Deployment", "slow", "pay", pod={"nodeSelector": {"lab": "open"}}),
        made("Pod", "bare", "shop", {"app": "bare"}, spec={"containers": [make_container()]}),
    )
    script = Script(world, {name_of(each): each for each in (*FLEET, *special)})
    until(lambda: script.expected(name_of(own)) == "proxy:own")
    lab.kubectl("label", "nodes", "--all", "lab=open")
    lab.apply(*special)
    until(lambda: world.settled() and world.revisions() == {OLD: PODS + 9})
    lab.apply({**halted, "spec": {**halted["spec"], "paused": True}})
    lab.kubectl("label", "nodes", "--all", "lab-")  # new pods of `slow` have no place
    stuck = {"StatefulSet shop/on-delete", "Deployment pay/halted"}
    bare = {"Pod shop/bare"}

    plan = json.loads(world.injector("upgrade", "plan", str(world.document("plan")), "-o", "json").stdout)
    actions = {f"{each['kind']} {each['namespace']}/{each['name']}": each["action"] for each in plan["workloads"]}
    assert actions == {name: "blocked" if name in stuck | bare else "restart" for name in script.workloads}

    assert world.injector("tag", "set", "prod", "--revision", NEW, "--overwrite", "-y").exit_code == 0
    until(lambda: script.expected(name_of(FLEET[0])) == "proxy:1.30.1")
    first = script.scan()
    assert first == script.workloads.keys() - {name_of(own)} - bare
    until(lambda: script.outdated() == stuck | {"Deployment pay/slow"})
    second = script.scan()
    assert second == stuck | {"Deployment pay/slow"}
    left = {name for name in script.workloads if OLD in {injected_revision(pod) for pod in script.pods(name)}}
    assert left == second | {name_of(own)} | bare
    figure(
        f"a plain restart script: {len(first)} of {len(script.workloads)} workloads at once, {len(second)} again and again"
    )


@dataclass
class Exporter:
    """An application with one metric for each namespace, and a Prometheus that reads it."""

    folder: Path
    ratio: float = 0.0
    ports: list[int] = field(default_factory=lambda: free_ports(2))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[1]}"

    def text(self) -> str:
        return "".join(f'app_error_ratio{{namespace="{place}"}} {self.ratio}\n' for place in PLACES)

    @contextmanager
    def serving(self) -> Iterator[None]:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(exporter.text().encode())

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", self.ports[0]), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    @contextmanager
    def prometheus(self) -> Iterator[None]:
        config = self.folder / "prometheus.yaml"
        targets = [{"targets": [f"127.0.0.1:{self.ports[0]}"]}]
        jobs = [{"job_name": "app", "honor_labels": True, "static_configs": targets}]
        config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
        flags = [f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'tsdb'}"]
        command = [str(PROMETHEUS), *flags, f"--web.listen-address=127.0.0.1:{self.ports[1]}"]
        with started(command, self.folder / "prometheus.log", f"{self.url}/-/ready"):
            yield


@pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed: the Debian package prometheus")
def test_a_gate_that_fails_or_has_no_data_and_a_control_plane_that_is_down_stop_the_upgrade(world: World) -> None:
    exporter = Exporter(world.folder, ratio=0.5)
    query = 'max(app_error_ratio{namespace="{{ namespace }}"})'
    gates = {"prometheus": exporter.url, "metrics": [{"name": "errors", "query": query, "max": 0.1}]}
    document = world.document("gated", {"namespaces": ["dev"]}, {"name": "rest"}, gates=gates, soak="4s")

    def stops(reason: str) -> None:
        code, said = world.run(document)
        assert (code, world.state("gated")["phase"]) == (1, "Paused"), said
        assert world.state("gated")["reason"] == reason

    def istiod(*endpoints: dict[str, Any]) -> None:
        labels = {"kubernetes.io/service-name": f"istiod-{NEW}"}
        own = {"apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4", "endpoints": list(endpoints)}
        world.lab.apply({**made("EndpointSlice", f"istiod-{NEW}", HOME, labels), **own})

    with exporter.serving():
        with exporter.prometheus():
            stops("gate errors: dev: 0.5 is above 0.1")
        assert (world.revisions(), world.state("gated")["gates"]) == (
            {NEW: PODS_OF_DEV, OLD: PODS - PODS_OF_DEV}, {"errors": "fail: dev: 0.5 is above 0.1"},
        )  # fmt: skip

        assert world.injector("upgrade", "resume", "gated").exit_code == 0
        stops("gate errors: no data: dev: Prometheus cannot be reached: ClientConnectorError")

        istiod({"addresses": ["10.0.0.1"], "conditions": {"ready": False}})
        assert world.injector("upgrade", "promote", "gated").exit_code == 0
        stops(f"preflight: Service {HOME}/istiod-{NEW} has no ready endpoint")
        assert world.revisions()[OLD] == PODS - PODS_OF_DEV

        exporter.ratio = 0.0
        istiod({"addresses": ["10.0.0.1"], "conditions": {"ready": True}})
        assert world.injector("upgrade", "resume", "gated").exit_code == 0
        with exporter.prometheus():
            code, said = world.run(document)
    assert (code, world.state("gated")["phase"]) == (0, "Completed"), said
    assert world.revisions() == {NEW: PODS}


LARGE_PLACES = [f"place-{number}" for number in range(60)]
LARGE = fleet_of(LARGE_PLACES, 500, 40, 10)
LARGE_WAVES: dict[str, list[dict[str, Any]]] = {
    "weights": [{"weight": 10}, {"weight": 50}, {"weight": 100}],
    "namespaces": [{"namespaces": LARGE_PLACES[:6]}, {"namespaces": LARGE_PLACES[6:30]}, {"name": "rest"}],
}


@pytest.mark.skipif(not LONG, reason="it takes ten minutes: set E2E_LONG=1")
@pytest.mark.parametrize("sort", LARGE_WAVES)
def test_a_large_fleet_moves_and_each_workload_is_restarted_once(
    sort: str, nodes: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> None:
    requests: list[float] = []
    send = KubeClient._requested

    def counted(self: KubeClient, *arguments: Any, **named: Any) -> Any:
        requests.append(time.monotonic())
        return send(self, *arguments, **named)

    limits = {"workloads": 40, "unavailablePods": 60, "unavailablePodsPerNamespace": 5}
    with world_of(nodes, LARGE, tmp_path) as world:
        document = world.document("large", *LARGE_WAVES[sort], limits=limits)
        monkeypatch.setattr(KubeClient, "_requested", counted)
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
