"""A pod whose injection takes long stops neither the event loop nor the pods of other namespaces and revisions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from injector.errors import TemplateBudgetError
from injector.injection.result import RequestFacts, Skipped
from injector.istio.revision import Revision
from tests.factories import make_pod, make_review
from tests.tasks import until
from tests.webhook.conftest import Client, ClientFactory, Core

DEADLINE = 60.0
"""Seconds after which a test fails rather than waits."""


class SlowPods:
    """Injections of pods with the label ``slow`` end when ``release`` is called, others at once."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._released = threading.Event()
        self.started: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> Any:
        self.threads.add(threading.get_ident())
        if "slow" in pod["metadata"].get("labels", {}):
            self.started.append(facts.namespace)
            assert self._released.wait(DEADLINE)
        return self._core(revision, pod, facts)

    def release(self) -> None:
        self._released.set()


@pytest.fixture
async def slow(core: Core, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SlowPods]:
    """Slow injections, which end with the test at the latest."""
    slow = SlowPods(core)
    monkeypatch.setattr("injector.webhook.handler.inject_pod", slow)
    yield slow
    slow.release()


def posted(client: Client, namespace: str, path: str = "/inject/1-24", **labels: str) -> asyncio.Task[int]:
    """Post a pod, and return the task that ends with the status."""

    async def post() -> int:
        review = make_review(make_pod(labels=labels), namespace=namespace)
        async with asyncio.timeout(DEADLINE), client.post(path, json=review) as response:
            return response.status

    return asyncio.create_task(post())


async def test_pods_of_others_are_answered_while_a_slow_pod_is_injected(client: Client, slow: SlowPods) -> None:
    waiting = posted(client, "slow", slow="1")
    await until(lambda: slow.started == ["slow"])

    assert await posted(client, "quick") == 200
    assert await posted(client, "slow", "/inject/default") == 200
    assert not waiting.done()

    slow.release()
    assert await waiting == 200
    assert threading.get_ident() not in slow.threads


async def test_a_slow_revision_with_many_slow_namespaces_leaves_other_revisions_alone(
    client: Client, slow: SlowPods
) -> None:
    waiting = [posted(client, f"slow-{number}", slow="1") for number in range(10)]
    await until(lambda: len(slow.started) > 1)

    assert await posted(client, "quick", "/inject/default") == 200
    assert not any(task.done() for task in waiting)

    slow.release()
    assert await asyncio.gather(*waiting) == [200] * 10


async def test_a_slow_namespace_that_sends_many_pods_leaves_other_namespaces_alone(
    client: Client, slow: SlowPods
) -> None:
    waiting = [posted(client, "slow", slow=str(number)) for number in range(10)]
    await until(lambda: slow.started == ["slow"])

    assert await asyncio.gather(*(posted(client, f"quick-{number}") for number in range(5))) == [200] * 5
    assert slow.started == ["slow"]

    slow.release()
    assert await asyncio.gather(*waiting) == [200] * 10


async def test_a_template_that_exceeds_its_budget_refuses_its_pods_and_no_others(
    client_of: ClientFactory, core: Core
) -> None:
    client = await client_of()
    core.answer = TemplateBudgetError("the budget is spent")
    for number in range(10):
        async with client.post("/inject/1-24", json=make_review(make_pod(labels={"n": str(number)}))) as response:
            assert (await response.json())["response"]["status"]["message"] == "the budget is spent"

    core.answer = Skipped("label", "no")
    assert await posted(client, "shop") == 200
