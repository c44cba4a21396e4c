"""The webhook for unknown names: warned of or denied."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import RawTestServer
from prometheus_client import CollectorRegistry

from injector.metrics import Metrics
from injector.revisions.registry import Registry, Snapshot
from injector.revisions.unservednames import UnservedNames
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle, Phase
from injector.webhook.server import webhook_requests
from injector.webhook.unserved import UnservedHandler, message
from tests.factories import UID, make_pod, make_review
from tests.webhook.conftest import Client, ClientFactory

REV = "istio.io/rev"
NAMESPACES = {"shop": "prdo", "mesh": "1-24", "partner": "1-18"}
"""What the namespaces of the cluster name; `prod`, `1-24` and `default` are served, and `1-18` by another injector."""
SAID = (
    f"no sidecar: {REV}='prdo' of %s is not a served revision or tag (did you mean prod?); correct the label or set the tag;"
    " served: 1-18, 1-24, default, prod"
)


@pytest.fixture
def named() -> dict[str, str] | None:
    """What the namespaces that are watched name."""
    return NAMESPACES


@pytest.fixture
async def net(
    aiohttp_client: ClientFactory,
    handler: InjectHandler,
    registry: Registry,
    metrics: Metrics,
    named: dict[str, str] | None,
) -> Client:
    """A client of the webhook's port."""
    names = None if named is None else cast("UnservedNames", SimpleNamespace(named_by=named.get))
    unserved = UnservedHandler(handler.reader, registry, metrics, names, frozenset({"1-18"}))
    return await aiohttp_client(RawTestServer(webhook_requests(handler, unserved)))


async def answer_of(client: Client, path: str, review: dict[str, Any]) -> dict[str, Any]:
    response = await client.post(path, json=review)
    assert (response.status, response.content_type) == (200, "application/json"), await response.text()
    answer: dict[str, Any] = (await response.json())["response"]
    return answer


def asking(name: str | None, namespace: str = "plain") -> dict[str, Any]:
    """A review of a pod that names a revision or tag."""
    return make_review(make_pod(labels=None if name is None else {REV: name}), namespace=namespace)


def outcomes(collector: CollectorRegistry) -> dict[tuple[str, str], float]:
    """What was counted, by kind and outcome."""
    return {
        (sample.labels["kind"], sample.labels["outcome"]): sample.value
        for metric in collector.collect()
        for sample in metric.samples
        if sample.name == "injector_unserved_reviews_total"
    }


@pytest.mark.parametrize(
    ("kind", "review", "whose"),
    [
        ("pod", asking("prdo"), "the pod"),
        ("namespace", asking(None, "shop"), "namespace shop"),
        ("namespace", asking("1-24", "shop"), "namespace shop"),
    ],
)
async def test_an_unserved_name_is_warned_of_or_denied_with_the_served_names(
    net: Client, collector: CollectorRegistry, kind: str, review: dict[str, Any], whose: str
) -> None:
    warned = await answer_of(net, f"/unserved/warn/{kind}", review)
    denied = await answer_of(net, f"/unserved/deny/{kind}", review)

    assert warned == {"uid": UID, "allowed": True, "warnings": [SAID % whose]}
    assert denied == {"uid": UID, "allowed": False, "status": {"message": SAID % whose, "code": 403}}
    assert outcomes(collector) == {(kind, "warned"): 1, (kind, "denied"): 1}


@pytest.mark.parametrize("action", ["warn", "deny"])
@pytest.mark.parametrize(
    ("kind", "review"),
    [
        ("pod", asking("prod")),
        ("pod", asking("1-24")),
        ("pod", asking("default")),
        ("pod", asking("1-18")),
        ("namespace", asking(None, "mesh")),
        ("namespace", asking("prdo", "mesh")),
        ("namespace", asking(None, "partner")),
    ],
)
async def test_a_name_that_is_served_here_or_elsewhere_is_let_through_in_silence(
    net: Client, collector: CollectorRegistry, action: str, kind: str, review: dict[str, Any]
) -> None:
    assert await answer_of(net, f"/unserved/{action}/{kind}", review) == {"uid": UID, "allowed": True}
    assert outcomes(collector) == {(kind, "served"): 1}


@pytest.mark.parametrize(
    ("kind", "review"),
    [
        ("namespace", asking("prdo", "made-a-moment-ago")),
        ("pod", asking(None)),
        ("pod", make_review({"metadata": {"labels": [REV]}})),
        ("pod", make_review({"metadata": "x"})),
        ("pod", make_review({"metadata": {"labels": {REV: 7}}})),
        ("pod", make_review({})),
        ("namespace", make_review({"metadata": {"annotations": 7}, "spec": []}, namespace="made-a-moment-ago")),
    ],
)
async def test_where_no_name_is_known_the_pod_is_let_through_and_counted(
    net: Client, collector: CollectorRegistry, kind: str, review: dict[str, Any]
) -> None:
    assert await answer_of(net, f"/unserved/deny/{kind}", review) == {"uid": UID, "allowed": True}
    assert outcomes(collector) == {(kind, "unknown"): 1}


@pytest.mark.parametrize("named", [None])
async def test_without_a_watch_pods_are_judged_and_namespaces_let_through(
    net: Client, collector: CollectorRegistry
) -> None:
    assert (await answer_of(net, "/unserved/deny/namespace", asking(None, "shop")))["allowed"] is True
    assert (await answer_of(net, "/unserved/deny/pod", asking("prdo")))["allowed"] is False
    assert outcomes(collector) == {("namespace", "unwatched"): 1, ("pod", "denied"): 1}


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(labels={REV: "prdo"}, hostNetwork=True),
        make_pod(labels={REV: "prdo"}, annotations={"sidecar.istio.io/status": "{}"}),
    ],
)
@pytest.mark.parametrize(("kind", "namespace"), [("pod", "plain"), ("namespace", "shop")])
async def test_a_pod_that_gets_no_sidecar_by_any_name_or_has_one_is_let_through(
    net: Client, collector: CollectorRegistry, pod: dict[str, Any], kind: str, namespace: str
) -> None:
    assert (await answer_of(net, f"/unserved/deny/{kind}", make_review(pod, namespace=namespace)))["allowed"] is True
    assert outcomes(collector) == {(kind, "exempt"): 1}


@pytest.mark.parametrize("nothing", ["yet", "at all"])
async def test_where_nothing_is_served_yet_nobody_is_refused(
    net: Client, collector: CollectorRegistry, registry: Registry, lifecycle: Lifecycle, nothing: str
) -> None:
    if nothing == "yet":
        lifecycle.phase = Phase.STARTING
    else:
        registry.swap(Snapshot())

    assert await answer_of(net, "/unserved/deny/pod", asking("prdo")) == {"uid": UID, "allowed": True}
    assert outcomes(collector) == {("pod", "unknown"): 1}


async def test_what_is_no_review_is_answered_by_its_status_as_on_inject(
    net: Client, collector: CollectorRegistry, lifecycle: Lifecycle
) -> None:
    path = "/unserved/deny/pod"
    assert (await net.post(path, data=b"x")).status == 415
    assert (await net.post(path, data=b"{", headers={"Content-Type": "application/json"})).status == 400
    assert (await net.post(path, json=make_review(object=None))).status == 400
    nested = json.dumps(make_review(object={"x": "MARK"})).replace('"MARK"', "[" * 400 + "]" * 400)
    assert (await net.post(path, data=nested, headers={"Content-Type": "application/json"})).status == 400
    lifecycle.phase = Phase.CLOSING
    response = await net.post(path, json=asking("prdo"))

    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert outcomes(collector) == {("pod", "failed"): 5}


@pytest.mark.parametrize("path", ["/unserved", "/unserved/warn", "/unserved/allow/pod", "/unserved/warn/node"])
async def test_other_paths_are_not_there(net: Client, path: str) -> None:
    assert (await net.post(path, json=asking("prdo"))).status == 404


async def test_nothing_of_it_counts_as_a_request_for_an_injection(net: Client, collector: CollectorRegistry) -> None:
    await answer_of(net, "/unserved/warn/pod", asking("prdo"))

    requests = [metric for metric in collector.collect() if metric.name == "sidecar_injection_requests"]
    assert [sample for metric in requests for sample in metric.samples] == []


async def test_what_a_label_holds_is_quoted(net: Client) -> None:
    answer = await answer_of(net, "/unserved/deny/pod", asking("\x1b[2J\nprdo"))

    assert "istio.io/rev='\\x1b[2J\\nprdo' of the pod" in answer["status"]["message"]


async def test_a_refusal_is_logged_by_names_alone(net: Client, caplog: pytest.LogCaptureFixture) -> None:
    review = make_review(make_pod(labels={REV: "prdo\nforged"}, annotations={"a": "s3cr3t"}))

    await answer_of(net, "/unserved/deny/pod", review)

    assert [record.getMessage() for record in caplog.records if record.name == "injector.webhook.unserved"] == [
        f"denied: uid='{UID}' unknown revision or tag 'prdo\\nforged' of 'the pod'"
    ]


def test_a_warning_keeps_what_to_do_however_long_the_names_are() -> None:
    served = frozenset({"a" * 62 + "b", *(f"{number:063}" for number in range(50))})

    said = message("a" * 100_000, f"namespace {'n' * 63}", served, longest=256)

    assert len(said) <= 256
    assert said.endswith("is not a served revision or tag; correct the label or set the tag; served: 51 names")
