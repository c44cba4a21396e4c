from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate.errors import Failure, FuncError
from injector.gotemplate.reflect import NO_VALUE
from injector.gotemplate.runtime import MAX_PUSHED, elements, pairs
from injector.gotemplate.values import Func, Map, Pointer, Slice, Uint8
from tests.gotemplate.world import CALLABLES


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["b", "a"], ["b", "a"]),
        ({"b": 1, "a": 2}, [2, 1]),
        (Map("int", "string", {10: "x", 2: "y"}), ["y", "x"]),
        (Pointer("*[]string", Slice("string", ["p"])), ["p"]),
        (3, [0, 1, 2]),
        (-1, []),
        (None, []),
        (NO_VALUE, []),
        (CALLABLES["seq"], [0, 10, 20]),
        (CALLABLES["pairs"], ["a", "b", "c"]),
    ],
)
def test_a_range_gives_elements_and_of_pairs_the_first(value: Any, expected: list[Any]) -> None:
    assert list(elements(value)) == expected


def test_integers_and_bytes_keep_their_type() -> None:
    assert [type(number) for number in elements(Uint8(2))] == [Uint8, Uint8]
    assert [type(byte) for byte in elements(b"x")] == [Uint8]
    assert [(at, type(byte)) for at, byte in pairs(b"x")] == [(0, Uint8)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["b", "a"], [(0, "b"), (1, "a")]),
        ({"b": 1, "a": 2}, [("a", 2), ("b", 1)]),
        (None, []),
        (CALLABLES["pairs"], [("a", 0), ("b", 1), ("c", 2)]),
    ],
)
def test_a_range_with_two_variables_gives_pairs(value: Any, expected: list[Any]) -> None:
    assert list(pairs(value)) == expected


@pytest.mark.parametrize("value", ["text", 1.5, True, CALLABLES["add"], Pointer("*[]string")])
def test_what_has_no_elements_is_refused(value: Any) -> None:
    with pytest.raises(Failure, match="range can't iterate over"):
        elements(value)
    with pytest.raises(Failure, match="range can't iterate over"):
        pairs(value)


@pytest.mark.parametrize("value", [3, CALLABLES["seq"]])
def test_one_value_a_round_does_not_fill_two_variables(value: Any) -> None:
    with pytest.raises(Failure, match="iterate over more than one variable"):
        pairs(value)


def test_an_iterator_without_end_is_cut_off() -> None:
    def endless(take: Any) -> None:
        while take(1):
            pass

    with pytest.raises(FuncError, match=f"more than {MAX_PUSHED} values"):
        elements(Func("endless", "func(func(int) bool)", endless))
