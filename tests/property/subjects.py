"""Pods to mutate, with the revisions that inject them: those of the control planes, and replicas."""

from __future__ import annotations

from functools import cache
from typing import Any

from injector.istio.revision import Revision
from injector.library import load_revisions
from tests import controlplanes
from tests.factories import make_container, make_pod

EMBEDDED = "1.28"
"""With what minor the embedded revisions are tried."""
PROBE = {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10}


def probed(name: str) -> dict[str, Any]:
    """A container with a port, a probe, variables and a mount."""
    ports = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    env = [{"name": "MODE", "value": name}]
    return make_container(
        name, ports=ports, readinessProbe=PROBE, env=env, volumeMounts=[{"name": "data", "mountPath": "/data"}]
    )


def replica(name: str) -> dict[str, Any]:
    """A pod as a ReplicaSet makes it."""
    pod = make_pod(
        labels={"app": name, "version": "v1", "pod-template-hash": "5d8f7c"},
        annotations={"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": "0"},
        containers=[probed(name)],
        volumes=[{"name": "data", "emptyDir": {}}],
        serviceAccountName=name,
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-5d8f7c", "uid": "u", "controller": True}
    pod["metadata"] |= {"generateName": f"{name}-5d8f7c-", "ownerReferences": [owner]}
    del pod["metadata"]["name"]
    return pod


def sized() -> dict[str, Any]:
    """A replica whose proxy asks for resources of its own."""
    pod = replica("web")
    resources = {"CPU": "100m", "CPULimit": "100m", "Memory": "64Mi", "MemoryLimit": "128Mi"}
    pod["metadata"]["annotations"] |= {f"sidecar.istio.io/proxy{name}": value for name, value in resources.items()}
    return pod


def two_probed() -> dict[str, Any]:
    """A pod whose containers' names sort otherwise once a slash follows them."""
    pod = replica("web")
    pod["spec"]["containers"] = [probed("web-a"), probed("web")]
    return pod


@cache
def subjects(name: str) -> tuple[tuple[Revision, list[dict[str, Any]]], ...]:
    """The revisions of a control plane's minor, each with the pods that are injected with it, and with replicas."""
    common = [replica("web"), replica("shop-1"), sized(), two_probed()]
    shipped = [(revision, common) for revision in load_revisions(embedded=True).values()] if name == EMBEDDED else []
    return (*shipped, *((revision, [*pods, *common]) for revision, pods in controlplanes.subjects(name)))
