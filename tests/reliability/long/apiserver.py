"""Pods per second through a real API server: with the injector, and with a webhook that answers every review with one constant patch.

Both serve TLS on the loopback, and the API server calls each for a namespace of its own. Eight workers create
pods, in turn with the one and the other. The constant patch is the injector's own for such a pod, so that the API server does the same
work. Every pod has to be injected.

Each webhook runs on a processor core that it has to itself while it is measured, and everything else on the other cores, so that a webhook
does not take the API server's time. With ``--shared-cores`` all run on all cores. The API server collects garbage as it does by default.

The exit status tells whether the ratio of the medians reaches the target. It is 69 if a program of the cluster is missing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp

from bench.serving import add_revision_option, revision_in, revisions_folder
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from tests.architecture.serving import free_ports
from tests.e2e.cluster import Cluster, running
from tests.e2e.controlplane import UNAVAILABLE, missing
from tests.manifests import account_of, make_object, namespace_of, pod_webhook
from tests.reliability.long.rows import Row, finish, parser
from tests.reliability.replicas import ROOT, processor_time
from tests.webhook.certificates import Order, issue

WORKERS = 8
TARGET = 0.8
"""Of the constant webhook's pods per second."""
LABEL = "service.istio.io/canonical-name"
"""Both patches add it."""
START_LIMIT = 240.0
REQUEST_LIMIT = 120.0


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook that serves one namespace."""

    namespace: str
    port: int
    process: subprocess.Popen[bytes]


def main() -> int:
    """Measure both webhooks in turn."""
    options_of = parser(__doc__)
    options_of.add_argument("--pods", type=int, default=500, help="how many pods each run creates")
    options_of.add_argument("--rounds", type=int, default=25, help="how many runs each webhook has; the medians count")
    options_of.add_argument("--shared-cores", action="store_true", help="run everything on all processor cores")
    add_revision_option(options_of)
    options = options_of.parse_args()
    if reason := missing():
        print(f"error: {reason}", file=sys.stderr)
        return UNAVAILABLE
    core = None if options.shared_cores else reserved_core()
    with tempfile.TemporaryDirectory() as folder:
        revisions = revisions_folder(Path(folder), options.revision, 1)
        medians = measured(Path(folder), revisions, options.pods, options.rounds, core)
    ratio = medians["injector"]["pods_s"] / medians["constant patch"]["pods_s"]
    figures = ", ".join(
        f"{name} {row['pods_s']:.0f} ({row['lowest']:.0f} to {row['highest']:.0f})" for name, row in medians.items()
    )
    figure = f"{ratio:.3f} ({figures} pods/s, medians of {options.rounds})"
    for name, row in medians.items():
        print(name, " ".join(f"{key}={value:.3f}" for key, value in row.items()))
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")
    where, flag = (", all on the same cores", " --shared-cores") if core is None else ("", "")
    test, target = f"{WORKERS} workers create pods on a real API server{where}", f">= {TARGET} of a constant webhook"
    rows = [Row(test, target, figure, ratio >= TARGET)]
    return finish({f"scripts/reliability apiserver{flag}": rows}, record=options.record)


def reserved_core() -> int:
    """Take a core from this process and all that it will start, for the webhooks, and return its number.

    Raises:
        SystemExit: there is only one.
    """
    *others, last = sorted(os.sched_getaffinity(0))
    if not others:
        raise SystemExit("not measured: there is one processor core; --shared-cores measures on it")
    os.sched_setaffinity(0, others)
    return last


def measured(folder: Path, revisions: Path, pods: int, rounds: int, core: int | None) -> dict[str, dict[str, float]]:
    """Return the medians of each webhook. The order of the two changes each round; a first run of each does not count.

    ``core`` is the webhooks' processor core; None lets them run on all.
    """
    issued = issue(Order(names=("127.0.0.1",)))
    certificate, key = map(str, issued.write(folder))
    figures: dict[str, list[dict[str, float]]] = {"injector": [], "constant patch": []}
    with ExitStack() as stack:
        cluster = stack.enter_context(running(Cluster(folder / "cluster", environment={})))
        for namespace in ("plain", "injected", "constant"):
            cluster.apply(namespace_of(namespace), account_of(namespace))
        patch = folder / "patch.json"
        patch.write_bytes(patch_of(revisions / "r0", cluster.tried(pod_in("plain"))))
        tls = ["--tls-cert-file", certificate, "--tls-key-file", key]
        webhooks = {
            "injector": stack.enter_context(serving("injected", injector_command(tls, revisions), core)),
            "constant patch": stack.enter_context(serving("constant", constant_command(tls, patch), core)),
        }
        cluster.apply(configuration(webhooks.values(), issued.chain_pem))
        for webhook in webhooks.values():
            wait_until_called(cluster, webhook)
            created(cluster, webhook, pods)
        for number in range(rounds):
            for name in sorted(webhooks, reverse=number % 2 == 0):
                figures[name].append(created(cluster, webhooks[name], pods))
                print(f"round {number}, {name}: {figures[name][-1]['pods_s']:.0f} pods/s", file=sys.stderr, flush=True)
    return {name: median_row(runs) for name, runs in figures.items()}


def median_row(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure, with the lowest and the highest rate."""
    row = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    rates = [run["pods_s"] for run in runs]
    return {**row, "lowest": min(rates), "highest": max(rates)}


def pod_in(namespace: str) -> dict[str, Any]:
    """Return a pod like those of the program that creates them."""
    container = {"name": "c", "image": "registry.invalid/x:1"}
    labels = {"app": "bench", "run": "trial"}
    return make_object("Pod", "trial", namespace, labels, spec={"containers": [container]})


def patch_of(source: Path, pod: dict[str, Any]) -> bytes:
    """Return the injector's patch for a pod as the API server makes it."""
    revision = revision_in(source)
    for name in ("uid", "creationTimestamp", "managedFields"):
        pod["metadata"].pop(name, None)
    result = inject_pod(revision, pod, RequestFacts(pod["metadata"]["namespace"]))
    assert isinstance(result, Injected)
    return result.patch_json


def injector_command(tls: list[str], revisions: Path) -> list[str]:
    """Return the command that starts the injector with the revision, but for the port."""
    ports = ["--bind", "127.0.0.1", "--ops-port", str(free_ports(1)[0]), "--shutdown-delay", "0"]
    return [sys.executable, "-m", "injector", "serve", *ports, *tls, "--revisions-dir", str(revisions)]


def constant_command(tls: list[str], patch: Path | None) -> list[str]:
    """Return the command that starts the webhook with the constant patch, or without one, but for the port."""
    flags = [] if patch is None else ["--patch", str(patch)]
    return [sys.executable, str(Path(__file__).with_name("constantwebhook.py")), *flags, *tls]


@contextmanager
def serving(namespace: str, command: list[str], core: int | None) -> Iterator[Webhook]:
    """Run a webhook until the block ends, on a processor core if one is named."""
    (port,) = free_ports(1)
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    process = subprocess.Popen([*pinned, *command, "--port", str(port)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield Webhook(namespace, port, process)
    finally:
        process.terminate()
        process.wait(timeout=60)


def configuration(webhooks: Any, authority: bytes) -> dict[str, Any]:
    """Return the configuration by which the API server calls each webhook for its namespace."""
    bundle = base64.b64encode(authority).decode()
    entries = [
        pod_webhook(
            f"{webhook.namespace}.bench.example.com",
            {"url": f"https://127.0.0.1:{webhook.port}/inject/r0", "caBundle": bundle},
            namespace=webhook.namespace,
        )
        for webhook in webhooks
    ]
    return make_object("MutatingWebhookConfiguration", "bench", webhooks=entries)


def wait_until_called(cluster: Cluster, webhook: Webhook) -> None:
    """Return once pods of the webhook's namespace are injected.

    Raises:
        SystemExit: they are not, in time.
    """
    deadline, said = time.monotonic() + START_LIMIT, ""
    while time.monotonic() < deadline and webhook.process.poll() is None:
        try:
            if LABEL in cluster.tried(pod_in(webhook.namespace))["metadata"]["labels"]:
                return
        except AssertionError as error:
            said = str(error)
        time.sleep(0.2)
    raise SystemExit(f"pods of namespace {webhook.namespace} are not injected: {said}")


def created(cluster: Cluster, webhook: Webhook, pods: int) -> dict[str, float]:
    """Create pods in the webhook's namespace; return the figures.

    Raises:
        SystemExit: one of the pods was not created, or not injected.
    """
    spent, began = processor_time(webhook.process.pid), time.monotonic()
    taken = sorted(asyncio.run(_created(cluster, webhook.namespace, pods)))
    rate = pods / (time.monotonic() - began)
    spent = processor_time(webhook.process.pid) - spent
    times = {"p50_ms": 1e3 * taken[len(taken) // 2], "p99_ms": 1e3 * taken[len(taken) * 99 // 100]}
    return {"pods_s": rate, **times, "cpu_ms_a_pod": 1e3 * spent / pods}


async def _created(cluster: Cluster, namespace: str, pods: int) -> list[float]:
    """Create pods with some workers at once, and return the seconds that each pod took.

    Raises:
        SystemExit: one of the pods was not created, or not injected.
    """
    path, pod = f"/api/v1/namespaces/{namespace}/pods", pod_in(namespace)
    pod["metadata"]["generateName"] = f"{pod['metadata'].pop('name')}-"
    body, remaining, taken = json.dumps(pod).encode(), iter(range(pods)), []
    limits = aiohttp.ClientTimeout(total=REQUEST_LIMIT)

    async def work(session: aiohttp.ClientSession) -> None:
        for _ in remaining:
            began = time.monotonic()
            async with session.post(path, data=body) as answer:
                text = await answer.read()
            taken.append(time.monotonic() - began)
            if answer.status != HTTPStatus.CREATED or LABEL.encode() not in text:
                raise SystemExit(f"a pod of {namespace} was not created or not injected: {text[:400]!r}")

    connector = aiohttp.TCPConnector(ssl=cluster.tls)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(cluster.url, connector=connector, timeout=limits, headers=headers) as session:
        await asyncio.gather(*(work(session) for _ in range(WORKERS)))
    return taken


if __name__ == "__main__":
    sys.exit(main())
