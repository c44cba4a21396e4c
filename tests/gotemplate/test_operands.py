from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate.codegen import NOTHING, Operand, Origin, container_of, folded
from injector.gotemplate.errors import FuncError
from injector.gotemplate.values import Func


def known(value: Any) -> Operand:
    return Operand(repr(value), is_constant=True, value=value)


def joined(*parts: Any) -> str:
    return "".join(map(str, parts))


def test_a_function_of_constants_is_worked_out() -> None:
    assert folded(Func("f", "func(...string) string", joined), [known("a"), known(1)]) == "a1"


@pytest.mark.parametrize(
    "given", [[], [Operand("t1")], [known("a"), Operand("t1")], [NOTHING]], ids=["none", "local", "mixed", "no value"]
)
def test_a_function_of_anything_else_waits(given: list[Operand]) -> None:
    assert folded(Func("f", "func(...string) string", joined), given) is None


def test_a_function_that_depends_on_more_waits() -> None:
    assert folded(Func("f", "func(...string) string", joined, hermetic=False), [known("a")]) is None


@pytest.mark.parametrize("result", [["a"], {"a": 1}, None, "x" * 5000], ids=["list", "dictionary", "nil", "long"])
def test_a_result_that_could_change_or_is_large_is_made_anew(result: Any) -> None:
    assert folded(Func("f", "func(string) interface {}", lambda _: result), [known("a")]) is None


def test_a_failure_waits_for_its_rendering() -> None:
    def refuse(_: str) -> str:
        raise FuncError("no")

    assert folded(Func("f", "func(string) string", refuse), [known("a")]) is None


@pytest.mark.parametrize(
    ("operand", "expected"),
    [
        (Operand("t2", origin=Origin("t1", "x")), "t1"),
        (Operand("t2", origin=Origin("")), "None"),
        (Operand("t2"), "None"),
    ],
)
def test_a_value_knows_what_holds_it(operand: Operand, expected: str) -> None:
    assert container_of(operand) == expected
