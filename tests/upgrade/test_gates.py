"""The gates that ask Prometheus or a webhook."""

from __future__ import annotations

import asyncio
import gzip
import os
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from promql_parser import parse

from injector.errors import ConfigError, UsageError
from injector.revisions import files
from injector.upgrade import gates
from injector.upgrade.document import Upgrade
from injector.upgrade.gates import QUERIES, VARIABLES, BearerToken, Tokens, evaluate, parse_queries, read_token
from injector.upgrade.plan import Key
from injector.upgrade.state import GATEWAYS, State
from tests.architecture.serving import free_ports
from tests.cases import cases
from tests.upgrade.fleets import upgrade
from tests.webhook.certificates import write_certificate

KEYS = (Key("shop", "Deployment", "web"), Key("shop", "Deployment", "api"), Key("pay", "Deployment", "web"))
STATE = State(since=1000.0, token=900.0)


class Prometheus:
    """A Prometheus that gives one answer to everything."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.queries: list[str] = []
        self.tokens: list[str] = []
        self.answer: Any = vector(1)
        self.status = 200
        self.delay = 0.0

    async def query(self, request: web.Request) -> web.Response:
        self.queries.append(str((await request.post())["query"]))
        self.tokens.append(request.headers.get("Authorization", ""))
        await asyncio.sleep(self.delay)
        return web.json_response(self.answer, status=self.status)


def vector(*values: float | str) -> dict[str, Any]:
    result = [{"metric": {}, "value": [0, str(value)]} for value in values]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


@pytest.fixture
async def prometheus() -> AsyncIterator[Prometheus]:
    (port,) = free_ports(1)
    server = Prometheus(f"http://127.0.0.1:{port}")
    app = web.Application()
    app.router.add_post("/api/v1/query", server.query)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield server
    await runner.cleanup()


def gated(url: str, query: str, **bounds: Any) -> Upgrade:
    return upgrade(gates={"prometheus": url, "metrics": [{"name": "x", "query": query, **(bounds or {"min": 1})}]})


async def result(document: Upgrade, token: BearerToken | None = None) -> tuple[str, str]:
    (outcome,) = await evaluate(document, STATE, KEYS, 1030.0, Tokens(token))
    return outcome.result, outcome.detail


async def test_a_query_is_asked_for_each_workload_namespace_or_once_as_its_variables_say(
    prometheus: Prometheus,
) -> None:
    for query, count in (
        ('up{n="{{ namespace }}", w="{{ workload }}"}', 3),
        ('up{n="{{ namespace }}"}', 2),
        ('up{from="{{ from }}", to="{{ to }}"}', 1),
    ):
        prometheus.queries.clear()
        assert (await result(gated(prometheus.url, query)))[0] == "pass"
        assert len(prometheus.queries) == count
    assert prometheus.queries == ['up{from="1-28", to="1-30"}']


async def test_the_times_since_and_before_the_wave_are_variables(prometheus: Prometheus) -> None:
    await result(gated(prometheus.url, "{{ interval }} {{ before }}"))

    assert prometheus.queries == ["60s 130s"]  # the wave soaks for 30 s, and its restarts began 130 s ago


@cases("values", "bounds", "outcome", "detail")
async def test_every_value_must_be_inside_the_thresholds(
    prometheus: Prometheus, values: list[float | str], bounds: dict[str, float], outcome: str, detail: str
) -> None:
    prometheus.answer = vector(*values)

    assert await result(gated(prometheus.url, "up", **bounds)) == (outcome, detail)


async def test_the_worst_workload_decides_and_is_named(prometheus: Prometheus) -> None:
    prometheus.answer = vector(0.5)
    outcome = await result(gated(prometheus.url, "{{ namespace }} {{ workload }}"))

    assert outcome == ("fail", "pay/web: 0.5 is below 1 (and 2 more)")
    assert await result(gated(prometheus.url, "{{ namespace }}")) == ("fail", "pay: 0.5 is below 1 (and 1 more)")


@pytest.mark.parametrize(
    ("answer", "status", "detail"),
    [
        ({"status": "error", "error": "parse\nerror"}, 400, "Prometheus refuses the query: parse error"),
        ({"status": "success"}, 200, "the answer of Prometheus cannot be read (HTTP 200)"),
        ([], 502, "the answer of Prometheus cannot be read (HTTP 502)"),
        ({"status": "success", "data": {"resultType": "scalar", "result": [0, "NaN"]}}, 200, "the query has no result"),
    ],
)
async def test_an_answer_without_a_value_is_no_data(
    prometheus: Prometheus, answer: Any, status: int, detail: str
) -> None:
    prometheus.answer, prometheus.status = answer, status

    assert await result(gated(prometheus.url, "up")) == ("no data", detail)


async def test_a_prometheus_that_is_down_is_no_data() -> None:
    (port,) = free_ports(1)
    outcome, detail = await result(gated(f"http://127.0.0.1:{port}", "up"))

    assert (outcome, detail) == ("no data", "Prometheus cannot be reached: ClientConnectorError")


async def test_an_answer_that_is_too_long_is_no_data(prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "MAX_ANSWER", 1 << 20)
    prometheus.answer = vector(*[1.0] * 100_000)

    assert await result(gated(prometheus.url, "up")) == ("no data", "the answer of Prometheus is longer than 1 MiB")


async def test_queries_that_take_too_long_together_are_not_all_sent(
    prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "EVALUATION_TIMEOUT", 0.1)
    monkeypatch.setattr(gates, "CONCURRENCY", 1)
    prometheus.delay = 0.2
    outcome = await result(gated(prometheus.url, "{{ namespace }} {{ workload }}"))

    assert outcome == ("no data", "shop/api: the queries take longer than 0 s (and 1 more)")
    assert prometheus.queries == ["pay web"]


async def test_a_token_is_read_for_each_request_and_sent_to_its_prometheus_alone(
    prometheus: Prometheus, tmp_path: Path
) -> None:
    file, document = tmp_path / "token", gated(prometheus.url, "up")
    token = read_token(f"{prometheus.url}={file}")

    assert await result(document, token) == ("no data", "the file of --prometheus-token cannot be read")
    file.write_text("secret\n")
    assert (await result(document, token))[0] == "pass"
    assert (await result(document, read_token(f"{prometheus.url}0={file}")))[0] == "pass"
    assert prometheus.tokens == ["Bearer secret", ""]
    file.write_text("a\nb")
    outcome, detail = await result(document, token)
    assert (outcome, detail) == ("no data", "Prometheus cannot be reached: ValueError")


async def test_a_token_in_a_file_whose_read_may_never_end_is_not_read(prometheus: Prometheus, tmp_path: Path) -> None:
    """It would be read on the event loop, which answers the reviews."""
    os.mkfifo(tmp_path / "token")
    token = read_token(f"{prometheus.url}={tmp_path / 'token'}")

    async with asyncio.timeout(5):
        outcome = await result(gated(prometheus.url, "up"), token)
    assert outcome == ("no data", "the file of --prometheus-token cannot be read")


async def test_a_token_on_a_mount_that_hangs_is_not_waited_for(
    prometheus: Prometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop answers the reviews meanwhile. Queries that begin together need one read each."""
    ends = threading.Event()

    def read(_: Path) -> str:
        ends.wait(20)
        return "secret"

    monkeypatch.setattr(gates, "required_text", read)
    monkeypatch.setattr(files, "READ_TIMEOUT", 0.2)
    token = read_token(f"{prometheus.url}={tmp_path / 'token'}")
    assert token is not None
    running = asyncio.create_task(result(gated(prometheus.url, "up"), token))
    await asyncio.sleep(0.05)
    assert not running.done()
    assert await running == ("no data", "the file of --prometheus-token cannot be read")

    ends.set()
    await asyncio.sleep(0.05)
    assert await asyncio.gather(*(token.header() for _ in range(3))) == ["Bearer secret"] * 3


@pytest.mark.parametrize("text", ["x", "/token", "https://p=", "p=/token"])
def test_a_token_without_its_prometheus_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not URL=FILE"):
        read_token(text)
    assert read_token(None) is None


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("{{ nmespace }}", "unknown variable nmespace; known are namespace, workload"),
        ("{{ workload", "gate x"),
        ("{{ workload.__class__.__mro__ }}", "gate x"),
        ("{{ workload * 200000000 }}", "gate x"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_before_the_upgrade(query: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_queries(gated("http://p", query))


@pytest.mark.parametrize("name", QUERIES)
def test_the_built_in_queries_are_promql(name: str) -> None:
    document = upgrade(gates={"prometheus": "http://p", "metrics": [{"name": name}]})
    (query,) = parse_queries(document)

    parse(query.render({**dict.fromkeys(VARIABLES, "web"), "interval": "60s", "before": "90s"}))


@pytest.mark.parametrize(
    ("state", "gateways", "reporters"),
    [
        (STATE, [], {"web": "destination", "api": "destination"}),
        (STATE, KEYS[:1], {"web": "source", "api": "destination"}),
        (replace(STATE, wave=1), KEYS[:2], {"web": "source", "api": "source"}),
        (replace(STATE, step=GATEWAYS), [], {"web": "source", "api": "source"}),
    ],
)
async def test_the_built_in_queries_ask_for_what_gateways_report(
    prometheus: Prometheus, state: State, gateways: list[Key], reporters: dict[str, str]
) -> None:
    document = upgrade(gates={"prometheus": prometheus.url, "metrics": [{"name": "latency"}]})
    await evaluate(document, state, KEYS[:2], 1100.0, gateways=gateways)

    for name, reporter in reporters.items():
        labels = f'reporter="{reporter}",{reporter}_workload_namespace="shop",{reporter}_workload="{name}"'
        assert len([query for query in prometheus.queries if labels in query]) == 1
    assert len(prometheus.queries) == len(reporters)


class Hook:
    """A URL that answers with one status and text to everything."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Any] = []
        self.tokens: list[str] = []
        self.status = 200
        self.text: str | bytes = ""
        self.headers: dict[str, str] = {}
        self.delay = 0.0

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(await request.json())
        self.tokens.append(request.headers.get("Authorization", ""))
        await asyncio.sleep(self.delay)
        return web.Response(status=self.status, body=self.text, headers=self.headers)

    @asynccontextmanager
    async def serve(self, context: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/gate", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", int(self.url.split(":")[2].split("/")[0]), ssl_context=context).start()
        try:
            yield
        finally:
            await runner.cleanup()


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    (port,) = free_ports(1)
    server = Hook(f"http://127.0.0.1:{port}/gate")
    async with server.serve():
        yield server


async def called(url: str, tokens: Tokens | None = None, **fields: Any) -> tuple[str, str]:
    document = upgrade(
        {"name": "one", "namespaces": ["dev"]},
        {"name": "rest"},
        gates={"webhooks": [{"name": "x", "url": url, **fields}]},
    )
    (outcome,) = await evaluate(document, STATE, KEYS, 1030.0, tokens)
    return outcome.result, outcome.detail


async def test_a_webhook_gets_the_fields_of_flagger_and_those_of_the_upgrade(hook: Hook) -> None:
    assert await called(hook.url, metadata={"suite": "smoke"}) == ("pass", "HTTP 200")
    assert hook.requests == [
        {
            "name": "up",
            "namespace": "",
            "phase": "Progressing",
            "metadata": {"suite": "smoke"},
            "tag": "prod",
            "from": "1-28",
            "to": "1-30",
            "wave": "one",
            "namespaces": ["pay", "shop"],
        }
    ]


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (201, "made", ("pass", "HTTP 201")),
        (204, "", ("pass", "HTTP 204")),
        (200, "x" * 1_000_000, ("pass", "HTTP 200")),
        (302, "", ("fail", "HTTP 302, and a redirect is not followed")),
        (304, "", ("fail", "HTTP 304, and a redirect is not followed")),
        (403, "no\nentry", ("fail", "HTTP 403: no entry")),
        (500, "", ("fail", "HTTP 500")),
        (500, "y" * 1_000_000, ("fail", f"HTTP 500: {'y' * 200}")),
        (500, b"\x1b[31m\xff", ("fail", "HTTP 500")),
    ],
)
async def test_only_2xx_passes_and_little_is_read_of_an_answer(
    hook: Hook, status: int, text: str | bytes, expected: tuple[str, str]
) -> None:
    hook.status, hook.text = status, text
    hook.headers = {"Location": hook.url} if status == 302 else {}

    assert await called(hook.url) == expected
    assert len(hook.requests) == 1


async def test_a_compressed_answer_is_not_decompressed(hook: Hook) -> None:
    hook.status, hook.text, hook.headers = 500, gzip.compress(b"a" * (64 << 20)), {"Content-Encoding": "gzip"}

    assert await called(hook.url) == ("fail", "HTTP 500")


async def test_a_webhook_that_does_not_answer_is_no_data_and_not_a_pass(hook: Hook) -> None:
    (port,) = free_ports(1)
    assert await called(f"http://127.0.0.1:{port}/gate") == ("no data", "it cannot be reached: ClientConnectorError")
    hook.delay = 5.0
    assert await called(hook.url, timeout="100ms") == ("no data", "it does not answer within 0.1 s")


async def test_a_webhook_with_an_unknown_certificate_is_no_data(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_certificate(tmp_path))
    secure = Hook(f"https://localhost:{port}/gate")
    async with secure.serve(context):
        expected = ("no data", "it cannot be reached: ClientConnectorCertificateError")
        assert await called(secure.url) == expected
        assert secure.requests == []
        assert (await called(secure.url.replace("https", "http")))[0] == "no data"


async def test_a_token_goes_to_its_webhook_alone_and_is_in_no_message(hook: Hook, tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = Tokens.read(None, (f"{hook.url}={file}",))
    assert await called(hook.url, tokens) == ("no data", "the file of --gate-token cannot be read")
    file.write_text("secret\n")
    hook.status, hook.text = 401, "Bearer secret is not valid"
    assert await called(hook.url, tokens) == ("fail", "HTTP 401")
    assert (await called(f"{hook.url}?x", tokens))[0] == "fail"
    assert hook.tokens == ["Bearer secret", ""]
    file.write_text("a\nb")
    assert await called(hook.url, tokens) == ("no data", "it cannot be reached: ValueError")
    with pytest.raises(UsageError, match="--gate-token: it is not URL=FILE"):
        Tokens.read(None, ("x",))


async def test_queries_and_webhooks_are_gates_of_one_wave(prometheus: Prometheus, hook: Hook) -> None:
    metrics = [{"name": "q", "query": "up", "min": 1}]
    gates = {"prometheus": prometheus.url, "metrics": metrics, "webhooks": [{"name": "h", "url": hook.url}]}
    hook.status = 500

    results = await evaluate(upgrade(gates=gates), STATE, KEYS, 1030.0)
    assert [(result.name, result.result) for result in results] == [("q", "pass"), ("h", "fail")]
