from __future__ import annotations

import pytest

from injector.cluster.client import REFUSALS, message_of, refusal_of, seconds_of


@pytest.mark.parametrize(
    ("status", "reason", "down"),
    [
        (401, "unauthorized", True),
        (403, "forbidden", False),
        (404, "missing", False),
        (409, "conflict", False),
        (410, "gone", False),
        (418, "refused", False),
        (429, "throttled", True),
        (500, "server", True),
        (503, "server", True),
        (600, "server", True),
    ],
)
def test_a_status_says_what_is_wrong_and_whether_the_next_request_would_fare_better(
    status: int, reason: str, down: bool
) -> None:
    found = refusal_of(status)

    assert (found.reason, found.down) == (reason, down)
    assert found in REFUSALS


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"message": "no\\n such"}', "no such"),
        (b'{"message": 7}', ""),
        (b"[]", ""),
        (b"<html>", ""),
        (b'{"message": "' + b"x" * 999 + b'"}', "x" * 300),
    ],
)
def test_a_message_is_one_short_line(body: bytes, says: str) -> None:
    assert message_of(body) == says


@pytest.mark.parametrize(
    ("text", "seconds"), [("3", 3.0), ("", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("²", 0.0)]
)
def test_a_retry_after_is_read_where_it_has_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
