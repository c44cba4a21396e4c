"""What deploy/ holds, carried out: its arguments, its account and its webhooks, and a pod gets its sidecar from a real API server."""

from __future__ import annotations

import base64
import copy
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.architecture.serving import free_ports
from tests.deploy.mounts import config_maps, mount, volume
from tests.deploy.rendering import BASES, DEPLOY, NAMESPACE, ROOT, Object, container, documents, of_kind, one, pod_spec
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import OneCluster, plain
from tests.e2e.served import LIMIT, started
from tests.factories import make_pod
from tests.manifests import account_of, namespace_of

ADDRESSES = {"files": "127.96.77.1", "demo": "127.96.77.2"}
"""The addresses of the Services: there is no proxy, so the injector listens on them itself."""

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture
def cluster(one_cluster: OneCluster) -> Cluster:
    """An empty API server for each test."""
    return one_cluster.get("plain", plain)


def kustomized(cluster: Cluster, folder: Path) -> list[Object]:
    return documents(cluster.kubectl("kustomize", str(folder)).stdout)


def from_files(cluster: Cluster, folder: Path) -> list[Object]:
    """The objects of deploy/ after deploy/certificate."""
    for source in (DEPLOY, ROOT / "revisions"):
        shutil.copytree(source, folder / source.name)
    subprocess.run([str(folder / "deploy" / "certificate")], check=True)
    return kustomized(cluster, folder / "deploy")


def reachable(objects: list[Object], address: str, port: int) -> list[Object]:
    """The objects with the Service at an address and port of the loopback."""
    moved = copy.deepcopy(objects)
    service = one(moved, "Service")["spec"]
    service["clusterIP"], service["ports"][0]["port"] = address, port
    for configuration in of_kind(moved, "MutatingWebhookConfiguration"):
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["service"]["port"] = port
    return moved


def arguments(objects: list[Object], folder: Path) -> list[str]:
    """The container's arguments, its volumes being below ``folder``."""
    return [argument.replace("/etc/injector", str(folder)) for argument in container(objects)["args"]]


def lay_out(objects: list[Object], folder: Path) -> None:
    """Write the volumes of the pod."""
    names = [item["name"] for item in pod_spec(objects).get("volumes", ())]
    for name in names:
        (folder / name).mkdir(parents=True)
    if "revisions" in names:
        mount(volume(objects, "revisions"), config_maps(objects), folder / "revisions")
    if "tls" in names:
        (secret,) = of_kind(objects, "Secret")
        assert volume(objects, "tls")["secret"]["secretName"] == secret["metadata"]["name"]
        for key, value in secret["data"].items():
            (folder / "tls" / key).write_bytes(base64.b64decode(value))


def created(cluster: Cluster, namespace: str) -> Object:
    """A pod of a namespace, or why there is none: the webhook may not be trusted yet."""
    pod = {**make_pod(), "metadata": {"generateName": "a-", "namespace": namespace}}
    done = cluster.kubectl("create", "-f", "-", "-o", "json", stdin=pod)
    answer: Object = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr}
    return answer


def injected(cluster: Cluster, namespace: str, log: Path) -> Object:
    """A pod of a namespace, once one can be created."""
    deadline = time.monotonic() + LIMIT
    while "error" in (pod := created(cluster, namespace)):
        assert time.monotonic() < deadline, f"{pod['error']}\n{log.read_text()}"
        time.sleep(0.1)
    return pod


@pytest.mark.parametrize("name", ["files", "demo"])
def test_a_pod_gets_its_sidecar_by_what_is_deployed(cluster: Cluster, tmp_path: Path, name: str) -> None:
    plain = from_files(cluster, tmp_path) if name == "files" else kustomized(cluster, BASES / name)
    port, ops_port = free_ports(2)
    objects = reachable(plain, ADDRESSES[name], port)
    mounted, log = tmp_path / "mounted", tmp_path / "log"
    command = arguments(objects, mounted)
    lay_out(objects, mounted)
    command += [f"--port={port}", f"--ops-port={ops_port}", "--shutdown-delay=0"]
    cluster.apply(one(objects, "Namespace"), namespace_of("asks", {"istio.io/rev": "canary"}), account_of("asks"))
    cluster.apply(*(item for item in objects if item["kind"] != "Namespace"))
    if pod_spec(objects)["automountServiceAccountToken"]:
        token = cluster.kubeconfig_of(pod_spec(objects)["serviceAccountName"], NAMESPACE)
        command.append(f"--kubeconfig={token}")

    with started([sys.executable, "-m", "injector", *command], log, f"http://127.0.0.1:{ops_port}/readyz"):
        pod = injected(cluster, "asks", log)

    assert "istio-proxy" in [container["name"] for container in pod["spec"]["containers"]]
    assert json.loads(pod["metadata"]["annotations"]["sidecar.istio.io/status"])["revision"] == "canary"
