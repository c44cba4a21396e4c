from __future__ import annotations

import pytest

from injector.gotemplate.errors import Failure, FieldFailure, MethodFailure, Spent, Unprintable


@pytest.mark.parametrize("failure", [Failure("no"), FieldFailure("no", 1), MethodFailure("no"), Unprintable("no")])
def test_a_failure_is_its_reason(failure: Failure) -> None:
    assert (failure.reason, str(failure)) == ("no", "no")


def test_a_field_failure_keeps_the_receiver_whose_type_it_names() -> None:
    receiver = {"a": 1}
    assert FieldFailure("no {type}", receiver).receiver is receiver


def test_a_spent_budget_says_what_was_too_much() -> None:
    assert Spent("more than 5 steps").what == "more than 5 steps"
    assert not issubclass(Spent, Failure)
