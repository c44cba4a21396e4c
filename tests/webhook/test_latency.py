from __future__ import annotations

import math

import pytest

from injector.webhook.status.report import quantile

BOUNDS = [(0.001, 10), (0.002, 60), (0.004, 100), (math.inf, 100)]
"""A hundred requests: ten within a millisecond, fifty more within two, forty more within four."""


@pytest.mark.parametrize(
    ("share", "seconds"), [(0.05, 0.0005), (0.1, 0.001), (0.35, 0.0015), (0.8, 0.003), (1.0, 0.004)]
)
def test_a_quantile_lies_within_its_bucket_in_proportion(share: float, seconds: float) -> None:
    assert quantile(BOUNDS, share) == pytest.approx(seconds)


def test_what_is_beyond_the_last_bound_counts_as_that() -> None:
    assert quantile([(0.001, 1), (30.0, 1), (math.inf, 100)], 0.5) == 30.0


def test_an_empty_bucket_is_passed_over() -> None:
    assert quantile([(0.001, 0), (0.002, 0), (0.004, 4), (math.inf, 4)], 0.5) == pytest.approx(0.003)


@pytest.mark.parametrize("bounds", [[], [(0.001, 0), (math.inf, 0)]])
def test_without_requests_there_is_none(bounds: list[tuple[float, int]]) -> None:
    assert quantile(bounds, 0.5) is None
