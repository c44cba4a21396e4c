"""Checks a command that serves: starts it, lets it inject a pod, and stops it.

``.ci/run`` checks ``scripts/demo`` with it, which installs packages and is therefore not a test.
"""

from __future__ import annotations

import base64
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.factories import UID, make_review

START_LIMIT = 1200.0
"""Maximum seconds until a server is ready; ``scripts/demo`` installs everything in that time."""
STOP_LIMIT = 60.0


def tried(command: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    """Run ``command``, a server on plain HTTP, let it inject a pod, stop it, and return its output.

    Raises:
        AssertionError: the server did not start, did not inject, or ended with an error.
    """
    port, ops_port = free_ports(2)
    flags = ["--port", str(port), "--ops-port", str(ops_port), "--shutdown-delay", "0"]
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as logged:
        process = subprocess.Popen([*command, *flags], cwd=folder, env=env, stdout=printed, stderr=logged)
        try:
            ready = wait_until_ready(f"http://127.0.0.1:{ops_port}/readyz", process)
            answer = post(f"http://127.0.0.1:{port}/inject/stable", make_review()) if ready else {}
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(STOP_LIMIT)
        printed.seek(0)
        logged.seek(0)
        assert ready, logged.read()
        assert status == 0, logged.read()
        check(answer["response"])
        return printed.read()


def check(response: dict[str, Any]) -> None:
    """Check that the response allows the pod, has its uid, and adds Istio's proxy."""
    assert (response["uid"], response["allowed"]) == (UID, True), response
    assert b"istio-proxy" in base64.b64decode(response["patch"])


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server is ready; return False if it is not ready in time."""
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 -- loopback
                return True
        except OSError:
            time.sleep(0.05)
    return False


def post(url: str, review: dict[str, Any]) -> dict[str, Any]:
    """Send a review and return the answer."""
    body, headers = json.dumps(review).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:  # noqa: S310 -- loopback
        reply: dict[str, Any] = json.load(answer)
        return reply


_reserved_sockets: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Return unused ports of the loopback interface, reserved as long as this process runs.

    A socket stays bound to each. Linux permits a server to listen on its port all the same, because neither listens yet and both set
    SO_REUSEADDR (socket(7)).
    """
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))
    _reserved_sockets.extend(probes)
    return [int(probe.getsockname()[1]) for probe in probes]


if __name__ == "__main__":
    print(tried(sys.argv[1:], Path.cwd()))
