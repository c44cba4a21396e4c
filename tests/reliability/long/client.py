"""The caller of a load: Go's net/http, as in the API server. Go must be installed."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.factories import created_by, make_pod, make_review
from tests.reliability.replicas import Replica, Service, Stage
from tests.tasks import running, until

SOURCE = Path(__file__).with_name("apiserver.go")
RATE = 150.0
CALLERS = 200
WITHIN = 5.0


@dataclass(frozen=True)
class Came:
    """The result of a load: calls, rejected calls that may be retried, errors, and times."""

    calls: int
    again: int
    wrong: dict[str, int]
    dialled: int
    p99_ms: float
    last_s: float

    @property
    def failures(self) -> int:
        """How many calls ended without a sidecar."""
        return sum(self.wrong.values())


def review_of(uid: str, app: str = "web") -> bytes:
    """A pod of a ReplicaSet: all of an app are alike but for the uid of the question."""
    pod = created_by(make_pod(labels={"pod-template-hash": "5d9f", "app": app}), f"{app}-5d9f")
    return json.dumps(make_review(pod, uid=uid)).encode()


@cache
def go_client(folder: Path) -> Path:
    """The Go client, built.

    Raises:
        SystemExit: Go is not installed.
    """
    if shutil.which("go") is None:
        raise SystemExit("Go is not installed")
    built = folder / "apiserver"
    subprocess.run(["go", "build", "-o", built, SOURCE], check=True)
    return built


async def go(stage: Stage, mode: str, replicas: list[Replica], *flags: str) -> asyncio.subprocess.Process:
    """Start the Go client."""
    reviews = stage.folder / "reviews.jsonl"
    reviews.write_bytes(b"\n".join(review_of(f"uid-{number}") for number in range(1_000)))
    ports = ",".join(f"{replica.port}:{replica.ops_port}" for replica in replicas)
    return await asyncio.create_subprocess_exec(
        *(
            str(go_client(stage.folder)),
            mode,
            "-ca",
            str(stage.certificate),
            "-replicas",
            ports,
            "-reviews",
            str(reviews),
            *flags,
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


async def came(process: asyncio.subprocess.Process) -> Came:
    """Let the Go client end, and read what it says."""
    # Python 3.11 closes a standard input only where it has something to write.
    out, _ = await process.communicate(b"\n")
    said: dict[str, Any] = json.loads(out)
    return Came(said["calls"], said["again"], said["wrong"], said["dialled"], said["p99_ms"], said["last_s"])


@asynccontextmanager
async def called(stage: Stage, replicas: list[Replica]) -> AsyncIterator[tuple[Service, asyncio.subprocess.Process]]:
    """Call replicas until the block ends. Yield the Service before them, and the client; ``came`` ends it."""
    service = Service(replicas)
    async with running(service.follow()):
        await until(lambda: len(service.known) == len(replicas))
        yield service, await go(stage, "load", replicas, "-rate", str(RATE), "-callers", str(CALLERS))
