"""Servers that the benchmarks measure, and the revision that they serve."""

from __future__ import annotations

import argparse
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.recording import ROOT
from injector.revisions.directory import read_folder
from injector.revisions.source import build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from injector.istio.revision import Revision

START_TIMEOUT = 60.0


DEFAULT = ROOT / "revisions" / "stable"
"""The revision that is measured unless another one is named. A pod costs it 5 percent more time than it costs Istio 1.30's."""


def add_revision_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the revision."""
    parser.add_argument(
        "--revision",
        type=_revision_folder,
        default=DEFAULT,
        metavar="DIR",
        help="a revision's folder as in --revisions-dir, for example Istio's ConfigMaps: the keys config, values and mesh as files, "
        "and revision.yaml (default: revisions/stable)",
    )


def _revision_folder(text: str) -> Path:
    folder = Path(text).resolve()
    if not (folder / "config").is_file():
        raise argparse.ArgumentTypeError(f"{text} has no file config; name the folder of one revision")
    return folder


def revisions_folder(folder: Path, source: Path, count: int) -> Path:
    """Write a revision ``count`` times, as ``r0``, ``r1``, ..., and return the folder of all."""
    revisions = folder / f"revisions-{count}"
    for number in range(count):
        shutil.copytree(source, revisions / f"r{number}", dirs_exist_ok=True)
    return revisions


def revision_in(folder: Path) -> Revision:
    """Build the revision of a folder, which has its name."""
    return build(read_folder(folder))


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
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
