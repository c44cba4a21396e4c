"""No secret gets out: not into a line of log at any level, a page, a metric or a traceback, whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.cli.serve.server import JsonFormatter, TextFormatter
from injector.metrics import Metrics
from injector.revisions.directory import EMBEDDED, read_directory
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.verify import RecentPods
from injector.webhook.decisions import LOGGED, Decisions
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle
from injector.webhook.server import Server
from injector.webhook.tls.certificate import CertificateFiles
from injector.webhook.tls.certificatesource import FileSource
from tests.factories import make_container, make_pod, make_review
from tests.tasks import until
from tests.webhook.certificates import write_certificate
from tests.webhook.test_server import LISTENERS, Running, running

CANARY = "c4n4ry"
"""Stands in every secret of a request: values of annotations and variables, tokens."""

ENV = [{"name": "PASSWORD", "value": f"{CANARY}-env"}]
PODS: dict[str, dict[str, Any]] = {
    "injected": make_pod(annotations={"note": f"{CANARY}-note"}),
    "annotation": make_pod(annotations={"sidecar.istio.io/logLevel": f"{CANARY}-level"}),
    "number": make_pod(annotations={"status.sidecar.istio.io/port": f"{CANARY}-port"}),
    "template": make_pod(annotations={"inject.istio.io/templates": f"{CANARY}-template"}),
    "proxy config": make_pod(annotations={"proxy.istio.io/config": f"concurrency: {CANARY}"}),
    "proxy yaml": make_pod(annotations={"proxy.istio.io/config": f"{CANARY}: ]["}),
    "volume": make_pod(annotations={"sidecar.istio.io/userVolume": f'{{"{CANARY}'}),
    "cpu": make_pod(annotations={"sidecar.istio.io/proxyCPU": f"{CANARY}\n- x"}),
    "skipped": make_pod(labels={"sidecar.istio.io/inject": "false"}, annotations={"a": CANARY}),
    "typed": make_pod(containers=[make_container(env=[{"name": "A", "value": {CANARY: CANARY}}])]),
    "spec": {**make_pod(annotations={"a": CANARY}), "spec": CANARY},
}
for _pod in PODS.values():
    if isinstance(_pod["spec"], dict) and _pod is not PODS["typed"]:
        _pod["spec"]["containers"][0]["env"] = ENV

BODIES = [
    f'{{"kind": "{CANARY}"'.encode(),
    f'"{CANARY}"'.encode(),
    json.dumps({"kind": "AdmissionReview", "apiVersion": CANARY, "request": {"uid": "u"}}).encode(),
    json.dumps({**make_review(), "request": {"uid": "u", "object": [CANARY]}}).encode(),
    b"\xff" + CANARY.encode(),
]
TOKEN = {"Authorization": f"Bearer {CANARY}-token", "Cookie": f"session={CANARY}"}
RAW = [
    f"POST /inject HTTP/1.1\r\nHost: x\r\nAuthorization {CANARY}\r\n\r\n",
    f"POST /inject HTTP/1.1\r\nHost: x\r\nContent-Length: {CANARY}\r\n\r\n",
    f"{CANARY} nothing\r\n\r\n",
    f"POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{CANARY}\r\n",
    f"POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{CANARY}",
]
"""What is no HTTP, or ends too early."""


class AllRecords(logging.Handler):
    """Every record of every logger, as both formats write it, with the traceback that Python would add."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [TextFormatter().format(record), JsonFormatter().format(record)]


@pytest.fixture
def log() -> Iterator[AllRecords]:
    """All that is logged, down to DEBUG."""
    handler, root = AllRecords(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def registry() -> Registry:
    """Nothing, until the revisions that the project ships are loaded."""
    return Registry()


@pytest.fixture
def webhook_server(registry: Registry, metrics: Metrics, tmp_path: Path) -> Server:
    """A server of real revisions that logs every decision, and looks at its certificate all the time."""
    loader = Loader(partial(read_directory, EMBEDDED), registry)
    loader.load(time.time())
    source = FileSource(CertificateFiles(*write_certificate(tmp_path)), interval=0.01)
    handler = InjectHandler(registry, metrics, Lifecycle(), decisions=Decisions(LOGGED["all"]), recent=RecentPods())
    return Server(handler, loader, "1.2.3", certificates=source)


async def pages(server: Running) -> list[str]:
    """All that the operations port shows."""
    paths = ("/", "/status", "/status.json", "/metrics", "/readyz", "/livez", f"/?{CANARY}", "/nope")
    return [await (await server.get(path, headers=TOKEN)).text() for path in paths]


async def sent_raw(server: Running, tls: ssl.SSLContext, text: str) -> None:
    """Send what is no request, and hang up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls)
    writer.write(text.encode())
    writer.write_eof() if writer.can_write_eof() else None
    try:
        async with asyncio.timeout(0.3):
            await reader.read()
    except TimeoutError:
        pass
    writer.close()


async def test_no_canary_comes_out_of_anything_that_goes_wrong(
    webhook_server: Server,
    tmp_path: Path,
    log: AllRecords,
    monkeypatch: pytest.MonkeyPatch,
    collector: CollectorRegistry,
) -> None:
    source = webhook_server.certificates
    assert source is not None
    key_lines = (tmp_path / "tls.key").read_text().splitlines()[1:-1]
    trusting = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
    trusting.check_hostname = False
    reasons: set[str] = set()

    async with running(LISTENERS, webhook_server) as server:

        async def post(body: bytes, path: str = "/inject/stable") -> None:
            await server.post(path, data=body, headers={"Content-Type": "application/json", **TOKEN}, ssl=trusting)

        for name, pod in PODS.items():
            await post(json.dumps(make_review(pod, uid=name)).encode())
        for body in BODIES:
            await post(body)
        with monkeypatch.context() as patched:
            patched.setattr("injector.webhook.handler.inject_pod", _fails)
            await post(json.dumps(make_review()).encode())
        await post(json.dumps(make_review()).encode(), f"/inject/nope?timeout={CANARY}")
        for text in RAW:
            await sent_raw(server, trusting, text)
        (tmp_path / "tls.key").write_text(f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----\n")
        await until(lambda: source.status().get("error"))
        texts = [*await pages(server), str(source.status())]
        await server.end()

    for metric in collector.collect():
        reasons |= {sample.labels["reason"] for sample in metric.samples if "reason" in sample.labels and sample.value}
    assert {"annotation", "internal", "undecodable", "unknown_revision", "review"} <= reasons
    assert len(log.lines) > 20
    assert [text for text in (*log.lines, *texts) if CANARY in text] == []
    assert [line for line in key_lines for text in (*log.lines, *texts) if line in text] == []


def _fails(*_: object) -> None:
    raise ValueError(CANARY)
