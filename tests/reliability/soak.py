"""Mutated reviews, by the thousand, for one injector: what it answered wrongly, and what is left of them in it."""

from __future__ import annotations

import asyncio
import copy
import shutil
import ssl
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from tests.factories import make_review
from tests.fuzz.reviewing import PATHS, PODS, body_of, fault_of, mutated_review
from tests.property.mutations import mutated
from tests.reliability.apiserver import ApiServer
from tests.reliability.heap import Heap, measure_heap
from tests.reliability.long.rows import Row
from tests.reliability.replicas import ROOT, Replica, Stage, memory, trusting
from tests.revisions.fakes import VALUES, write_revision
from tests.tasks import until

CALLERS: Final = 4
SAMPLE: Final = 500
"""Memory is looked at each so many reviews."""
FILLED: Final = ("/inject/stable", "/inject/canary", "/inject/plain")
INJECTED: Final = (*PODS[:2], *PODS[3:5])
"""Those that get a sidecar, and so an answer that is cached."""
AGAIN: Final = 2
"""Times that a pod is asked for: the second time the cache answers."""
INJECT_PATHS: Final = tuple(path for path in PATHS if "?" not in path and path.startswith("/inject"))


@dataclass
class Soak:
    """What came of a soak: answers by status, those that were wrong, and the process before and after.

    ``memory`` are pairs of reviews that were answered and the process's KiB by then. ``heaps`` are the same for what is in use of its
    heap, after half of the reviews and after all.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[int, int]] = field(default_factory=list)
    heaps: list[tuple[int, Heap]] = field(default_factory=list)
    files: int = 0
    threads: int = 0
    errors: list[str] = field(default_factory=list)


def slope(samples: Sequence[tuple[int, int]], warm: int) -> float:
    """Return the growth for each 1,000 reviews after the first ``warm``: of the line with the least squares."""
    points = [(answered / 1_000, value) for answered, value in samples if answered >= warm]
    middle = [sum(column) / len(points) for column in zip(*points, strict=True)]
    spread = sum((x - middle[0]) ** 2 for x, _ in points)
    return float(sum((x - middle[0]) * (value - middle[1]) for x, value in points) / spread)


def heap_growth(samples: Sequence[tuple[int, Heap]]) -> tuple[float, float]:
    """Return the growth of the KiB and of the blocks in use for each 1,000 reviews from the first sample to the last."""
    (before, first), *_, (answered, last) = samples
    thousands = (answered - before) / 1_000
    return (last.kib - first.kib) / thousands, (last.blocks - first.blocks) / thousands


def revisions_below(folder: Path) -> Path:
    """A folder of revisions: the two that are shipped, one of a Go template, and a tag with weights."""
    shutil.copytree(ROOT / "revisions", folder / "revisions")
    plain = folder / "revisions" / "plain"
    write_revision(plain, values=VALUES)
    (folder / "revisions" / "tags.yaml").write_text("prod: {stable: 50, plain: 50}\ndefault: stable\n")
    return folder / "revisions"


async def soaked(
    replica: Replica,
    reviews: int,
    seed: int,
    *,
    fill: int = 0,
    tls: ssl.SSLContext | None = None,
    heap: Path | None = None,
) -> Soak:
    """Ask a replica about mutated reviews, some at once, and see what is left when all are answered.

    Before that it is asked about ``fill`` pods of each revision, so that its caches have reached their bounds. With mutated reviews alone,
    most of which are refused, that would take long, and a leak could not be told from what is cached on purpose. ``heap`` is the file of
    ``tests.reliability.heap``, which is asked after half of the reviews and at the end.
    """
    soak, requests = Soak(), questions(reviews, seed)
    client = replica.client(tls)
    filled, filling = Soak(), kinds(fill, seed)
    await asyncio.gather(*(_ask(client, replica, filling, filled) for _ in range(CALLERS)))
    await _ask(client, replica, iter([next(requests) for _ in range(SAMPLE)]), soak)
    before = left_in(replica)
    for part in (islice(requests, reviews // 2 - SAMPLE), requests):
        await asyncio.gather(*(_ask(client, replica, part, soak) for _ in range(CALLERS)))
        if heap is not None:
            soak.heaps.append((soak.statuses.total(), await measure_heap(heap)))
    await client.close()
    await until(lambda: left_in(replica)[0] <= before[0])
    after = left_in(replica)
    # The first ones left a connection open.
    soak.files, soak.threads = max(0, after[0] - before[0]), after[1] - before[1]
    lines = replica.log.read_text(errors="replace").splitlines()
    soak.faults += filled.faults
    soak.errors = [line for line in lines if '"level": "error"' in line or "Traceback" in line]
    return soak


def questions(reviews: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Paths and bodies; the same for the same seed."""
    random = Random(seed)  # noqa: S311 -- what a seed makes can be made again
    for _ in range(reviews):
        yield random.choice(INJECT_PATHS), mutated_review(random)


def kinds(pods: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Paths and bodies of so many pods of each revision, as the API server writes them, each pod some times in a row.

    Each pod has a namespace and a ProxyConfig of its own, so that what is kept for each of these reaches its bound too.
    """
    random = Random(f"{seed} kinds")  # noqa: S311 -- what a seed makes can be made again
    for number in range(pods * len(FILLED)):
        pod = copy.deepcopy(random.choice(INJECTED))
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations |= {
            "prometheus.io/path": f"/{number}",
            "proxy.istio.io/config": f"proxyMetadata: {{NUMBER: '{number}'}}",
        }
        pod = mutated(pod, random) if random.getrandbits(1) else pod
        body = body_of(make_review(pod, namespace=f"namespace-{number}"))
        for _ in range(AGAIN):
            yield FILLED[number % len(FILLED)], body


async def _ask(client: ApiServer, replica: Replica, requests: Iterator[tuple[str, bytes]], soak: Soak) -> None:
    for path, body in requests:
        try:
            reply = await client.post(path, body)
            soak.statuses[reply.status] += 1
            fault = fault_of(reply.status, reply.body, body)
        except OSError as error:
            fault = str(error)
        if fault:
            soak.faults[fault] += 1
        answered = soak.statuses.total()
        if answered % SAMPLE == 0:
            soak.memory.append((answered, memory(replica.pid, "VmRSS")))


def left_in(replica: Replica) -> tuple[int, int]:
    """How many files and threads a process has (Linux, /proc)."""
    process = Path(f"/proc/{replica.pid}")
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


REVIEWS = 300_000
FILL = 1_500
"""Pods of each revision that come first: after them the answer cache and the memoised stages have reached their bounds."""
WARM = REVIEWS // 2
IN_USE = 1.0
"""KiB for each 1,000 reviews."""
BLOCKS = 20.0
"""Of 80 bytes on average, for each 1,000 reviews. In a process that keeps nothing, the memoised stages of different pods take up to 3,000
blocks more or less from one moment to the next."""
RESIDENT = 5.0
"""KiB for each 1,000 reviews."""
SEED = 3


async def mutated_reviews(stage: Stage) -> Sequence[Row]:
    """T3: every review is answered, nothing of it is kept in the heap, and the process hardly grows."""
    heap = stage.folder / "heap"
    revisions = str(revisions_below(stage.folder))
    program = ("-m", "tests.reliability.heap", str(heap))
    replica = await stage.replica("--revisions-dir", revisions, tls=True, program=program)
    soak = await soaked(replica, REVIEWS, SEED, fill=FILL, tls=trusting(stage.certificate), heap=heap)
    (kib, blocks), resident = heap_growth(soak.heaps), slope(soak.memory, WARM)
    server_errors = sum(count for status, count in soak.statuses.items() if status >= 500)
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(soak.statuses.items()))
    wrong = soak.faults.total()
    curve = " ".join(str(kib) for answered, kib in soak.memory if answered % 10_000 == 0)
    print(f"soak: KiB at each 10,000 reviews: {curve}", file=sys.stderr)
    print(f"soak: in use: {soak.heaps}", file=sys.stderr)
    figure = (
        f"{answers}; {wrong} wrong, {len(soak.errors)} errors logged, {soak.files} files and {soak.threads} threads left, "
        f"{kib:+.1f} KiB and {blocks:+.1f} blocks in use per 1,000, "
        f"resident {resident:+.1f} KiB per 1,000, {soak.memory[-1][1] // 1024} MiB "
        f"{dict(soak.faults.most_common(3)) or ''}"
    )
    has_faults = any((server_errors, wrong, len(soak.errors), soak.files))
    met = not has_faults and kib < IN_USE and blocks < BLOCKS and resident < RESIDENT
    bounds = f"< {IN_USE:g} KiB and {BLOCKS:g} blocks in use, < {RESIDENT:g} KiB resident"
    target = f"0 x 5xx, 0 exceptions, 0 files left, per 1,000 after {WARM}: {bounds}"
    return [Row(f"T3 {REVIEWS} mutated reviews, 3 revisions", target, figure.strip(), met)]
