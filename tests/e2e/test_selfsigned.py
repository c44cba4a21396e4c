"""A CA of the injector's own at a real API server: pods get their sidecar, and what is deleted or emptied heals."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.serving import free_ports
from tests.deploy import rendering
from tests.e2e.kubelab import Lab, running
from tests.e2e.served import started, until
from tests.webhook.certificates import Order, authority, issue
from tests.webhook.chaos import SECONDS

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120.0
NAMESPACE = "injector-system"
ADDRESS = "127.96.41.7"
CONFIGURATION = "injector-test"
OTHER = "somebody-elses"

ACCOUNTS = ("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")

pytestmark = pytest.mark.skipif(bool(rendering.missing()), reason=rendering.missing())


@dataclass
class Site:
    """An API server with a Service and a webhook for the injector, which no bundle is in yet."""

    lab: Lab
    port: int
    kubeconfig: Path

    def bundle(self, name: str = CONFIGURATION) -> bytes:
        """What the API server trusts now."""
        (webhook,) = self.lab.get("mutatingwebhookconfiguration", name)["webhooks"]
        return base64.b64decode(webhook["clientConfig"].get("caBundle", ""))

    def authority(self) -> bytes:
        """What the Secret says is to be trusted; empty where there is none."""
        return base64.b64decode(self.secret().get("ca.crt", ""))

    def secret(self) -> dict[str, str]:
        """The data of the Secret; none where there is none."""
        found: dict[str, str] = self.lab.get("secret", "injector-ca", NAMESPACE).get("data", {})
        return found

    def pod(self, name: str) -> list[str]:
        """The containers of a pod that is created."""
        pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}
        self.lab.apply({"apiVersion": "v1", "kind": "Pod", **pod})
        spec = self.lab.get("pod", name)["spec"]
        return [each["name"] for each in (*spec["containers"], *spec.get("initContainers", ()))]


@pytest.fixture(scope="module")
def site(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    del built
    with running(Lab(tmp_path_factory.mktemp("kubelab"))) as lab:
        (port,) = free_ports(1)
        lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        lab.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
        chart = rendering.rendered({"tls": {"mode": "self-signed", "extraWebhookNames": ["*"]}})
        lab.apply(*(each for each in chart if each["kind"] in ACCOUNTS))
        ports = [{"port": port, "protocol": "TCP"}]
        service = {
            "metadata": {"name": "injector", "namespace": NAMESPACE},
            "spec": {"clusterIP": ADDRESS, "ports": ports},
        }
        lab.apply({"apiVersion": "v1", "kind": "Service", **service})
        # Whoever is called by another Service is left alone, and selects nothing.
        lab.apply(webhook(CONFIGURATION, "injector", port), webhook(OTHER, "other", port, never=True))
        yield Site(lab, port, lab.kubeconfig_of("injector", NAMESPACE))


def webhook(name: str, service: str, port: int, *, never: bool = False) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    called = {"name": service, "namespace": NAMESPACE, "path": "/inject/stable", "port": port}
    entry = {
        "name": "injector.test.io",
        "clientConfig": {"service": called},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "objectSelector": {"matchLabels": {"never": "true"}} if never else {},
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": name}, "webhooks": [entry]}


@contextmanager
def injector(site: Site, log: Path, *flags: str) -> Iterator[Callable[[str], str]]:
    """The injector at the Service's address, with a service account's permissions; gives what reads its operations port."""
    (ops_port,) = free_ports(1)
    command = [sys.executable, "-m", "injector", "serve", "--bind", ADDRESS, "--port", str(site.port)]
    command += ["--ops-port", str(ops_port), "--shutdown-delay", "0", "--kubeconfig", str(site.kubeconfig)]
    command += ["--namespace", NAMESPACE, *flags]
    with started(command, log, f"http://{ADDRESS}:{ops_port}/readyz"):
        yield lambda path: read(f"http://{ADDRESS}:{ops_port}{path}")


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 -- loopback
        found: str = answer.read().decode()
        return found


def test_pods_get_their_sidecar_and_what_is_deleted_or_emptied_heals(site: Site, tmp_path: Path) -> None:
    log = tmp_path / "log"

    with injector(site, log, "--tls-mode", "self-signed") as operations:
        until(lambda: site.bundle() == site.authority() != b"")
        assert "istio-proxy" in site.pod("first")
        assert site.bundle(OTHER) == b""

        first = site.authority()
        site.lab.patch(
            "mutatingwebhookconfiguration",
            CONFIGURATION,
            [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}],
        )
        until(lambda: site.bundle() == first)
        assert "istio-proxy" in site.pod("after-the-bundle")

        site.lab.delete("secret", "injector-ca", NAMESPACE)
        until(lambda: site.authority() not in (b"", first))
        # In between neither of the two authorities is missing where a certificate of it may be shown.
        until(lambda: site.bundle() == site.authority())
        assert first in site.bundle()
        assert "istio-proxy" in site.pod("after-the-secret")
        until(lambda: log.read_text().count("new certificate:") == 2)
        assert "istio-proxy" in site.pod("by-the-new-authority")
        shown = operations("/status.json") + operations("/") + operations("/metrics")
        keys = {name: value for name, value in site.secret().items() if name.endswith(".key")}

    text = log.read_text()
    assert "Traceback" not in text
    assert 'names": ["injector.injector-system.svc"' in shown
    assert list(keys) == ["tls.key"]
    for canary in ("PRIVATE KEY", *(base64.b64decode(key).decode().splitlines()[1] for key in keys.values())):
        assert canary not in text + shown
    assert "Secret injector-system/injector-ca: created" in text


def test_a_ca_from_a_file_gets_into_the_webhook_and_whoever_owns_it_may_still_delete_an_entry(
    site: Site, tmp_path: Path
) -> None:
    root, name = authority(), f"injector.{NAMESPACE}.svc"
    chain, key = issue(Order(names=(name,)), root).write(tmp_path)
    (tmp_path / "ca.crt").write_bytes(root.chain_pem)
    owned = webhook("owned", "injector", site.port, never=True)
    second = {**owned["webhooks"][0], "name": "second.test.io"}
    site.lab.apply({**owned, "webhooks": [*owned["webhooks"], second]})
    files = ("--tlsCertFile", str(chain), "--tlsKeyFile", str(key), "--caCertFile", str(tmp_path / "ca.crt"))

    def bundles() -> list[bytes]:
        hooks = site.lab.get("mutatingwebhookconfiguration", "owned")["webhooks"]
        return [base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in hooks]

    with injector(site, tmp_path / "log", *files, "--patch-webhooks"):
        until(lambda: bundles() == [root.chain_pem] * 2)
        until(lambda: site.bundle() == root.chain_pem)
        assert "istio-proxy" in site.pod("by-files")

        # Server-side apply by its owner; had the injector applied too, what it owns of the entry would stay, and be invalid.
        site.lab.apply(owned)
        assert bundles() == [root.chain_pem]


def test_against_somebody_who_empties_the_bundle_again_and_again_it_keeps_its_pace_and_wins(
    site: Site, tmp_path: Path
) -> None:
    empty = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]

    with injector(site, tmp_path / "log", "--tls-mode", "self-signed") as operations:

        def patches() -> float:
            lines = operations("/metrics").splitlines()
            return next(float(line.split()[1]) for line in lines if line.startswith("injector_cabundle_patches_total "))

        until(lambda: site.bundle() == site.authority() != b"")
        began, before, writes = time.monotonic(), patches(), 0
        while time.monotonic() - began < SECONDS:
            site.lab.patch("mutatingwebhookconfiguration", CONFIGURATION, empty)
            writes += 1
            time.sleep(0.1)
        during = patches() - before
        lasted = time.monotonic() - began

        until(lambda: site.bundle() == site.authority())

    assert 1 <= during <= lasted + 1
    assert writes > during


def test_without_permissions_it_ends_with_one_line_that_says_which(site: Site) -> None:
    site.lab.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}})
    kubeconfig = site.lab.kubeconfig_of("nobody", "default")
    (ops_port,) = free_ports(1)
    command = [sys.executable, "-m", "injector", "serve", "--tls-mode", "self-signed", "--bind", "127.0.0.1"]
    command += ["--port", "0", "--ops-port", str(ops_port), "--namespace", NAMESPACE, "--kubeconfig", str(kubeconfig)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)

    (line,) = [each for each in done.stderr.splitlines() if each.startswith("error: ")]
    assert done.returncode == 1
    assert 'cannot get resource "secrets"' in line
    assert line.endswith("grant the injector's account the permissions that deploy/ has for it")
    assert "Traceback" not in done.stderr
