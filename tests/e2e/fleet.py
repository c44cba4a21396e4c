"""A fleet of workloads in a cluster with nodes, two revisions and an injector, for upgrades."""

from __future__ import annotations

import base64
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
from click.testing import CliRunner, Result

from injector.cli import main
from injector.injection.tools.drift import injected_revision
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from tests.architecture.serving import free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.served import ROOT, Injector, injector, of_cluster, until
from tests.manifests import control_plane, namespace_of, workload
from tests.webhook.certificates import Order, issue

HOME = "istio-system"
OLD, NEW = "1-28", "1-30"
CRD = ROOT / "deploy" / "chart" / "crds" / "upgrades.yaml"
LONG = bool(os.environ.get("E2E_LONG"))
PLACES = ("dev", "shop", "pay")
RUN_LIMIT = 2400.0


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
        return CliRunner().invoke(main, [*arguments, "--kubeconfig", str(self.cluster.kubeconfig)])

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

    def items(self, kind: str) -> list[dict[str, Any]]:
        found = self.cluster.items(f"/api/v1/{kind}" if kind == "pods" else f"/apis/apps/v1/{kind}")
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
    return sum(3 if each["kind"] == "DaemonSet" else each["spec"]["replicas"] for each in fleet)


def name_of(obj: dict[str, Any]) -> str:
    return f"{obj['kind']} {obj['metadata']['namespace']}/{obj['metadata']['name']}"


FLEET = fleet_of(PLACES, 9, 3, 1)
PODS = pods_of(FLEET)
PODS_OF_DEV = pods_of([each for each in FLEET if each["metadata"]["namespace"] == "dev"])


@contextmanager
def world_of(
    cluster: Cluster, fleet: Sequence[dict[str, Any]], folder: Path, *, account: Path | None = None
) -> Iterator[World]:
    """A fleet on the old revision, on a cluster that holds nothing else. The injector's account is that of a kubeconfig, if given."""
    pods = pods_of(fleet)
    (port,) = free_ports(1)
    issued = issue(Order(names=("127.0.0.1",)))
    bundle = base64.b64encode(issued.chain_pem).decode()
    options = WebhookOptions(Endpoint(url=f"https://127.0.0.1:{port}"), ca_bundle=bundle)
    certificate, key = map(str, issued.write(folder))
    source = of_cluster(cluster, HOME, kubeconfig=account)
    flags = ("--tlsCertFile", certificate, "--tlsKeyFile", key, "--watch-drift", *source)
    places = {each["metadata"]["namespace"] for each in fleet}
    world = World(cluster, options, folder, places, partial(injector, folder, *flags, port=port))
    with world.replica:
        cluster.apply(
            namespace_of(HOME), *control_plane(HOME, OLD, tag="1.28.0"), *control_plane(HOME, NEW, tag="1.30.1")
        )
        cluster.apply(tag_webhook("prod", OLD, options), *(revision_webhook(name, options) for name in (OLD, NEW)))
        cluster.apply(*(namespace_of(place, {"istio.io/rev": "prod"}) for place in places))
        world.start_injector()
        for start in range(0, len(fleet), 100):
            cluster.apply(*fleet[start : start + 100])
        until(lambda: world.settled() and world.revisions() == {OLD: pods})
        yield world
