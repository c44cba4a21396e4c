from __future__ import annotations

import pytest

from injector.istio.duration import go_duration, json_duration, parse_duration

_MILLISECOND = 1_000_000
_SECOND = 1_000 * _MILLISECOND


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        (0, "0s"),
        (45 * _SECOND, "45s"),
        (3600 * _SECOND, "3600s"),
        (1500 * _MILLISECOND, "1.500s"),
        (10 * _MILLISECOND, "0.010s"),
        (1_000, "0.000001s"),
        (1, "0.000000001s"),
        (_SECOND + 1_000_001, "1.001000001s"),
        (-1500 * _MILLISECOND, "-1.500s"),
        (-_SECOND, "-1s"),
        (-1, "-0.000000001s"),
    ],
)
def test_protobuf_writes_seconds_with_0_3_6_or_9_decimals(nanoseconds: int, expected: str) -> None:
    assert json_duration(nanoseconds) == expected


@pytest.mark.parametrize("text", ["45s", "0.010s", "-1.500s", "1.001000001s"])
def test_what_protobuf_writes_reads_back_as_it_was(text: str) -> None:
    assert json_duration(parse_duration(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", "1m30s"), ("3600s", "1h0m0s"), ("0.010s", "10ms"), ("0s", "0s")]
)
def test_go_writes_a_duration_in_units(text: str, expected: str) -> None:
    assert go_duration(parse_duration(text)) == expected
