"""What the tests of the rim share: an injector of fake revisions whose core answers what a test says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer, TestClient
from prometheus_client import CollectorRegistry

from injector.golang.json import dump_json
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.istio.revision import Revision
from injector.metrics import Metrics
from injector.revisions.registry import Registry, snapshot_of
from injector.revisions.tags import parse_tags
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle, Phase
from injector.webhook.server import webhook_requests
from tests.revisions.fakes import fake_revision

Client: TypeAlias = "TestClient[web.Request, web.Application]"
ClientFactory: TypeAlias = Callable[..., Awaitable[Client]]

PATCH = [{"op": "add", "path": "/spec/priority", "value": 7}]
REQUESTS = "sidecar_injection_requests_total"


@dataclass
class Clock:
    """Returns the time that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Core:
    """Stands in for the core: answers what it is told to, and remembers what it was asked."""

    answer: Injected | Skipped | Exception
    calls: list[tuple[str, dict[str, Any], RequestFacts]] = field(default_factory=list)

    def __call__(self, revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> Injected | Skipped:
        self.calls.append((revision.name, pod, facts))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Core:
    """The core of the handler, which injects unless a test says otherwise."""
    stand_in = Core(Injected({}, dump_json(PATCH), ("sidecar",)))
    monkeypatch.setattr("injector.webhook.handler.inject_pod", stand_in)
    return stand_in


@pytest.fixture
def registry() -> Registry:
    """Two revisions and a tag."""
    return Registry(snapshot_of([fake_revision("default"), fake_revision("1-24")], parse_tags("prod: 1-24")))


@pytest.fixture
def collector() -> CollectorRegistry:
    """Where the metrics count."""
    return CollectorRegistry()


@pytest.fixture
def metrics(collector: CollectorRegistry) -> Metrics:
    """The metrics of the injector."""
    return Metrics(collector)


@pytest.fixture(autouse=True)
def balanced(collector: CollectorRegistry) -> Iterator[None]:
    """Holds every test to the books: each request has one outcome, and was timed."""
    yield
    assert {labels: sums for labels, sums in books(collector).items() if len(set(sums)) != 1} == {}


def books(collector: CollectorRegistry) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Requests, outcomes and timings, by revision and tag."""
    sums_by_labels: dict[tuple[str, str], list[float]] = {}
    for metric in collector.collect():
        for sample in metric.samples:
            column = _COLUMNS.get(sample.name)
            if column is not None and sample.labels.get("stage", "total") == "total":
                labels = sample.labels["revision"], sample.labels["tag"]
                sums_by_labels.setdefault(labels, [0.0, 0.0, 0.0])[column] += sample.value
    return {labels: (sums[0], sums[1], sums[2]) for labels, sums in sums_by_labels.items()}


_COLUMNS = {
    REQUESTS: 0,
    "sidecar_injection_success_total": 1,
    "sidecar_injection_failure_total": 1,
    "sidecar_injection_skip_total": 1,
    "sidecar_injection_time_seconds_count": 2,
}


@pytest.fixture
def lifecycle() -> Lifecycle:
    """A server that serves."""
    lifecycle = Lifecycle()
    lifecycle.phase = Phase.SERVING
    return lifecycle


@pytest.fixture
def handler(core: Core, registry: Registry, metrics: Metrics, lifecycle: Lifecycle) -> InjectHandler:
    """The handler of reviews."""
    del core
    return InjectHandler(registry, metrics, lifecycle)


@pytest.fixture
async def client(aiohttp_client: ClientFactory, handler: InjectHandler) -> Client:
    """A client of the webhook's port."""
    return await aiohttp_client(RawTestServer(webhook_requests(handler)))


@pytest.fixture
def client_of(
    aiohttp_client: ClientFactory, core: Core, registry: Registry, metrics: Metrics, lifecycle: Lifecycle
) -> ClientFactory:
    """Makes a client of a handler with further arguments; ``shadows`` replaces its own."""
    del core

    async def make(**arguments: Any) -> Client:
        shadows = arguments.pop("shadows", None)
        handler = InjectHandler(registry, metrics, lifecycle, **arguments)
        if shadows is not None:
            handler.shadows = shadows
        return await aiohttp_client(RawTestServer(webhook_requests(handler)))

    return make
