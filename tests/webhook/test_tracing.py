"""Spans of requests: a real server sends them by OTLP to a server of the test, which decodes them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from injector.errors import TemplateRenderError
from injector.injection.result import Skipped
from injector.webhook.tracing import Tracing, tracing_of
from tests.architecture.serving import free_ports, wait_until_ready
from tests.factories import UID, make_pod, make_review
from tests.webhook.conftest import Client, ClientFactory, Core
from tests.webhook.otlp import collector

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
NOT_SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-00"}
PRIVATE = "hunter2-hunter2"
POD = make_pod(annotations={"key": PRIVATE}, labels={"app": PRIVATE})


@pytest.fixture
def collected() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """The address of a server that speaks OTLP, and what it received."""
    with collector() as spans:
        yield spans


def test_a_server_sends_the_spans_of_a_request_in_the_trace_of_its_caller(
    collected: tuple[str, list[ExportTraceServiceRequest]], tmp_path: Path
) -> None:
    url, received = collected
    port, ops_port = map(str, free_ports(2))
    flags = [
        "--embedded",
        "--insecure-http",
        "--bind",
        "127.0.0.1",
        "--port",
        port,
        "--ops-port",
        ops_port,
        "--shutdown-delay",
        "0",
    ]
    env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
    command = [sys.executable, "-m", "injector", "serve", *flags]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE) as process:
        try:
            assert wait_until_ready(f"http://127.0.0.1:{ops_port}/readyz", process)
            headers = {"Content-Type": "application/json", **SAMPLED}
            body = json.dumps(make_review(POD)).encode()
            request = urllib.request.Request(f"http://127.0.0.1:{port}/inject/stable", body, headers)
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 -- loopback
                assert json.load(answer)["response"]["allowed"] is True
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read().decode()

    (resource,) = [resource_span for message in received for resource_span in message.resource_spans]
    named = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
    assert named["service.name"] == "revision-injector"
    (root, *children) = sorted((span for scope in resource.scope_spans for span in scope.spans), key=lambda s: s.name)
    assert (root.name, root.kind, root.parent_span_id.hex()) == ("POST /inject", 2, CALLER)
    attributes = {attribute.key: attribute.value for attribute in root.attributes}
    assert attributes["injector.revision"].string_value == "stable"
    assert attributes["injector.outcome"].string_value == "success"
    assert attributes["injector.uid"].string_value == UID
    assert {"wait", "inject"} <= {span.name for span in children}
    for span in children:
        assert (span.trace_id.hex(), span.parent_span_id) == (TRACE, root.span_id)
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= root.end_time_unix_nano
    assert PRIVATE.encode() not in b"".join(message.SerializeToString() for message in received)


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """The spans that ended."""
    return InMemorySpanExporter()


@pytest.fixture
async def traced(client_of: ClientFactory, spans: InMemorySpanExporter) -> Client:
    """A client of a handler with tracing."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return await client_of(tracing=Tracing(provider))


async def root_of(spans: InMemorySpanExporter) -> ReadableSpan:
    """Return the span of the only request, which is made after its answer is sent."""
    await asyncio.sleep(0)
    (root,) = [span for span in spans.get_finished_spans() if span.kind is SpanKind.SERVER]
    return root


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, {"injector.outcome": "success", "injector.reason": "", "injector.cached": False}),
        (Skipped("label", "no"), {"injector.outcome": "skip", "injector.reason": "label"}),
        (TemplateRenderError(PRIVATE), {"injector.outcome": "failure", "injector.reason": "template"}),
        (KeyError(PRIVATE), {"injector.outcome": "failure", "injector.reason": "internal"}),
    ],
    ids=["injected", "skipped", "refused", "fault"],
)
async def test_a_span_has_the_outcome_and_nothing_of_the_pod(
    traced: Client, core: Core, spans: InMemorySpanExporter, answer: Any, expected: dict[str, Any]
) -> None:
    core.answer = answer or core.answer
    await traced.post("/inject/prod", json=make_review(POD))

    root = await root_of(spans)
    attributes = dict(root.attributes or {})
    named = {"injector.revision": "1-24", "injector.tag": "prod", "k8s.namespace.name": "default"}
    assert attributes == {**attributes, **expected, **named, "http.response.status_code": 200}
    assert root.status.status_code == (
        StatusCode.ERROR if attributes["injector.outcome"] == "failure" else StatusCode.UNSET
    )
    assert PRIVATE not in "".join(span.to_json() for span in spans.get_finished_spans())


async def test_a_request_without_a_review_has_a_span_too(traced: Client, spans: InMemorySpanExporter) -> None:
    await traced.post("/inject", data=b"{", headers={"Content-Type": "application/json", "traceparent": "nonsense"})

    root = await root_of(spans)
    assert (root.parent, root.status.status_code) == (None, StatusCode.ERROR)
    assert dict(root.attributes or {}) == {
        "injector.outcome": "failure",
        "injector.reason": "undecodable",
        "http.response.status_code": 400,
    }


async def test_the_caller_decides_whether_a_request_is_traced(traced: Client, spans: InMemorySpanExporter) -> None:
    await traced.post("/inject", json=make_review(make_pod("a")), headers=NOT_SAMPLED)
    await asyncio.sleep(0)
    assert spans.get_finished_spans() == ()

    await traced.post("/inject", json=make_review(make_pod("b")), headers=SAMPLED)
    parent = (await root_of(spans)).parent
    assert parent is not None
    assert (f"{parent.trace_id:032x}", f"{parent.span_id:016x}") == (TRACE, CALLER)


async def test_each_stage_of_a_request_is_a_span(traced: Client, spans: InMemorySpanExporter) -> None:
    await traced.post("/inject", json=make_review())

    await root_of(spans)
    assert {"read", "decode", "wait", "inject", "encode"} < {span.name for span in spans.get_finished_spans()}


@pytest.mark.parametrize(
    ("variables", "warns"),
    [
        ({}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "'grpc'"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:9411", "OTEL_TRACES_EXPORTER": "zipkin"}, "'zipkin'"),
    ],
)
def test_without_a_collector_that_it_can_reach_there_is_no_tracing(
    variables: dict[str, str], warns: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert tracing_of(variables, version="1") is None
    assert [warns in message for message in caplog.messages] == [True] * bool(warns)


def test_without_the_extra_a_server_starts_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    assert tracing_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, version="1") is None
    assert "install revision-injector[tracing]" in caplog.text


def test_nothing_of_opentelemetry_is_loaded_without_a_collector() -> None:
    code = "import sys, injector.cli.serve.server as s; print(s.tracing_of({}, version='1'), 'opentelemetry' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "None False\n"
