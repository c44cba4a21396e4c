# ruff: noqa: ARG002 -- the signatures are those of the client
"""Measures an upgrade of 5,000 workloads: ``scripts/reliability upgrade``.

The plan is that of the command, of a cluster with Istio's own templates behind a small API server. The loop runs the upgrade to its end
against an API server in this process, whose clock runs only while everything waits, so that its requests do not depend on the machine.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import resource
import sys
import tempfile
from bisect import bisect
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from aiohttp import web
from prometheus_client import CollectorRegistry

from injector.cluster import resources as r
from injector.cluster.client import Page
from injector.cluster.resources import Resource, Scope
from injector.cluster.session import Session
from injector.istio.webhooks.configurations import WebhookOptions, tag_webhook
from injector.metrics import Metrics
from injector.revisions.tags import Tag, tag_annotations
from injector.upgrade.plan import Workload
from injector.upgrade.run import Runner
from injector.upgrade.state import COMPLETED, State
from injector.upgrade.store import UPGRADES, Store
from injector.upgrade.tag import TagView
from tests import controlplanes
from tests.cli.clusters import deployment
from tests.cluster.fakeapi import FakeApi, refusal
from tests.cluster.fakes import in_fake_time
from tests.factories import owner_of
from tests.manifests import namespace_of, revision_maps
from tests.reliability.kubeapi import KubeApi
from tests.reliability.long.rows import Row, finish, parser
from tests.reliability.replicas import ROOT
from tests.upgrade.fleets import DOCUMENT, NEW, OLD, PROD, FakeSurveyor, workload

HOME: Final = "istio-system"
PLACES: Final = 200
REPLICAS: Final = 2
MOST_SECONDS, MOST_MB, MOST_RATE = 30.0, 400.0, 20.0
ROLLOUT: Final = 20.0
"""Seconds until the pods of a restarted workload are replaced."""
LIMITS: Final = {"workloads": 50, "unavailablePods": 100, "unavailablePodsPerNamespace": 10}
SPEC: Final[dict[str, Any]] = {"waves": [{"weight": 10}, {"weight": 50}, {"weight": 100}], "limits": LIMITS}
STATUS: Final = "sidecar.istio.io/status"


def main() -> int:
    """Measure, and return the exit status."""
    options_of = parser(__doc__)
    options_of.add_argument("--workloads", type=int, default=5000, metavar="COUNT")
    options = options_of.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [asyncio.run(planned(Path(folder), options.workloads)), loaded(options.workloads)]
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")
    return finish({"scripts/reliability upgrade": rows}, record=options.record)


def pods_of(name: str, place: str, revision: str) -> list[dict[str, Any]]:
    """Return the pods of a Deployment with a sidecar."""
    template = deployment(name, place)["spec"]["template"]
    owner = owner_of(f"{name}-7c9f8d6b54")
    labels = {**template["metadata"].get("labels", {}), "pod-template-hash": "7c9f8d6b54"}
    meta = {"namespace": place, "labels": labels, "ownerReferences": [owner], "generateName": f"{owner['name']}-"}
    status = json.dumps({"containers": ["istio-proxy"], "revision": revision})
    return [
        {
            "metadata": {**meta, "name": f"{owner['name']}-{revision}-{number}", "annotations": {STATUS: status}},
            "spec": template["spec"],
            "status": {"phase": "Running"},
        }
        for number in range(REPLICAS)
    ]


class Cluster(KubeApi):
    """The API server of a plan. It has no other API groups than those of its objects."""

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        return await super()._answer(request) if "limit" in request.query else web.json_response({}, status=404)


async def planned(folder: Path, count: int) -> Row:
    """Return the row of ``injector upgrade plan``."""
    api = Cluster(folder)
    for name, minor in ((OLD, "1.28"), (NEW, "1.30")):
        plane = controlplanes.plane_of(controlplanes.best(minor))
        values = {**yaml.safe_load(plane.values), "revision": name}
        files = {"config": plane.config, "values": json.dumps(values)}
        api.put(r.CONFIG_MAPS, *revision_maps(HOME, name, mesh=plane.mesh, **files))
    api.put(r.WEBHOOKS, tag_webhook("prod", OLD, WebhookOptions()))
    api.put(r.NAMESPACES, *(namespace_of(f"place-{number}", {"istio.io/rev": "prod"}) for number in range(PLACES)))
    for number in range(count):
        name, place = f"web-{number}", f"place-{number % PLACES}"
        api.put(r.DEPLOYMENTS, deployment(name, place))
        api.put(r.PODS, *pods_of(name, place, OLD))
    await api.serve()
    document = folder / "up.yaml"
    document.write_text(json.dumps({**DOCUMENT, "spec": {**DOCUMENT["spec"], **SPEC}}))
    began, before = asyncio.get_running_loop().time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ("-m", "injector", "upgrade", "plan", str(document), "--kubeconfig", str(api.kubeconfig), "-o", "json")
    child = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    printed, _ = await child.communicate()
    wall, after = asyncio.get_running_loop().time() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    await api.stop()
    actions = json.loads(printed)["actions"]
    assert actions == {"restart": count}, actions
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = after.ru_maxrss * 1024 / 1e6
    figure = f"{wall:.0f} s, {spent:.0f} s of processor time, {peak:.0f} MB"
    targets = f"< {MOST_SECONDS:g} s of processor time, < {MOST_MB:g} MB"
    return Row(f"plan of {count} workloads", targets, figure, spent < MOST_SECONDS and peak < MOST_MB)


@dataclass
class Fleet(FakeApi):
    """Deployments whose pods are replaced some time after each restart, by those of the tag's revision."""

    tag: Tag = PROD
    restarts: Counter[str] = field(default_factory=Counter)
    sent: list[float] = field(default_factory=list)
    _queues: list[tuple[str, asyncio.Queue[bytes]]] = field(default_factory=list)

    def fill(self, count: int) -> None:
        for number in range(count):
            name, place = f"web-{number}", f"place-{number % PLACES}"
            obj = deployment(name, place)
            obj["spec"]["replicas"] = REPLICAS
            self.put(r.DEPLOYMENTS, {**obj, "status": _status(1)})
            for pod in pods_of(name, place, OLD):
                self.put(r.PODS, pod)

    def move(self, tag: Tag, expected: Tag | None) -> None:
        assert self.tag == expected
        self.tag = tag
        webhook = tag_webhook("prod", tag.revision, WebhookOptions())
        webhook["metadata"]["annotations"] = tag_annotations(tag)
        self.put(r.WEBHOOKS, webhook)

    async def find_resource(self, kind: str, group: str) -> Resource | None: ...

    async def create(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        await self._called("create", resource)
        status = json.dumps({"containers": ["istio-proxy"], "revision": NEW})
        meta = {**manifest["metadata"], "annotations": {STATUS: status}}
        return {**manifest, "metadata": meta, "status": {"allowed": True}}

    async def merge(self, resource: Resource, manifest: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        await self._called("merge", resource)
        meta = manifest["metadata"]
        item = copy.deepcopy(self.objects[resource.plural, meta["namespace"], meta["name"]])
        if item["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            raise refusal("conflict", 409)
        item["metadata"] |= {
            "annotations": meta["annotations"],
            "generation": item["metadata"].get("generation", 1) + 1,
        }
        item["metadata"]["uid"] = meta["name"]
        self.restarts[meta["name"]] += 1
        asyncio.get_running_loop().call_later(ROLLOUT, self._roll, meta["namespace"], meta["name"])
        return self._write(resource, item)

    def _roll(self, place: str, name: str) -> None:
        for pod in pods_of(name, place, OLD):
            self.drop(r.PODS, pod["metadata"]["name"], place)
        for pod in pods_of(name, place, NEW):
            self.put(r.PODS, pod)
        item = self.objects["deployments", place, name]
        self.put(r.DEPLOYMENTS, {**item, "status": _status(item["metadata"]["generation"])})

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        await self._called("list", scope.resource)
        return Page([obj for key, obj in self.objects.items() if key[0] == scope.resource.plural], str(self.version))

    async def watch(self, scope: Scope, *, resource_version: str, seconds: int) -> AsyncGenerator[bytes, None]:
        await self._called("watch", scope.resource)
        queue = asyncio.Queue[bytes]()
        self._queues.append((scope.resource.plural, queue))
        yield b""
        while True:
            yield await queue.get()

    def _tell(self, resource: Resource, kind: str, subject: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": subject}).encode()
        for plural, queue in self._queues:
            if plural == resource.plural:
                queue.put_nowait(line)

    async def _called(self, call: str, resource: Resource, *arguments: str) -> None:
        self.sent.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.005)


def _status(generation: int) -> dict[str, Any]:
    counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), REPLICAS)
    return {"observedGeneration": generation, **counts}


@in_fake_time
async def run_of(fleet: Fleet, count: int) -> State:
    """Run the upgrade of a fleet to its end."""
    loop = asyncio.get_running_loop()

    def clock() -> float:
        return 1e9 + loop.time()

    def surveyed() -> list[Workload]:
        names = [(f"web-{number}", f"place-{number % PLACES}") for number in range(count)]
        return [workload(name, place, has=NEW if fleet.restarts[name] else OLD) for name, place in names]

    def write(session: Session, place: str, tag: Tag, expected: TagView) -> None:
        del session, place
        fleet.move(tag, expected.tag)

    fleet.put(UPGRADES, {**DOCUMENT, "spec": {**DOCUMENT["spec"], **SPEC}})
    metrics, surveyor = Metrics(CollectorRegistry()), FakeSurveyor(surveyed)
    runner = Runner(fleet, surveyor, HOME, metrics, lambda *_: None, None, clock, write)
    return await runner.run(Store(fleet, "up", "runner", clock))


def loaded(count: int) -> Row:
    """Return the row of the requests of the loop."""
    fleet = Fleet()
    fleet.fill(count)
    fleet.move(PROD, PROD)
    state = run_of(fleet, count)
    assert state.phase == COMPLETED, state
    assert set(fleet.restarts.values()) == {1}
    assert len(fleet.restarts) == count
    rate = max(bisect(fleet.sent, at + 10) - index for index, at in enumerate(fleet.sent)) / 10
    figure = f"{rate:.1f} at most, {len(fleet.sent) / count:.1f} for each workload, in {fleet.sent[-1] / 3600:.1f} h"
    return Row(f"requests a second of the loop, {count} workloads", f"< {MOST_RATE:g}", figure, rate < MOST_RATE)


if __name__ == "__main__":
    sys.exit(main())
