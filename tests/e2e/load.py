"""Pods that keep being created while a test does something, as the controllers of many workloads would."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.e2e.cluster import Cluster
from tests.e2e.served import LIMIT
from tests.factories import created_by, make_pod

# What a ReplicaSet's name has behind its Deployment's.
HASH = "7c9f8d6b54"
WORKERS = 12
LONGEST_ANSWER = 40.0
"""Seconds: longer than the API server waits for a webhook."""


@dataclass(frozen=True)
class Pod:
    """One creation: of which workload, when, and what came of it."""

    workload: int
    requested: float
    answered: float
    revision: str
    image: str
    failure: str


@dataclass
class Load:
    """Creates pods in a namespace, of so many workloads in turn, so many a second or as many as the machine can.

    Each workload's pods are created one after another, so their order is that of the answers.
    """

    cluster: Cluster
    namespace: str
    workloads: int = 50
    rate: float = 50.0
    pods: list[Pod] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def failures(self) -> list[str]:
        """Why creations failed."""
        return [pod.failure for pod in self.pods if pod.failure]

    def since(self, moment: float) -> list[Pod]:
        """The pods that were asked for after a moment of the monotonic clock."""
        return [pod for pod in self.pods if pod.requested > moment]

    def more(self, count: int) -> list[Pod]:
        """Wait for so many pods that are asked for from now on."""
        return self._until(lambda pods: len(pods) >= count)

    def from_every_workload(self) -> list[Pod]:
        """Wait for pods of every workload that are asked for from now on."""
        return self._until(lambda pods: len({pod.workload for pod in pods}) == self.workloads)

    def _until(self, enough: Callable[[list[Pod]], bool]) -> list[Pod]:
        now = time.monotonic()
        while not enough(pods := self.since(now)):
            assert time.monotonic() < now + LIMIT, f"{len(pods)} pods in {LIMIT:g} s, {self.failures[:3]}"
            time.sleep(0.1)
        return pods

    def summary(self) -> str:
        """The rate that was reached, and how long creations took."""
        took = sorted(pod.answered - pod.requested for pod in self.pods)
        seconds = self.pods[-1].answered - self.pods[0].requested
        return (
            f"{self.namespace}: {len(took)} pods, {len(took) / seconds:.0f}/s of {self.rate:.0f} asked for, "
            f"p50 {took[len(took) // 2] * 1e3:.0f} ms, p99 {took[len(took) * 99 // 100] * 1e3:.0f} ms"
        )

    async def run(self) -> None:
        """Create until told to stop."""
        limits = aiohttp.ClientTimeout(total=LONGEST_ANSWER)
        connector = aiohttp.TCPConnector(ssl=self.cluster.tls)
        async with aiohttp.ClientSession(self.cluster.url, connector=connector, timeout=limits) as session:
            await asyncio.gather(*(self._work(session, worker) for worker in range(WORKERS)))

    async def _work(self, session: aiohttp.ClientSession, worker: int) -> None:
        """Create the pods of every twelfth workload, each when it is due."""
        started, done = time.monotonic(), 0
        while not self._stop.is_set():
            for workload in range(worker, self.workloads, WORKERS):
                start = started + (done * WORKERS + worker) / self.rate
                await asyncio.sleep(max(0.0, start - time.monotonic()))
                if self._stop.is_set():
                    break
                self.pods.append(await self._create(session, workload))
                done += 1

    async def _create(self, session: aiohttp.ClientSession, workload: int) -> Pod:
        requested = time.monotonic()
        path, pod = f"/api/v1/namespaces/{self.namespace}/pods", owned_pod(f"w{workload}")
        try:
            async with session.post(path, json=pod) as answer:
                created, status = await answer.json(), answer.status
        except (aiohttp.ClientError, TimeoutError) as error:
            return Pod(workload, requested, time.monotonic(), "", "", repr(error))
        failure = "" if status == 201 else str(created.get("message"))
        return Pod(workload, requested, time.monotonic(), *sidecar(created), failure)

    def stop(self) -> None:
        """Create no more."""
        self._stop.set()


def owned_pod(workload: str) -> dict[str, Any]:
    """A pod as the ReplicaSet of a Deployment creates it."""
    pod = created_by(make_pod(labels={"app": workload, "pod-template-hash": HASH}), f"{workload}-{HASH}")
    del pod["metadata"]["name"]
    return pod


def sidecar(pod: dict[str, Any]) -> tuple[str, str]:
    """The revision that injected a pod, and the image of its proxy; both are empty where it has none."""
    spec, annotations = pod.get("spec", {}), pod.get("metadata", {}).get("annotations", {})
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    images = [container["image"] for container in containers if container["name"] == "istio-proxy"]
    if not images:
        return "", ""
    return json.loads(annotations["sidecar.istio.io/status"])["revision"], images[0]


@contextmanager
def created_meanwhile(load: Load) -> Iterator[Load]:
    """Create pods while the block runs."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(load.run())
        except BaseException as error:  # noqa: BLE001 -- told where the test is
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield load
    finally:
        load.stop()
        thread.join(LIMIT)
    assert not thread.is_alive()
    assert errors == []
