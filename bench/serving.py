"""Servers that the benchmarks measure, and Istio's default installation, which they serve."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.recording import ROOT, SHARED
from tests.architecture.serving import free_ports, wait_until_ready
from tests.conformance import corpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def installed() -> dict[str, Path]:
    """Return the files of Istio 1.30's default installation, by their keys in the ConfigMaps."""
    settings = corpus.default_settings("1.30")
    assert settings.values is not None
    return {"config": settings.config, "values": settings.values, "mesh": settings.mesh}


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
        for key, path in installed().items():
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
    port, ops_port = free_ports(2)
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
        if not wait_until_ready(url, process):
            raise SystemExit(f"not ready at {url}")
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)
