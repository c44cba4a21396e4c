"""Writes the pictures of the status page in docs/images: of a server in the middle of a canary upgrade, and of one with 100 tags."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from aiohttp import web

from injector.webhook.operations import HEADERS, status_page
from tests.architecture.documents import ROOT
from tests.architecture.serving import STOP_LIMIT, free_ports, post, wait_until_ready
from tests.factories import created_by, make_pod, make_review
from tests.webhook.chromium import browser, tab

FOLDER: Final = ROOT / "docs" / "images"
TAGS: Final = """\
prod: {1-24: 75, 1-30: 25}
default: {revision: 1-24, shadow: {revision: 1-30, sample: 100}}
edge: 1-30
"""
TEAMS: Final = (
    "checkout",
    "search",
    "billing",
    "catalog",
    "identity",
    "shipping",
    "reports",
    "media",
    "support",
    "risk",
)
MANY_TAGS: Final = TAGS + "".join(
    f"{team}-{number}: 1-{'24' if (place + number) % 3 else '30'}\n"
    for place, team in enumerate(TEAMS)
    for number in range(1, 11)
    if team != "risk" or number < 8
)
SKIPPED: Final = {"sidecar.istio.io/inject": "false"}
INVALID: Final = {"traffic.sidecar.istio.io/includeInboundPorts": "http"}
UPGRADE: Final[dict[str, Any]] = {
    "name": "to-1-30", "tag": "prod", "from": "1-24", "to": "1-30", "phase": "Running",
    "progress": "wave web, Soaking: 38 done",
    "waves": [{"name": "dev", "done": True}, {"name": "web", "done": False}, {"name": "rest", "done": False}],
    "left": 103, "total": 164, "secondsLeft": 2520.0, "gates": {"errors": "pass", "latency": "pass"}, "reason": None, "progressedAt": 1.0,
}  # fmt: skip
"""An upgrade as ``Controller.to_list`` returns it: a server without a cluster has none."""


def reviews() -> list[tuple[str, dict[str, object]]]:
    """Return the paths and the reviews that are sent: 200 workloads, a few of them skipped or refused."""
    calls: list[tuple[str, dict[str, object]]] = []
    for number in range(200):
        name = f"{TEAMS[number % len(TEAMS)]}-{number // len(TEAMS)}"
        annotations = SKIPPED if number % 19 == 0 else INVALID if number % 97 == 5 else {}
        pod = created_by(make_pod(name, labels={"pod-template-hash": "5d9f"}, annotations=annotations), f"{name}-5d9f")
        path = "/inject/edge" if number % 7 == 0 else "/inject/prod" if number % 3 else "/inject/default"
        calls.append((path, make_review(pod, namespace="shop")))
    return calls


def served_status(tags: str) -> dict[str, Any]:
    """Return ``/status.json`` of a server with ``tags`` that answered the reviews."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for revision, source in {"1-24": "stable", "1-30": "canary"}.items():
            shutil.copytree(ROOT / "revisions" / source, folder / revision)
        (folder / "tags.yaml").write_text(tags)
        port, ops_port = free_ports(2)
        command = [sys.executable, "-m", "injector", "serve", "--insecure-http", "--bind", "127.0.0.1"]
        flags = ["--revisions-dir", ".", "--port", str(port), "--ops-port", str(ops_port), "--shutdown-delay", "0"]
        server = subprocess.Popen(
            [*command, *flags], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL
        )
        try:
            assert wait_until_ready(f"http://127.0.0.1:{ops_port}/readyz", server)
            for path, review in reviews():
                post(f"http://127.0.0.1:{port}{path}", review)
            with urlopen(f"http://127.0.0.1:{ops_port}/status.json", timeout=60) as response:
                status: dict[str, Any] = json.load(response)
                return status
        finally:
            server.terminate()
            server.wait(STOP_LIMIT)


async def take(pictures: dict[str, tuple[dict[str, Any], int, str]]) -> None:
    """Write the pictures: by name the status, the width of the window, and the colour scheme."""
    _, port = free_ports(2)

    async def answer(request: web.BaseRequest) -> web.Response:
        status, _, _ = pictures[request.path.strip("/")]
        return web.Response(text=status_page(status), content_type="text/html", headers=HEADERS)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        with browser() as address:
            async with tab(address) as page:
                for name, (_, width, scheme) in pictures.items():
                    await page.open(f"http://127.0.0.1:{port}/{name}", width=width, scheme=scheme)
                    picture = await page.screenshot(before="section[aria-labelledby=revisions]")
                    (FOLDER / f"{name}.png").write_bytes(picture)
    finally:
        await runner.cleanup()


def main() -> None:
    """Serve, send the reviews, and take the pictures."""
    FOLDER.mkdir(exist_ok=True)
    few = served_status(TAGS) | {"upgrades": [UPGRADE]}
    many = served_status(MANY_TAGS)
    pictures = {
        "status": (few, 1100, "light"),
        "status-dark": (few, 1100, "dark"),
        "status-phone": (few, 390, "light"),
        "status-100-tags": (many, 1100, "light"),
    }
    asyncio.run(take(pictures))


if __name__ == "__main__":
    main()
