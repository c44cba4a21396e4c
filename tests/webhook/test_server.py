"""The server as a whole: routes, errors and background tasks."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from injector.errors import InjectorError
from injector.metrics import Metrics
from injector.revisions.following import Reloader
from injector.revisions.registry import Registry, snapshot_of
from injector.revisions.reload import Loader
from injector.revisions.reports import LoadReport
from injector.revisions.tags import parse_tags
from injector.webhook import lifecycle, limits, shadow
from injector.webhook.decisions import DECISION_NOTES
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Follow, HealthFile, Lifecycle
from injector.webhook.queue import Tenant
from injector.webhook.server import ListenOptions, Server
from injector.webhook.shadow import Shadows
from injector.webhook.tls.certificate import CertificateFiles, ClientAuthority
from injector.webhook.tls.certificatesource import FileSource, Handshakes
from tests.factories import UID, make_pod, make_review
from tests.revisions.fakes import fake_revision
from tests.tasks import until
from tests.webhook.certificates import Order, authority, issue, write_certificate
from tests.webhook.conftest import Core

MAX_BODY = 8 * 2**20

LISTENERS = ListenOptions("127.0.0.1", 0, 0, 0.0)
LIMIT = 20.0


@dataclass(frozen=True)
class Running:
    """A server in this process, and a session of its client. Answers are read."""

    port: int
    ops_port: int
    task: asyncio.Task[None]
    session: aiohttp.ClientSession
    scheme: str = "http"

    async def post(self, path: str = "/inject", **options: Any) -> aiohttp.ClientResponse:
        """Send a review, or the body that the options have."""
        if "data" not in options:
            options.setdefault("json", make_review())
        async with self.session.post(f"{self.scheme}://127.0.0.1:{self.port}{path}", **options) as answer:
            await answer.read()
            return answer

    async def get(self, path: str, **options: Any) -> aiohttp.ClientResponse:
        """Ask the port of operations."""
        async with self.session.get(f"http://127.0.0.1:{self.ops_port}{path}", **options) as answer:
            await answer.read()
            return answer

    async def end(self) -> None:
        """Tell the server to end, and wait until it did."""
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(LIMIT):
            await self.task


@pytest.fixture
def webhook_server(core: Core, registry: Registry, metrics: Metrics) -> Server:
    del core
    handler = InjectHandler(registry, metrics, Lifecycle())
    return Server(handler, cast("Loader", SimpleNamespace(report=LoadReport())), "1.2.3")


@asynccontextmanager
async def running(
    listeners: ListenOptions, webhook_server: Server, follow: Mapping[str, Follow] | None = None
) -> AsyncIterator[Running]:
    """Run a server for as long as a test needs it."""
    ports: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        webhook_server.serve(listeners, on_start=lambda *address: ports.set_result(address), follow=follow)
    )
    waited: list[asyncio.Future[Any]] = [task, ports]
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    async with aiohttp.ClientSession() as session:
        yield Running(*ports.result(), task, session, "https" if webhook_server.certificates else "http")
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


async def test_both_ports_answer_and_a_signal_ends_them(webhook_server: Server) -> None:
    async with running(LISTENERS, webhook_server) as server:
        assert (await server.get("/readyz")).status == 200
        assert (await (await server.post()).json())["response"]["uid"] == UID
        await server.end()

        with pytest.raises(aiohttp.ClientConnectorError):
            await server.post()


@pytest.mark.parametrize(
    "request_line",
    ["POST /inject HTTP/1.1", "GET / HTTP/1.1", "GET /inject HTTP/1.1", "nonsense", f"GET /{'a' * 9000} HTTP/1.1"],
)
@pytest.mark.parametrize("port", ["port", "ops_port"])
async def test_no_response_tells_the_versions_of_its_software(
    webhook_server: Server, port: str, request_line: str
) -> None:
    async with running(LISTENERS, webhook_server) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", getattr(server, port))
        writer.write(f"{request_line}\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT)
        writer.close()

    assert head.startswith(b"HTTP/1.")
    assert b"Content-Type" in head
    assert b"\nServer:" not in head


async def test_names_served_elsewhere_and_the_decision_are_told_in_answers(webhook_server: Server) -> None:
    telling = replace(
        webhook_server,
        elsewhere=frozenset({"1-18"}),
        handler=replace(webhook_server.handler, notes=DECISION_NOTES["warnings"]),
    )

    async with running(LISTENERS, telling) as server:

        async def warnings(path: str, name: str) -> list[str]:
            answer = await server.post(path, json=make_review(make_pod(labels={"istio.io/rev": name})))
            lines: list[str] = (await answer.json())["response"].get("warnings", [])
            return lines

        assert await warnings("/inject/prod", "prod") == ["injected by revision 1-24 (tag prod)"]
        assert await warnings("/unserved/warn/pod", "1-18") == []
        assert ["is not a served revision or tag" in text for text in await warnings("/unserved/warn/pod", "1-19")] == [
            True
        ]


async def test_with_an_authority_of_clients_only_those_are_served(webhook_server: Server, tmp_path: Path) -> None:
    root = authority()
    (tmp_path / "clients.crt").write_bytes(root.chain_pem)
    clients = ClientAuthority(tmp_path / "clients.crt", ["kube-apiserver"])
    certificate, key = write_certificate(tmp_path)
    source = FileSource(CertificateFiles(certificate, key), interval=0.0, handshakes=Handshakes(clients))
    statuses: dict[str, int] = {}

    async with running(LISTENERS, replace(webhook_server, certificates=source)) as server:
        for name in ("kube-apiserver", "somebody", ""):
            context = ssl.create_default_context(cafile=str(certificate))
            context.check_hostname = False
            if name:
                context.load_cert_chain(*issue(Order(common_name=name), root).write(tmp_path, "client"))
            with suppress(aiohttp.ClientError, OSError):
                statuses[name] = (await server.post(ssl=context)).status
        statuses["operations"] = (await server.get("/readyz")).status
        await server.end()

    assert statuses == {"kube-apiserver": 200, "operations": 200}


async def test_it_keeps_its_file_its_lag_and_its_certificate_up_to_date(webhook_server: Server, tmp_path: Path) -> None:
    source = FileSource(CertificateFiles(*write_certificate(tmp_path)), interval=0.01)
    health_file = HealthFile(tmp_path / "health", 0.01)
    serving = replace(webhook_server, certificates=source, health_file=health_file)
    newer = issue().write(tmp_path, "newer")

    async with running(LISTENERS, serving) as server:
        for name, path in zip(("tls.crt", "tls.key"), newer, strict=True):
            path.replace(tmp_path / name)
        text = ""
        async with asyncio.timeout(LIMIT):
            while 'certificate_reloads_total{outcome="success"} 1.0' not in text or not health_file.path.exists():
                text = await (await server.get("/metrics")).text()
        certificate = (await (await server.get("/status.json")).json())["certificate"]
        await server.end()

    assert (certificate["fingerprint"], certificate["valid"]) == (source.certificate.fingerprint, True)
    assert "injector_event_loop_lag_seconds" in text
    assert [task for task in asyncio.all_tasks() if task.get_name() == "health-file"] == []


async def test_while_it_drains_it_is_unready_and_still_injects(webhook_server: Server) -> None:
    async with running(replace(LISTENERS, shutdown_delay=LIMIT), webhook_server) as server:
        os.kill(os.getpid(), signal.SIGTERM)
        while (status := (await server.get("/readyz")).status) == 200:
            pass
        answer = await server.post()
        assert (status, answer.status, answer.headers["Connection"]) == (503, 200, "close")
        # A second signal cuts the delay short.
        await server.end()


@pytest.mark.parametrize(("number", "hint"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
async def test_ctrl_c_says_how_to_stop_at_once(
    webhook_server: Server, caplog: pytest.LogCaptureFixture, number: signal.Signals, *, hint: bool
) -> None:
    caplog.set_level(logging.INFO)
    async with running(replace(LISTENERS, shutdown_delay=LIMIT), webhook_server) as server:
        os.kill(os.getpid(), number)
        await until(lambda: "draining for" in caplog.text)
        await server.end()
    assert ("press Ctrl-C again to stop at once" in caplog.text) is hint


async def test_the_shadow_of_a_tag_tries_its_candidate_and_the_status_tells(
    webhook_server: Server, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "inject_pod", core)
    tags = parse_tags("prod: {revision: 1-24, shadow: {revision: 1-30}}")
    webhook_server.handler.registry.swap(snapshot_of([fake_revision("1-24"), fake_revision("1-30")], tags))

    async with running(LISTENERS, webhook_server) as server:
        assert (await server.post("/inject/prod")).status == 200
        requests: dict[str, int] = {}
        async with asyncio.timeout(LIMIT):
            while not requests:
                requests = (await (await server.get("/status.json")).json())["tags"][0]["shadow"]["requests"]
        await server.end()

    assert (requests, [revision for revision, _, _ in core.calls]) == ({"same": 1}, ["1-24", "1-30"])
    assert [task for task in asyncio.all_tasks() if task.get_name() == "shadow"] == []


async def test_a_compressed_body_is_refused_and_never_inflated(webhook_server: Server) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}

    async with running(LISTENERS, webhook_server) as server:
        answer = await server.post(data=b"no gzip at all", headers=headers)
        assert (answer.status, "without an encoding" in await answer.text()) == (415, True)


def request_head(*headers: str, version: str = "1.1") -> bytes:
    """The head of a review with these headers."""
    lines = (f"POST /inject HTTP/{version}", "Host: x", "Content-Type: application/json", *headers)
    return "\r\n".join((*lines, "", "")).encode()


@pytest.mark.parametrize("expectation", ["100-continue", "100-Continue", ", 100-continue"])
async def test_a_client_that_expects_100_continue_is_told_to_send_its_body(
    webhook_server: Server, expectation: str
) -> None:
    body = json.dumps(make_review()).encode()

    async with running(LISTENERS, webhook_server) as server, asyncio.timeout(LIMIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(2):
            writer.write(request_head(f"Expect: {expectation}", f"Content-Length: {len(body)}"))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            (length,) = (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
            assert json.loads(await reader.readexactly(length))["response"]["uid"] == UID
        writer.close()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (request_head("Expect: 200-ok", "Content-Length: 9"), 417),
        (request_head("Expect: 100-continue, other", "Content-Length: 9"), 417),
        (request_head("Expect: 100-continue", f"Content-Length: {MAX_BODY + 1}"), 413),
        (request_head("Expect: 100-continue", "Content-Length: 9", "Content-Encoding: gzip"), 415),
        (request_head("Expect: 100-continue", "Transfer-Encoding: gzip, chunked"), 501),
        (request_head("Transfer-Encoding: gzip, chunked"), 501),
        (request_head("Transfer-Encoding: identity, chunked"), 501),
        (request_head("Transfer-Encoding: x, y, chunked"), 501),
        (request_head("Transfer-Encoding: gzip", "Transfer-Encoding: chunked"), 400),
        (request_head("Transfer-Encoding: chunked, gzip"), 400),
        (request_head("Transfer-Encoding: chunked, chunked"), 400),
        (request_head("Transfer-Encoding: identity") + b"{}", 400),
        (request_head("Transfer-Encoding: gzip") + b"{}", 400),
        (request_head("Transfer-Encoding: identity", "Content-Length: 9"), 400),
        (request_head("Transfer-Encoding: ", "Content-Length: 9"), 400),
        (request_head("Transfer-Encoding: "), 400),
        (request_head("Transfer-Encoding: chunked", "Content-Length: 9"), 400),
        (request_head("Content-Length: 9", "Transfer-Encoding: chunked"), 400),
        (request_head("Transfer-Encoding: chunked", version="1.0"), 400),
    ],
)
async def test_an_unknown_expectation_or_transfer_coding_ends_the_connection(
    webhook_server: Server, head: bytes, status: int
) -> None:
    async with running(LISTENERS, webhook_server) as server, asyncio.timeout(LIMIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()
        rest = await reader.read()
        writer.close()

    assert int(answer.split()[1]) == status
    assert b"HTTP/1." not in rest


@pytest.mark.parametrize("transfer", ["Chunked", ", chunked", "chunked"])
async def test_the_name_of_a_transfer_coding_may_be_written_in_any_way(webhook_server: Server, transfer: str) -> None:
    body = json.dumps(make_review()).encode()

    async with running(LISTENERS, webhook_server) as server, asyncio.timeout(LIMIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_head(f"Transfer-Encoding: {transfer}") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_a_client_of_http_1_0_gets_no_interim_response(webhook_server: Server) -> None:
    async with running(LISTENERS, webhook_server) as server, asyncio.timeout(LIMIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_head("Expect: 100-continue", "Content-Length: 9", version="1.0") + b"{}")
        await asyncio.sleep(0)
        writer.write(b"       ")
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    assert answer.startswith(b"HTTP/1.0 400 ")


async def test_who_hangs_up_in_the_middle_of_a_body_is_counted_and_is_no_error(
    webhook_server: Server, collector: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    labels = {"revision": "unknown", "tag": "", "reason": "disconnected"}

    async with running(LISTENERS, webhook_server) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            b"POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        await writer.drain()
        writer.close()
        async with asyncio.timeout(LIMIT):
            await until(lambda: collector.get_sample_value("sidecar_injection_failure_total", labels) == 1)
        await server.end()

    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_how_many_wait_is_seen_by_every_scrape(webhook_server: Server, collector: CollectorRegistry) -> None:
    async with running(LISTENERS, webhook_server) as server:
        assert collector.get_sample_value("injector_requests_waiting") == 0
        tenant = Tenant("1-24", "shop")
        queue, end = webhook_server.handler.queue, threading.Event()
        tasks = [asyncio.create_task(queue.run(tenant, 1, lambda: partial(end.wait, LIMIT))) for _ in range(2)]
        await asyncio.sleep(0)
        assert collector.get_sample_value("injector_requests_waiting") == 1
        end.set()
        await asyncio.gather(*tasks)
        await server.end()


async def test_who_is_left_after_a_drain_is_told_of_in_the_log(
    webhook_server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "DRAIN_TIMEOUT", 0.0)

    async with running(LISTENERS, webhook_server) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /inject HTTP/1.1\r\nHost: x\r\n")
        await writer.drain()
        await server.end()
        writer.close()

    assert "drain timed out with 1 open connections" in caplog.text


async def test_until_what_it_follows_has_settled_it_listens_and_is_not_ready(webhook_server: Server) -> None:
    go, follower = asyncio.Event(), FakeFollower()

    async def follow(ready: asyncio.Event) -> None:
        await go.wait()
        ready.set()
        await follower.run()

    starting = running(LISTENERS, webhook_server, {"it": follow})
    entered = asyncio.create_task(starting.__aenter__())
    await asyncio.sleep(0.01)
    assert not entered.done()
    go.set()
    async with asyncio.timeout(LIMIT):
        server = await entered
    assert (await server.get("/readyz")).status == 200
    await server.end()
    await starting.__aexit__(None, None, None)

    assert follower.cancelled.is_set()


async def test_a_signal_that_comes_before_it_has_settled_ends_it(webhook_server: Server) -> None:
    follower = FakeFollower()

    async def follow(ready: asyncio.Event) -> None:
        del ready
        os.kill(os.getpid(), signal.SIGTERM)
        await follower.run()

    async with asyncio.timeout(LIMIT):
        await webhook_server.serve(LISTENERS, on_start=lambda *_: pytest.fail("it started"), follow={"it": follow})

    assert follower.cancelled.is_set()


@pytest.mark.parametrize("turns", range(6))
async def test_a_signal_that_comes_as_it_settles_ends_it(webhook_server: Server, turns: int) -> None:
    follower = FakeFollower()

    async def follow(ready: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        # In one of these turns of the loop the signal is seen just as it settles.
        for _ in range(turns):
            await asyncio.sleep(0)
        ready.set()
        await follower.run()

    async with asyncio.timeout(LIMIT):
        await webhook_server.serve(LISTENERS, on_start=lambda *_: None, follow={"it": follow})

    assert follower.cancelled.is_set()


async def test_what_it_cannot_follow_at_all_ends_it_with_the_reason(webhook_server: Server) -> None:
    async def follow(ready: asyncio.Event) -> None:
        del ready
        raise InjectorError("no credentials")

    with pytest.raises(InjectorError, match="no credentials"):
        await webhook_server.serve(LISTENERS, on_start=lambda *_: pytest.fail("it started"), follow={"it": follow})


async def test_a_reload_may_be_asked_for_before_it_is_ready(webhook_server: Server) -> None:
    follower = FakeFollower()
    followed = replace(webhook_server, reloader=cast("Reloader", follower))

    async def follow(ready: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await follower.follow_called.wait()
        ready.set()

    task = asyncio.create_task(followed.serve(LISTENERS, on_start=lambda *_: None, follow={"it": follow}))
    async with asyncio.timeout(LIMIT):
        await follower.running.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await task


@pytest.mark.parametrize(
    ("task", "ready"), [("shadow", (200, "ok")), ("configuration", (503, "background task down: configuration"))]
)
async def test_a_failed_background_task_is_named_if_injection_needs_it(
    webhook_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    collector: CollectorRegistry,
    task: str,
    ready: tuple[int, str],
) -> None:
    async def fails(*_: object) -> None:
        raise RuntimeError("s3cr3t")

    monkeypatch.setattr(Shadows if task == "shadow" else FakeFollower, "run", fails)
    monkeypatch.setattr(lifecycle, "backoff", lambda *_: LIMIT)
    async with running(LISTENERS, replace(webhook_server, reloader=cast("Reloader", FakeFollower()))) as server:
        answer = await server.get("/readyz")
        assert (answer.status, await answer.text()) == ready
        assert (await server.post()).status == 200
        await server.end()

    assert collector.get_sample_value("injector_background_failures_total", {"task": task}) == 1


class FakeFollower:
    """Stands in for what follows the configuration."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.follow_called = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.at_the_end: Callable[[], Awaitable[None]] | None = None

    def reload(self) -> None:
        self.follow_called.set()

    async def run(self) -> None:
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
            if self.at_the_end is not None:
                await self.at_the_end()


async def test_the_configuration_is_followed_until_the_end_and_reloaded_on_a_signal(webhook_server: Server) -> None:
    follower = FakeFollower()
    followed = replace(webhook_server, reloader=cast("Reloader", follower))

    async with asyncio.timeout(LIMIT), running(replace(LISTENERS, shutdown_delay=LIMIT), followed) as server:
        await follower.running.wait()
        os.kill(os.getpid(), signal.SIGHUP)
        await follower.follow_called.wait()
        assert not follower.cancelled.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        await server.end()
        assert follower.cancelled.is_set()


async def test_it_is_unready_before_what_follows_the_configuration_is_closed(webhook_server: Server) -> None:
    follower, phases = FakeFollower(), asyncio.Queue[int]()
    followed = replace(webhook_server, reloader=cast("Reloader", follower))

    async with running(LISTENERS, followed) as server:

        async def asks_at_the_end() -> None:
            phases.put_nowait((await server.get("/readyz")).status)

        follower.at_the_end = asks_at_the_end
        await follower.running.wait()
        await server.end()

    assert phases.get_nowait() == 503
