"""Gateways of the Gateway API in a cluster without Istio: their resources, and a controller that stands for all istiods."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from tests.e2e.cluster import Cluster
from tests.manifests import gateway_of, resource_of

GROUP: Final = "gateway.networking.k8s.io"
REV: Final = "istio.io/rev"
PLACE: Final = "edge"
PATH: Final = f"/apis/{GROUP}/v1/namespaces/{PLACE}/gateways"
UPGRADES: Final = "/apis/revision-injector.dev/v1alpha1/upgrades"
INTERVAL: Final = 0.3
"""Seconds between two looks of the controller."""


@dataclass(frozen=True)
class OwnerStep:
    """A change of owners: the time, the step of the upgrade, and the Gateways whose owner changed."""

    time: float
    step: str
    changed: tuple[str, ...]


@dataclass
class Istiods:
    """Sets the status and the Deployment of each Gateway as the istiod of its owner does, and remembers each change of an owner."""

    cluster: Cluster
    owners: dict[str, str] = field(default_factory=dict)
    steps: list[OwnerStep] = field(default_factory=list)
    in_service: dict[str, str] = field(default_factory=dict)
    """The revision of each Gateway's ready Deployment."""

    overlaps: list[str] = field(default_factory=list)
    """Owners that changed while another Gateway was not in service with its own."""

    faults: list[str] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def install(self, count: int) -> None:
        """Create the resources, and Gateways and waypoints that follow the tag by their namespace or by their own label."""
        self.cluster.define(
            resource_of(GROUP, "Gateway"), resource_of(GROUP, "GatewayClass", "gatewayclasses", scope="Cluster")
        )
        for number in range(count):
            labels = {REV: "prod"} if number % 3 == 1 else {}
            class_name = "istio-waypoint" if number % 4 == 2 else "istio"
            done = self.cluster.kubectl("apply", "-f", "-", stdin=gateway_of(f"g{number}", PLACE, labels, class_name))
            assert done.returncode == 0, done.stderr

    def labels(self) -> dict[str, str | None]:
        """The label of each Gateway."""
        return {
            gateway["metadata"]["name"]: gateway["metadata"].get("labels", {}).get(REV)
            for gateway in self.cluster.items(PATH)
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Work beside the test."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join(60)

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 -- a look may meet any change of the cluster; the test asserts that none failed
                self.faults.append(repr(error))

    def _look(self) -> None:
        lists = [
            self.cluster.request(path) for path in (UPGRADES, PATH)
        ]  # a pin is older than the tag that is read after it
        if any(status == HTTPStatus.TOO_MANY_REQUESTS for status, _ in lists):
            return  # the storage of a new resource is not ready yet
        upgrades, gateways = (listed["items"] for _, listed in lists)
        step = next((upgrade.get("status", {}).get("step", "") for upgrade in upgrades), "")
        webhook = self.cluster.get("mutatingwebhookconfiguration", "istio-revision-tag-prod")
        tagged = webhook["metadata"]["labels"][REV]
        owners = {}
        for gateway in gateways:
            label = gateway["metadata"].get("labels", {}).get(REV, "prod")
            owners[gateway["metadata"]["name"]] = tagged if label == "prod" else label
        changed = tuple(name for name, owner in owners.items() if self.owners.get(name, owner) != owner)
        if changed:
            self.steps.append(OwnerStep(time.monotonic(), step, changed))
            others = [name for name in owners if name not in changed and self.in_service.get(name) != owners[name]]
            self.overlaps += [f"{changed} beside {others}"] if others else []
        self.owners = owners
        for gateway in gateways:
            self._serve(gateway, owners[gateway["metadata"]["name"]])

    def _serve(self, gateway: dict[str, Any], owner: str) -> None:
        meta = gateway["metadata"]
        name = meta["name"]
        self.cluster.apply(deployment_of(meta, owner))
        deployment = self.cluster.request(f"/apis/apps/v1/namespaces/{PLACE}/deployments/{name}-istio")[1]
        status, generation = deployment.get("status", {}), deployment["metadata"]["generation"]
        is_ready = (
            status.get("observedGeneration") == generation
            and status.get("availableReplicas", 0) == status.get("updatedReplicas", 0) == status.get("replicas", 0) == 2
        )
        if is_ready:
            self.in_service[name] = owner
        conditions = [
            {"type": kind, "status": "True", "reason": kind, "observedGeneration": meta["generation"], "message": owner}
            for kind in ("Accepted", "Programmed")
        ]
        if gateway.get("status", {}).get("conditions") != conditions:
            patch = {"status": {"conditions": conditions}}
            self.cluster.request(f"{PATH}/{name}/status", patch, "PATCH", "application/merge-patch+json")


def deployment_of(gateway: dict[str, Any], owner: str) -> dict[str, Any]:
    """The Deployment that istiod has for a Gateway: it copies the labels of the Gateway into its pods."""
    name = gateway["name"]
    selector = {f"{GROUP}/gateway-name": name}
    labels = {**gateway.get("labels", {}), **selector, "sidecar.istio.io/inject": "false"}
    reference = {"apiVersion": f"{GROUP}/v1", "kind": "Gateway", "name": name, "uid": gateway["uid"]}
    container = {"name": "istio-proxy", "image": f"registry.example.com/proxyv2:{owner}"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{name}-istio", "namespace": PLACE, "ownerReferences": [reference]},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": labels, "annotations": {REV: owner}},
                "spec": {"containers": [container]},
            },
        },
    }
