"""matchConditions of webhooks; tests/e2e/test_conditions.py compares them with an API server."""

from __future__ import annotations

import sys

import pytest

from injector.kube.conditions import FAULT, MET, NOT_EVALUATED, UNMET, evaluate_conditions
from tests.factories import make_pod

POD = make_pod("a", namespace="shop", labels={"app": "web"})
TRUE, FALSE, FAILS, UNKNOWN = "true", "object.metadata.name == 'b'", "object.spec.hostNetwork == true", "x.y()"


@pytest.mark.parametrize(
    ("expressions", "verdict", "detail"),
    [
        ((), MET, ""),
        ((TRUE,), MET, "its matchConditions are met: c0"),
        ((TRUE, "object.metadata.labels.app == 'web'"), MET, "its matchConditions are met: c0, c1"),
        ((TRUE, FALSE), UNMET, "its matchCondition c1 is false"),
        ((FAILS, FALSE), UNMET, "its matchCondition c1 is false"),
        ((UNKNOWN, FALSE), UNMET, "its matchCondition c1 is false"),
        ((TRUE, FAILS), FAULT, 'its matchCondition c1 fails: NOT_FOUND: Key not found in map : "hostNetwork"'),
        ((FAILS, UNKNOWN), NOT_EVALUATED, "its matchCondition c1 is not evaluated: only the API server can"),
        (
            ("request.userInfo.username == 'x'",),
            NOT_EVALUATED,
            "its matchCondition c0 is not evaluated: it reads userInfo, which is not known here",
        ),
    ],
)
def test_one_condition_that_is_false_decides_before_one_that_fails(
    expressions: tuple[str, ...], verdict: str, detail: str
) -> None:
    conditions = tuple((f"c{number}", expression) for number, expression in enumerate(expressions))

    result = evaluate_conditions(conditions, POD)

    assert (result.verdict, result.detail) == (verdict, detail)


def test_a_name_that_is_generated_is_not_there_yet() -> None:
    pod = {**POD, "metadata": {"name": "a-1", "generateName": "a-", "namespace": "shop"}}

    assert evaluate_conditions((("c", "has(object.metadata.name)"),), pod).verdict == UNMET


def test_without_the_library_conditions_are_named_as_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)

    result = evaluate_conditions((("c", "object.metadata.name == 'unheard'"),), POD)

    assert (result.verdict, result.detail) == (
        NOT_EVALUATED,
        "its matchConditions are not evaluated: the package cel-expr-python is not installed",
    )
