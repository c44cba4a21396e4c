"""A CA of the injector's own at a real API server: pods get their sidecar, and what is deleted or emptied heals."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.serving import free_ports
from tests.deploy import rendering
from tests.e2e.cluster import Cluster
from tests.e2e.load import Load, created_meanwhile
from tests.e2e.served import LIMIT, ROOT, Injector, injector
from tests.e2e.webhooks import wait_for_webhooks
from tests.factories import make_pod
from tests.manifests import account_of, make_object, namespace_of, pod_webhook
from tests.webhook.certificates import Order, authority, issue
from tests.webhook.chaos import SECONDS

NAMESPACE = "injector-system"
ADDRESS = "127.96.41.7"
CONFIGURATION = "injector-test"
OTHER = "somebody-elses"

pytestmark = pytest.mark.usefixtures("helm")


@dataclass
class Site:
    """An API server with a Service and a webhook for the injector, which no bundle is in yet."""

    cluster: Cluster
    port: int
    kubeconfig: Path

    def bundle(self, name: str = CONFIGURATION) -> bytes:
        """What the API server trusts now."""
        (webhook,) = self.cluster.get("mutatingwebhookconfiguration", name)["webhooks"]
        return base64.b64decode(webhook["clientConfig"].get("caBundle", ""))

    def authority(self) -> bytes:
        """What the Secret says is to be trusted; empty where there is none."""
        return base64.b64decode(self.secret().get("ca.crt", ""))

    def secret(self) -> dict[str, str]:
        """The data of the Secret; none where there is none."""
        data: dict[str, str] = self.cluster.get("secret", "injector-ca", NAMESPACE).get("data", {})
        return data

    def pod(self, name: str) -> list[str]:
        """The containers of a pod that is created once the API server knows the bundle."""
        wait_for_webhooks(self.cluster)
        self.cluster.apply(make_pod(name))
        spec = self.cluster.get("pod", name)["spec"]
        return [container["name"] for container in (*spec["containers"], *spec.get("initContainers", ()))]


@pytest.fixture(scope="module")
def site(cluster: Cluster) -> Site:
    (port,) = free_ports(1)
    cluster.apply(namespace_of(NAMESPACE), namespace_of("istio-system"), account_of("default"))
    cluster.apply(*rendering.permissions({"tls": {"mode": "self-signed", "extraWebhookNames": ["*"]}}))
    spec = {"clusterIP": ADDRESS, "ports": [{"port": port, "protocol": "TCP"}]}
    cluster.apply(make_object("Service", "injector", NAMESPACE, spec=spec))
    # Whoever is called by another Service is left alone, and selects nothing.
    cluster.apply(webhook(CONFIGURATION, "injector", port), webhook(OTHER, "other", port, never=True))
    return Site(cluster, port, cluster.kubeconfig_of("injector", NAMESPACE))


def webhook(name: str, service: str, port: int, *, never: bool = False) -> dict[str, Any]:
    client = {"service": {"name": service, "namespace": NAMESPACE, "path": "/inject/stable", "port": port}}
    selector = {"matchLabels": {"never": "true"}} if never else {}
    entry = pod_webhook("injector.test.io", client, objectSelector=selector)
    return make_object("MutatingWebhookConfiguration", name, webhooks=[entry])


@contextmanager
def serving(site: Site, folder: Path, *flags: str) -> Iterator[Injector]:
    """The injector at the Service's address, with a service account's permissions."""
    of_account = ("--kubeconfig", str(site.kubeconfig), "--namespace", NAMESPACE)
    with injector(folder, *of_account, *flags, bind=ADDRESS, port=site.port) as served:
        yield served


def test_pods_get_their_sidecar_and_what_is_deleted_or_emptied_heals(site: Site, tmp_path: Path) -> None:
    with serving(site, tmp_path, "--tls-mode", "self-signed") as served:
        served.until(lambda: site.bundle() == site.authority() != b"")
        assert "istio-proxy" in site.pod("first")
        assert site.bundle(OTHER) == b""

        first = site.authority()
        site.cluster.patch(
            "mutatingwebhookconfiguration",
            CONFIGURATION,
            [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}],
        )
        served.until(lambda: site.bundle() == first)
        assert "istio-proxy" in site.pod("after-the-bundle")

        site.cluster.delete("secret", "injector-ca", NAMESPACE)
        served.until(lambda: site.authority() not in (b"", first))
        # In between neither of the two authorities is missing where a certificate of it may be shown.
        served.until(lambda: site.bundle() == site.authority())
        assert first in site.bundle()
        assert "istio-proxy" in site.pod("after-the-secret")
        served.until(lambda: served.log.read_text().count("new certificate:") == 2)
        assert "istio-proxy" in site.pod("by-the-new-authority")
        pages = served.text("/status.json") + served.text("/") + served.metrics()
        keys = {name: value for name, value in site.secret().items() if name.endswith(".key")}

    text = served.log.read_text()
    assert "Traceback" not in text
    assert 'names": ["injector.injector-system.svc"' in pages
    assert list(keys) == ["tls.key"]
    for canary in ("PRIVATE KEY", *(base64.b64decode(key).decode().splitlines()[1] for key in keys.values())):
        assert canary not in text + pages
    assert "Secret injector-system/injector-ca: created" in text


def test_a_damaged_bundle_in_the_secret_is_repaired_and_no_pod_fails_meanwhile(site: Site, tmp_path: Path) -> None:
    load = Load(site.cluster, "damaged", rate=20)
    site.cluster.apply(namespace_of(load.namespace), account_of(load.namespace))

    with serving(site, tmp_path, "--tls-mode", "self-signed") as served:
        served.until(lambda: site.bundle() == site.authority() != b"")
        wait_for_webhooks(site.cluster)
        trusted = site.authority()
        with created_meanwhile(load):
            load.more(20)
            for damaged in ("", base64.b64encode(b"not PEM").decode()):
                damage = {"op": "replace", "path": "/data/ca.crt", "value": damaged}
                site.cluster.patch("secret", "injector-ca", [damage], NAMESPACE)
                served.until(lambda: site.authority() == trusted)
                load.more(20)

    assert load.failures == []
    assert {pod.revision for pod in load.pods} == {"stable"}
    assert site.bundle() == trusted


def test_a_ca_from_a_file_gets_into_the_webhook_and_an_owner_may_delete_an_entry(site: Site, tmp_path: Path) -> None:
    root, name = authority(), f"injector.{NAMESPACE}.svc"
    chain, key = issue(Order(names=(name,)), root).write(tmp_path)
    (tmp_path / "ca.crt").write_bytes(root.chain_pem)
    owned = webhook("owned", "injector", site.port, never=True)
    second = {**owned["webhooks"][0], "name": "second.test.io"}
    site.cluster.apply({**owned, "webhooks": [*owned["webhooks"], second]})
    files = ("--tlsCertFile", str(chain), "--tlsKeyFile", str(key), "--caCertFile", str(tmp_path / "ca.crt"))

    def bundles() -> list[bytes]:
        hooks = site.cluster.get("mutatingwebhookconfiguration", "owned")["webhooks"]
        return [base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks]

    with serving(site, tmp_path, *files, "--patch-webhooks") as served:
        served.until(lambda: bundles() == [root.chain_pem] * 2)
        served.until(lambda: site.bundle() == root.chain_pem)
        assert "istio-proxy" in site.pod("by-files")

        # Server-side apply by its owner; had the injector applied too, what it owns of the entry would stay, and be invalid.
        site.cluster.apply(owned)
        assert bundles() == [root.chain_pem]


def test_a_bundle_that_is_emptied_again_and_again_is_repaired_at_a_steady_pace(site: Site, tmp_path: Path) -> None:
    empty = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]

    with serving(site, tmp_path, "--tls-mode", "self-signed") as served:
        served.until(lambda: site.bundle() == site.authority() != b"")
        began, before, writes = time.monotonic(), served.total("injector_cabundle_patches_total"), 0
        while time.monotonic() - began < SECONDS:
            site.cluster.patch("mutatingwebhookconfiguration", CONFIGURATION, empty)
            writes += 1
            time.sleep(0.1)
        during = served.total("injector_cabundle_patches_total") - before
        lasted = time.monotonic() - began

        served.until(lambda: site.bundle() == site.authority())

    assert 1 <= during <= lasted + 1
    assert writes > during


def test_without_permissions_it_ends_with_one_line_that_says_which(site: Site) -> None:
    site.cluster.apply(account_of("default", "nobody"))
    kubeconfig = site.cluster.kubeconfig_of("nobody", "default")
    (ops_port,) = free_ports(1)
    command = [
        sys.executable,
        "-m",
        "injector",
        "serve",
        "--embedded",
        "--tls-mode",
        "self-signed",
        "--bind",
        "127.0.0.1",
    ]
    command += ["--port", "0", "--ops-port", str(ops_port), "--namespace", NAMESPACE, "--kubeconfig", str(kubeconfig)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)

    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 1
    assert 'cannot get resource "secrets"' in line
    assert line.endswith("grant the injector's account the permissions that deploy/ has for it")
    assert "Traceback" not in done.stderr
