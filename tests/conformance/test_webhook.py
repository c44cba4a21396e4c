"""Every case of the corpus through ``/inject``: reviews over HTTP, their patches applied by another implementation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer, TestClient
from prometheus_client import CollectorRegistry

from injector.istio.revision import Revision
from injector.metrics import Metrics
from injector.revisions.registry import Registry, snapshot_of
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle
from injector.webhook.server import webhook_requests
from tests.conformance import compare, core, corpus, doors, workloads
from tests.factories import UID, make_review
from tests.handlers import patched

pytestmark = pytest.mark.needs("corpus")

CASES = [case for minor in corpus.TESTED for case in corpus.cases(minor) if case.webhook]
REVIEWS = [case for minor in corpus.WEBHOOK_MINORS for case in corpus.webhook_cases(minor)]
DENIED = [case for minor in corpus.WEBHOOK_MINORS for case in corpus.denied_cases(minor)]

INVALID = {
    "sidecar-spire.yaml.injected": "spec.containers[istio-proxy].image: Required value",
    "only-proxy-container.yaml.injected": "spec.containers: Required value",
}
"""Cases with native sidecars, whose pods the API server refuses, each with the place and the reason."""
NATIVE = ("1.28", "1.30", "1.31", "1.32")

Answer = dict[str, Any]


def name(case: corpus.Case | corpus.WebhookCase) -> str:
    return f"{case.minor}-{case.name}"


def fault_of(case: corpus.Case | corpus.WebhookCase) -> str:
    """Why the API server refuses the pod of a case; empty if it does not."""
    return next((fault for end, fault in INVALID.items() if case.minor in NATIVE and case.name.endswith(end)), "")


def test_the_corpus_has_cases_of_every_minor_that_must_pass() -> None:
    assert {case.minor for case in CASES} == set(corpus.TESTED)
    assert {case.minor for case in REVIEWS} == set(corpus.WEBHOOK_MINORS) & set(corpus.TESTED)


@pytest.mark.needs("corpus-new")
def test_the_second_folder_has_cases_of_its_minors_and_refusals() -> None:
    assert {case.minor for case in CASES} >= set(corpus.NEW_MINORS)
    assert len(DENIED) > 100


@pytest.mark.parametrize("case", [case for case in CASES if case.expected], ids=name)
async def test_the_pod_of_a_workload_becomes_the_pod_of_the_golden(case: corpus.Case) -> None:
    assert case.expected is not None
    pairs = doors.pairs(case.minor, core.documents(case.source), core.documents(case.expected))

    answers = [await ask(case.settings, pod, namespace, deny=not fault_of(case)) for pod, namespace, _ in pairs]
    got = [patched(pod, answer) for (pod, _, _), answer in zip(pairs, answers, strict=True)]

    fault = compare.difference([doors.common(case.minor, pod) for pod in got], [golden for _, _, golden in pairs])

    assert not fault, f"\n{fault}"


@pytest.mark.parametrize("case", [case for case in CASES if not case.expected], ids=name)
async def test_a_pod_that_istio_refuses_is_denied_with_the_reason(case: corpus.Case) -> None:
    (source,) = workloads.injectable(core.documents(case.source))

    response = await ask(case.settings, workloads.as_pod(source), workloads.namespace_of(source))

    assert (response["allowed"], "patch" in response) == (False, False)
    assert case.error_fits(response["status"]["message"])


@pytest.mark.parametrize("case", REVIEWS, ids=name)
async def test_a_review_is_answered_as_istio_answers_it(case: corpus.WebhookCase) -> None:
    deny = case.by_istio and not fault_of(case)
    response = await ask(case.settings, case.pod, case.namespace, deny=deny)

    fault = compare.difference([patched(case.pod, response)], [case.patched])

    assert not fault, f"\n{fault}"


@pytest.mark.parametrize("case", DENIED, ids=name)
async def test_a_review_that_istio_denies_is_denied(case: corpus.WebhookCase) -> None:
    response = await ask(case.settings, case.pod, case.namespace, deny=False)

    assert (response["allowed"], "patch" in response) == (False, False)


@pytest.mark.parametrize("case", [case for case in REVIEWS if fault_of(case)], ids=name)
async def test_a_pod_that_the_injection_makes_invalid_is_denied_with_the_reason(case: corpus.WebhookCase) -> None:
    response = await ask(case.settings, case.pod, case.namespace)

    assert (response["allowed"], "patch" in response) == (False, False)
    assert response["status"]["message"].startswith(fault_of(case))


@cache
def revisions() -> dict[corpus.Settings, Revision]:
    """A revision for all settings of all minors, each under a name of its own: one process holds them all."""
    reviews = [*(case.settings for case in CASES), *(review.settings for review in (*REVIEWS, *DENIED))]
    return {
        setting: replace(core.revision_of(setting), name=f"r{index}")
        for index, setting in enumerate(dict.fromkeys(reviews))
    }


@cache
def handler(*, deny: bool) -> InjectHandler:
    """The handler of all tests here, and the one that allows invalid pods."""
    registry = Registry(snapshot_of(list(revisions().values()), {}))
    return InjectHandler(registry, Metrics(CollectorRegistry()), Lifecycle(), deny_invalid=deny)


async def ask(settings: corpus.Settings, pod: dict[str, Any], namespace: str, *, deny: bool = True) -> Answer:
    """Post a pod, as it is created in a namespace, to the revision with some settings; return the response."""
    client: TestClient[web.BaseRequest, None] = TestClient(RawTestServer(webhook_requests(handler(deny=deny))))
    async with client:
        answer = await client.post(f"/inject/{revisions()[settings].name}", json=make_review(pod, namespace=namespace))
        assert answer.status == 200
        response: Answer = (await answer.json())["response"]
        assert response["uid"] == UID
        return response
