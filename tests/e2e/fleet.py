"""A fleet of workloads in a cluster with nodes, two revisions and an injector, for upgrades."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from click.testing import Result

from injector.injection.tools.drift import injected_revision
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from tests.architecture.serving import free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.served import ROOT, Injector, certificate, injector, of_cluster, run, until
from tests.e2e.webhooks import wait_for_webhooks
from tests.factories import make_pod
from tests.manifests import control_plane, namespace_of, workload
from tests.revisions.fakes import CONFIG

HOME = "istio-system"
OLD, NEW = "1-28", "1-30"
CRD = ROOT / "deploy" / "chart" / "crds" / "upgrades.yaml"
LONG = bool(os.environ.get("E2E_LONG"))
PLACES = ("dev", "shop", "pay")
WAVES: tuple[dict[str, Any], ...] = ({"namespaces": ["dev"]}, {"name": "rest"})
ONE_BY_ONE = {"workloads": 1}
"""Limits that leave time to stop an upgrade. It goes on with a document without them, which is several times faster."""
RUN_LIMIT = 2400.0
COUNTS = {
    "deployments": ("replicas", "availableReplicas"),
    "statefulsets": ("replicas", "availableReplicas"),
    "daemonsets": ("desiredNumberScheduled", "numberAvailable"),
}
"""The fields of a workload's status with the pods that it has, and with those that are available."""


@dataclass
class World:
    """A cluster with two revisions, an injector, and the tag prod, which three namespaces use."""

    cluster: Cluster
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
        return run(self.cluster, *arguments)

    def document(self, name: str, *waves: dict[str, Any], **spec: Any) -> Path:
        path = self.folder / f"{name}.yaml"
        head = {"apiVersion": "revision-injector.dev/v1alpha1", "kind": "Upgrade", "metadata": {"name": name}}
        own = {"tag": "prod", "from": OLD, "to": NEW, "waves": list(waves) or [{"name": "all"}], "soak": "1s"}
        path.write_text(yaml.safe_dump({**head, "spec": {**own, **spec}}))
        return path

    def resource(self, name: str, *waves: dict[str, Any], **spec: Any) -> str:
        """The same as a resource of the cluster; its name."""
        self.cluster.apply(yaml.safe_load(self.document(name, *waves, **spec).read_text()))
        return name

    def start(self, document: Path | str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "injector", "upgrade", "run", str(document)]
        command += ["--kubeconfig", str(self.cluster.kubeconfig)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, document: Path | str) -> tuple[int, str]:
        """Run an upgrade to its end; the exit code and everything that it said."""
        process = self.start(document)
        said, _ = process.communicate(timeout=RUN_LIMIT)
        return process.returncode, said

    def state(self, name: str) -> dict[str, Any]:
        done = self.injector("upgrade", "status", name, "-o", "json")
        return json.loads(done.stdout) if done.exit_code == 0 else {}

    def has_done(self, name: str, count: int) -> bool:
        """Tell whether an upgrade restarts workloads, and so many of the wave are done."""
        state = self.state(name)
        return state.get("step") == "Restarting" and state.get("counts", {}).get("done", 0) >= count

    def condition(self, name: str, kind: str) -> str:
        path = f"jsonpath={{.status.conditions[?(@.type=='{kind}')].status}}"
        return self.cluster.kubectl("get", "upgrade", name, "-o", path).stdout

    def items(self, kind: str) -> list[dict[str, Any]]:
        path = f"/api/v1/{kind}" if kind == "pods" else f"/apis/apps/v1/{kind}"
        return [item for item in self.cluster.items(path) if item["metadata"]["namespace"] in self.places]

    def revisions(self) -> Counter[str | None]:
        """The running pods by the revision of their sidecar."""
        pods = [pod for pod in self.items("pods") if not pod["metadata"].get("deletionTimestamp")]
        return Counter(injected_revision(pod) for pod in pods)

    def outdated(self, place: str) -> set[str]:
        """The workloads of a namespace that have pods of the old revision."""
        pods = [pod for pod in self.items("pods") if not pod["metadata"].get("deletionTimestamp")]
        old = [pod["metadata"] for pod in pods if injected_revision(pod) == OLD]
        return {meta["labels"]["app"] for meta in old if meta["namespace"] == place}

    def templates(self) -> dict[str, int]:
        """How many pod templates each workload had: one more than its restarts."""
        counts: Counter[str] = Counter()
        for template in (*self.items("replicasets"), *self.items("controllerrevisions")):
            (owner,) = template["metadata"]["ownerReferences"]
            counts[f"{owner['kind']} {template['metadata']['namespace']}/{owner['name']}"] += 1
        return dict(counts)

    def unavailable(self) -> list[str]:
        """The workloads that have pods which are not available."""
        return [
            f"{kind} {item['metadata']['namespace']}/{item['metadata']['name']}"
            for kind, (wanted, available) in COUNTS.items()
            for item in self.items(kind)
            if item["status"].get(available, 0) != item["status"].get(wanted, -1)
        ]

    def revision_of_new_pods(self, place: str) -> str | None:
        """The revision whose sidecar the API server's new pods of a namespace get."""
        return injected_revision(self.cluster.tried(make_pod(namespace=place)))

    def until(self, condition: Callable[[], object], runner: subprocess.Popen[str] | None = None) -> None:
        """Wait until a condition is true, while an upgrade is run if there is a runner. The error has the state of the world."""
        until(condition, process=runner, state=self.describe)

    def until_running(self, revisions: dict[str | None, int]) -> None:
        """Wait until all pods of all workloads are available, and so many have the sidecar of each revision."""
        self.until(lambda: not self.unavailable() and self.revisions() == revisions)

    def describe(self) -> str:
        """The upgrades, the pods by revision, the workloads with pods that are not available, and the end of the injector's log."""
        upgrades = self.cluster.items("/apis/revision-injector.dev/v1alpha1/upgrades")
        statuses = {item["metadata"]["name"]: item.get("status") for item in upgrades}
        log = self.server.log.read_text()[-5000:]
        return f"{json.dumps(statuses)}\npods: {self.revisions()}\nnot available: {self.unavailable()}\n{log}"


def fleet_of(
    places: Sequence[str], deployments: int, stateful_sets: int, daemon_sets: int
) -> tuple[dict[str, Any], ...]:
    """Workloads, in turn in each of the places. Deployments and StatefulSets have two pods, and DaemonSets one on each of three nodes."""
    kinds: dict[str, tuple[str, int, dict[str, Any]]] = {
        "Deployment": ("web", deployments, {"replicas": 2}),
        "StatefulSet": ("db", stateful_sets, {"replicas": 2}),
        "DaemonSet": ("agent", daemon_sets, {}),
    }
    return tuple(
        workload(kind, f"{name}-{number // len(places)}", places[number % len(places)], **replicas)
        for kind, (name, count, replicas) in kinds.items()
        for number in range(count)
    )


def pods_of(fleet: Sequence[dict[str, Any]]) -> int:
    return sum(3 if item["kind"] == "DaemonSet" else item["spec"]["replicas"] for item in fleet)


def name_of(obj: dict[str, Any]) -> str:
    return f"{obj['kind']} {obj['metadata']['namespace']}/{obj['metadata']['name']}"


FLEET = fleet_of(PLACES, 9, 3, 1)
PODS = pods_of(FLEET)
PODS_OF_DEV = pods_of([item for item in FLEET if item["metadata"]["namespace"] == "dev"])


@contextmanager
def world_of(
    cluster: Cluster,
    fleet: Sequence[dict[str, Any]],
    folder: Path,
    *,
    account: Path | None = None,
    config: str = CONFIG,
) -> Iterator[World]:
    """A fleet on the old revision, on a cluster that holds nothing else. The injector's account is that of a kubeconfig, if given."""
    pods = pods_of(fleet)
    (port,) = free_ports(1)
    trusted = certificate(folder)
    options = WebhookOptions(Endpoint(url=f"https://127.0.0.1:{port}"), ca_bundle=trusted.bundle)
    flags = (*trusted.flags, "--watch-drift", *of_cluster(cluster, HOME, kubeconfig=account))
    places = {item["metadata"]["namespace"] for item in fleet}
    world = World(cluster, options, folder, places, partial(injector, folder, *flags, port=port))
    with world.replica:
        cluster.apply(namespace_of(HOME))
        for name, version in ((OLD, "1.28.0"), (NEW, "1.30.1")):
            cluster.apply(*control_plane(HOME, name, tag=version, config=config))
        cluster.apply(tag_webhook("prod", OLD, options), *(revision_webhook(name, options) for name in (OLD, NEW)))
        cluster.apply(*(namespace_of(place, {"istio.io/rev": "prod"}) for place in places))
        world.start_injector()
        wait_for_webhooks(cluster)
        for start in range(0, len(fleet), 100):
            cluster.apply(*fleet[start : start + 100])
        world.until_running({OLD: pods})
        yield world
