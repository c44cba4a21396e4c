"""Sprig's lists and ranges, within their limits."""

from __future__ import annotations

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig import collections
from tests.cases import cases


def test_a_list_longer_than_any_output_is_refused_before_it_is_made() -> None:
    with pytest.raises(FuncError, match="too large"):
        collections.FUNCTIONS["until"].call(10**9)


# What sprig v3.3 answers: bounds are whatever its `toInt` makes of them.
@cases("indices", "expected")
def test_the_bounds_of_a_slice_may_be_of_any_type(indices: tuple[object, ...], expected: list[int]) -> None:
    assert collections.slice_list([1, 2, 3], *indices) == expected


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 2**63 - 1, 1), (2**63 - 1, -(2**63), -1)])
def test_a_range_beyond_any_memory_is_refused_before_it_is_made(start: int, stop: int, step: int) -> None:
    with pytest.raises(FuncError, match="too large"):
        collections.until_step(start, stop, step)


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 5, 2), (5, 0, -2), (0, 1, 7), (0, -3, -3)])
def test_a_range_of_any_step_has_pythons_length(start: int, stop: int, step: int) -> None:
    assert collections.until_step(start, stop, step) == list(range(start, stop, step))
