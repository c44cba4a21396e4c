"""Servers that the benchmarks measure, and Istio's default installation, which they serve."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.recording import ROOT, SHARED
from injector.istio.revision import Revision, RevisionSettings, build_revision

if TYPE_CHECKING:
    from collections.abc import Iterator

START_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Installation:
    """The ConfigMaps of a default installation of one Istio minor, as files, and istiod's variables."""

    minor: str
    config: Path
    values: Path
    mesh: Path
    env: tuple[tuple[str, str], ...]

    @classmethod
    def default(cls, minor: str = "1.30") -> Installation:
        """Return the installation that most of Istio's own test cases use (``../shared/corpus``)."""
        folder = SHARED / "corpus" / minor
        cases = json.loads((folder / "cases.json").read_text())["cases"]
        names = Counter(
            (each["config"], each.get("values"), each["mesh"], tuple(sorted(each.get("env", {}).items())))
            for each in cases
        )
        config, values, mesh, env = names.most_common(1)[0][0]
        return cls(minor, folder / config, folder / values, folder / mesh, env)

    def files(self) -> dict[str, Path]:
        """Return the files by their keys in the ConfigMaps."""
        return {"config": self.config, "values": self.values, "mesh": self.mesh}

    def revision(self) -> Revision:
        """Build the revision."""
        texts = {key: path.read_text() for key, path in self.files().items()}
        settings = RevisionSettings(istio_version=self.minor, env=dict(self.env))
        return build_revision("default", **texts, settings=settings, origin="bench")


def missing() -> str:
    """Return why there is nothing to measure with; empty if there is."""
    absent = [each for each in ("bench", "corpus") if not (SHARED / each).is_dir()]
    return f"the benchmarks need ../shared/{absent[0]}" if absent else ""


def revisions_folder(folder: Path, count: int) -> Path:
    """Write revisions ``r0``, ``r1``, ..., each Istio 1.30's default installation, and return their folder."""
    revisions = folder / f"revisions-{count}"
    for number in range(count):
        revision = revisions / f"r{number}"
        revision.mkdir(parents=True, exist_ok=True)
        for key, path in Installation.default().files().items():
            shutil.copy(path, revision / key)
    return revisions


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers; a yardstick has no operations port."""

    pid: int
    port: int
    ops_port: int = 0


@contextmanager
def served(*flags: str, core: str = "") -> Iterator[Server]:
    """Run the injector over HTTP from when it is ready until the block ends; ``core`` pins it to a processor core."""
    port, ops_port = free_port(), free_port()
    ports = ["--bind", "127.0.0.1", "--port", str(port), "--ops-port", str(ops_port), "--insecure-http"]
    command = [sys.executable, "-m", "injector", "serve", *ports, *flags]
    with running(command, f"http://127.0.0.1:{ops_port}/readyz", core) as pid:
        yield Server(pid, port, ops_port)


@contextmanager
def running(command: list[str], url: str, core: str = "") -> Iterator[int]:
    """Run a command from when it answers 200 at a URL until the block ends; return its process id."""
    pinned = ["taskset", "-c", core] if core else []
    process = subprocess.Popen([*pinned, *command], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        _wait(url, process)
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url):  # noqa: S310 -- loopback
                return
        except OSError:
            time.sleep(0.005)
    raise SystemExit(f"not ready at {url}")


def resident(pid: int) -> float:
    """Return the resident memory of a process, in MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
