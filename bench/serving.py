"""A server with many revisions, started as an operator starts it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.load import free_port
from bench.recording import ROOT
from tests.conformance import corpus

if TYPE_CHECKING:
    from collections.abc import Iterator

START_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready."""

    pid: int
    port: int


def revisions_folder(folder: Path, count: int) -> Path:
    """A folder with so many revisions ``r0``, ``r1``, ..., each Istio 1.30's default installation."""
    settings, found = corpus.default_settings("1.30"), folder / f"revisions-{count}"
    for number in range(count):
        revision = found / f"r{number}"
        revision.mkdir(parents=True, exist_ok=True)
        for key, path in (("config", settings.config), ("values", settings.values), ("mesh", settings.mesh)):
            if path is not None:
                shutil.copy(path, revision / key)
    return found


@contextmanager
def served(revisions: Path, *flags: str, core: str = "") -> Iterator[Server]:
    """Serve a folder of revisions until the block ends, from when it is ready; on one core where that is named."""
    port, ops_port = free_port(), free_port()
    ports = ["--bind", "127.0.0.1", "--port", str(port), "--ops-port", str(ops_port)]
    command = [sys.executable, "-m", "injector", "serve", *ports, "--revisions-dir", str(revisions)]
    process = subprocess.Popen(
        [*(["taskset", "-c", core] if core else []), *command, *(flags or ["--insecure-http"])],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(f"http://127.0.0.1:{ops_port}/readyz", process)
        yield Server(process.pid, port)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url):  # noqa: S310 -- loopback
                return
        except OSError:
            time.sleep(0.005)
    raise SystemExit(f"not ready at {url}")


def resident(pid: int) -> float:
    """The resident memory of a process, in MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024
