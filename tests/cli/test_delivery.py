from __future__ import annotations

import asyncio
from typing import Any

import pytest

from injector.cli.route import delivery_steps
from injector.cluster.reader import ClusterReader
from injector.errors import ClusterError
from injector.injection.tools.explain import Step
from injector.istio.webhooks import Endpoint, LiveWebhook, WebhookOptions, live_webhooks, revision_webhook
from tests.cli.clusters import FakeKube, Refusing, cluster

SOURCE = "MutatingWebhookConfiguration istio-sidecar-injector-1-30"


def webhook(**options: Any) -> LiveWebhook:
    return live_webhooks([revision_webhook("1-30", WebhookOptions(**options))])[0]


def steps(made: LiveWebhook, *objects: dict[str, Any]) -> tuple[Step, ...]:
    return asyncio.run(delivery_steps(cluster(*objects), made))


def endpoints(*ready: bool | None, service: str = "injector", namespace: str = "injector-system") -> dict[str, Any]:
    listed = [{"conditions": {} if each is None else {"ready": each}} for each in ready]
    metadata = {"name": "x", "namespace": namespace, "labels": {"kubernetes.io/service-name": service}}
    return {"kind": "EndpointSlice", "metadata": metadata, "endpoints": listed}


def test_a_webhook_that_is_reached_has_nothing_against_it() -> None:
    assert steps(webhook(ca_bundle="QQ=="), endpoints(True, False, None)) == (
        Step("failure_policy", "passed", "Fail: without an answer the pod is not created", SOURCE),
        Step("ca_bundle", "passed", "there is one", SOURCE),
        Step("endpoints", "passed", "2 ready", "Service injector-system/injector"),
    )


@pytest.mark.parametrize(
    "slices",
    [
        (),
        (endpoints(False),),
        (endpoints(True, service="other"),),
        (endpoints(True, namespace="other"),),
        ({**endpoints(), "endpoints": None},),
    ],
)
@pytest.mark.parametrize(
    ("policy", "outcome"), [("Fail", "pods are refused"), ("Ignore", "pods are created without a sidecar")]
)
def test_a_service_without_a_ready_endpoint_is_a_warning(
    slices: tuple[dict[str, Any], ...], policy: str, outcome: str
) -> None:
    last = steps(webhook(failure_policy=policy), *slices)[-1]

    assert (last.verdict, last.detail) == ("warning", f"none is ready: {outcome}")


def test_an_empty_ca_bundle_and_pods_that_may_come_without_a_sidecar_are_warnings() -> None:
    policy, bundle, _ = steps(webhook(failure_policy="Ignore"), endpoints(True))

    assert (policy.verdict, policy.detail.partition(":")[0]) == ("warning", "Ignore")
    assert (bundle.verdict, bundle.detail.partition(":")[0]) == ("warning", "it is empty")


def test_a_url_is_not_tried() -> None:
    assert steps(webhook(endpoint=Endpoint(url="https://example.com")))[-1].verdict == "unknown"


def test_without_the_permission_it_is_said_that_it_cannot_be_told() -> None:
    reader = ClusterReader(FakeKube(forbidden=("endpointslices",)))

    last = asyncio.run(delivery_steps(reader, webhook()))[-1]

    assert last.verdict == "unknown"
    assert 'cannot list resource "endpointslices"' in last.detail
    with pytest.raises(ClusterError):
        asyncio.run(delivery_steps(Refusing("unreachable"), webhook()))
