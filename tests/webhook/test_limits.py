"""The limit of open files."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from injector.webhook.limits import ConnectionLimits, limits_for
from tests.architecture.serving import free_ports, post, wait_until_ready
from tests.factories import make_pod, make_review
from tests.revisions.fakes import write_revision

LIMIT = 60.0


@pytest.mark.parametrize(
    ("files", "webhook", "operations"),
    [
        (resource.RLIM_INFINITY, 1000, 1000),
        (2**20, 1000, 1000),
        (4096, 1000, 1000),
        (3000, 1000, 452),
        (1024, 372, 92),
        (256, 64, 16),
        (64, 16, 16),
        (0, 16, 16),
    ],
)
def test_the_connections_of_both_ports_and_all_else_fit_into_the_open_files(
    files: int, webhook: int, operations: int
) -> None:
    assert limits_for(files) == ConnectionLimits(webhook, operations)


@contextmanager
def served(folder: Path, soft: int, hard: int) -> Iterator[tuple[int, int]]:
    """A server that may open so many files, and its ports. Its log is ``log`` in the folder."""
    port, ops_port = free_ports(2)
    # Set in the new process itself: a function that runs between fork and exec is not safe in a process with threads.
    limited = f"import resource, runpy; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))"
    command = (sys.executable, "-c", f"{limited}; runpy.run_module('injector', run_name='__main__')", "serve")
    flags = ("--revisions-dir", folder / "revisions", "--insecure-http", "--bind", "127.0.0.1", "--shutdown-delay", "0")
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen((*command, *flags, "--port", str(port), "--ops-port", str(ops_port)), stderr=log) as process,
    ):
        try:
            assert wait_until_ready(f"http://127.0.0.1:{ops_port}/readyz", process), (folder / "log").read_text()
            yield port, ops_port
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(LIMIT)
            finally:
                process.kill()


def test_idle_connections_leave_files_for_reviews_probes_and_changes(tmp_path: Path) -> None:
    write_revision(tmp_path / "revisions" / "first")

    with served(tmp_path, 256, 256) as (port, ops_port):
        for name, crowded in {"webhook": [port], "operations": [ops_port], "both": [port, ops_port]}.items():
            with ExitStack() as idle:
                for number in crowded:
                    for _ in range(400):
                        idle.enter_context(socket.create_connection(("127.0.0.1", number), timeout=LIMIT))
                assert (
                    post(f"http://127.0.0.1:{port}/inject/first", make_review(make_pod()))["response"]["allowed"]
                    is True
                )
                with urllib.request.urlopen(f"http://127.0.0.1:{ops_port}/readyz", timeout=LIMIT) as answer:
                    assert answer.status == 200
                write_revision(tmp_path / "revisions" / name)
                wait_until_served(ops_port, name)

    log = (tmp_path / "log").read_text()
    assert "out of system resource" not in log
    assert "at most 64 connections to the webhook and 16 to operations: the process may open 256 files; raise" in log


def wait_until_served(ops_port: int, name: str) -> None:
    deadline = time.monotonic() + LIMIT
    names: set[str] = set()
    while name not in names:
        assert time.monotonic() < deadline, names
        with urllib.request.urlopen(f"http://127.0.0.1:{ops_port}/status.json", timeout=LIMIT) as answer:
            names = {revision["name"] for revision in json.load(answer)["revisions"]}
        time.sleep(0.05)


def test_the_soft_limit_is_raised_at_start(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        hard = min(hard, 300)
    write_revision(tmp_path / "revisions" / "first")

    with served(tmp_path, 200, hard):
        pass

    log = (tmp_path / "log").read_text()
    assert "the process may open 200 files" not in log
    assert "at most 1000 connections to the webhook and 1000 to operations" in log or "may open 300 files" in log
