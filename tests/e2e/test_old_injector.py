"""A Deployment of Istio 1.0 to 1.4 with only the image replaced: the arguments and probes of its chart, at a real API server.

The arguments are those of install/kubernetes/helm/istio/charts/sidecarInjectorWebhook/templates/deployment.yaml (1.0.9 to 1.4.10). The only
additions are the ports, which can be taken on the machine of a test.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.serving import free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.served import ROOT, started, until
from tests.e2e.webhooks import wait_for_webhooks
from tests.factories import make_pod
from tests.manifests import account_of, make_object, namespace_of, pod_webhook
from tests.webhook.certificates import Order, authority, issue

HOME = "istio-system"
SERVICE = CONFIGURATION = "istio-sidecar-injector"
KIND = "mutatingwebhookconfiguration"
ADDRESS = "127.96.41.11"
ARGUMENTS = (
    "--caCertFile=/etc/istio/certs/root-cert.pem",
    "--tlsCertFile=/etc/istio/certs/cert-chain.pem",
    "--tlsKeyFile=/etc/istio/certs/key.pem",
    "--injectConfig=/etc/istio/inject/config",
    "--meshConfig=/etc/istio/config/mesh",
    "--healthCheckInterval=2s",
    "--healthCheckFile=/health",
)
CHARTS = {"1.1": ARGUMENTS, "1.4": (*ARGUMENTS, "--reconcileWebhookConfig=true")}
CONFIG = """\
policy: enabled
template: |
  containers:
  - name: istio-proxy
    image: IMAGE
"""
# The charts of 1.0 and 1.1 mount no values.
FILES = {
    "1.1": {"inject/config": CONFIG.replace("IMAGE", "proxyv2:1.1.17")},
    "1.4": {
        "inject/config": CONFIG.replace("IMAGE", "{{ .Values.global.hub }}/proxyv2:{{ .Values.global.tag }}"),
        "inject/values": '{"global": {"hub": "registry.example.com", "tag": "1.4.10"}}',
    },
}
PROBE = ("probe", "--probe-path=/health", "--interval=4s")
# The program of the image, with a folder instead of the root of its file system.
PROGRAM = """\
import sys
from pathlib import Path
from injector.cli import main
from injector.cli.commands import arguments_of
main(arguments_of(sys.argv[2:], Path(sys.argv[1])))
"""


def command(root: Path, *arguments: str) -> list[str]:
    """The program with the arguments of a container whose file system is ``root``."""
    below = (argument.replace("=/", f"={root}/") for argument in arguments)
    return [sys.executable, "-c", PROGRAM, str(root), *below]


def written(root: Path, files: dict[str, Path | bytes]) -> None:
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.read_bytes())


@pytest.mark.parametrize("minor", CHARTS)
def test_the_deployment_of_an_old_chart_works_with_its_own_arguments(
    cluster: Cluster, tmp_path: Path, minor: str
) -> None:
    root, port, ops_port = tmp_path / "root", *free_ports(2)
    signer = authority()
    chain, key = issue(Order(names=(f"{SERVICE}.{HOME}.svc",)), signer).write(tmp_path)
    certificates: dict[str, Path | bytes] = {"cert-chain.pem": chain, "key.pem": key, "root-cert.pem": signer.chain_pem}
    written(root, {f"etc/istio/certs/{name}": content for name, content in certificates.items()})
    written(root, {f"etc/istio/{name}": text.encode() for name, text in FILES[minor].items()})
    written(root, {"etc/istio/config/mesh": b"defaultConfig: {discoveryAddress: istio-pilot.istio-system:15011}\n"})
    cluster.apply(namespace_of(HOME), namespace_of(f"old-{minor[-1]}", {"istio-injection": "enabled"}))
    cluster.apply(account_of(f"old-{minor[-1]}"))
    cluster.apply(make_object("Service", SERVICE, HOME, spec={"clusterIP": ADDRESS, "ports": [{"port": port}]}))
    client = {"service": {"name": SERVICE, "namespace": HOME, "path": "/inject", "port": port}}
    selector = {"matchLabels": {"istio-injection": "enabled"}}
    entry = pod_webhook("sidecar-injector.istio.io", client, namespaceSelector=selector)
    cluster.apply(make_object("MutatingWebhookConfiguration", CONFIGURATION, webhooks=[entry]))

    def bundle() -> bytes:
        (webhook,) = cluster.get(KIND, CONFIGURATION)["webhooks"]
        return base64.b64decode(webhook["clientConfig"].get("caBundle", ""))

    def containers(name: str) -> list[str]:
        wait_for_webhooks(cluster)
        cluster.apply(make_pod(name, namespace=f"old-{minor[-1]}"))
        return [container["name"] for container in cluster.get("pod", name, f"old-{minor[-1]}")["spec"]["containers"]]

    extra = (f"--port={port}", f"--monitoringPort={ops_port}", f"--kubeconfig={cluster.kubeconfig}")
    server = [*command(root, *CHARTS[minor]), *extra]
    with started(server, tmp_path / "log", f"http://127.0.0.1:{ops_port}/readyz"):
        until(lambda: bundle() == signer.chain_pem, state=(tmp_path / "log").read_text)
        assert containers("first") == ["app", "istio-proxy"]

        cluster.patch(
            KIND, CONFIGURATION, [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]
        )
        until(lambda: bundle() == signer.chain_pem, state=(tmp_path / "log").read_text)
        assert containers("second") == ["app", "istio-proxy"]
        assert subprocess.run(command(root, *PROBE), check=True, capture_output=True, text=True).stdout == "OK\n"
    os.utime(root / "health", (0, 0))
    assert subprocess.run(command(root, *PROBE), check=False, capture_output=True).returncode == 1
    cluster.delete(KIND, CONFIGURATION)
    cluster.delete("service", SERVICE, HOME)


def test_sidecar_injector_is_installed_beside_injector() -> None:
    program = shutil.which("sidecar-injector", path=str(Path(sys.executable).parent))
    assert program is not None

    done = subprocess.run([program, "version"], cwd=ROOT, check=True, capture_output=True, text=True)

    assert "injector" in done.stdout
