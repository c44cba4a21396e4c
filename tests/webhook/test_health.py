"""The operations port: health, readiness, metrics and status."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp.test_utils import RawTestServer
from prometheus_client import CollectorRegistry

from injector.metrics import Metrics, Outcome
from injector.revisions.registry import Registry, Snapshot
from injector.revisions.reload import Loader
from injector.revisions.reports import LoadReport, RevisionState
from injector.revisions.unservednames import UnservedNames
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import HealthFile, Lifecycle, LoopLag, Phase, Supervisor
from injector.webhook.operations import Operations
from injector.webhook.tls.certificatesource import CertificateSource
from tests.cluster.fakes import in_fake_time, skip
from tests.revisions.fakes import fake_revision
from tests.tasks import running
from tests.webhook.conftest import Client, ClientFactory

NOW = 1_700_000_000.0
PATHS = ("/livez", "/healthz", "/readyz", "/metrics", "/status.json", "/status", "/")


@dataclass
class Parts:
    """Stands in for the certificate and the lag: each has the fault that a test says."""

    certificate_fault: str = ""
    lag_fault: str = ""
    task_fault: str = ""
    unserved: dict[str, int] | None = None

    @property
    def certificates(self) -> CertificateSource:
        certificate = SimpleNamespace(fault=lambda: self.certificate_fault, status=lambda: {"names": ["a.example"]})
        return cast("CertificateSource", certificate)

    @property
    def lag(self) -> LoopLag:
        return cast("LoopLag", SimpleNamespace(fault=lambda: self.lag_fault))

    @property
    def supervisor(self) -> Supervisor:
        return cast("Supervisor", SimpleNamespace(fault=lambda: self.task_fault))

    @property
    def watch(self) -> UnservedNames | None:
        watch_status = None if self.unserved is None else SimpleNamespace(to_dict=lambda: self.unserved)
        return cast("UnservedNames | None", watch_status)


@pytest.fixture
def parts() -> Parts:
    """A good certificate and a loop in time."""
    return Parts()


@pytest.fixture
async def operations(
    aiohttp_client: ClientFactory, registry: Registry, metrics: Metrics, lifecycle: Lifecycle, parts: Parts
) -> Client:
    """A client of the operations port."""
    report = LoadReport({"default": RevisionState("default", fake_revision())})
    loader = cast("Loader", SimpleNamespace(report=report))
    handlers = Operations(
        InjectHandler(registry, metrics, lifecycle),
        loader,
        "1.2.3",
        parts.supervisor,
        parts.lag,
        certificates=parts.certificates,
        unserved=parts.watch,
        clock=lambda: NOW,
    )
    return await aiohttp_client(RawTestServer(handlers.answer))


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", PATHS)
async def test_nothing_can_be_changed(operations: Client, path: str, method: str) -> None:
    response = await operations.request(method, path)

    assert (response.status, response.headers["Allow"]) == (405, "GET,HEAD")


@pytest.mark.parametrize("path", PATHS)
async def test_no_answer_depends_on_the_host_header_or_permits_other_origins(operations: Client, path: str) -> None:
    hostile = {"Host": "evil.example", "Origin": "http://evil.example", "X-Forwarded-Host": "evil.example"}

    response = await operations.get(path, headers=hostile)

    assert response.status == 200
    assert "evil" not in str(response.headers) + await response.text()
    assert [name for name in response.headers if name.startswith("Access-Control-")] == []
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.DRAINING, Phase.CLOSING])
async def test_it_is_ready_only_while_it_serves(operations: Client, lifecycle: Lifecycle, phase: Phase) -> None:
    lifecycle.phase = phase

    ready, live = await operations.get("/readyz"), await operations.get("/livez")

    assert (ready.status, await ready.text()) == (503, phase.value)
    assert live.status == 200


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ("task_fault", "background task down: cluster"),
        ("certificate_fault", "the certificate cannot be used: it expired"),
    ],
)
async def test_it_is_not_ready_with_a_part_that_has_a_fault(
    operations: Client, parts: Parts, part: str, fault: str
) -> None:
    setattr(parts, part, fault)

    ready, live = await operations.get("/readyz"), await operations.get("/livez")

    assert (ready.status, await ready.text(), live.status) == (503, fault, 200)


async def test_it_is_not_ready_without_a_revision(operations: Client, registry: Registry) -> None:
    registry.swap(Snapshot())

    response = await operations.get("/readyz")

    assert (response.status, await response.text()) == (503, "no revision is served")


@pytest.mark.parametrize("path", ["/livez", "/healthz"])
async def test_it_does_not_live_while_its_loop_is_stuck(operations: Client, parts: Parts, path: str) -> None:
    parts.lag_fault = "the event loop is stuck"

    response = await operations.get(path)

    assert (response.status, await response.text()) == (503, "the event loop is stuck")


@pytest.mark.parametrize("parts", [Parts(), Parts(unserved={"namespaces": 3})])
async def test_the_status_has_the_certificate_and_the_watched_unserved_names(operations: Client, parts: Parts) -> None:
    status = await (await operations.get("/status.json")).json()

    assert (status["certificate"], status["unserved"]) == ({"names": ["a.example"]}, parts.unserved)


async def test_metrics_are_those_of_the_injector(operations: Client, metrics: Metrics) -> None:
    metrics.requests.count(Outcome.SUCCESS, {"total": 0.001}, revision="1-24")

    response = await operations.get("/metrics")
    assert "_created" not in await response.text()

    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'sidecar_injection_requests_total{revision="1-24",tag=""} 1.0' in await response.text()


@pytest.mark.parametrize("path", ["/", "/status"])
async def test_the_status_is_a_page_that_nobody_keeps_or_frames(operations: Client, path: str) -> None:
    response = await operations.get(path)

    assert (response.status, response.content_type) == (200, "text/html")
    assert response.headers["Cache-Control"] == "no-store"
    policy = dict(part.split(" ", 1) for part in response.headers["Content-Security-Policy"].split("; "))
    assert policy.pop("style-src").startswith("'sha256-")
    assert policy == dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'")
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "1.2.3, as of " in await response.text()


async def test_the_status_is_the_same_json_at_each_address_and_nobody_keeps_it(operations: Client) -> None:
    responses = [await operations.get(path) for path in ("/?format=json", "/status?format=json", "/status.json")]

    statuses = [await response.json() for response in responses]
    assert statuses[0] == statuses[1] == statuses[2]
    assert (statuses[0]["version"], statuses[0]["time"]) == ("1.2.3", NOW)
    assert [revision["name"] for revision in statuses[0]["revisions"]] == ["default"]
    assert {response.headers["Cache-Control"] for response in responses} == {"no-store"}


async def test_the_page_allows_its_own_style_sheet_and_nothing_else(operations: Client) -> None:
    response = await operations.get("/status")
    text = await response.text()

    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = dict(word.split(" ", 1) for word in response.headers["Content-Security-Policy"].split("; "))
    assert (policy["default-src"], policy["style-src"]) == ("'none'", f"'sha256-{digest}'")
    assert re.findall(r"<script|\sstyle=|\son\w+=|javascript:|http://|https://", text) == []


async def test_the_webhook_is_not_on_this_port(operations: Client) -> None:
    assert (await operations.post("/inject")).status == 404


async def measured(metrics: Metrics, *late: float) -> tuple[LoopLag, list[str]]:
    """Measure a loop that is late by these seconds, one after the other; return the faults after each, and before the first."""
    lag, faults = LoopLag(), list[str]()
    async with running(lag.follow(metrics)):
        for seconds in late:
            await asyncio.sleep(2.5)
            faults.append(lag.fault())
            skip(2.5 + seconds)
            for _ in range(3):
                await asyncio.sleep(0)
        faults.append(lag.fault())
    return lag, faults


@pytest.mark.parametrize(
    ("late", "worst"),
    [
        ((0.25,), 0.25),
        ((0.25, 3.0, 0.5), 3.0),
        ((3.0, *[0.5] * 11), 3.0),
        ((3.0, *[0.5] * 12), 0.5),
        ((0.0,), 0.0),
    ],
)
@in_fake_time
async def test_the_gauge_has_the_worst_of_the_last_minute(
    metrics: Metrics, collector: CollectorRegistry, late: tuple[float, ...], worst: float
) -> None:
    await measured(metrics, *late)

    assert collector.get_sample_value("injector_event_loop_lag_seconds") == pytest.approx(worst)


@in_fake_time
async def test_a_loop_that_came_late_beyond_the_bound_is_stuck_until_it_is_in_time_again(metrics: Metrics) -> None:
    _, faults = await measured(metrics, 9.5, 10.5, 0.0)

    assert faults == ["", "", "the event loop is stuck: 10.5 s late", ""]


@in_fake_time
async def test_a_loop_that_stands_now_is_stuck_before_it_is_measured(metrics: Metrics) -> None:
    lag, _ = await measured(metrics)

    async with running(lag.follow(metrics)):
        await asyncio.sleep(0)
        skip(15.0)
        before = lag.fault()
        skip(0.5)

        assert (before, lag.fault()) == ("", "the event loop is stuck: 10.5 s late")


@in_fake_time
async def test_before_it_is_measured_a_loop_is_not_stuck() -> None:
    skip(1e9)

    assert LoopLag().fault() == ""


class Health:
    """A health file that is written every two seconds, while there is no fault."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault = ""

    async def written(self) -> bool:
        """Whether it is there after the next write, which takes it away."""
        await asyncio.sleep(2.0)
        is_written = self.path.exists() and self.path.read_text() == "ok"
        self.path.unlink(missing_ok=True)
        return is_written

    def follow(self) -> AbstractAsyncContextManager[object]:
        return running(HealthFile(self.path, 2.0).follow(lambda: self.fault))


@in_fake_time
async def test_the_file_is_written_at_once_and_each_interval_while_the_injector_lives(tmp_path: Path) -> None:
    health = Health(tmp_path / "health")
    async with health.follow():
        await asyncio.sleep(1.0)
        writes = [await health.written(), await health.written()]
        health.fault = "the event loop is stuck"
        writes.append(await health.written())
        health.fault = ""
        writes.append(await health.written())

    assert writes == [True, True, False, True]


@in_fake_time
async def test_why_it_cannot_be_written_is_told_once_until_it_could_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    health = Health(tmp_path / "folder" / "health")
    async with health.follow():
        await asyncio.sleep(3.0)
        health.path.parent.mkdir()
        assert await health.written()
        health.path.parent.rmdir()
        await asyncio.sleep(4.0)

    expected = f"cannot write --healthCheckFile {health.path}: No such file or directory"
    assert [record.getMessage() for record in caplog.records] == [expected] * 2
