"""Whatever name stands in a URL: a denial with the uid, one line of log, no file, no series of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import string
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry
from yarl import URL

from injector.cli.serve.server import JsonFormatter, TextFormatter
from injector.errors import ReviewError
from injector.revisions.names import parse_path
from injector.webhook import reading
from injector.webhook.lifecycle import Lifecycle
from injector.webhook.queue import Refusal
from injector.webhook.reading import Bodies, Reader, timeout_of
from tests.cases import cases
from tests.factories import UID, make_pod, make_review
from tests.tasks import until
from tests.webhook.conftest import Client

JSON = {"Content-Type": "application/json"}


def sent(*chunks: bytes, ends: bool = True) -> web.Request:
    """A request whose body arrived in these chunks, and ended if it does."""
    protocol = BaseProtocol(asyncio.get_running_loop())
    protocol.transport = asyncio.Transport()
    stream = StreamReader(protocol, 2**26, loop=asyncio.get_running_loop())
    for chunk in chunks:
        stream.feed_data(chunk)
    if ends:
        stream.feed_eof()
    return make_mocked_request("POST", "/inject", headers=JSON, payload=stream)


async def refusal_of(reader: Reader, request: web.Request) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await reader.read(request)
    return caught.value


async def test_a_body_that_is_announced_as_too_large_is_not_waited_for(lifecycle: Lifecycle) -> None:
    request = make_mocked_request("POST", "/inject", headers={**JSON, "Content-Length": str(8 * 2**20 + 1)})

    assert (await refusal_of(Reader(lifecycle), request)).status == 413


async def test_a_body_is_read_in_full_and_counts_until_its_request_is_answered(lifecycle: Lifecycle) -> None:
    reader = Reader(lifecycle, Bodies(10))

    body = await reader.read(sent(b"abc", b"def", b"ghi"))
    assert body == b"abcdefghi"
    assert (await refusal_of(reader, sent(b"xy"))).status == 429

    reader.release(body)
    assert await reader.read(sent(b"abcdefghij")) == b"abcdefghij"


async def test_a_body_that_does_not_arrive_is_answered_408(
    lifecycle: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BODY_TIMEOUT", 0.01)
    reader = Reader(lifecycle)

    assert (await refusal_of(reader, sent(b"abc", ends=False))).status == 408


async def test_bodies_that_never_arrive_leave_room_for_complete_ones(lifecycle: Lifecycle) -> None:
    reader = Reader(lifecycle, Bodies(1000))
    stalled = [asyncio.create_task(reader.read(sent(b"x" * 100, ends=False))) for _ in range(20)]
    await until(lambda: sum(not task.done() for task in stalled) <= 5)

    body = await reader.read(sent(b"x" * 400))

    assert len(body) == 400
    for task in stalled:
        task.cancel()
    await asyncio.gather(*stalled, return_exceptions=True)


async def test_a_body_that_is_arriving_takes_the_room_of_one_that_stopped(lifecycle: Lifecycle) -> None:
    reader = Reader(lifecycle, Bodies(1000))
    stalled = [asyncio.create_task(reader.read(sent(b"x" * 100, ends=False))) for _ in range(5)]
    await asyncio.sleep(0.01)
    arriving = sent(b"x" * 50, ends=False)
    task = asyncio.create_task(reader.read(arriving))
    await asyncio.sleep(0)

    arriving.content.feed_data(b"x" * 150)
    arriving.content.feed_eof()

    async with asyncio.timeout(20.0):
        assert len(await task) == 200
    await until(lambda: sum(task.done() for task in stalled) == 2)
    assert [str(task.exception()) for task in stalled if task.done()] == [
        "too many requests are waiting: try again"
    ] * 2
    for task in stalled:
        task.cancel()
    await asyncio.gather(*stalled, return_exceptions=True)


async def test_a_body_takes_the_room_of_one_whose_time_has_just_ended() -> None:
    bodies = Bodies(100)

    async def stalled() -> bool:
        async with asyncio.timeout(0) as limit:
            late = bodies.begin(limit)
            assert bodies.receive(late, 40)
            try:
                await asyncio.sleep(20.0)
            except asyncio.CancelledError:
                assert bodies.receive(bodies.begin(asyncio.timeout(20.0)), 20)
                assert late.is_evicted
                raise
        return True

    with pytest.raises(TimeoutError):
        await stalled()


async def test_the_room_of_bodies_is_free_again_however_they_end(lifecycle: Lifecycle) -> None:
    reader = Reader(lifecycle, Bodies(1000))
    async with asyncio.timeout(20.0):
        for _ in range(50):
            tasks = [asyncio.create_task(reader.read(sent(b"x" * 200, ends=False))) for _ in range(4)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    assert len(await reader.read(sent(b"x" * 1000))) == 1000


def test_bodies_share_the_memory_and_give_it_back() -> None:
    bodies = Bodies(10)

    assert [bodies.reserve(6), bodies.reserve(6)] == [True, False]
    bodies.release(6)
    assert not bodies.reserve(6)
    bodies.release(6)
    bodies.release(6)
    assert bodies.reserve(10)


def test_a_large_body_leaves_room_for_small_ones() -> None:
    bodies = Bodies(100)

    assert bodies.reserve(40)
    assert not bodies.reserve(30, body=40)
    bodies.release(30)
    assert bodies.reserve(20)


@pytest.mark.parametrize("bomb", [b"[]", b"{}", b"0"])
async def test_a_body_of_very_many_values_is_refused_before_it_is_decoded(lifecycle: Lifecycle, bomb: bytes) -> None:
    body = b"[" + b",".join([bomb] * 250_002) + b"]"

    refusal = await refusal_of(Reader(lifecycle), sent(body))

    assert (refusal.status, refusal.reason) == (413, "too_large")


async def test_a_large_body_of_few_values_is_read(lifecycle: Lifecycle) -> None:
    sent_body = b'{"a":"' + b"x" * (2**19) + b'"}'

    assert await Reader(lifecycle).read(sent(sent_body)) == sent_body


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("timeout=10s", 10.0),
        ("timeout=1m30s", 90.0),
        ("a=b&timeout=5s", 5.0),
        ("timeout=2s&timeout=9s", 2.0),
        ("timeout=1%2e5s", 1.5),
        ("", math.inf),
        ("timeout=", math.inf),
        ("timeout=0s", math.inf),
        ("timeout=0", math.inf),
        ("timeout=-1s", math.inf),
        ("timeout=soon", math.inf),
        ("timeout=10", math.inf),
        ("Timeout=10s", math.inf),
        ("timeout=%ff", math.inf),
        ("&".join(f"a{number}=1" for number in range(100)) + "&timeout=1s", math.inf),
        ("timeout=" + "9" * 400 + "h", math.inf),
    ],
)
def test_the_timeout_of_a_call_is_the_duration_in_its_query(query: str, seconds: float) -> None:
    assert timeout_of(query) == seconds


CLUSTER = "ISTIO_META_CLUSTER_ID"
NETWORK = "ISTIO_META_NETWORK"


@cases("path", "name", "envs")
def test_a_path_names_a_revision_and_adds_to_the_environment(path: str, name: str, envs: dict[str, str]) -> None:
    """Follows Istio 1.30.3, pkg/kube/inject/webhook.go: parseInjectEnvs reads the path that net/url has decoded once."""
    parsed = parse_path(path)

    assert (parsed.name, dict(parsed.envs)) == (name, envs)


@pytest.mark.parametrize(
    "path",
    [
        *("/inject/..", "/inject/../../etc/passwd", "/inject/..%2f..%2fetc%2fpasswd", "/inject/%2e%2e"),
        *("/inject/Prod", "/inject/a.b", "/inject/a_b", "/inject/%C3%A4", "/inject/" + "a" * 64),
        *("/inject/" + "a" * 5000, "/inject/%00", "/inject/a%0d%0aX-Evil:1", "/inject/%ff", "/inject//prod"),
        *("/inject/prod/net/%", "/inject/prod/net/a%2", "/inject/prod/net/%zz", "/inject/prod/net/%%30", "/inject/%"),
        *(
            "/inject/prod/net/%00",
            "/inject/prod/net/a%00b",
            "/inject/prod/net/a%0ab",
            "/inject/prod/net/%ff",
            "/inject/prod/net/%e2%80%a8",
        ),
        *("/inject/prod/a%3Db/c", "/inject/prod/%C3%A4/c", "/inject/prod/%C3%9F/c", "/inject/<script>"),
    ],
)
def test_a_hostile_path_is_refused_in_a_short_line(path: str) -> None:
    with pytest.raises(ReviewError) as caught:
        parse_path(path)

    message = str(caught.value)
    assert len(message) < 300
    assert message.isprintable()
    assert caught.value.hint


HOSTILE = [
    *(
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..\\..\\etc",
        "%2fetc%2fpasswd",
        "nope%00",
        "nope%",
        "nope/net/%2",
    ),
    *("nope%0d%0aINFO%20forged", "nope%0aforged", "%e2%80%a8forged", "%1b%5b2J", "%ff%fe", "%c3%a9", "%F0%9F%92%A5"),
    *("NOPE", "nOpE", "a" * 5000, "a" * 64, "-", "a_b", "a.b", "*", "%24%7bjndi%7d", "%7b%7b.Values%7d%7d"),
    *("nope/net/x/", "nope/cluster/c/net/n/A/b", "nope/:ENV:A=b", "nope?timeout=10s&x=%00", "__proto__"),
    "constructor",
]


class OpenedFiles(list[str]):
    """The files that are opened while it is on."""

    on = False


_OPENED_FILES = OpenedFiles()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _OPENED_FILES.on:
        _OPENED_FILES.append(str(arguments[0]))


# A hook cannot be taken away again, so there is one, which does nothing unless it is asked to.
sys.addaudithook(_audit)


@contextlib.contextmanager
def watched() -> Iterator[OpenedFiles]:
    """Collects the files that are opened meanwhile."""
    _OPENED_FILES.clear()
    _OPENED_FILES.on = True
    try:
        yield _OPENED_FILES
    finally:
        _OPENED_FILES.on = False


def own(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The injector's lines."""
    return [record for record in caplog.records if record.name.startswith("injector")]


@pytest.mark.parametrize("name", HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
async def test_a_hostile_name_is_denied_with_the_uid_in_one_line_of_log_and_no_file(
    client: Client, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    # What is read once in a process, as the schema of pods, is read by now.
    await client.post("/inject/warm", json=make_review())
    caplog.clear()

    with watched() as files:
        response = await client.post(URL(f"/inject/{name}", encoded=True), json=make_review())
        answer = (await response.json())["response"]

    assert (response.status, answer["uid"], answer["allowed"]) == (200, UID, False)
    assert len(answer["status"]["message"]) < 400
    assert answer["status"]["message"].isprintable()
    assert files == []
    (record,) = own(caplog)
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(record)
        assert line.isprintable()
        assert len(line) < 1_000


async def test_a_line_too_long_for_a_path_is_no_request_at_all(client: Client) -> None:
    assert (await client.post("/inject/" + "a" * 9_000, json=make_review())).status == 400


def series(collector: CollectorRegistry) -> set[str]:
    """Names and labels of all that a scrape sees."""
    return {f"{sample.name}{sample.labels}" for metric in collector.collect() for sample in metric.samples}


async def test_names_make_no_series(client: Client, collector: CollectorRegistry) -> None:
    random_ = random.Random(7)  # noqa: S311 -- names for a test
    names = ["".join(random_.choices(string.ascii_lowercase, k=12)) for _ in range(300)]

    async def ask(name: str) -> None:
        pod = make_pod(f"{name}\n", annotations={f"sidecar.istio.io/{name}": name}, labels={name: name})
        review = make_review(pod, namespace=f'{name}"}} 1\n', uid=name)
        response = await client.post(f"/inject/{name}", json=review)
        assert (await response.json())["response"]["allowed"] is False

    await ask(names[0])
    once = series(collector)
    for name in names:
        await ask(name)

    assert series(collector) == once
    assert all(name not in text for text in once for name in names)
    labels = {"revision": "unknown", "tag": "", "reason": "unknown_revision"}
    assert collector.get_sample_value("sidecar_injection_failure_total", labels) == len(names) + 1
