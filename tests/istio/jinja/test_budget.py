"""The budget of a Jinja template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jinja2
import pytest

from injector.gotemplate.budget import DEFAULT_BUDGET, Budget, Rendering, reserve, spend, use_meter
from injector.gotemplate.errors import Spent
from injector.istio.jinja.budget import (
    charge,
    check_bits,
    check_value_size,
    count_items,
    join_counted,
    measure,
    text_of,
)
from tests.cases import cases

MAX_SIZE = 2**20
MAX_BITS = 256


@pytest.fixture(autouse=True)
def _rendering() -> Iterator[None]:
    with use_meter(Rendering(Budget(clock=lambda: 0.0))):
        yield


@pytest.mark.parametrize(
    ("value", "size"), [("a" * 1000, 1000), ("é" * 1000, 4000), ([0] * 1000, 8000), ((0, 1), 16), (5, 0), (None, 0)]
)
def test_a_new_value_takes_memory(value: Any, size: int) -> None:
    reserve(DEFAULT_BUDGET.memory - size)
    assert charge(value) is value
    with pytest.raises(Spent):
        reserve(1)


@pytest.mark.parametrize("value", ["a" * (MAX_SIZE + 1), [0] * (MAX_SIZE + 1), (0,) * (MAX_SIZE + 1)])
def test_the_size_of_a_new_value_is_limited(value: Any) -> None:
    with pytest.raises(Spent, match=f"^a value of {MAX_SIZE + 1} bytes or items$"):
        charge(value)


def test_sizes_and_integers_may_be_as_large_as_the_limit() -> None:
    check_value_size(MAX_SIZE)
    check_bits(MAX_BITS)
    assert charge(2**MAX_BITS - 1) == 2**MAX_BITS - 1
    with pytest.raises(Spent, match=f"^an integer of more than {MAX_BITS} bits$"):
        charge(2**MAX_BITS)


def test_each_item_of_a_loop_is_a_step() -> None:
    spend(DEFAULT_BUDGET.steps - 2)
    items = count_items("abc")
    assert [next(items), next(items)] == ["a", "b"]
    with pytest.raises(Spent):
        next(items)


@cases("value", "size", also=[(range(9), 1)])
def test_a_value_is_measured_by_its_items(value: Any, size: int) -> None:
    assert measure(value) == size


@pytest.mark.parametrize(("value", "steps"), [("a", 0), ("a" * 512, 3), ([1, 2], 4), ({"a": 1}, 4), (range(9), 10)])
def test_each_item_of_a_measured_value_is_a_step(value: Any, steps: int) -> None:
    spend(DEFAULT_BUDGET.steps - steps)
    measure(value)
    with pytest.raises(Spent):
        spend()


def test_an_item_may_take_more_than_one_step() -> None:
    spend(DEFAULT_BUDGET.steps - 16 * 4)
    measure([1, 2], cost=16)
    with pytest.raises(Spent):
        spend()


def test_an_item_that_occurs_twice_counts_twice() -> None:
    value: Any = 0
    for _ in range(60):
        value = [value, value]
    with pytest.raises(Spent, match="steps"):
        measure(value)


@pytest.mark.parametrize("value", [object(), len, iter([]), {"a": {1}}, [print]])
def test_a_value_that_is_not_data_is_refused(value: Any) -> None:
    with pytest.raises(jinja2.TemplateRuntimeError, match="is not data"):
        measure(value)


def test_an_undefined_value_is_named() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'nothing' is undefined"):
        measure([jinja2.StrictUndefined(name="nothing")])


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (1, "1"), (None, "None"), ([1, "a"], "[1, 'a']"), (range(2), "range(0, 2)")]
)
def test_a_value_has_the_text_that_jinja2_prints(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_parts_are_joined() -> None:
    assert join_counted(["a", 1, None], ", ") == "a, 1, None"
    assert join_counted([]) == ""


@pytest.mark.parametrize(("parts", "between"), [(["a" * 600_000] * 2, ""), (["a"] * 3, "b" * 600_000)])
def test_parts_that_are_too_long_together_are_not_joined(parts: list[str], between: str) -> None:
    with pytest.raises(Spent, match="a value of 1200"):
        join_counted(parts, between)
