"""A dry run is answered as if it were none, and nothing remembers it."""

from __future__ import annotations

import asyncio
import base64
import collections
import io
import itertools
import json
import logging
import math
import threading
import time
from functools import partial
from typing import Any

import pytest
from aiohttp import ClientError, web
from prometheus_client import CollectorRegistry

from injector.errors import (
    AnnotationError,
    BreakOutError,
    ConfigError,
    DataError,
    InjectorError,
    InvalidPodError,
    ManifestError,
    OverlayError,
    ReviewError,
    TemplateRenderError,
    UnknownRevisionError,
)
from injector.golang.json import dump_json
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.revisions.registry import Registry, snapshot_of
from injector.revisions.source import build
from injector.revisions.tags import is_sampled, parse_tags
from injector.revisions.verify import RecentPods
from injector.webhook.decisions import FIELDS
from injector.webhook.handler import InjectHandler, reason_of
from injector.webhook.lifecycle import Lifecycle, Phase
from injector.webhook.queue import AdmissionQueue, Rejected, Tenant
from injector.webhook.shadow import Admission
from tests.cases import cases
from tests.factories import UID, created_by, make_pod, make_review
from tests.revisions.fakes import CONFIG, fake_revision, make_raw
from tests.webhook.conftest import PATCH, REQUESTS, Client, ClientFactory, Core, books

MAX_BODY = 8 * 2**20

JSON = {"Content-Type": "application/json"}
CANARY = "s3cr3t-value"
REPLICAS = 6
NUMBERS = itertools.count()
"""Of pods, so that no answer comes from the cache unless a test sends a review twice."""


async def answer_of(client: Client, path: str = "/inject", review: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a review is answered, by HTTP status 200."""
    response = await client.post(path, json=review or make_review(make_pod(labels={"number": str(next(NUMBERS))})))
    assert (response.status, response.content_type) == (200, "application/json"), await response.text()
    answer: dict[str, Any] = await response.json()
    return answer


def decisions_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of the decisions that were logged."""
    return [getattr(record, FIELDS) for record in caplog.records if hasattr(record, FIELDS)]


def failures(collector: CollectorRegistry, reason: str, revision: str = "unknown", tag: str = "") -> float | None:
    labels = {"revision": revision, "tag": tag, "reason": reason}
    return collector.get_sample_value("sidecar_injection_failure_total", labels)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_an_injected_pod_is_answered_with_its_patch_in_the_version_asked(client: Client, version: str) -> None:
    answer = await answer_of(client, review=make_review(version=version))

    assert (answer["apiVersion"], answer["kind"]) == (f"admission.k8s.io/{version}", "AdmissionReview")
    response = answer["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == (UID, True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == PATCH


async def test_a_skipped_pod_is_allowed_without_a_patch_and_with_its_warnings(client: Client, core: Core) -> None:
    core.answer = Skipped("label", "the label says so", ("odd label",))

    assert (await answer_of(client))["response"] == {"uid": UID, "allowed": True, "warnings": ["odd label"]}


@cases("path", "revision", "envs")
async def test_the_path_chooses_the_revision_and_adds_to_the_proxys_environment(
    client: Client, core: Core, path: str, revision: str, envs: dict[str, str]
) -> None:
    await answer_of(client, path, make_review(make_pod("hello"), namespace="shop"))

    ((name, pod, facts),) = core.calls
    assert (name, pod["metadata"]["name"]) == (revision, "hello")
    assert (facts.namespace, dict(facts.proxy_envs), facts.namespace_meta) == ("shop", envs, None)


async def test_a_weighted_tag_leads_every_pod_of_a_workload_to_one_revision(
    client: Client, core: Core, registry: Registry
) -> None:
    revisions = [fake_revision("1-24"), fake_revision("1-30")]
    registry.swap(snapshot_of(revisions, parse_tags("prod: {1-24: 50, 1-30: 50}")))

    for name in ("web", "cart", "pay", "mail"):
        for pod_hash in ("5d9f", "7c4b"):
            pod = created_by(make_pod(labels={"pod-template-hash": pod_hash}), f"{name}-{pod_hash}")
            await answer_of(client, "/inject/prod", make_review(pod, namespace="shop"))

    names = [revision for revision, _, _ in core.calls]
    assert names[::2] == names[1::2]
    assert set(names) == {"1-24", "1-30"}


@cases("path", "says")
async def test_an_unknown_revision_is_denied_with_the_uid_and_the_known_names(
    client: Client, collector: CollectorRegistry, path: str, says: str
) -> None:
    response = (await answer_of(client, path))["response"]

    assert (response["uid"], response["allowed"]) == (UID, False)
    assert says in response["status"]["message"]
    assert failures(collector, "unknown_revision") == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AnnotationError("is wrong", where="metadata.annotations[a]", hint="correct it"), "annotation"),
        (TemplateRenderError("nil pointer", where="sidecar:3"), "template"),
        (BreakOutError("breaks out", where="metadata.labels[a]"), "guard"),
        (InvalidPodError("Required value", where="spec.containers[a].image"), "invalid_pod"),
        (OverlayError("no pod"), "overlay"),
        (ManifestError("cannot unmarshal"), "pod"),
        (DataError("other"), "other"),
    ],
)
async def test_what_cannot_be_injected_is_denied_with_the_words_of_the_error(
    client: Client, core: Core, collector: CollectorRegistry, error: DataError, reason: str
) -> None:
    core.answer = error

    response = (await answer_of(client, "/inject/prod"))["response"]

    assert response == {"uid": UID, "allowed": False, "status": {"message": str(error)}}
    assert failures(collector, reason, "1-24", "prod") == 1


async def test_a_value_that_breaks_out_is_counted_by_revision(
    client: Client, core: Core, collector: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    core.answer = BreakOutError("breaks out", where="metadata.labels[a]")
    await answer_of(client, "/inject/prod")
    core.answer = Injected(POD, dump_json(PATCH), (), warnings=("found",), findings=("found",))
    warned = (await answer_of(client, "/inject/prod"))["response"]

    counts = [
        collector.get_sample_value("injector_guard_findings_total", {"revision": "1-24", "outcome": outcome})
        for outcome in ("refused", "warned")
    ]
    assert counts == [1, 1]
    assert (warned["allowed"], warned["warnings"]) == (True, ["found"])
    assert f"guard: uid='{UID}' revision=1-24 'found'" in caplog.text


@pytest.mark.parametrize(("option", "value", "default"), [("guard", "warn", "enforce"), ("deny_invalid", False, True)])
async def test_an_option_is_that_of_each_request(
    client_of: ClientFactory, core: Core, option: str, value: object, default: object
) -> None:
    for options in ({}, {option: value}):
        await answer_of(await client_of(**options))

    assert [getattr(facts, option) for _, _, facts in core.calls] == [default, value]


@pytest.mark.parametrize(("guard", "looked"), [("warn", REPLICAS), ("off", 0)])
async def test_each_replica_of_a_pod_that_the_guard_warns_of_is_told_and_counted(
    client_of: ClientFactory,
    registry: Registry,
    collector: CollectorRegistry,
    monkeypatch: pytest.MonkeyPatch,
    guard: str,
    looked: int,
) -> None:
    monkeypatch.setattr("injector.webhook.handler.inject_pod", inject_pod)
    pasting = CONFIG.replace("{{ .Values.global.tag }}", "{{ .ObjectMeta.Labels.a }}")
    registry.swap(snapshot_of([build(make_raw("default", config=pasting))], parse_tags("")))
    client = await client_of(guard=guard)
    review = make_review(make_pod(labels={"a": "x" + "\n  - name: other\n    image: other"}))
    as_sent = {"kind": review.pop("kind"), **review}

    answers = [(await answer_of(client, review=as_sent))["response"] for _ in range(REPLICAS)]

    assert [answer["allowed"] for answer in answers] == [True] * REPLICAS
    assert sum("breaks out of the template" in str(answer.get("warnings")) for answer in answers) == looked
    labels = {"revision": "default", "outcome": "warned"}
    assert (collector.get_sample_value("injector_guard_findings_total", labels) or 0) == looked


async def test_a_fault_of_the_injector_is_denied_with_the_uid_and_no_traceback(
    client: Client, core: Core, collector: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    core.answer = KeyError(CANARY)

    response = (await answer_of(client))["response"]

    assert (response["uid"], response["allowed"]) == (UID, False)
    assert response["status"]["message"] == f"internal error (KeyError); the injector's log has the uid {UID}"
    assert failures(collector, "internal", "default") == 1
    (decision,) = decisions_of(caplog)
    assert (decision["uid"], decision["revision"], decision["reason"]) == (UID, "default", "internal")
    assert decision["at"].startswith("KeyError at ")
    assert "conftest.py:" in decision["at"]
    assert CANARY not in str(decision)


async def test_a_review_with_a_uid_and_no_pod_is_denied_with_it(client: Client, collector: CollectorRegistry) -> None:
    response = (await answer_of(client, review=make_review(object=None)))["response"]

    assert (response["uid"], response["allowed"]) == (UID, False)
    assert "no object" in response["status"]["message"]
    assert failures(collector, "review") == 1


def undecodable(value: bytes) -> bytes:
    """A review whose pod has a value in place of a field."""
    return json.dumps(make_review({**make_pod(), "spec": {"x": "MARK"}})).encode().replace(b'"MARK"', value)


UNDECODABLE = pytest.mark.parametrize(
    "value", [b'"\xed\xa0\x80"', b"[" * 400 + b"]" * 400], ids=["not UTF-8", "nested too deeply"]
)


@UNDECODABLE
async def test_a_pod_that_cannot_be_decoded_is_denied_with_its_uid(
    client: Client, collector: CollectorRegistry, value: bytes
) -> None:
    answer = await client.post("/inject", data=undecodable(value), headers=JSON)
    response = (await answer.json())["response"]

    assert (response["uid"], response["allowed"]) == (UID, False)
    assert "could not decode its object" in response["status"]["message"]
    assert failures(collector, "review") == 1


@UNDECODABLE
async def test_a_pod_that_cannot_be_decoded_is_denied_by_an_unknown_revision_too(client: Client, value: bytes) -> None:
    answer = await client.post("/inject/nope", data=undecodable(value), headers=JSON)
    response = (await answer.json())["response"]

    assert (response["uid"], response["allowed"]) == (UID, False)
    assert "no revision or tag 'nope'" in response["status"]["message"]


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8"])
async def test_json_is_taken_with_a_charset_and_without(client: Client, content_type: str) -> None:
    response = await client.post("/inject", data=json.dumps(make_review()), headers={"Content-Type": content_type})

    assert response.status == 200


@pytest.mark.parametrize(
    ("data", "headers", "refused"),
    [
        (b"{}", {"Content-Type": "text/plain"}, (415, "content_type", "must be application/json")),
        (b"{}", {"Content-Type": "application/yaml"}, (415, "content_type", "must be application/json")),
        (b"{}", {**JSON, "Content-Encoding": "gzip"}, (415, "content_type", "without an encoding")),
        (b"", JSON, (400, "empty_body", "no body found")),
        (b"{", JSON, (400, "undecodable", "could not decode body")),
        (b"\xff", JSON, (400, "undecodable", "could not decode body")),
        (b"[" * 100_000, JSON, (400, "undecodable", "could not decode body")),
        (b'{"a": NaN}', JSON, (400, "undecodable", "could not decode body")),
        (b"{}", JSON, (400, "undecodable", "not an AdmissionReview")),
        (b"7", JSON, (400, "undecodable", "not an AdmissionReview")),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', JSON, (400, "undecodable", "no request")),
        (b" " * (MAX_BODY + 1), JSON, (413, "too_large", f"larger than {MAX_BODY} bytes")),
    ],
    ids=lambda value: "" if isinstance(value, bytes | dict) else None,
)
async def test_what_is_no_review_is_refused_by_its_status_and_counted(
    client: Client, collector: CollectorRegistry, data: bytes, headers: dict[str, str], refused: tuple[int, str, str]
) -> None:
    response = await client.post("/inject/prod", data=io.BytesIO(data), headers=headers)

    status, reason, says = refused
    text = await response.text()
    assert (response.status, says in text, len(text.splitlines())) == (status, True, 1)
    assert failures(collector, reason) == 1
    assert collector.get_sample_value(REQUESTS, {"revision": "unknown", "tag": ""}) == 1


async def test_a_body_of_the_largest_size_is_read(client: Client) -> None:
    body = json.dumps(make_review()).encode()

    response = await client.post("/inject", data=io.BytesIO(body.ljust(MAX_BODY)), headers=JSON)

    assert response.status == 200


async def test_a_body_without_a_length_is_cut_at_the_same_size(client: Client) -> None:
    async def chunks() -> Any:
        for _ in range(MAX_BODY // 65536 + 1):
            yield b" " * 65536

    response = await client.post("/inject", data=chunks(), headers=JSON)

    assert response.status == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/inject", 405), ("PUT", "/inject/prod", 405), ("POST", "/", 404), ("POST", "/injector", 404)],
)
async def test_other_methods_and_paths_are_nobodys(client: Client, method: str, path: str, status: int) -> None:
    assert (await client.request(method, path, json=make_review())).status == status


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.DRAINING])
async def test_a_connection_is_kept_only_while_serving(client: Client, lifecycle: Lifecycle, phase: Phase) -> None:
    reused = await client.post("/inject", json=make_review())
    lifecycle.phase = phase
    closed = await client.post("/inject", json=make_review())

    assert (reused.status, reused.headers.get("Connection")) == (200, None)
    assert (closed.status, closed.headers.get("Connection")) == (200, "close")


async def test_a_server_that_closes_sends_callers_elsewhere(
    client: Client, lifecycle: Lifecycle, collector: CollectorRegistry
) -> None:
    lifecycle.phase = Phase.CLOSING

    response = await client.post("/inject", json=make_review())

    assert (response.status, response.headers["Retry-After"], response.headers["Connection"]) == (503, "1", "close")
    assert failures(collector, "draining") == 1


async def test_every_outcome_is_counted_for_the_revision_and_the_tag(
    client: Client, core: Core, collector: CollectorRegistry
) -> None:
    labels = {"revision": "1-24", "tag": "prod"}

    await answer_of(client, "/inject/prod")
    core.answer = Skipped("label", "no")
    await answer_of(client, "/inject/prod")

    assert collector.get_sample_value(REQUESTS, labels) == 2
    assert collector.get_sample_value("sidecar_injection_success_total", labels) == 1
    assert collector.get_sample_value("sidecar_injection_skip_total", {**labels, "reason": "label"}) == 1
    assert collector.get_sample_value(
        "sidecar_injection_time_seconds_count", {**labels, "stage": "inject", "tag": ""}
    ) == collector.get_sample_value("sidecar_injection_time_seconds_count", {**labels, "stage": "total"})


@pytest.mark.parametrize(
    ("path", "error", "place"),
    [
        ("/inject/nope", None, "path /inject/nope"),
        ("/inject/prod", AnnotationError("x", names=("b", "a")), "metadata.annotations[a], metadata.annotations[b]"),
    ],
)
async def test_the_log_has_the_requested_name_and_the_refused_annotations(
    client: Client, core: Core, caplog: pytest.LogCaptureFixture, path: str, error: Exception | None, place: str
) -> None:
    core.answer = error or core.answer

    await answer_of(client, path, make_review(make_pod()))

    assert [decision["at"] for decision in decisions_of(caplog)] == [place]


async def test_a_denial_is_logged_by_names_and_reason_and_never_by_value(
    client: Client, core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    core.answer = AnnotationError(f"invalid value '{CANARY}'", where="metadata.annotations[a]")
    pod = make_pod(annotations={"a": CANARY}, containers=[{"name": "x", "env": [{"name": "A", "value": CANARY}]}])

    with caplog.at_level(logging.DEBUG):
        await answer_of(client, "/inject/prod", make_review(pod))

    (decision,) = decisions_of(caplog)
    assert {**decision, "ms": 0} == {
        "outcome": "failure",
        "reason": "annotation",
        "revision": "1-24",
        "tag": "prod",
        "namespace": "default",
        "owner": "Pod/hello",
        "uid": UID,
        "ms": 0,
        "at": "metadata.annotations[a]",
    }
    assert [record for record in caplog.records if CANARY in f"{record.getMessage()}{vars(record)}"] == []


async def test_a_skip_is_logged_with_its_reason_and_an_injection_is_not(
    client: Client, core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    await answer_of(client)
    core.answer = Skipped("host_network", "no")
    await answer_of(client)

    assert [(decision["outcome"], decision["reason"]) for decision in decisions_of(caplog)] == [
        ("skip", "host_network")
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UnknownRevisionError("x"), "unknown_revision"),
        (ReviewError("x"), "review"),
        (ConfigError("x"), "config"),
        (InjectorError("x"), "other"),
    ],
)
def test_a_reason_is_decided_by_the_class(error: InjectorError, reason: str) -> None:
    assert reason_of(error) == reason


@pytest.mark.parametrize(("reason", "status"), [("overload", 429), ("deadline", 503)])
async def test_a_rejected_request_is_told_to_try_again(
    client_of: ClientFactory, collector: CollectorRegistry, core: Core, reason: str, status: int
) -> None:
    class Full(AdmissionQueue):
        async def run(self, tenant: Tenant, size: int, begin: Any, deadline: float = math.inf) -> Any:
            assert tenant == Tenant("1-24", "shop")
            assert callable(begin)
            assert size > len("{}")
            assert deadline - self.clock() == pytest.approx(7.0, abs=5.0)
            raise Rejected(reason)

    client = await client_of(queue=Full())

    response = await client.post("/inject/prod?timeout=7s", json=make_review(namespace="shop"))

    assert (response.status, response.headers["Retry-After"]) == (status, "1")
    assert "Connection" not in response.headers
    assert failures(collector, reason) == 1
    assert core.calls == []


async def test_a_body_that_has_no_room_is_told_to_come_back(
    client_of: ClientFactory, collector: CollectorRegistry
) -> None:
    client = await client_of(max_bodies=100)

    response = await client.post("/inject", json=make_review())

    assert (response.status, response.headers["Retry-After"]) == (429, "1")
    assert failures(collector, "overload") == 1


async def test_a_request_whose_deadline_passes_in_the_queue_is_not_injected(
    client_of: ClientFactory, collector: CollectorRegistry, core: Core
) -> None:
    queue = AdmissionQueue(threads=1)
    client = await client_of(queue=queue)

    end = threading.Event()
    holder = asyncio.create_task(queue.run(Tenant("default", "other"), 1, lambda: partial(end.wait, 20.0)))
    await asyncio.sleep(0)
    late = await client.post("/inject?timeout=1ms", json=make_review())
    end.set()
    await holder

    assert (late.status, core.calls) == (503, [])
    assert failures(collector, "deadline") == 1
    assert (await client.post("/inject?timeout=9s", json=make_review())).status == 200


async def test_an_equal_request_is_answered_from_the_cache_with_its_own_uid(
    client: Client, core: Core, collector: CollectorRegistry
) -> None:
    first, second = [await answer_of(client, review=make_review(uid=uid)) for uid in ("uid-1", "uid-2")]

    assert [answer["response"].pop("uid") for answer in (first, second)] == ["uid-1", "uid-2"]
    assert first == second
    assert len(core.calls) == 1
    assert collector.get_sample_value("injector_answer_cache_hits_total", {"revision": "default"}) == 1


async def test_equal_requests_that_wait_for_a_thread_are_injected_once(
    client: Client, handler: InjectHandler, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: Any) -> Any:
        time.sleep(0.1)
        return core(*arguments)

    monkeypatch.setattr("injector.webhook.handler.inject_pod", slow)

    await asyncio.gather(*(answer_of(client, review=make_review(uid=f"uid-{number}")) for number in range(5)))

    assert (len(core.calls), handler.cache.hits) == (1, 4)


@pytest.mark.parametrize(
    ("path", "review"),
    [
        ("/inject/1-24", make_review()),
        ("/inject/cluster/c1", make_review()),
        ("/inject", make_review(namespace="prod")),
        ("/inject", make_review(make_pod(labels={"a": "b"}))),
    ],
)
async def test_a_request_that_differs_in_anything_is_injected(
    client: Client, core: Core, path: str, review: dict[str, Any]
) -> None:
    await answer_of(client, review=make_review())
    await answer_of(client, path, review)

    assert len(core.calls) == 2


async def test_a_failure_and_a_template_that_is_not_hermetic_are_not_cached(
    client: Client, core: Core, registry: Registry
) -> None:
    core.answer = TemplateRenderError("x")
    await answer_of(client, review=make_review())
    await answer_of(client, review=make_review())
    assert len(core.calls) == 2

    core.answer = Skipped("label", "no")
    fake = fake_revision("default")
    fake.hermetic = False  # type: ignore[misc] # of a stand-in
    registry.swap(snapshot_of([fake], {}))
    await answer_of(client, review=make_review())
    await answer_of(client, review=make_review())
    assert len(core.calls) == 4


async def test_the_wait_for_a_turn_is_a_stage_of_its_own(client: Client, collector: CollectorRegistry) -> None:
    await answer_of(client)

    labels = {"revision": "default", "tag": "", "stage": "wait"}
    assert collector.get_sample_value("sidecar_injection_time_seconds_count", labels) == 1


async def test_the_stages_of_requests_that_share_a_turn_add_up_to_their_whole_time(
    client: Client, handler: InjectHandler, core: Core, monkeypatch: pytest.MonkeyPatch, collector: CollectorRegistry
) -> None:
    def slow(*arguments: Any) -> Any:
        time.sleep(0.05)
        return core(*arguments)

    monkeypatch.setattr("injector.webhook.handler.inject_pod", slow)
    names = "a", "b", "b", "b", "c"  # two of them are answered from the cache in their turn

    await asyncio.gather(*(answer_of(client, review=make_review(make_pod(name))) for name in names))

    seconds = collections.defaultdict[str, float](float)
    for sample in itertools.chain.from_iterable(metric.samples for metric in collector.collect()):
        if sample.name == "sidecar_injection_time_seconds_sum":
            seconds[sample.labels["stage"]] += sample.value
    assert handler.cache.hits == 2
    assert sum(seconds.values()) == pytest.approx(2 * seconds["total"], rel=0.05)


async def test_every_way_that_a_request_ends_is_in_the_books_once(
    client: Client, core: Core, lifecycle: Lifecycle, collector: CollectorRegistry
) -> None:
    answers: list[Injected | Skipped | Exception] = [core.answer, Skipped("label", "no"), TemplateRenderError("x")]
    for core.answer in [*answers, KeyError("x")]:
        await answer_of(client, "/inject/prod")
    await answer_of(client, "/inject/nope")
    await client.post("/inject", data=b"{", headers=JSON)
    await client.post("/inject", data=b"{}", headers={"Content-Type": "text/plain"})
    lifecycle.phase = Phase.CLOSING
    await client.post("/inject", json=make_review())

    assert books(collector) == {("1-24", "prod"): (4, 4, 4), ("unknown", ""): (4, 4, 4)}


class Taken(list[Admission]):
    """Stands in for the shadows: keeps what it is offered."""

    offer = list.append


@pytest.fixture
def taken() -> Taken:
    """What the shadows were offered."""
    return Taken()


@pytest.fixture
async def shadowed(client_of: ClientFactory, registry: Registry, taken: Taken) -> Client:
    """A client of an injector whose tags have shadows."""
    tags = (
        "prod: {revision: 1-24, shadow: {revision: 1-30}}\n"
        "none: {revision: 1-24, shadow: {revision: 1-30, sample: 0}}\n"
        "half: {revision: 1-24, shadow: {revision: 1-30, sample: 50}}\n"
        "done: {revision: 1-30, shadow: {revision: 1-30}}"
    )
    registry.swap(snapshot_of([fake_revision("1-24"), fake_revision("1-30")], parse_tags(tags)))
    return await client_of(shadows=taken)


async def test_what_a_tag_answers_is_offered_to_its_shadow(shadowed: Client, core: Core, taken: Taken) -> None:
    review = make_review(namespace="shop")

    await answer_of(shadowed, "/inject/prod/net/n1", review)

    (offer,) = taken
    assert (offer.tag, offer.served.name, offer.candidate.name) == ("prod", "1-24", "1-30")
    assert (offer.pod, offer.outcome) == (review["request"]["object"], core.answer)
    assert offer.facts == RequestFacts("shop", {"ISTIO_META_NETWORK": "n1"}, None)
    assert offer.size == len(json.dumps(review).encode())


async def test_what_a_tag_denies_is_offered_too(shadowed: Client, core: Core, taken: Taken) -> None:
    core.answer = TemplateRenderError("nil pointer")

    await answer_of(shadowed, "/inject/prod")

    assert [offer.outcome for offer in taken] == [core.answer]


@UNDECODABLE
async def test_what_is_no_pod_is_not_offered(shadowed: Client, taken: Taken, value: bytes) -> None:
    answer = await shadowed.post("/inject/prod", data=undecodable(value), headers=JSON)

    assert answer.status == 200
    assert taken == []


@pytest.mark.parametrize("path", ["/inject/1-24", "/inject/none", "/inject/done", "/inject/nope"])
async def test_what_has_no_other_candidate_is_not_offered(shadowed: Client, taken: Taken, path: str) -> None:
    await answer_of(shadowed, path)

    assert taken == []


async def test_a_sample_is_chosen_by_the_uid_of_the_request(shadowed: Client, taken: Taken) -> None:
    for _ in range(2):
        for number in range(20):
            await answer_of(shadowed, "/inject/half", make_review(uid=f"uid-{number}"))

    assert 2 * 4 <= len(taken) <= 2 * 16
    assert len(taken) == 2 * sum(is_sampled(f"uid-{number}", 50) for number in range(20))


async def test_the_shadow_is_offered_an_admission_only_once_its_answer_is_sent(
    shadowed: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sending = web.Response.write_eof

    async def sent(self: web.Response, data: bytes = b"") -> None:
        await sending(self, data)
        steps.append("sent")

    monkeypatch.setattr(web.Response, "write_eof", sent)
    monkeypatch.setattr(Taken, "offer", lambda *_: steps.append("offered"))

    await answer_of(shadowed, "/inject/prod")

    assert steps[:2] == ["sent", "offered"]


async def test_a_caller_that_is_gone_costs_no_error(
    shadowed: Client, taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(self: web.Response, request: web.Request) -> None:
        del self, request
        raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(web.Response, "prepare", gone)
        with pytest.raises(ClientError):
            await shadowed.post("/inject/prod", json=make_review())

    assert len(taken) == 1


OWNER = [{"kind": "StatefulSet", "name": "db", "controller": True}]
POD = {"metadata": {"generateName": "db-", "ownerReferences": OWNER}}


async def test_a_pod_that_was_injected_is_kept_as_it_came(client_of: ClientFactory, core: Core) -> None:
    core.answer = Injected(POD, dump_json(PATCH), ())
    recent = RecentPods()
    client = await client_of(recent=recent)

    await answer_of(client, "/inject/prod/cluster/c1", make_review(POD, namespace="shop"))

    assert list(recent.snapshot()) == ["1-24"]
    (pod,) = recent.snapshot()["1-24"]
    envs = {"ISTIO_META_CLUSTER_ID": "c1"}
    assert (pod.namespace, pod.owner, dict(pod.envs)) == ("shop", "StatefulSet db", envs)
    assert json.loads(pod.review) == make_review(POD, namespace="shop")


@pytest.mark.parametrize("answer", [Skipped("label", "the label says so"), ConfigError("broken"), KeyError("fault")])
async def test_a_pod_that_was_not_injected_is_not_kept(
    client_of: ClientFactory, core: Core, answer: Skipped | Exception
) -> None:
    core.answer = answer
    recent = RecentPods()

    await answer_of(await client_of(recent=recent))

    assert recent.snapshot() == {}


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_dry_run_is_answered_alike_and_remembered_by_nobody(
    client_of: ClientFactory, core: Core, registry: Registry, taken: Taken, dry_run: bool
) -> None:
    tags = parse_tags("prod: {revision: 1-24, shadow: {revision: 1-30}}")
    registry.swap(snapshot_of([fake_revision("1-24"), fake_revision("1-30")], tags))
    recent = RecentPods()
    client = await client_of(shadows=taken, recent=recent)

    real = await (await client.post("/inject/prod", json=make_review())).read()
    taken.clear()
    recent.forget_others(())
    answer = await (await client.post("/inject/prod", json=make_review(dryRun=dry_run))).read()

    assert answer == real
    assert all(call == core.calls[0] for call in core.calls)
    assert (len(taken), len(recent.snapshot())) == ((0, 0) if dry_run else (1, 1))
