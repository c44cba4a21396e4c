"""Record the AdmissionReviews that a real API server sends for the pods of usual workloads.

``python -m tests.webhook.reviews.record`` starts an API server with its controllers (see ``tests/e2e/controlplane.py``) on the
loopback, registers a webhook that allows every pod, creates the workloads below and writes the exact bodies beside this file: one JSON
Lines file for each workload, in the order of arrival, and ``provenance.json``. The cluster and its keys are removed afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.architecture.serving import free_ports
from tests.e2e.cluster import Cluster, running
from tests.e2e.controlplane import missing
from tests.manifests import make_object, namespace_of, pod_webhook
from tests.webhook.certificates import Order, issue

FOLDER = Path(__file__).resolve().parent
NAMESPACE = "shop"
DEADLINE = 120.0
"""Seconds until the pods of a workload must have been asked for."""
PAUSE = 2.5
"""Seconds between two steps of a Deployment: the time in managedFields has a resolution of one second."""

PROBE = {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10}
ENV = [
    {"name": "MODE", "value": "production"},
    {"name": "JAVA_OPTS", "value": '-Xmx512m -Dgreeting="hello, world"'},
    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "DB_USER", "valueFrom": {"configMapKeyRef": {"name": "web", "key": "user", "optional": True}}},
    {"name": "CPU_LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
]
RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}


def pod_template(app: str, **spec: Any) -> dict[str, Any]:
    """Return a pod template as users write one: labels, annotations, variables, probes and volumes."""
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8080",
        "checksum/config": "6ae9f8a1c6e1d8e5",
        "example.com/routes": '{"routes":[{"path":"/","port":8080}]}',
    }
    container = {
        "name": app,
        "image": f"registry.example.com/team/{app}:1.4.2",
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "grpc", "containerPort": 9090}],
        "env": ENV,
        "envFrom": [{"configMapRef": {"name": app, "optional": True}}],
        "resources": RESOURCES,
        "livenessProbe": {**PROBE, "initialDelaySeconds": 5},
        "readinessProbe": PROBE,
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config", "readOnly": True},
            {"name": "cache", "mountPath": "/var/cache/app"},
        ],
        "securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False},
    }
    volumes = [
        {"name": "config", "configMap": {"name": app, "optional": True}},
        {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
    ]
    labels = {"app": app, "app.kubernetes.io/name": app, "version": "v1"}
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {
            "serviceAccountName": "web",
            "initContainers": [{"name": "migrate", "image": f"registry.example.com/team/{app}-migrate:1.4.2"}],
            "containers": [container],
            "volumes": volumes,
            **spec,
        },
    }


def deployment(replicas: int) -> dict[str, Any]:
    """Return the Deployment, with so many replicas."""
    spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    template = pod_template(
        "web", topologySpreadConstraints=[{**spread, "labelSelector": {"matchLabels": {"app": "web"}}}]
    )
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return make_object("Deployment", "web", NAMESPACE, spec=spec)


def job() -> dict[str, Any]:
    """Return a Job of two pods that run at the same time."""
    template = pod_template("report", restartPolicy="Never", initContainers=[])
    return make_object("Job", "report", NAMESPACE, spec={"completions": 2, "parallelism": 2, "template": template})


def stateful_set() -> dict[str, Any]:
    """Return a StatefulSet with two replicas and a volume for each; both pods are created at once."""
    template = pod_template("store", terminationGracePeriodSeconds=60)
    template["spec"]["containers"][0]["volumeMounts"].append({"name": "data", "mountPath": "/data"})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "serviceName": "store",
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "store"}},
        "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    return make_object("StatefulSet", "store", NAMESPACE, spec=spec)


def bare_pod(name: str) -> dict[str, Any]:
    """Return a pod without an owner."""
    template = pod_template("tool")
    metadata = {"name": name, "namespace": NAMESPACE, **template["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@dataclass
class Recorder:
    """A webhook that allows every pod and keeps the bodies of the reviews."""

    port: int
    tls: ssl.SSLContext
    bodies: list[bytes] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _started: threading.Event = field(default_factory=threading.Event)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append(body)
        review = json.loads(body)
        response = {"uid": review["request"]["uid"], "allowed": True}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})

    async def _serve(self) -> None:
        app = web.Application(client_max_size=8 << 20)
        app.router.add_post("/record", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self.tls).start()
        self._started.set()
        await self._stopped.wait()
        await runner.cleanup()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    @contextmanager
    def running(self) -> Iterator[Recorder]:
        """Serve in a thread until the block ends."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            assert self._started.wait(DEADLINE)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stopped.set)
            thread.join(DEADLINE)

    def taken(self, count: int) -> list[bytes]:
        """Wait for so many bodies, and return them; the next call starts empty.

        Raises:
            TimeoutError: the API server did not ask so often in time.
        """
        deadline = time.monotonic() + DEADLINE
        while len(self.bodies) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.bodies)} of {count} reviews in {DEADLINE:g} s")
            time.sleep(0.05)
        time.sleep(0.5)  # a further pod would be one too many
        taken, self.bodies = self.bodies, []
        assert len(taken) == count, f"{len(taken)} reviews instead of {count}"
        return taken


def webhook(url: str, authority: bytes) -> dict[str, Any]:
    """Return the configuration that sends the API server to the recorder."""
    client = {"url": url, "caBundle": base64.b64encode(authority).decode()}
    entry = pod_webhook("recorder.example.com", client, namespace=NAMESPACE, failurePolicy="Ignore")
    return make_object("MutatingWebhookConfiguration", "recorder", webhooks=[entry])


def wait_until_called(cluster: Cluster, recorder: Recorder) -> None:
    """Return once the API server calls the webhook.

    Raises:
        TimeoutError: it does not do so in time.
    """
    deadline = time.monotonic() + DEADLINE
    while not recorder.bodies:
        if time.monotonic() > deadline:
            raise TimeoutError("the API server does not call the webhook")
        cluster.tried(bare_pod("trial"))
        time.sleep(0.2)
    time.sleep(0.5)
    recorder.bodies.clear()


def recorded(cluster: Cluster, recorder: Recorder) -> dict[str, list[bytes]]:
    """Create the workloads and return the reviews of each."""
    reviews: dict[str, list[bytes]] = {"deployment": []}
    for replicas in (2, 4, 6):
        cluster.apply(deployment(replicas))
        reviews["deployment"] += recorder.taken(2)
        time.sleep(PAUSE)
    cluster.apply(job())
    reviews["job"] = recorder.taken(2)
    cluster.apply(stateful_set())
    reviews["statefulset"] = recorder.taken(2)
    cluster.tried(bare_pod("tool"))
    reviews["dry-run"] = recorder.taken(1)
    cluster.apply(bare_pod("tool"))
    reviews["pod"] = recorder.taken(1)
    return reviews


def write(reviews: dict[str, list[bytes]], version: str) -> None:
    """Write the bodies, each of which is one line, and where they come from."""
    for name, bodies in reviews.items():
        lines = [body.removesuffix(b"\n") for body in bodies]
        assert not any(b"\n" in line for line in lines), "a body with a line break inside is not one line"
        (FOLDER / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    provenance = {"kube-apiserver": version, "recorded": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    (FOLDER / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")


def main() -> int:
    """Record all; the exit status is 1 where there is no API server to ask."""
    if reason := missing(controllers=True):
        sys.stderr.write(f"{reason}\n")
        return 1
    port = free_ports(1)[0]
    issued = issue(Order(names=("127.0.0.1",)))
    with tempfile.TemporaryDirectory() as folder:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*issued.write(Path(folder)))
        cluster = Cluster(Path(folder) / "cluster", controllers=True)
        with running(cluster), Recorder(port, tls).running() as recorder:
            secrets = [{"name": "registry"}]
            cluster.apply(
                namespace_of(NAMESPACE), make_object("ServiceAccount", "web", NAMESPACE, imagePullSecrets=secrets)
            )
            cluster.apply(webhook(f"https://127.0.0.1:{port}/record", issued.chain_pem))
            wait_until_called(cluster, recorder)
            reviews = recorded(cluster, recorder)
            version = cluster.version()
    write(reviews, version)
    for name, bodies in reviews.items():
        sys.stderr.write(f"{name}: {len(bodies)} reviews\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
