"""The filters and tests of Jinja templates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from injector.gotemplate.budget import DEFAULT_BUDGET, Budget, Rendering, spend, use_meter
from injector.gotemplate.errors import Spent
from injector.istio.jinja.filters import known_filters, known_tests
from injector.istio.jinja.sandbox import Sandbox
from tests.cases import cases

# fmt: off
FILTERS = {
    "abs", "count", "d", "default", "dictsort", "first", "float", "fromjson", "indent", "int", "items", "join", "last",
    "length", "list", "lower", "map", "max", "min", "quote", "reject", "rejectattr", "replace", "reverse", "round",
    "rstripped", "select", "selectattr", "sort", "split", "string", "sum", "tojson", "toyaml", "trim", "truncated",
    "unique", "upper",
}
TESTS = {
    "!=", "<", "<=", "==", ">", ">=", "boolean", "defined", "divisibleby", "eq", "equalto", "even", "false", "float",
    "ge", "greaterthan", "gt", "in", "integer", "iterable", "le", "lessthan", "lower", "lt", "mapping", "ne", "none",
    "number", "odd", "sequence", "string", "true", "undefined", "upper",
}
# fmt: on


@pytest.fixture(autouse=True)
def _rendering() -> Iterator[None]:
    with use_meter(Rendering(Budget(clock=lambda: 0.0))):
        yield


def _result(expression: str, **values: Any) -> Any:
    environment = Sandbox({})
    environment.filters.update(known_filters())
    environment.tests.update(known_tests())
    return environment.compile_expression(expression, undefined_to_none=False)(**values)


def test_the_filters_and_tests_are_those_of_the_list() -> None:
    assert set(known_filters()) == FILTERS
    assert set(known_tests()) == TESTS


def test_the_document_has_each_filter_and_test() -> None:
    document = (Path(__file__).resolve().parents[3] / "docs" / "jinja-revisions.md").read_text()
    named = {name for name in FILTERS | TESTS if name.isalpha()} - {"equalto", "greaterthan", "lessthan"}
    assert [name for name in sorted(named) if f"`{name}`" not in document] == []


@cases(
    "expression",
    "result",
    also=[
        ("{'b': 1, 'A': 2} | dictsort", [("A", 2), ("b", 1)]),
        ("{'b': 1, 'a': 2} | dictsort(by='value')", [("b", 1), ("a", 2)]),
        ("{'a': 1} | items", [("a", 1)]),
    ],
)
def test_a_filter_or_test_returns(expression: str, result: Any) -> None:
    assert _result(expression) == result


@pytest.mark.parametrize("name", sorted(FILTERS))
@pytest.mark.parametrize("arguments", ["", "(0)", "('a')", "('upper')", "(attribute='a')"])
def test_no_filter_changes_its_value(name: str, arguments: str) -> None:
    values: list[Any] = [
        [2, [1], 2],
        {"b": {"a": 2}, "a": [1, None]},
        [{"a": 2}, {"a": 1}],
        [["b", 1], ["a", 2]],
        "b a",
    ]
    for value in values:
        before = deepcopy(value)
        with suppress(Exception):  # not every filter is for every value
            _result(f"value | {name}{arguments} | list", value=value)
        assert value == before


@cases("expression", "error")
def test_a_value_of_the_wrong_type_is_refused(expression: str, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        _result(expression)


@cases("expression")
def test_a_large_value_takes_many_steps(expression: str) -> None:
    large = {"text": "a" * 100_000, "items": [0] * 350, "keys": dict.fromkeys(map(str, range(350)))}
    spend(DEFAULT_BUDGET.steps - 345)
    with pytest.raises(Spent, match="steps"):
        _result(expression, **large)


def test_no_filter_returns_a_generator() -> None:
    for expression in ("[1] | map('string')", "[1] | select", "[1] | reverse", "[1] | unique", "{} | items"):
        assert isinstance(_result(expression), list)
