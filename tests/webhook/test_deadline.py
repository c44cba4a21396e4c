from __future__ import annotations

import pytest

from injector.webhook.deadline import NONE, timeout_of


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("timeout=10s", 10.0),
        ("timeout=1m30s", 90.0),
        ("a=b&timeout=5s", 5.0),
        ("timeout=2s&timeout=9s", 2.0),
        ("timeout=1%2e5s", 1.5),
        ("", NONE),
        ("timeout=", NONE),
        ("timeout=0s", NONE),
        ("timeout=0", NONE),
        ("timeout=-1s", NONE),
        ("timeout=soon", NONE),
        ("timeout=10", NONE),
        ("Timeout=10s", NONE),
        ("timeout=%ff", NONE),
        ("&".join(f"a{number}=1" for number in range(100)) + "&timeout=1s", NONE),
        ("timeout=" + "9" * 400 + "h", NONE),
    ],
)
def test_the_query_says_how_long_the_caller_waits(query: str, seconds: float) -> None:
    assert timeout_of(query) == seconds
