from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import make_mocked_request

from injector.webhook.admittance import DEADLINE, OVERLOAD, Admittance
from injector.webhook.body import Body
from injector.webhook.lifecycle import Phase
from injector.webhook.reading import FEW, MAX_VALUES, TURNED_AWAY, Reader, Refusal, too_large, turned_away

if TYPE_CHECKING:
    from injector.webhook.lifecycle import Lifecycle

JSON = {"Content-Type": "application/json"}


def reader(lifecycle: Lifecycle) -> Reader:
    """What reads the requests of a port that serves."""
    return Reader(lifecycle, Admittance())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({**JSON, "Content-Encoding": "gzip"}, 415),
        ({**JSON, "Content-Length": str(2 * 1024**2)}, 413),
    ],
)
def test_what_cannot_be_a_review_is_refused_before_its_body(
    lifecycle: Lifecycle, headers: dict[str, str], status: int
) -> None:
    request = make_mocked_request("POST", "/inject", headers=headers, client_max_size=1024**2)

    with pytest.raises(Refusal) as caught:
        reader(lifecycle).held(request)

    assert (caught.value.status, caught.value.again) == (status, False)


def test_who_comes_at_the_very_end_is_sent_elsewhere(lifecycle: Lifecycle) -> None:
    lifecycle.enter(Phase.CLOSING)

    with pytest.raises(Refusal) as caught:
        reader(lifecycle).held(make_mocked_request("POST", "/inject", headers=JSON))

    answer = reader(lifecycle).refused(caught.value)
    assert (answer.status, answer.headers["Retry-After"], answer.keep_alive) == (503, "1", False)


@pytest.mark.parametrize("reason", [OVERLOAD, DEADLINE])
def test_who_should_not_wait_may_come_again(lifecycle: Lifecycle, reason: str) -> None:
    answer = reader(lifecycle).refused(turned_away(reason))

    assert (answer.status, answer.text) == TURNED_AWAY[reason]
    assert answer.headers["Retry-After"] == "1"


def test_whose_body_is_left_unread_loses_the_connection(lifecycle: Lifecycle) -> None:
    answer = reader(lifecycle).refused(too_large(5))

    assert (answer.status, answer.text, answer.keep_alive) == (413, "the body is larger than 5 bytes", False)
    assert "Retry-After" not in answer.headers


class Sent(Body):
    """A body that has come."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def read(self, limit: int) -> bytes:
        del limit
        return self.body


@pytest.mark.parametrize("bomb", [b"[]", b"{}", b"0"])
async def test_a_body_of_very_many_values_is_refused_before_it_is_decoded(lifecycle: Lifecycle, bomb: bytes) -> None:
    body = b"[" + b",".join([bomb] * (MAX_VALUES + 2)) + b"]"

    with pytest.raises(Refusal) as caught:
        await reader(lifecycle).read(Sent(body), len(body))

    assert (caught.value.status, caught.value.reason) == (413, "too_large")


async def test_a_large_body_of_few_values_is_read(lifecycle: Lifecycle) -> None:
    body = b'{"a":"' + b"x" * (8 * FEW) + b'"}'

    assert await reader(lifecycle).read(Sent(body), len(body)) == body
