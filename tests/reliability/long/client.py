"""The caller of a load: Go's net/http where Go is installed, else the client of tests/reliability."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.factories import make_pod, make_review
from tests.reliability.apiserver import ApiServer, Load
from tests.reliability.replicas import Replica, Service, Stage, trusting
from tests.tasks import until

SOURCE = Path(__file__).with_name("apiserver.go")
RATE = 150.0
CALLERS = 200
WITHIN = 5.0


@dataclass(frozen=True)
class Came:
    """What came of a load: calls, those that were told to come back, what was wrong, and times."""

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
    pod = make_pod(labels={"pod-template-hash": "5d9f", "app": app})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-5d9f", "controller": True}
    pod["metadata"] |= {"generateName": f"{app}-5d9f-", "ownerReferences": [owner]}
    return json.dumps(make_review(pod, uid=uid)).encode()


@cache
def go_client(folder: Path) -> Path | None:
    """The Go client, built; None without Go."""
    if shutil.which("go") is None:
        return None
    built = folder / "apiserver"
    subprocess.run(["go", "build", "-o", built, SOURCE], check=True)
    return built


async def go(stage: Stage, binary: Path, mode: str, replicas: list[Replica], *flags: str) -> asyncio.subprocess.Process:
    """Start the Go client."""
    reviews = stage.folder / "reviews.jsonl"
    reviews.write_bytes(b"\n".join(review_of(f"uid-{number}") for number in range(1_000)))
    ports = ",".join(f"{each.port}:{each.ops_port}" for each in replicas)
    return await asyncio.create_subprocess_exec(
        *(str(binary), mode, "-ca", str(stage.certificate), "-replicas", ports, "-reviews", str(reviews), *flags),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


async def came(process: asyncio.subprocess.Process) -> Came:
    """Let the Go client end, and read what it says."""
    # Python 3.11 closes a standard input only where it has something to write.
    out, _ = await process.communicate(b"\n")
    said: dict[str, Any] = json.loads(out)
    return Came(said["calls"], said["again"], said["wrong"], said["dialled"], said["p99_ms"], said["last_s"])


@dataclass
class Calling:
    """A load on replicas, from ``begin`` to ``end``."""

    stage: Stage
    replicas: list[Replica]

    def __post_init__(self) -> None:
        self.service = Service(self.replicas)
        self._following = asyncio.create_task(self.service.follow())
        self._calls = AsyncExitStack()
        self._process: asyncio.subprocess.Process | None = None
        self._load = Load(ApiServer(self.service.ready, trusting(self.stage.certificate)), review_of)

    async def begin(self) -> None:
        """Begin to call."""
        await until(lambda: len(self.service.known) == len(self.replicas))
        binary = go_client(self.stage.folder)
        if binary is not None:
            flags = ("-rate", str(RATE), "-callers", str(CALLERS))
            self._process = await go(self.stage, binary, "load", self.replicas, *flags)
            return
        await self._calls.enter_async_context(self._load.calls(50, 50 / RATE))

    async def end(self) -> Came:
        """Let the last calls be answered, and tell what came of all."""
        if self._process is not None:
            found = await came(self._process)
        else:
            await self._calls.aclose()
            wrong = {"failed": len(self._load.failures)} if self._load.failures else {}
            calls = self._load.answered.total() + len(self._load.failures)
            found = Came(calls, 0, wrong, self._load.client.dialled, 0.0, 0.0)
        self._following.cancel()
        await self._load.client.close()
        return found
