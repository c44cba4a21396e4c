"""Figures with a target: start, memory, manifests, and how long one piece of work holds the event loop.

Each is measured by the processor time of this or of another process where that is possible, so that a busy machine hardly shows.
A few minutes, loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import yaml
from prometheus_client import CollectorRegistry

from bench.recording import ROOT, record
from bench.reviews import write_loads
from bench.serving import add_revision_option, resident, revision_in, revisions_folder, served
from bench.startup import ENVIRONMENT
from injector.metrics import Metrics, Stopwatch
from injector.revisions.directory import read_directory, read_folder
from injector.revisions.registry import Registry, snapshot_of
from injector.revisions.reload import Loader
from injector.revisions.source import build
from injector.revisions.verify import verify
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORKLOADS = 1_000
REVIEWS = 4_000
ROUNDS = 20
PODS = 20_000
WARM = 5_000
"""Pods before the memory is looked at: by then cached answers and names in metrics are as many as they get."""

Row = tuple[float, float, str]
"""What was measured, what it should be, and which of them should be the larger one."""


def main() -> int:
    """Measure all figures, or those named; the exit status tells whether each target is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(FIGURES)}; all unless said")
    add_revision_option(parser)
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results")
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_loads(Path(folder), REVIEWS)
        revisions_folder(Path(folder), options.revision, 1)
        for name in options.names or FIGURES:
            rows_of_figure = FIGURES[name](Path(folder))
            print_rows(rows_of_figure)
            rows |= rows_of_figure
    if options.record:
        record("figures", {name: {"figure": row[0], "target": row[1]} for name, row in rows.items()})
    return 0 if all(met(row) for row in rows.values()) else 1


def met(row: Row) -> bool:
    """Whether a target is met."""
    figure, target, better = row
    return figure >= target if better == "more" else figure <= target


def print_rows(rows: dict[str, Row]) -> None:
    """Print figures beside their targets."""
    for name, row in rows.items():
        figure, target, better = row
        sign = ">=" if better == "more" else "<="
        print(f"{name:52}  {figure:10.2f}  {sign} {target:8.2f}  {'met' if met(row) else 'MISSED'}", flush=True)


def source_in(folder: Path) -> Path:
    """Return the folder of the revision that is measured."""
    return folder / "revisions-1" / "r0"


def kube_inject(folder: Path) -> dict[str, Row]:
    """Workloads for each second of processor time of the whole command, its start among them."""
    flags = ["--revisions-dir", str(folder / "revisions-1"), "--revision", "r0"]
    rows: dict[str, Row] = {}
    for name, documents in (("small", small_workloads()), ("large", large_workloads(folder))):
        manifest = folder / f"{name}.yaml"
        manifest.write_text("---\n".join(islice(documents, WORKLOADS)))
        rows[f"kube-inject, {name} workloads/s"] = (WORKLOADS / processor_time(manifest, flags), 250.0, "more")
    return rows


def processor_time(manifest: Path, options: list[str]) -> float:
    """The processor time of one command, the better of two runs."""
    command = [sys.executable, "-m", "injector", "kube-inject", "-f", str(manifest), *options]
    times = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, env=ENVIRONMENT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def small_workloads() -> Iterator[str]:
    """Istio's own sample under a thousand names."""
    text = (ROOT / "docs" / "samples" / "hello.yaml").read_text()
    yield from (text.replace("hello", f"hello-{number}") for number in range(WORKLOADS))


def large_workloads(folder: Path) -> Iterator[str]:
    """The load's unique pods as Deployments: a dozen variables, probes, annotations, a fifth with a ProxyConfig of its own."""
    for line in (folder / "unique.jsonl").read_text().splitlines():
        pod = orjson.loads(line)["request"]["object"]
        meta = {"labels": pod["metadata"]["labels"], "annotations": pod["metadata"]["annotations"]}
        name = meta["labels"]["app"]
        spec = {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": meta, "spec": pod["spec"]}}
        named = {"name": name, "namespace": "shop"}
        yield yaml.dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named, "spec": spec})


def cold_start(folder: Path) -> dict[str, Row]:
    """Seconds from the start of the process to ready, with ten revisions: the better of three."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        with served(f"--revisions-dir={revisions_folder(folder, source_in(folder), 10)}"):
            times.append(time.perf_counter() - started)
    return {"start to ready, 10 revisions, s": (min(times), 1.5, "less")}


def many_revisions(folder: Path) -> dict[str, Row]:
    """What ninety-nine more revisions take of memory."""
    sizes = []
    for count in (1, 100):
        with served(f"--revisions-dir={revisions_folder(folder, source_in(folder), count)}") as server:
            sizes.append(resident(server.pid))
    return {"100 revisions, MiB more than one": (sizes[1] - sizes[0], 150.0, "less")}


def crowded(folder: Path) -> dict[str, Row]:
    """What a request takes with a hundred revisions loaded, against one: the least of many rounds in turn, HTTP left out."""
    bodies = (folder / "unique.jsonl").read_bytes().splitlines()[:100]
    handlers: dict[int, InjectHandler] = {}
    for count in (1, 100):
        registry = Registry()
        Loader(partial(read_directory, revisions_folder(folder, source_in(folder), count)), registry).load(time.time())
        handlers[count] = without_cache(InjectHandler(registry, Metrics(CollectorRegistry()), Lifecycle()))
    least = dict.fromkeys(handlers, float("inf"))
    for _ in range(ROUNDS):
        for count, handler in handlers.items():
            least[count] = min(least[count], best_of(1, partial(all_answered, handler, bodies)))
    return {"a request with 100 revisions loaded, against one": (least[100] / least[1], 1.02, "less")}


def all_answered(handler: InjectHandler, bodies: list[bytes]) -> None:
    """Answer reviews in turn."""
    for body in bodies:
        handler.answer("/inject/r0", body, Stopwatch())


def handler_of(folder: Path) -> InjectHandler:
    """Return a handler with the revision."""
    return InjectHandler(
        Registry(snapshot_of([revision_in(source_in(folder))], {})), Metrics(CollectorRegistry()), Lifecycle()
    )


def without_cache(handler: InjectHandler) -> InjectHandler:
    """Return a handler that injects every pod, also one that it has seen."""
    handler.cache.max_bytes = 0
    return handler


def verify_gate(folder: Path) -> dict[str, Row]:
    """The share of the built-in pods in the time of building and verifying a revision, at a start as at a reload: the best of five."""
    raw = read_folder(source_in(folder))
    build_time = best_of(5, partial(build, raw))
    verify_time = best_of(5, partial(verify, build(raw)))
    return {"verifying, share of a new revision": (verify_time / (build_time + verify_time), 0.3, "less")}


def many_variables(folder: Path) -> dict[str, Row]:
    """One request with thousands of variables, from bytes to bytes; it must grow no faster than they do."""
    handler = without_cache(handler_of(folder))
    times = {count: best_of(5, partial(answered, handler, review_of(count))) for count in (2_000, 8_000)}
    return {
        "a pod with 2,000 variables, ms": (times[2_000] * 1e3, 20.0, "less"),
        "8,000 variables against 2,000": (times[8_000] / times[2_000], 5.0, "less"),
    }


def review_of(variables: int) -> bytes:
    """A review of a pod whose container has so many variables."""
    env = [{"name": f"V{n}", "value": f"value-{n}"} for n in range(variables)]
    spec = {"containers": [{"name": "app", "image": "registry.example.com/app:1.0", "env": env}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hello"}, "spec": spec}
    request = {"uid": "1", "namespace": "shop", "operation": "CREATE", "object": pod}
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def answered(handler: InjectHandler, body: bytes) -> None:
    """Answer one review."""
    handler.answer("/inject/r0", body, Stopwatch())


def best_of(runs: int, run: Callable[[], Any]) -> float:
    """The least processor time of some runs."""
    times = []
    for _ in range(runs):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)


def memory(folder: Path) -> dict[str, Row]:
    """What a hundred thousand pods that are all different leave behind, as MiB."""
    handler, review = handler_of(folder), orjson.loads((folder / "unique.jsonl").read_bytes().split(b"\n", 1)[0])
    sizes = []
    for number in range(WARM + PODS):
        if number == WARM:
            sizes.append(resident(os.getpid()))
        renamed(review, number)
        handler.answer("/inject/r0", orjson.dumps(review), Stopwatch())
    grown = (resident(os.getpid()) - sizes[0]) * 100_000 / PODS
    return {"100,000 unique pods, MiB left behind": (grown, 5.0, "less")}


def renamed(review: dict[str, Any], number: int) -> None:
    """Make a review one of another workload."""
    pod, name = review["request"]["object"], f"svc-{number}"
    pod["metadata"]["labels"] |= {"app": name, "pod-template-hash": f"{number:010x}"}
    pod["metadata"]["annotations"]["sidecar.istio.io/proxyCPU"] = f"{100 + (number % 7 == 0) * number % 4_000}m"
    pod["metadata"]["ownerReferences"][0]["name"] = f"{name}-{number:010x}"
    pod["spec"]["containers"][0]["name"] = name
    pod["spec"]["containers"][0]["image"] = f"registry.example.com/{name}:1"


def loop_held(folder: Path) -> dict[str, Row]:
    """How late a task of the event loop is at worst while revisions are built beside it."""
    source = partial(read_directory, revisions_folder(folder, source_in(folder), 3))

    def built() -> None:
        assert Loader(source, Registry()).prepare(time.time()) is not None

    async def building() -> None:
        await asyncio.to_thread(built)

    return {
        "loop held while revisions are built, ms": (asyncio.run(lateness(building)) * 1e3, 60.0, "less"),
    }


async def lateness(work: Callable[[], Any]) -> float:
    """How late a task was at worst that wanted to run each millisecond during some work: the better of three."""
    delays = []
    for _ in range(3):
        late = [0.0]
        probe = asyncio.create_task(_probe(late))
        await asyncio.sleep(0.05)
        late[:] = [0.0]
        await work()
        await asyncio.sleep(0.002)
        probe.cancel()
        delays.append(max(late))
    return min(delays)


async def _probe(late: list[float]) -> None:
    while True:
        wake_at = time.perf_counter() + 1e-3
        await asyncio.sleep(1e-3)
        late.append(time.perf_counter() - wake_at)


FIGURES: dict[str, Callable[[Path], dict[str, Row]]] = {
    "kube_inject": kube_inject,
    "cold_start": cold_start,
    "many_revisions": many_revisions,
    "crowded": crowded,
    "many_variables": many_variables,
    "verify_gate": verify_gate,
    "memory": memory,
    "loop_held": loop_held,
}


if __name__ == "__main__":
    sys.exit(main())
