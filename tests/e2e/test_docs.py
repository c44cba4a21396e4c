"""The commands of the documentation that need a cluster, against a real API server: its pods are created, and an injector answers."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.documents import GUIDES, ROOT, Block, blocks
from tests.architecture.running import OPERATIONS, Reader
from tests.architecture.serving import wait_until_ready
from tests.deploy.rendering import rendered
from tests.e2e.cluster import Cluster
from tests.e2e.installers import INSTALLERS, SAIL, SAIL_OWNERS, SAIL_RESOURCES
from tests.e2e.served import until
from tests.istio.goldens import golden
from tests.manifests import control_plane, namespace_of, resource_of

NAME, NAMESPACE = "injector", "injector-system"
READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
DEPLOYED = "kubectl apply -k deploy/kustomize/"
"""What deploys an injector; where a page does not, there is one before."""
RUNS_UPGRADE = "injector upgrade run"
"""A command that waits for pods."""
EXISTING = {"canary-upgrade.md": "revision-1-24", "moving.md": "tag-prod", "troubleshooting.md": "revision-1-24"}
"""The webhooks that Istio left in the cluster before the page begins, beside two control planes."""


def pages() -> list[Path]:
    """The pages with commands that need a cluster."""
    return [page for page in GUIDES if any(block.runs_on_a_cluster for block in blocks(page))]


@dataclass
class Kubelet:
    """Runs the Deployment of the injector, as one process at the address of its Service: in the cluster no pod ever runs.

    The pods of other Deployments are only reported as ready, so that rollouts end.
    """

    cluster: Cluster
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    arguments: tuple[str, ...] = ()
    address: str = ""

    def look(self) -> None:
        """Start what is deployed, anew where that has changed."""
        wanted = self._deployed()
        if wanted == self.arguments:
            return
        self.end()
        self.address = self.cluster.get("service", NAME, NAMESPACE)["spec"]["clusterIP"]
        account = self.cluster.kubeconfig_of(NAME, NAMESPACE)
        here = [
            f"--bind={self.address}",
            "--port=443",
            "--ops-port=8080",
            "--shutdown-delay=0",
            f"--kubeconfig={account}",
        ]
        log = self.folder / "log"
        with log.open("w") as written:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "injector", *wanted, *here], cwd=ROOT, stdout=written, stderr=written
            )
        self.arguments = wanted
        assert wait_until_ready(f"http://{self.address}:8080/readyz", self.process), log.read_text()

    def finish_rollouts(self) -> None:
        """Report pods as ready until each Deployment, less the injector's, has only pods of its last version."""
        until(self._is_rolled_out)

    @contextmanager
    def reports_pods(self) -> Iterator[None]:
        """Report new pods as ready meanwhile, for a command that waits for rollouts."""
        is_over = threading.Event()

        def report() -> None:
            while not is_over.wait(0.2):
                self._report_pods()

        with ThreadPoolExecutor(1) as pool:
            reporting = pool.submit(report)
            try:
                yield
            finally:
                is_over.set()
                reporting.result()

    def _report_pods(self) -> None:
        for pod in self.cluster.pods():
            place, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            if place != NAMESPACE and pod["status"]["phase"] == "Pending":
                self.cluster.merge(f"/api/v1/namespaces/{place}/pods/{name}/status", READY)

    def _is_rolled_out(self) -> bool:
        self._report_pods()
        deployments = self.cluster.items("/apis/apps/v1/deployments")
        return all(
            _is_current(deployment) for deployment in deployments if deployment["metadata"]["namespace"] != NAMESPACE
        )

    def end(self) -> None:
        """End what runs."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(60) == 0, (self.folder / "log").read_text()
        finally:
            self.process.kill()
            self.process = None

    def _deployed(self) -> tuple[str, ...]:
        """The arguments of the Deployment; nothing where there is none."""
        deployment = self.cluster.get("deployment", NAME, NAMESPACE)
        return tuple(deployment["spec"]["template"]["spec"]["containers"][0]["args"]) if deployment else ()


def _is_current(deployment: dict[str, Any]) -> bool:
    status, wanted = deployment["status"], deployment["spec"]["replicas"]
    counts = {status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")}
    return bool(status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == {wanted})


def prepare(cluster: Cluster, page: Path) -> None:
    """Create what is in the cluster before the page begins: what an installer leaves, or two control planes."""
    if page.parent.name == "installers":
        cluster.apply(*INSTALLERS[page.stem]())
        if page.stem == "sail-operator":
            own_by_operator(cluster)
        return
    cluster.apply(namespace_of("istio-system"))
    cluster.apply(
        *control_plane("istio-system", "1-24", tag="1.24.6"), *control_plane("istio-system", "1-30", tag="1.30.3")
    )
    if page.name in EXISTING:
        cluster.apply(golden(EXISTING[page.name]))


def own_by_operator(cluster: Cluster) -> None:
    """Create the resources of the sail-operator, and make them the owners of its webhooks."""
    cluster.define(
        *(resource_of(SAIL, kind, scope="Cluster") for kind in ("Istio", "IstioRevision", "IstioRevisionTag"))
    )
    owners: dict[tuple[str, str], str] = {}
    for item in SAIL_RESOURCES:
        plural, name = f"{item['kind'].lower()}s", item["metadata"]["name"]
        status, stored = cluster.request(f"/apis/{SAIL}/v1/{plural}", {"apiVersion": f"{SAIL}/v1", **item})
        assert status == HTTPStatus.CREATED, stored
        owners[item["kind"], name] = stored["metadata"]["uid"]
    for name, (kind, owner) in SAIL_OWNERS.items():
        reference = {"apiVersion": f"{SAIL}/v1", "kind": kind, "name": owner, "uid": owners[kind, owner]}
        change = {"metadata": {"ownerReferences": [{**reference, "controller": True}]}}
        cluster.merge(f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{name}", change)


def deploy(cluster: Cluster, reader: Reader, page: Path) -> None:
    """Deploy the injector: with the values that the page of an installer has, or else as most pages do."""
    values = [block.text for block in blocks(page) if (block.language, block.mark) == ("yaml", "values")]
    if page.parent.name != "installers":
        reader.run(Block(page, 0, "sh", "cluster", f"{DEPLOYED}ha"))
        return
    cluster.apply(namespace_of(NAMESPACE))
    cluster.apply(*rendered(yaml.safe_load(values[0])))


@contextmanager
def kubelet(cluster: Cluster, folder: Path) -> Iterator[Kubelet]:
    folder.mkdir()
    nodes = Kubelet(cluster, folder)
    try:
        yield nodes
    finally:
        nodes.end()


def test_each_installer_has_its_page() -> None:
    named = {page.stem for page in (ROOT / "docs" / "installers").glob("*.md")}

    assert named == {*INSTALLERS, "README"}


def may_listen() -> bool:
    """Whether the port of Services is ours to listen on."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.96.255.254", 443))
        except OSError:
            return False
    return True


@pytest.mark.skipif(not may_listen(), reason="port 443 cannot be listened on")
@pytest.mark.parametrize("page", pages(), ids=lambda page: f"{page.parent.name}/{page.name}")
def test_a_page_can_be_followed_on_a_cluster(
    controlled_cluster: Cluster, commands_folder: Path, tmp_path: Path, page: Path
) -> None:
    cluster = controlled_cluster
    commands = [block for block in blocks(page) if block.runs_on_a_cluster]
    prepare(cluster, page)
    home = tmp_path / "reader"
    reader = Reader(home, [commands_folder, cluster.home / "bin"], {"KUBECONFIG": str(cluster.kubeconfig)})

    with kubelet(cluster, tmp_path / "kubelet") as nodes:
        if not any(DEPLOYED in block.text for block in commands):
            deploy(cluster, reader, page)
        for block in commands:
            nodes.look()
            nodes.finish_rollouts()
            reader.addresses[OPERATIONS] = f"{nodes.address}:8080"
            with nodes.reports_pods() if RUNS_UPGRADE in block.text else nullcontext():
                reader.run(block)
