"""Revisions of a real API server: found, swapped, kept, gone, and followed over its restart."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.architecture.serving import free_ports, post, wait_until_ready
from tests.deploy import rendering
from tests.e2e.kubelab import Lab, missing
from tests.factories import make_review
from tests.revisions.fakes import CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120.0
"""Seconds until something must be seen; it is seen within one or two."""
BROKEN = "policy: enabled\ntemplates:\n  sidecar: '{{ .x'\n"

REASON = missing()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """An empty API server."""
    made = Lab(tmp_path_factory.mktemp("kubelab"))
    try:
        made.start()
        yield made
    finally:
        made.end()


@dataclass
class Injector:
    """The injector as a process."""

    process: subprocess.Popen[bytes]
    port: int
    ops_port: int
    log: Path

    def image(self, revision: str) -> str:
        """The image that a pod of the revision gets, or why it gets none."""
        response = post(f"http://127.0.0.1:{self.port}/inject/{revision}", make_review())["response"]
        if not response["allowed"]:
            return str(response["status"]["message"])
        images = [each for each in _images(json.loads(base64.b64decode(response["patch"]))) if "proxy:" in each]
        return images[0]

    def error(self, revision: str) -> str:
        """Why what the cluster holds of a revision is not served; empty where it is."""
        rows = self.get("/status.json", json.load)["revisions"]
        return next((json.dumps(row["error"]) for row in rows if row["name"] == revision and row["error"]), "")

    def metrics(self) -> str:
        return str(self.get("/metrics", lambda answer: answer.read().decode()))

    def get(self, path: str, read: Callable[[Any], Any]) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ops_port}{path}", timeout=10) as answer:
            return read(answer)

    def until(self, seen: Callable[[], bool]) -> None:
        """Wait until it is seen."""
        started = time.monotonic()
        while not seen():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() - started < LIMIT, self.log.read_text()
            time.sleep(0.05)


def _images(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for key, value in found.items():
            if key == "image":
                yield value
            yield from _images(value)
    elif isinstance(found, list):
        for each in found:
            yield from _images(each)


@contextmanager
def injector(
    lab: Lab, folder: Path, *flags: str, ready: bool = True, kubeconfig: Path | None = None
) -> Iterator[Injector]:
    """The injector, following the cluster."""
    port, ops_port = free_ports(2)
    command = [sys.executable, "-m", "injector", "serve", "--insecure-http", "--bind", "127.0.0.1"]
    command += ["--port", str(port), "--ops-port", str(ops_port), "--shutdown-delay", "0"]
    command += ["--from-cluster", "--kubeconfig", str(kubeconfig or lab.kubeconfig), *flags]
    log = folder / "log"
    with log.open("w") as written:
        process = subprocess.Popen(command, cwd=ROOT, stdout=written, stderr=written)
        try:
            if ready:
                assert wait_until_ready(f"http://127.0.0.1:{ops_port}/readyz", process), log.read_text()
            yield Injector(process, port, ops_port, log)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()


def config_map(name: str, namespace: str, revision: str, **data: str) -> dict[str, Any]:
    labels = {"istio.io/rev": revision}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def control_plane(
    namespace: str, revision: str, *, tag: str, config: str = CONFIG, platform: str = ""
) -> tuple[dict[str, Any], ...]:
    """What an installation of Istio leaves for the injector."""
    suffix = "" if revision == "default" else f"-{revision}"
    values = json.dumps({"global": {"tag": tag, "platform": platform}, "pilot": {"env": {}}})
    return (
        config_map(f"istio-sidecar-injector{suffix}", namespace, revision, config=config, values=values),
        config_map(f"istio{suffix}", namespace, revision, mesh="{}", meshNetworks="networks: {}"),
    )


def namespace_of(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def tag_of(name: str, revision: str) -> dict[str, Any]:
    labels = {"istio.io/rev": revision, "istio.io/tag": name}
    metadata = {"name": f"istio-revision-tag-{name}", "labels": labels}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": [],
    }


def test_a_revision_is_found_swapped_kept_when_broken_and_gone(lab: Lab, tmp_path: Path) -> None:
    home = "istio-life"
    noise = config_map("istio-cni-config", home, "default", CNI_NETWORK_CONFIG="x")
    lab.apply(namespace_of(home), *control_plane(home, "default", tag="1.24.6"), noise, tag_of("prod", "default"))

    with injector(lab, tmp_path, "--istio-namespace", home) as served:
        assert (served.image("default"), served.image("prod")) == ("proxy:1.24.6", "proxy:1.24.6")

        lab.apply(*control_plane(home, "canary", tag="1.28.1"))
        served.until(lambda: served.image("canary") == "proxy:1.28.1")

        lab.apply(*control_plane(home, "canary", tag="1.28.2"))
        served.until(lambda: served.image("canary") == "proxy:1.28.2")

        lab.apply(*control_plane(home, "canary", tag="1.28.3", config=BROKEN))
        served.until(lambda: served.error("canary") != "")
        assert served.image("canary") == "proxy:1.28.2"

        lab.apply(*control_plane(home, "canary", tag="1.28.4"), tag_of("prod", "canary"))
        served.until(lambda: served.image("prod") == "proxy:1.28.4")

        lab.delete("configmap", "istio-canary", home)
        served.until(lambda: "has no ConfigMap istio-canary" in served.error("canary"))
        assert served.image("canary") == "proxy:1.28.4"

        lab.delete("configmap", "istio-sidecar-injector-canary", home)
        served.until(lambda: "no revision or tag 'canary' is served here" in served.image("canary"))
        assert served.image("default") == "proxy:1.24.6"

        for name in ("istio", "istio-sidecar-injector"):
            lab.delete("configmap", name, home)
        served.until(lambda: "there is no revision any more" in served.error("default"))
        assert served.image("default") == "proxy:1.24.6"

        lab.apply(*control_plane(home, "default", tag="1.24.7"))
        served.until(lambda: served.image("default") == "proxy:1.24.7")


def test_the_nodes_are_asked_where_native_sidecars_depend_on_them(lab: Lab, tmp_path: Path) -> None:
    home = "istio-nodes"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    lab.apply(namespace_of(home), *control_plane(home, "default", tag="1.24.6"), node)

    with injector(lab, tmp_path, "--istio-namespace", home) as served:
        assert 'injector_watch_synced{resource="nodes"}' not in served.metrics()

        lab.apply(*control_plane(home, "canary", tag="1.28.1"))

        served.until(lambda: 'injector_watch_synced{resource="nodes"} 1.0' in served.metrics())


def permissions(*, namespaces: bool) -> list[dict[str, Any]]:
    """What the chart lets the injector read of a cluster, with the account that may."""
    given = {"fromCluster": {"enabled": True, "namespaces": namespaces}, "tls": {"mode": "files"}}
    kinds = ("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    return [each for each in rendering.rendered(given) if each["kind"] in kinds]


def test_the_permissions_of_deploy_are_enough_and_without_those_for_openshift_the_rest_is_served(
    lab: Lab, tmp_path: Path
) -> None:
    if rendering.missing():
        pytest.skip(rendering.missing())
    lab.apply(namespace_of("istio-system"), namespace_of("injector-system"))
    lab.apply(*permissions(namespaces=False))
    lab.apply(*control_plane("istio-system", "default", tag="1.28.1"))

    with injector(lab, tmp_path, kubeconfig=lab.kubeconfig_of("injector", "injector-system")) as served:
        synced = [line for line in served.metrics().splitlines() if line.startswith("injector_watch_synced{")]
        assert sorted(synced) == [
            'injector_watch_synced{resource="configmaps"} 1.0',
            'injector_watch_synced{resource="mutatingwebhookconfigurations"} 1.0',
            'injector_watch_synced{resource="nodes"} 1.0',
        ]
        assert "injector_watch_faults_total{" not in served.metrics()

        lab.apply(*control_plane("istio-system", "default", tag="1.28.2", platform="openshift"))
        served.until(lambda: 'reason="forbidden",resource="namespaces"' in served.metrics())
        assert served.image("default") == "proxy:1.28.2"
        lab.apply(*permissions(namespaces=True))
        served.until(lambda: 'injector_watch_synced{resource="namespaces"} 1.0' in served.metrics())


def test_a_folder_of_the_same_name_wins_and_it_is_said(lab: Lab, tmp_path: Path) -> None:
    home, folder = "istio-both", tmp_path / "revisions" / "default"
    folder.mkdir(parents=True)
    (folder / "config").write_text(CONFIG)
    (folder / "values").write_text('{"global": {"tag": "own"}}')
    lab.apply(namespace_of(home), *control_plane(home, "default", tag="1.24.6"))
    lab.apply(*control_plane(home, "canary", tag="1.28.1"))

    with injector(lab, tmp_path, "--istio-namespace", home, "--revisions-dir", str(folder.parent)) as served:
        assert (served.image("default"), served.image("canary")) == ("proxy:own", "proxy:1.28.1")
        assert f"ConfigMap {home}/istio-sidecar-injector has the same name" in served.log.read_text()


def test_while_the_api_server_is_down_pods_are_injected_and_then_the_next_change_is_seen(
    lab: Lab, tmp_path: Path
) -> None:
    home = "istio-restart"
    lab.apply(namespace_of(home), *control_plane(home, "default", tag="1.24.6"))

    with injector(lab, tmp_path, "--istio-namespace", home) as served:
        lab.stop()
        served.until(lambda: 'reason="unreachable",resource="configmaps"' in served.metrics())
        assert served.image("default") == "proxy:1.24.6"
        # One that starts now has nothing to serve; it waits rather than fail.
        (tmp_path / "second").mkdir()
        with injector(lab, tmp_path / "second", "--istio-namespace", home, ready=False) as second:
            second.until(lambda: "cannot be reached" in second.log.read_text())

            lab.start()
            lab.apply(*control_plane(home, "default", tag="1.24.7"))

            served.until(lambda: served.image("default") == "proxy:1.24.7")
            assert wait_until_ready(f"http://127.0.0.1:{second.ops_port}/readyz", second.process)
            assert second.image("default") == "proxy:1.24.7"
        assert served.image("default") == "proxy:1.24.7"
