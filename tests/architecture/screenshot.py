"""Writes docs/images/status.png: the status page of a server in the middle of a canary upgrade, in Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.architecture.documents import ROOT
from tests.architecture.serving import STOP_LIMIT, free_ports, post, wait_until_ready
from tests.factories import make_pod, make_review

IMAGE: Final = ROOT / "docs" / "images" / "status.png"
SIZE: Final = "1100,615"
TAGS: Final = """\
prod: {1-24: 75, 1-30: 25}
default: {revision: 1-24, shadow: {revision: 1-30, sample: 100}}
"""
SKIPPED: Final = {"sidecar.istio.io/inject": "false"}
INVALID: Final = {"traffic.sidecar.istio.io/includeInboundPorts": "http"}


def reviews() -> list[tuple[str, dict[str, object]]]:
    """Return the paths and the reviews that are sent: 200 workloads, a few of them skipped or refused."""
    found: list[tuple[str, dict[str, object]]] = []
    for number in range(200):
        annotations = SKIPPED if number % 19 == 0 else INVALID if number % 97 == 5 else {}
        pod = make_pod(f"app-{number}", annotations=annotations)
        owner = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": f"app-{number}",
            "uid": "1",
            "controller": True,
        }
        pod["metadata"]["ownerReferences"] = [owner]
        found.append(("/inject/prod" if number % 3 else "/inject/default", make_review(pod, namespace="shop")))
    return found


def main() -> None:
    """Serve, send the reviews, and take the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for revision, source in {"1-24": "stable", "1-30": "canary"}.items():
            shutil.copytree(ROOT / "revisions" / source, folder / revision)
        (folder / "tags.yaml").write_text(TAGS)
        port, ops_port = free_ports(2)
        command = [sys.executable, "-m", "injector", "serve", "--insecure-http", "--bind", "127.0.0.1"]
        flags = ["--revisions-dir", ".", "--port", str(port), "--ops-port", str(ops_port), "--shutdown-delay", "0"]
        server = subprocess.Popen(
            [*command, *flags], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL
        )
        try:
            operations = f"http://127.0.0.1:{ops_port}"
            assert wait_until_ready(f"{operations}/readyz", server)
            for path, review in reviews():
                post(f"http://127.0.0.1:{port}{path}", review)
            IMAGE.parent.mkdir(exist_ok=True)
            browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            picture = [f"--window-size={SIZE}", f"--screenshot={IMAGE}", f"{operations}/status"]
            subprocess.run([*browser, *picture], check=True, capture_output=True, timeout=120)
        finally:
            server.terminate()
            server.wait(STOP_LIMIT)


if __name__ == "__main__":
    main()
