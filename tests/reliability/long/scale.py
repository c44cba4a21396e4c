"""Measures memory and times in a large cluster: ``scripts/reliability scale``.

A real API server holds many revisions, tags, namespaces and injected pods. As in a fleet, the revisions of a minor have equal
templates, and each revision has its own values and mesh config. The cluster has no controllers. Each pod belongs to another workload, so
that ``diff --live`` injects each of them; ``--replicas 3`` makes a third as many workloads.

Times of a machine with other work vary, so each figure also has the processor time of the injector's process.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.istio.revision import Revision
from injector.istio.webhooks.configurations import WebhookOptions, revision_webhook, tag_webhook
from injector.revisions.source import RawRevision, build
from tests import controlplanes
from tests.architecture.serving import post
from tests.e2e.cluster import Cluster, running
from tests.e2e.controlplane import UNAVAILABLE, missing
from tests.e2e.load import owned_pod
from tests.factories import make_container, make_review
from tests.manifests import account_of, namespace_of, revision_maps
from tests.reliability.long.rows import Row, finish, parser
from tests.reliability.replicas import ROOT, Replica, memory, memory_with_children, processor_time, resident

HOME: Final = "istio-system"
REVISION_LABEL: Final = "istio.io/rev"
MINORS: Final = ("1.24", "1.28", "1.30")
POD_NAMESPACES: Final = 200
"""So many of the namespaces have pods."""
REBUILT: Final = 4
"""One pod in so many was injected before the last change of its revision's values."""
WRITERS: Final = 16
CHANGES: Final = 5
"""How often a tag is moved and a ConfigMap is changed; the medians count."""
PAUSE: Final = 1.0
"""Seconds before and after each change, so that its processor time is its own."""
MERGE_PATCH: Final = {"Content-Type": "application/merge-patch+json"}
LOOK: Final = 0.02
LOOK_AT_MEMORY: Final = 0.2
"""Seconds: the kernel walks all pages of a process to count those that it shares."""
LIMIT: Final = 120.0
MOST_MIB, MOST_START, MOST_TAG = 200.0, 5.0, 1.0
MOST_DIFF, MOST_DIFF_MB, MOST_STATUS = 12.0, 300.0, 10.0


@dataclass(frozen=True)
class Size:
    """How much the cluster holds. ``replicas`` is the number of pods of each workload."""

    revisions: int = 304
    tags: int = 101
    namespaces: int = 2_000
    pods: int = 5_300
    replicas: int = 1


@dataclass(frozen=True)
class Spent:
    """The wall time and the processor time of something, in seconds, and the most memory that it took, in MiB."""

    wall: float
    processor: float
    peak: float = 0.0

    def __str__(self) -> str:
        return f"{self.wall:.2f} s (processor {self.processor:.2f} s)"


def main() -> int:
    """Fill a cluster and measure; the exit status tells whether all targets are met."""
    options_of = parser(__doc__)
    for name, default in vars(Size()).items():
        options_of.add_argument(f"--{name}", type=int, default=default, help=f"how many {name} (default %(default)s)")
    options = options_of.parse_args()
    if reason := missing():
        print(f"error: {reason}", file=sys.stderr)
        return UNAVAILABLE
    size = Size(options.revisions, options.tags, options.namespaces, options.pods, options.replicas)
    with tempfile.TemporaryDirectory() as folder, running(Cluster(Path(folder) / "cluster")) as cluster:
        asyncio.run(filled(cluster, size))
        rows = [*asyncio.run(served(cluster, size, Path(folder))), *commands(cluster, size)]
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")
    return finish({"scripts/reliability scale": rows}, record=options.record)


def name_of(number: int) -> str:
    """Return the name of a revision."""
    return f"{MINORS[number % len(MINORS)].replace('.', '-')}-{number:03}"


def raw_of(number: int, patch: int = 3) -> RawRevision:
    """Return a revision as Istio's chart renders it: the templates of its minor, and its own values and mesh config."""
    minor, name = MINORS[number % len(MINORS)], name_of(number)
    plane = controlplanes.plane_of(controlplanes.best(minor))
    values = yaml.safe_load(plane.values)
    values["revision"] = name
    values["global"]["tag"] = f"{minor}.{patch}"
    mesh = plane.mesh.replace("istiod.", f"istiod-{name}.")
    return RawRevision(name, plane.config, json.dumps(values, indent=2), mesh, {}, name)


def tag_of(number: int, revision: str) -> dict[str, Any]:
    """Return the object of a tag."""
    return tag_webhook(f"tag-{number:03}", revision, WebhookOptions())


def namespaces(size: Size) -> Iterator[dict[str, Any]]:
    """Yield the namespaces. Each names a revision or a tag."""
    for number in range(size.namespaces):
        name = f"tag-{number % size.tags:03}" if number % 2 else name_of(number % size.revisions)
        yield namespace_of(f"team-{number:04}", {REVISION_LABEL: name})


def pods(size: Size) -> Iterator[dict[str, Any]]:
    """Yield the pods, injected by the revisions of their namespaces. Some were injected before their revision changed."""
    built: dict[tuple[int, int], Revision] = {}
    homes = min(POD_NAMESPACES, size.namespaces)
    for number in range(size.pods):
        workload = number // size.replicas
        home = workload % homes
        leads_to = home % size.tags if home % 2 else home % size.revisions
        wanted = leads_to, 2 if workload % REBUILT == 0 else 3
        if wanted not in built:
            built[wanted] = build(raw_of(*wanted))
        pod = owned_pod(f"web-{workload:05}")
        pod["metadata"] |= {"namespace": f"team-{home:04}"}
        variables = [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(10)]
        pod["spec"]["containers"] = [make_container(env=variables), make_container("helper", env=variables)]
        result = inject_pod(built[wanted], pod, RequestFacts(pod["metadata"]["namespace"]))
        assert isinstance(result, Injected)
        yield result.pod


async def filled(cluster: Cluster, size: Size) -> None:
    """Create everything. The webhooks come last, since nothing serves them."""
    revisions = [raw_of(number) for number in range(size.revisions)]
    homes = [f"team-{number:04}" for number in range(min(POD_NAMESPACES, size.namespaces))]
    options = WebhookOptions()
    core, webhooks = "/api/v1", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    connector = aiohttp.TCPConnector(ssl=cluster.tls, limit=WRITERS)
    async with aiohttp.ClientSession(cluster.url, connector=connector) as session:

        async def create(objects: Iterable[dict[str, Any]], path: str) -> None:
            remaining = iter(objects)
            while batch := list(islice(remaining, WRITERS)):
                await asyncio.gather(*(_create(session, path, obj) for obj in batch))

        await create([namespace_of(HOME)], f"{core}/namespaces")
        await create(namespaces(size), f"{core}/namespaces")
        maps = [
            item
            for raw in revisions
            for item in revision_maps(HOME, raw.name, config=raw.config, values=raw.values or "", mesh=raw.mesh or "")
        ]
        await create(maps, f"{core}/namespaces/{HOME}/configmaps")
        await create((account_of(home) for home in homes), f"{core}/namespaces/{{namespace}}/serviceaccounts")
        await create(pods(size), f"{core}/namespaces/{{namespace}}/pods")
        await create((revision_webhook(raw.name, options) for raw in revisions), webhooks)
        await create((tag_of(number, name_of(number)) for number in range(size.tags)), webhooks)


async def _create(session: aiohttp.ClientSession, path: str, manifest: dict[str, Any]) -> None:
    namespace = manifest["metadata"].get("namespace", "")
    async with session.post(path.format(namespace=namespace), json=manifest) as answer:
        assert answer.status == HTTPStatus.CREATED, await answer.text()


@dataclass(frozen=True)
class Server:
    """A replica that follows the cluster, and a session with the API server."""

    replica: Replica
    session: aiohttp.ClientSession

    async def moved(self, number: int, size: Size) -> Spent:
        """Move a tag to another revision."""
        tag, target = f"tag-{number:03}", name_of(size.revisions - 1 - number)
        path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/istio-revision-tag-{tag}"
        return await self._time_until_served(path, {"metadata": {"labels": {REVISION_LABEL: target}}}, tag, target)

    async def changed(self, number: int) -> Spent:
        """Change the image in the values of a revision."""
        raw = raw_of(number, patch=9)
        path = f"/api/v1/namespaces/{HOME}/configmaps/istio-sidecar-injector-{raw.name}"
        wanted = f":{MINORS[number % len(MINORS)]}.9"
        return await self._time_until_served(path, {"data": {"values": raw.values}}, raw.name, wanted)

    async def _time_until_served(self, path: str, patch: dict[str, Any], name: str, wanted: str) -> Spent:
        """Change an object, and wait until injections by a revision or tag have the text."""
        pid, url = self.replica.pid, f"http://127.0.0.1:{self.replica.port}/inject/{name}"
        await asyncio.sleep(PAUSE)
        begun, processor = time.monotonic(), processor_time(pid)
        async with self.session.patch(path, json=patch, headers=MERGE_PATCH) as answer:
            assert answer.status == HTTPStatus.OK, await answer.text()
        while wanted.encode() not in base64.b64decode(post(url, make_review())["response"].get("patch", "")):
            assert time.monotonic() < begun + LIMIT, self.replica.log.read_text()
            await asyncio.sleep(LOOK)
        wall = time.monotonic() - begun
        await asyncio.sleep(PAUSE)
        return Spent(wall, processor_time(pid) - processor)


async def served(cluster: Cluster, size: Size, folder: Path) -> list[Row]:
    """Return the rows of a server: its start, its memory, moved tags and changed ConfigMaps."""
    flags = ("--insecure-http", "--from-cluster", "--kubeconfig", str(cluster.kubeconfig), "--watch-unserved")
    replica = Replica(folder / "log", (*flags, "--log-decisions", "none"))
    replica.start()
    try:
        wall = await replica.until_ready()
        start, at_start = Spent(wall, processor_time(replica.pid)), resident(replica.pid)
        async with aiohttp.ClientSession(cluster.url, connector=aiohttp.TCPConnector(ssl=cluster.tls)) as session:
            server = Server(replica, session)
            tag = _median([await server.moved(number, size) for number in range(CHANGES)])
            config = _median([await server.changed(number) for number in range(CHANGES)])
        after, peak = resident(replica.pid), memory(replica.pid, "VmHWM") / 1024
    finally:
        replica.kill()
    what = f"{size.revisions} revisions, {size.tags} tags, {size.namespaces} namespaces"
    memory_text = f"{at_start:.0f} MiB when ready, {after:.0f} MiB after {2 * CHANGES} changes, at most {peak:.0f} MiB"
    return [
        Row(f"{what}: memory", f"at most {MOST_MIB:g} MiB", memory_text, peak < MOST_MIB),
        Row(f"{what}: start to ready", f"< {MOST_START:g} s", str(start), start.wall < MOST_START),
        Row(f"{what}: moved tag served", f"< {MOST_TAG:g} s", str(tag), tag.wall < MOST_TAG),
        Row(f"{what}: changed ConfigMap served", f"< {MOST_TAG:g} s", str(config), config.wall < MOST_TAG),
    ]


def _median(times: Sequence[Spent]) -> Spent:
    return Spent(
        statistics.median(spent.wall for spent in times), statistics.median(spent.processor for spent in times)
    )


def commands(cluster: Cluster, size: Size) -> list[Row]:
    """Return the rows of the commands that read all pods."""
    old, new = name_of(0), name_of(2)
    workloads = math.ceil(size.pods / size.replicas)
    diff = _ran(
        cluster, ("diff", "--live", old, new), lambda status, text: status == 1 and f"of {workloads} work" in text
    )
    status = _ran(cluster, ("revision", "status"), lambda status, text: status == 1 and " older template" in text)
    what = f"over {size.pods} pods of {workloads} workloads"
    met = diff.wall < MOST_DIFF and diff.peak * 2**20 < MOST_DIFF_MB * 1e6
    targets = f"< {MOST_DIFF:g} s, < {MOST_DIFF_MB:g} MB", f"< {MOST_STATUS:g} s"
    return [
        Row(f"diff --live {what}", targets[0], f"{diff}, {diff.peak * 2**20 / 1e6:.0f} MB", met),
        Row(
            f"revision status {what}",
            targets[1],
            f"{status}, {status.peak * 2**20 / 1e6:.0f} MB",
            status.wall < MOST_STATUS,
        ),
    ]


def _ran(cluster: Cluster, arguments: Sequence[str], fits: Callable[[int, str], bool]) -> Spent:
    """Run a command whose exit status and output must fit."""
    command = [sys.executable, "-m", "injector", *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = 0
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, cwd=ROOT, stdout=printed, stderr=said)
        while process.poll() is None:
            with suppress(OSError, StopIteration):  # it has just ended
                peak = max(peak, memory(process.pid, "VmHWM"), memory_with_children(process.pid))
            time.sleep(LOOK_AT_MEMORY)
        wall = time.monotonic() - begun
        printed.seek(0)
        said.seek(0)
        text = printed.read()
        assert fits(process.returncode, text), f"{process.returncode} {text[-500:]} {said.read()[-2000:]}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(wall, processor, peak / 1024)


if __name__ == "__main__":
    sys.exit(main())
