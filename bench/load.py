"""The whole request under load: AdmissionReviews over plain HTTP, beside a yardstick in the same run.

One core serves and another one posts (``taskset``). The ratio to the yardstick counts, since it depends little on the machine. `replicas`
are the pods of 20 ReplicaSets, which the answer cache answers. In `unique` every pod is different, so that no cache can answer. Loopback
only, about a minute. It needs ``wrk``. The exit status tells whether every target is met; it is 69 without ``wrk``.

``--istiod URL`` posts the same reviews to a running istiod too, in turn with the server, and prints how many times its rate the server has.
``wrk`` does not check certificates. Start the istiod with the ConfigMaps of ``--revision``, on the core of the server: the first one that
the command may use.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.recording import ROOT, record, show
from bench.reviews import LOADS, write_loads
from bench.serving import add_revision_option, free_port, revision_in, revisions_folder, running, served
from injector.fleet.istiod import read_answer
from injector.golang.json import load_json
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.injection.tools.podchanges import changes
from injector.kube import admission

if TYPE_CHECKING:
    from bench.serving import Server
    from injector.istio.revision import Revision

REVIEWS = 4_000
SAMPLED = 50
UNAVAILABLE = 69
"""The exit status if wrk is not installed."""
CORES = [str(core) for core in sorted(os.sched_getaffinity(0))]
SERVER_CORE, CLIENT_CORE = CORES[0], CORES[-1]
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}
COUNTED = ("injector_answer_cache_hits_total", "sidecar_injection_requests_total")


@dataclass(frozen=True, slots=True)
class Target:
    """What a load has to reach: a share of the yardstick's rate, and a p99 relative to the mean, which the rate and the connections give.

    On a machine that takes four times as long for all, both latencies are four times as long.
    """

    ratio: float
    aim: float
    p99: float


@dataclass(frozen=True, slots=True)
class Istiod:
    """A running istiod: its release, for the table, and the URL of its webhook."""

    name: str
    url: str

    def row(self, load: str) -> str:
        """Return the name of the row with its figures for a load."""
        return f"{load}, {self.name}"


TARGETS = {"replicas": Target(0.35, 0.4, 2.0), "unique": Target(0.030, 0.06, 2.0)}
CONNECTIONS = 8


def counts(server: Server) -> tuple[float, float]:
    """Return how many requests the answer cache has answered, and how many there were."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ops_port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    hits, requests = (
        sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{")) for name in COUNTED
    )
    return hits, requests


def main() -> int:
    """Measure both servers on both loads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=6, help="how long each round of a load lasts")
    parser.add_argument(
        "--rounds", type=int, default=5, help="how many rounds; the median is shown, and the first alone"
    )
    add_revision_option(parser)
    parser.add_argument(
        "--reviews",
        type=Path,
        metavar="DIR",
        help="a folder with replicas.jsonl and unique.jsonl, one review in a line",
    )
    parser.add_argument(
        "--istiod", metavar="URL", help="the webhook of a running istiod, such as https://127.0.0.1:15017/inject"
    )
    parser.add_argument("--istiod-name", default="istiod", metavar="TEXT", help="its release, for the table")
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        print("error: wrk is not installed; install the Debian package wrk", file=sys.stderr)
        return UNAVAILABLE
    with tempfile.TemporaryDirectory() as folder:
        write_reviews(Path(folder), options.rounds, options.reviews)
        revisions = revisions_folder(Path(folder), options.revision, 1)
        istiod = None if options.istiod is None else Istiod(options.istiod_name, options.istiod)
        rows = measured(Path(folder), revisions, options.seconds, options.rounds, istiod)
    if istiod is not None:
        for name in TARGETS:
            times = f"{rows[name]['rps'] / rows[istiod.row(name)]['rps']:.1f} times the rate of {istiod.name}"
            print(f"{name}: {times}, if that is on core {SERVER_CORE} alone as the server is")
    show("load", rows)
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")
    met = [reached(name, rows[name], target) for name, target in TARGETS.items()]
    if options.record:
        record("load", {"seconds": options.seconds, "rounds": options.rounds, **rows})
    return 0 if all(met) else 1


def write_reviews(folder: Path, rounds: int, own: Path | None) -> None:
    """Write the reviews of each round of each load. A round repeats no unique review of an earlier one.

    Raises:
        SystemExit: the user's folder has no reviews of a load, or fewer than rounds.
    """
    if own is None:
        write_loads(folder, REVIEWS * rounds)
    for load in LOADS:
        try:
            lines = ((own or folder) / f"{load}.jsonl").read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise SystemExit(f"error: --reviews: {error.filename}: {error.strerror}") from None
        if len(lines) < rounds:
            raise SystemExit(f"error: --reviews: {load}.jsonl has {len(lines)} reviews, fewer than the {rounds} rounds")
        size = min(REVIEWS, len(lines) // rounds)
        for number in range(rounds):
            (folder / f"{load}-{number}.jsonl").write_bytes(b"".join(lines[number * size : (number + 1) * size]))


def reached(name: str, row: dict[str, float], target: Target) -> bool:
    """Print one target beside what was measured; return whether it is met."""
    p99 = row["p99_ms"] / (1e3 * CONNECTIONS / row["rps"])
    met = row["ratio"] >= target.ratio and p99 < target.p99
    wanted = f">= {target.ratio:g} of the yardstick (aim {target.aim:g}), p99 < {target.p99:g} times the mean"
    figures = f"{row['ratio']:.3f}, p99 {row['p99_ms']:.1f} ms or {p99:.2f} times the mean"
    print(f"{name}: {figures}; {wanted}: {'met' if met else 'MISSED'}")
    return met


def measured(
    folder: Path, revisions: Path, seconds: int, rounds: int, istiod: Istiod | None
) -> dict[str, dict[str, float]]:
    """Return the figures of the yardstick and of each load. The yardstick is measured before and after, so that a noisy machine shows.

    The first round of a load is also shown alone: the server starts without answers and without memoised stages. ``hits`` is the share of
    requests that the answer cache answered. An istiod has each round after the server.
    """
    rows: dict[str, dict[str, float]] = {"yardstick, before": yardstick(folder, seconds)}
    with served(f"--revisions-dir={revisions}", core=SERVER_CORE) as server:
        url = f"http://127.0.0.1:{server.port}/inject/r0"
        for load in TARGETS:
            before = counts(server)
            runs, istiod_runs = list[dict[str, float]](), list[dict[str, float]]()
            for number in range(rounds):
                reviews = folder / f"{load}-{number}.jsonl"
                runs.append(posted(url, reviews, seconds))
                if istiod is not None:
                    istiod_runs.append(posted(istiod.url, reviews, seconds))
            hits, requests = (after - count for after, count in zip(counts(server), before, strict=True))
            rows[f"{load}, first"] = runs[0]
            if istiod is not None:
                rows[istiod.row(load)] = medians(istiod_runs)
                compare_with_istiod(url, istiod.url, folder / f"{load}-0.jsonl")
            rows[load] = medians(runs)
            rows[load]["hits"] = round(hits / requests, 4)
            compare_answers(url, revisions / "r0", folder / f"{load}-0.jsonl")
    rows["yardstick, after"] = yardstick(folder, seconds)
    best = max(rows["yardstick, before"]["rps"], rows["yardstick, after"]["rps"])
    return {name: {**row, "ratio": round(row["rps"] / best, 4)} for name, row in rows.items()}


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def yardstick(folder: Path, seconds: int) -> dict[str, float]:
    """Measure the yardstick."""
    url = f"http://127.0.0.1:{(port := free_port())}/inject"
    command = [sys.executable, str(ROOT / "bench" / "yardstick.py"), "--port", str(port)]
    with running(command, url, SERVER_CORE):
        return posted(url, folder / "replicas-0.jsonl", seconds)


def posted(url: str, reviews: Path, seconds: int) -> dict[str, float]:
    """Post the reviews in turn over eight connections; return the rate and the latencies."""
    command = ["taskset", "-c", CLIENT_CORE, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency"]
    script = ["-s", str(ROOT / "bench" / "post.lua"), url, "--", str(reviews)]
    run = subprocess.run([*command, *script], capture_output=True, text=True, check=True)
    if run.stderr.strip():
        raise SystemExit(f"an answer without a patch: {run.stderr.strip()[:400]}")
    latencies = dict(re.findall(r"^\s+(50|99)%\s+([\d.]+\w+)$", run.stdout, re.MULTILINE))
    rate = re.search(r"Requests/sec:\s+([\d.]+)", run.stdout)
    assert rate is not None
    return {"rps": float(rate[1]), "p50_ms": milliseconds(latencies["50"]), "p99_ms": milliseconds(latencies["99"])}


def compare_answers(url: str, source: Path, reviews: Path) -> None:
    """Compare answers of the server, which has seen many pods by now, with a fresh pipeline: one review in fifty.

    Raises:
        SystemExit: one differs.
    """
    revision = revision_in(source)
    bodies = reviews.read_bytes().splitlines()[::SAMPLED]
    for body in bodies:
        if answer_to(url, body) != fresh_answer(revision, body):
            raise SystemExit(f"an answer to {reviews.stem} differs from the pipeline's: {body[:200]!r}")
    print(f"{len(bodies)} answers to {reviews.stem} equal the pipeline's", file=sys.stderr)


def compare_with_istiod(url: str, istiod: str, reviews: Path) -> None:
    """Print how many answers of the istiod make another pod than those of the server: one review in fifty."""
    differing, paths, bodies = 0, set[str](), reviews.read_bytes().splitlines()[::SAMPLED]
    for body in bodies:
        request = load_json(body)["request"]
        answers = [read_answer(request["object"], request["uid"], answer_to(at, body)) for at in (istiod, url)]
        differences = changes(answers[0], answers[1], request["object"])
        differing += bool(differences)
        paths |= {change.path or change.kind for change in differences}
    where = f", in {', '.join(sorted(paths))}" if paths else ""
    print(
        f"{differing} of {len(bodies)} answers to {reviews.stem} make another pod than istiod's{where}", file=sys.stderr
    )


def answer_to(url: str, body: bytes) -> bytes:
    """Return the answer to a review. The certificate of a running istiod is not checked."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 -- the user's
    context = None
    if url.startswith("https:"):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310 -- the user's
        content: bytes = answer.read()
    return content


def fresh_answer(revision: Revision, body: bytes) -> bytes:
    """Return the pipeline's answer to a review as it was sent, without a cache."""
    request = load_json(body)["request"]
    result = inject_pod(revision, request["object"], RequestFacts(request["namespace"]))
    response = admission.patched(result.patch_json if isinstance(result, Injected) else b"", warnings=result.warnings)
    return admission.encode_review(admission.Broken(request["uid"]), response.content())


def milliseconds(text: str) -> float:
    """A duration of wrk's."""
    number, unit = re.fullmatch(r"([\d.]+)(\w+)", text).groups()  # type: ignore[union-attr]
    return round(float(number) * UNITS[unit], 3)


if __name__ == "__main__":
    sys.exit(main())
