"""The whole request under load: AdmissionReviews over plain HTTP, beside the yardstick in the same run.

One core serves, another one posts (``taskset``); the ratio to the yardstick is what counts, since it hardly depends on
the machine. Loopback only, under a minute. Needs ``wrk`` (it is in Debian) and ``../shared/bench``.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.recording import ROOT, SHARED, record, show
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.kube import admission
from injector.kube.serial import dump_json
from injector.revisions.build import build
from injector.revisions.source import RawRevision
from tests.conformance import corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REVIEWS = 4_000
SAMPLED = 50
SERVER_CORE, CLIENT_CORE = "0", "1"
START_LIMIT = 30.0
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


def main() -> int:
    """Measure both servers on both loads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=6, help="how long each round of a load lasts")
    parser.add_argument(
        "--rounds", type=int, default=5, help="how many rounds; the median is shown, and the first alone"
    )
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results")
    options = parser.parse_args()
    if shutil.which("wrk") is None or not (SHARED / "bench").is_dir():
        print("skipped: the load needs wrk and ../shared/bench")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, SHARED / "bench" / "gen_reviews.py", str(REVIEWS)], cwd=folder, check=True)
        rows = measured(Path(folder), options.seconds, options.rounds)
    show("load", rows)
    if options.record:
        record("load", {"seconds": options.seconds, "rounds": options.rounds, **rows})
    return 0


def measured(folder: Path, seconds: int, rounds: int) -> dict[str, dict[str, float]]:
    """The figures of the yardstick and of each load, the yardstick taken before and after: a noisy machine shows.

    The first round of a load is shown too: the server has no plans then.
    """
    rows: dict[str, dict[str, float]] = {}
    with server(yardstick_command) as url:
        rows["yardstick, before"] = posted(url, folder / "replicas.jsonl", seconds)
    with server(injector_command) as url:
        for load in ("replicas", "unique"):
            found = [posted(url, folder / f"{load}.jsonl", seconds) for _ in range(rounds)]
            rows[f"{load}, first"] = found[0]
            rows[load] = {name: statistics.median(each[name] for each in found) for name in found[0]}
            compare_answers(url, folder / f"{load}.jsonl")
    with server(yardstick_command) as url:
        rows["yardstick, after"] = posted(url, folder / "replicas.jsonl", seconds)
    yardstick = max(rows["yardstick, before"]["rps"], rows["yardstick, after"]["rps"])
    return {name: {**row, "ratio": round(row["rps"] / yardstick, 4)} for name, row in rows.items()}


def yardstick_command(port: int) -> list[str]:
    """How the yardstick is started."""
    return [sys.executable, str(ROOT / "bench" / "yardstick.py"), "--port", str(port)]


def injector_command(port: int) -> list[str]:
    """How the injector is started: Istio 1.30's own ConfigMaps, as they are after a default installation."""
    settings = corpus.default_settings("1.30")
    assert settings.values is not None
    files = {"--injectConfig": settings.config, "--valuesFile": settings.values, "--meshConfig": settings.mesh}
    flags = [text for flag, path in files.items() for text in (flag, str(path))]
    ports = ["--bind", "127.0.0.1", "--port", str(port), "--ops-port", str(free_port()), "--insecure-http"]
    return [str(Path(sys.executable).with_name("injector")), "serve", *ports, *flags]


@contextmanager
def server(command: Callable[[int], list[str]]) -> Iterator[str]:
    """Run a server on one core, until the block ends."""
    port = free_port()
    process = subprocess.Popen(["taskset", "-c", SERVER_CORE, *command(port)], stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/inject"
    try:
        wait_for(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=60)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return once the server answers, whatever it answers."""
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(urllib.request.Request(url, b"{}", {"Content-Type": "application/json"}))  # noqa: S310 -- loopback
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"no server at {url}")


def posted(url: str, reviews: Path, seconds: int, *, connections: int = 8) -> dict[str, float]:
    """The rate and the latencies of posting the reviews in turn, over so many connections at once."""
    command = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds}s",
        "--latency",
        "-s",
        str(SHARED / "bench" / "post.lua"),
        url,
    ]
    run = subprocess.run(
        ["taskset", "-c", CLIENT_CORE, *command, "--", str(reviews)], capture_output=True, text=True, check=True
    )
    if run.stderr.strip():
        raise SystemExit(f"an answer without a patch: {run.stderr.strip()[:400]}")
    latencies = dict(re.findall(r"^\s+(50|99)%\s+([\d.]+\w+)$", run.stdout, re.MULTILINE))
    rate = re.search(r"Requests/sec:\s+([\d.]+)", run.stdout)
    assert rate is not None
    return {"rps": float(rate[1]), "p50_ms": milliseconds(latencies["50"]), "p99_ms": milliseconds(latencies["99"])}


def compare_answers(url: str, reviews: Path) -> None:
    """Hold the answers of a server that is warm by now against the pipeline, which knows no plans: one review in fifty."""
    settings = corpus.default_settings("1.30")
    texts = [None if path is None else path.read_text() for path in (settings.config, settings.values, settings.mesh)]
    assert texts[0] is not None
    revision = build(RawRevision("default", texts[0], texts[1], texts[2], None, {}, "bench"))
    bodies = reviews.read_bytes().splitlines()[::SAMPLED]
    for body in bodies:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 -- loopback
        with urllib.request.urlopen(request) as answer:  # noqa: S310 -- loopback
            response = json.load(answer)["response"]
        review = admission.decode(body)
        injected = inject_pod(revision, review.object, RequestFacts(review.namespace))
        assert isinstance(injected, Injected)
        if base64.b64decode(response["patch"]) != dump_json(injected.patch) or response["uid"] != review.uid:
            raise SystemExit(f"the answer to {review.uid} is not what the pipeline gives")
    print(f"{len(bodies)} answers to {reviews.stem} are those of the pipeline", file=sys.stderr)


def milliseconds(text: str) -> float:
    """A duration of wrk's."""
    number, unit = re.fullmatch(r"([\d.]+)(\w+)", text).groups()  # type: ignore[union-attr]
    return round(float(number) * UNITS[unit], 3)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
