from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from injector.webhook import reading
from injector.webhook.lifecycle import Phase
from injector.webhook.queue import DEADLINE, OVERLOAD, AdmissionQueue
from injector.webhook.reading import MAX_VALUES, REJECTIONS, SMALL, Reader, Refusal, rejection, timeout_of

if TYPE_CHECKING:
    from injector.webhook.lifecycle import Lifecycle

JSON = {"Content-Type": "application/json"}
LIMIT = 1024**2


def sent(*chunks: bytes, limit: int = LIMIT, ends: bool = True) -> web.Request:
    """A request whose body arrived in these chunks, and ended if it does."""
    protocol = BaseProtocol(asyncio.get_running_loop())
    protocol.transport = asyncio.Transport()
    stream = StreamReader(protocol, 2**26, loop=asyncio.get_running_loop())
    for chunk in chunks:
        stream.feed_data(chunk)
    if ends:
        stream.feed_eof()
    return make_mocked_request("POST", "/inject", headers=JSON, client_max_size=limit, payload=stream)


async def refusal_of(reader: Reader, request: web.Request) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await reader.read(request)
    return caught.value


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({**JSON, "Content-Encoding": "gzip"}, 415),
        ({**JSON, "Content-Length": str(2 * LIMIT)}, 413),
    ],
)
async def test_a_request_that_cannot_be_a_review_is_refused_before_its_body(
    lifecycle: Lifecycle, headers: dict[str, str], status: int
) -> None:
    request = make_mocked_request("POST", "/inject", headers=headers, client_max_size=LIMIT)

    refusal = await refusal_of(Reader(lifecycle, AdmissionQueue()), request)

    assert (refusal.status, refusal.again) == (status, False)


async def test_a_request_at_the_very_end_is_told_to_try_again_elsewhere(lifecycle: Lifecycle) -> None:
    lifecycle.enter(Phase.CLOSING)
    reader = Reader(lifecycle, AdmissionQueue())

    answer = reader.refused(await refusal_of(reader, make_mocked_request("POST", "/inject", headers=JSON)))

    assert (answer.status, answer.headers["Retry-After"], answer.keep_alive) == (503, "1", False)


@pytest.mark.parametrize("reason", [OVERLOAD, DEADLINE])
def test_a_rejected_request_may_try_again(lifecycle: Lifecycle, reason: str) -> None:
    answer = Reader(lifecycle, AdmissionQueue()).refused(rejection(reason))

    assert (answer.status, answer.text) == REJECTIONS[reason]
    assert answer.headers["Retry-After"] == "1"


async def test_a_body_is_read_in_full_and_counts_until_its_request_is_answered(lifecycle: Lifecycle) -> None:
    queue = AdmissionQueue(max_bytes=10)
    reader = Reader(lifecycle, queue)

    body = await reader.read(sent(b"abc", b"def", b"ghi"))
    assert body == b"abcdefghi"
    assert (await refusal_of(reader, sent(b"xy"))).status == 429

    reader.done(body)
    assert await reader.read(sent(b"abcdefghij")) == b"abcdefghij"


async def test_a_body_beyond_the_limit_is_refused_and_its_connection_closed(lifecycle: Lifecycle) -> None:
    reader = Reader(lifecycle, AdmissionQueue())

    answer = reader.refused(await refusal_of(reader, sent(b"abc", b"def", limit=5, ends=False)))

    assert (answer.status, answer.text, answer.keep_alive) == (413, "the body is larger than 5 bytes", False)
    assert "Retry-After" not in answer.headers


async def test_a_body_that_does_not_arrive_is_answered_408(
    lifecycle: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ", 0.01)
    reader = Reader(lifecycle, AdmissionQueue())

    answer = reader.refused(await refusal_of(reader, sent(b"abc", ends=False)))

    assert (answer.status, answer.keep_alive) == (408, False)


async def test_an_empty_body_is_refused(lifecycle: Lifecycle) -> None:
    assert (await refusal_of(Reader(lifecycle, AdmissionQueue()), sent())).reason == "empty_body"


@pytest.mark.parametrize("bomb", [b"[]", b"{}", b"0"])
async def test_a_body_of_very_many_values_is_refused_before_it_is_decoded(lifecycle: Lifecycle, bomb: bytes) -> None:
    body = b"[" + b",".join([bomb] * (MAX_VALUES + 2)) + b"]"

    refusal = await refusal_of(Reader(lifecycle, AdmissionQueue()), sent(body, limit=len(body)))

    assert (refusal.status, refusal.reason) == (413, "too_large")


async def test_a_large_body_of_few_values_is_read(lifecycle: Lifecycle) -> None:
    sent_body = b'{"a":"' + b"x" * (8 * SMALL) + b'"}'

    assert await Reader(lifecycle, AdmissionQueue()).read(sent(sent_body, limit=len(sent_body))) == sent_body


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
