"""Pods created through a real API server by 10, 50, 200 and 500 clients at once: creations a second, p50, p99 and failures.

    scripts/reliability creations
    scripts/reliability creations --unseen --istiod https://istiod.istio-system.svc:15017/inject --istiod-ca ca.crt

The rows are: no webhook, a webhook that allows every pod without a patch, and one and three replicas of the injector, each of which serves
a namespace of its own. ``--istiod`` adds a running istiod. All webhooks have ``failurePolicy: Fail``, so that a fault is a failure. Each
webhook runs on a processor core that no other program of the test has, see ``apiserver``; start an istiod on it with ``taskset``.

Every client creates one pod after the other, over a connection of its own. The pods are replicas of one workload; with ``--unseen`` each
belongs to another workload. A pod of the injector and of istiod counts only if it has a sidecar. The exit status tells whether all
pods of the injector were created. It is 69 if a program of the cluster is missing. ``--record`` appends the figures to
``bench/results/creations.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.recording import record, show
from bench.serving import add_revision_option, revisions_folder
from tests.e2e.cluster import Cluster, running
from tests.e2e.controlplane import UNAVAILABLE, missing
from tests.manifests import account_of, make_object, namespace_of, pod_webhook
from tests.reliability.long.apiserver import (
    LABEL,
    REQUEST_LIMIT,
    Webhook,
    constant_command,
    injector_command,
    pod_in,
    reserved_core,
    serving,
    wait_until_called,
)
from tests.webhook.certificates import Order, issue

CLIENTS: Final = (10, 50, 200, 500)
REPLICAS: Final = 3
NONE: Final = "no webhook"
ALLOWS: Final = "a webhook that allows"
ONE: Final = "injector, 1 replica"
SEVERAL: Final = f"injector, {REPLICAS} replicas"


@dataclass(frozen=True, slots=True)
class Subject:
    """A row of the table: the namespaces in which pods are created in turn, and whether these must have a sidecar."""

    namespaces: Sequence[str]
    is_injected: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all rows in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="clients at once (default: 10 to 500)")
    parser.add_argument("--pods", type=int, default=1_000, help="pods of each run, and at least two for each client")
    parser.add_argument("--rounds", type=int, default=3, help="how many runs each row has; the medians count")
    parser.add_argument("--unseen", action="store_true", help="each pod belongs to another workload")
    parser.add_argument("--istiod", metavar="URL", help="the webhook of a running istiod, for one more row")
    parser.add_argument("--istiod-ca", type=Path, metavar="FILE", help="the CA of its certificate")
    parser.add_argument("--istiod-name", default="istiod", metavar="TEXT", help="its release, for the table")
    parser.add_argument("--shared-cores", action="store_true", help="run everything on all processor cores")
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results")
    add_revision_option(parser)
    options = parser.parse_args(arguments)
    if (options.istiod is None) != (options.istiod_ca is None):
        parser.error("give --istiod and --istiod-ca, or none of them")
    if reason := missing():
        print(f"error: {reason}", file=sys.stderr)
        return UNAVAILABLE
    core = None if options.shared_cores else reserved_core()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options, core)
    show("creations, unseen pods" if options.unseen else "creations, replicas", rows)
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")
    if options.record:
        record("creations", {"pods": options.pods, "rounds": options.rounds, "unseen": options.unseen, **rows})
    return 1 if any(row["failures"] for name, row in rows.items() if name.startswith((ONE, SEVERAL))) else 0


def measure(folder: Path, options: argparse.Namespace, core: int | None) -> dict[str, dict[str, float]]:
    """Return the medians of each row and number of clients. The order of the rows changes each round."""
    pair = issue(Order(names=("127.0.0.1",)))
    certificate, key = map(str, pair.write(folder))
    tls = ["--tls-cert-file", certificate, "--tls-key-file", key]
    revisions = revisions_folder(folder, options.revision, 1)
    replicas = [f"replica-{number}" for number in range(REPLICAS)]
    subjects = {NONE: Subject(["plain"]), ALLOWS: Subject(["allowed"]), ONE: Subject(["one"], is_injected=True)}
    subjects[SEVERAL] = Subject(replicas, is_injected=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(running(Cluster(folder / "cluster", environment={})))
        webhooks = [
            stack.enter_context(serving(name, injector_command(tls, revisions), core)) for name in ("one", *replicas)
        ]
        allowing = stack.enter_context(serving("allowed", constant_command(tls, None), core))
        addresses = {webhook.namespace: (address_of(webhook), pair.chain_pem) for webhook in (*webhooks, allowing)}
        if options.istiod is not None:
            subjects[options.istiod_name] = Subject(["istiod"], is_injected=True)
            addresses["istiod"] = options.istiod, options.istiod_ca.read_bytes()
        for namespace in ("plain", *addresses):
            cluster.apply(namespace_of(namespace), account_of(namespace))
        cluster.apply(configuration(addresses))
        for webhook in webhooks:
            wait_until_called(cluster, webhook)
        return run_rounds(cluster, subjects, options)


def run_rounds(
    cluster: Cluster, subjects: dict[str, Subject], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Run every row for each number of clients, some rounds, after a short run that does not count."""
    runs: dict[str, list[dict[str, float]]] = {}
    numbers = iter(range(sys.maxsize))
    for subject in subjects.values():
        create_pods(cluster, subject, 20, 4, numbers)
    for clients in options.clients:
        pods = max(options.pods, 2 * clients)
        for number in range(options.rounds):
            for name in list(subjects)[:: 1 if number % 2 else -1]:
                run = create_pods(cluster, subjects[name], pods, clients, numbers if options.unseen else None)
                runs.setdefault(f"{name}, {clients} clients", []).append(run)
                print(f"{name}, {clients} clients: {run['pods_s']:.0f} pods/s", file=sys.stderr, flush=True)
    ordered = (f"{name}, {clients} clients" for clients in options.clients for name in subjects)
    return {
        name: {figure: statistics.median(run[figure] for run in runs[name]) for figure in runs[name][0]}
        for name in ordered
    }


def address_of(webhook: Webhook) -> str:
    """Return the URL of a webhook of this test."""
    return f"https://127.0.0.1:{webhook.port}/inject/r0"


def configuration(addresses: dict[str, tuple[str, bytes]]) -> dict[str, Any]:
    """Return the configuration by which the API server calls the webhook at each URL for its namespace."""
    entries = [
        pod_webhook(
            f"{namespace}.bench.example.com",
            {"url": url, "caBundle": base64.b64encode(bundle).decode()},
            namespace=namespace,
            failurePolicy="Fail",
        )
        for namespace, (url, bundle) in addresses.items()
    ]
    return make_object("MutatingWebhookConfiguration", "bench", webhooks=entries)


def create_pods(
    cluster: Cluster, subject: Subject, pods: int, clients: int, numbers: Iterator[int] | None
) -> dict[str, float]:
    """Create pods with some clients at once, and return the figures. ``numbers`` name the workloads; None for replicas of one."""
    began = time.monotonic()
    latencies, faults = asyncio.run(_create_pods(cluster, subject, pods, clients, numbers))
    seconds = time.monotonic() - began
    for fault, times in faults.most_common(3):
        print(f"{times} x {fault}", file=sys.stderr)
    latencies.sort()
    if not latencies:
        raise SystemExit("no pod was created")
    p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
    return {"pods_s": len(latencies) / seconds, "p50_ms": 1e3 * p50, "p99_ms": 1e3 * p99, "failures": faults.total()}


async def _create_pods(
    cluster: Cluster, subject: Subject, pods: int, clients: int, numbers: Iterator[int] | None
) -> tuple[list[float], Counter[str]]:
    """Return the seconds that each pod took, and what was answered in place of the others."""
    bodies, latencies, faults = requests_for(subject, pods, numbers), list[float](), Counter[str]()

    async def work(session: aiohttp.ClientSession) -> None:
        for path, body in bodies:
            began = time.monotonic()
            try:
                async with session.post(path, data=body) as answer:
                    text = await answer.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                faults[type(error).__name__] += 1
                continue
            seconds = time.monotonic() - began
            if answer.status != HTTPStatus.CREATED:
                faults[f"HTTP {answer.status}: {text[:300].decode(errors='replace')}"] += 1
            elif subject.is_injected and LABEL.encode() not in text:
                faults["a pod without a sidecar"] += 1
            else:
                latencies.append(seconds)

    connector = aiohttp.TCPConnector(ssl=cluster.tls, limit=clients)
    limits = aiohttp.ClientTimeout(total=REQUEST_LIMIT)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(cluster.url, connector=connector, timeout=limits, headers=headers) as session:
        await asyncio.gather(*(work(session) for _ in range(clients)))
    return latencies, faults


def requests_for(subject: Subject, pods: int, numbers: Iterator[int] | None) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the body of each request."""
    for namespace in islice(cycle(subject.namespaces), pods):
        pod = pod_in(namespace)
        name = "app" if numbers is None else f"app-{next(numbers)}"
        del pod["metadata"]["name"]
        pod["metadata"] |= {"generateName": f"{name}-", "labels": {"app": name, "run": name}}
        yield f"/api/v1/namespaces/{namespace}/pods", json.dumps(pod).encode()


if __name__ == "__main__":
    sys.exit(main())
