"""What stops ``injector upgrade`` on a real API server: rollouts that hang, budgets, refused pods, gates, a missing control plane."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.serving import free_ports
from tests.e2e.fleet import HOME, LONG, NEW, OLD, PLACES, PODS, PODS_OF_DEV, RUN_LIMIT, World
from tests.e2e.policies import admission_policy
from tests.e2e.served import started
from tests.factories import make_pod
from tests.manifests import make_object, workload

HOLD = 30.0 if LONG else 0.0
"""Seconds for which a PodDisruptionBudget allows nothing, after it is waited for."""
PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")


def test_a_rollout_that_hangs_pauses_the_upgrade_and_a_rollback_brings_all_back(world: World) -> None:
    world.cluster.kubectl("label", "nodes", "--all", "cluster=open")
    world.cluster.apply(workload("Deployment", "stuck", "shop", replicas=3, pod={"nodeSelector": {"cluster": "open"}}))
    world.until(lambda: not world.unavailable())
    world.cluster.kubectl("label", "nodes", "--all", "cluster-")  # new pods have no place, running ones stay
    document = world.document("stuck", {"namespaces": ["dev"]}, {"name": "rest"}, timeout="20s")

    code, said = world.run(document)
    state = world.state("stuck")
    assert (code, state["phase"]) == (3, "Paused"), said
    assert state["reason"].startswith("Deployment shop/stuck: not complete after 20 s: pods left: 3, not available: 0")
    moved = world.revisions()
    assert moved[NEW] >= 8
    assert moved[OLD] >= 3
    labels = {"from": OLD, "to": NEW}
    outdated = len(world.outdated("shop"))
    world.until(lambda: world.server.total("injector_drift_workloads", namespace="shop", **labels) == outdated)
    assert world.server.total("injector_drift_workloads", namespace="dev") == 0

    before = world.templates()
    world.cluster.kubectl("label", "nodes", "--all", "cluster=open")
    assert world.injector("upgrade", "rollback", "stuck").exit_code == 0
    code, said = world.run(document)
    assert (code, world.state("stuck")["phase"]) == (4, "RolledBack"), said
    world.until(lambda: world.revisions() == {OLD: PODS + 3})
    assert all(count <= before[name] + 1 for name, count in world.templates().items())
    tag = world.cluster.get("mutatingwebhookconfiguration", "istio-revision-tag-prod")["metadata"]
    assert tag["labels"]["istio.io/rev"] == OLD


def test_budgets_are_waited_for_and_a_refused_pod_stops_the_wave(world: World) -> None:
    selector = {"matchLabels": {"app": "web-0"}}
    budget = {**make_object("PodDisruptionBudget", "all", "shop"), "apiVersion": "policy/v1"}
    world.cluster.apply({**budget, "spec": {"selector": selector, "maxUnavailable": 0}})
    process = world.start(world.document("budget"))
    try:
        world.until(
            lambda: "waiting for PodDisruptionBudget shop/all" in world.state("budget").get("reason", ""), process
        )
        time.sleep(HOLD)
        assert world.templates()["Deployment shop/web-0"] == 1
        world.cluster.apply({**budget, "spec": {"selector": selector, "maxUnavailable": 1}})
        said, _ = process.communicate(timeout=RUN_LIMIT)
    finally:
        process.kill()
    assert world.state("budget")["phase"] == "Completed", said

    world.cluster.apply(*admission_policy("pay", "false"))
    world.until(lambda: "no-net-admin" in world.cluster.refusal(make_pod(namespace="pay"), "pay"))
    back = world.document("back", {"namespaces": ["pay"]}, {"name": "rest"}, **{"from": NEW, "to": OLD})
    code, said = world.run(back)
    assert (code, world.state("back")["phase"]) == (3, "Paused"), said
    assert "preflight: Deployment pay/web-0: the API server refuses its pod" in world.state("back")["reason"]
    assert "ValidatingAdmissionPolicy 'no-net-admin'" in world.state("back")["reason"]
    assert world.revisions() == {NEW: PODS}


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
def test_a_failed_gate_or_one_without_data_or_a_stopped_istiod_stops_an_upgrade(world: World) -> None:
    exporter = Exporter(world.folder, ratio=0.5)
    query = 'max(app_error_ratio{namespace="{{ namespace }}"})'
    gates = {"prometheus": exporter.url, "metrics": [{"name": "errors", "query": query, "max": 0.1}]}
    document = world.document("gated", {"namespaces": ["dev"]}, {"name": "rest"}, gates=gates, soak="4s")

    def stops(reason: str) -> None:
        code, said = world.run(document)
        assert (code, world.state("gated")["phase"]) == (3, "Paused"), said
        assert world.state("gated")["reason"] == reason

    def istiod(*endpoints: dict[str, Any]) -> None:
        labels = {"kubernetes.io/service-name": f"istiod-{NEW}"}
        own = {"apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4", "endpoints": list(endpoints)}
        world.cluster.apply({**make_object("EndpointSlice", f"istiod-{NEW}", HOME, labels), **own})

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
