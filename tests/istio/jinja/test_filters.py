from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from injector.istio.jinja.budget import MAX_STEPS, BudgetSpentError, JinjaBudget, spending, tick
from injector.istio.jinja.filters import known_filters, known_tests
from injector.istio.jinja.sandbox import Sandbox
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    with spending(JinjaBudget(lambda: 0.0)):
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


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("-3 | abs", 3),
        ("'ab' | count", 2),
        ("nothing | d(1)", 1),
        ("'' | default('e', true)", "e"),
        ("{'b': 1, 'A': 2} | dictsort", [("A", 2), ("b", 1)]),
        ("{'b': 1, 'a': 2} | dictsort(by='value')", [("b", 1), ("a", 2)]),
        ("[1, 2] | first", 1),
        ("[1, 2] | last", 2),
        ("'1.5' | float", 1.5),
        ("'x' | float(2.5)", 2.5),
        ("'7' | int", 7),
        ("'x' | int(4)", 4),
        ("{'a': 1} | items", [("a", 1)]),
        ("nothing | items", []),
        ("[1, [2]] | join('-')", "1-[2]"),
        ("[{'a': 1}, {'a': 2}] | join(attribute='a')", "12"),
        ("'ab' | list", ["a", "b"]),
        ("{'a': 1} | list", ["a"]),
        ("'AB' | lower", "ab"),
        ("[1, 2] | map('string')", ["1", "2"]),
        ("[{'a': {'b': 1}}, {}] | map(attribute='a.b', default=0)", [1, 0]),
        ("['b', 'A'] | max", "b"),
        ("[{'a': 2}, {'a': 1}] | min(attribute='a')", {"a": 1}),
        ("[1, 2, 3] | reject('odd')", [2]),
        ("[1, 0, 2] | select", [1, 2]),
        ("[{'a': 1}, {'a': 2}] | selectattr('a', 'eq', 2)", [{"a": 2}]),
        ("[{'a': 1}, {'a': 2}] | rejectattr('a', 'in', [2])", [{"a": 1}]),
        ("[] | map('upper')", []),
        ("'aaa' | replace('a', 'bb', 2)", "bbbba"),
        ("'ab' | replace('', '-')", "-a-b-"),
        ("101 | replace(1, 2)", "202"),
        ("'abc' | reverse", "cba"),
        ("[1, 2] | reverse", [2, 1]),
        ("2.567 | round(1)", 2.6),
        ("2.5 | round(method='ceil')", 3.0),
        ("['b', 'A', 'c'] | sort", ["A", "b", "c"]),
        ("[{'a': 2}, {'a': 1}] | sort(attribute='a', reverse=true)", [{"a": 2}, {"a": 1}]),
        ("'a,b' | split(',')", ["a", "b"]),
        ("[1] | string", "[1]"),
        ("[1, 2.5] | sum", 3.5),
        ("[{'a': 1}] | sum('a', 5)", 6),
        ("' a ' | trim", "a"),
        ("'xax' | trim('x')", "a"),
        ("['a', 'A', 1, '1', 1.0, true] | unique", ["a", 1, "1", True]),
        ("['a', 'A'] | unique(case_sensitive=true)", ["a", "A"]),
        ("[{'a': 1, 'b': 2}, {'a': 1}] | unique(attribute='a')", [{"a": 1, "b": 2}]),
        ("'ab' | upper", "AB"),
        ("4 is even and 3 is odd and 6 is divisibleby(3) and 6 is divisibleby 2", True),
        ("'a' is lower and 'A' is upper and 1 is in [1] and 2 is gt 1 and {} is mapping", True),
        ("nothing is defined", False),
        ("nothing is undefined", True),
    ],
)
def test_a_filter_or_test_returns(expression: str, result: Any) -> None:
    assert _result(expression) == result


@cases("expression", "error")
def test_a_value_of_the_wrong_type_is_refused(expression: str, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        _result(expression)


@cases("expression")
def test_a_large_value_takes_many_steps(expression: str) -> None:
    large = {"text": "a" * 100_000, "items": [0] * 350, "keys": dict.fromkeys(map(str, range(350)))}
    tick(MAX_STEPS - 345)
    with pytest.raises(BudgetSpentError, match="steps"):
        _result(expression, **large)


def test_no_filter_returns_a_generator() -> None:
    for expression in ("[1] | map('string')", "[1] | select", "[1] | reverse", "[1] | unique", "{} | items"):
        assert isinstance(_result(expression), list)
