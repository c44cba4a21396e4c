from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from injector.istio.behaviours import ROWS, Behaviours, behaviours_of

if TYPE_CHECKING:
    from injector.istio.minor import Minor

MINORS = [(1, number) for number in range(31)]


@pytest.mark.parametrize("minor", MINORS)
def test_every_minor_has_exactly_one_row_for_each_behaviour(minor: Minor) -> None:
    rows = Counter(row.name for row in ROWS if row.first <= minor <= row.last)
    assert rows == {field.name: 1 for field in fields(Behaviours)}


@pytest.mark.parametrize(
    ("minor", "value", "wanted"),
    [
        ((1, 26), "Yes", True),
        ((1, 26), "on", True),
        ((1, 26), "random", False),
        ((1, 26), "", None),
        ((1, 27), "true", True),
        ((1, 27), "false", False),
        ((1, 27), "True", None),
        ((1, 27), "yes", None),
    ],
)
def test_only_true_and_false_ask_since_1_27(minor: Minor, value: str, wanted: bool | None) -> None:
    assert behaviours_of(minor).wants_injection(value) is wanted


def test_template_data_grows_with_the_minors() -> None:
    assert "Values" not in behaviours_of((1, 1)).template_fields
    assert "Revision" not in behaviours_of((1, 8)).template_fields
    assert "EstimatedConcurrency" in behaviours_of((1, 17)).template_fields
    assert "EstimatedConcurrency" not in behaviours_of((1, 18)).template_fields
    assert "NativeSidecars" not in behaviours_of((1, 26)).template_fields
    assert "NativeSidecars" in behaviours_of((1, 30)).template_fields
