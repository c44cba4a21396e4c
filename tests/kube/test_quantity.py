"""Recorded from Go 1.26 with k8s.io/apimachinery v0.35.3 by recorder/quantity."""

from __future__ import annotations

from decimal import Decimal

import pytest

from injector.errors import DataError
from injector.kube.quantity import canonical_quantity, parse_quantity
from injector.kube.typed import normalise
from tests.kube.recorded import recorded, result_of

CASES = recorded("quantity", more_than=400)
LARGEST = Decimal(2**63 - 1)


def test_canonical_texts_and_errors_equal_gos() -> None:
    wanted = {case["text"]: case["canonical"] if "canonical" in case else f"error: {case['error']}" for case in CASES}

    assert {text: result_of(canonical_quantity, text) for text in wanted} == wanted


def test_amounts_equal_gos_within_an_int64() -> None:
    wanted = {case["text"]: max(-LARGEST, min(Decimal(case["amount"]), LARGEST)) for case in CASES if "amount" in case}

    assert {text: parse_quantity(text) for text in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "canonical", "amount"),
    [
        ("1e2147483647", "10e2147483646", LARGEST),
        ("-12345678901234567890e2147483646", "-12345678901234567890e2147483646", -LARGEST),
        ("0e2147483647", "0", Decimal(0)),
        ("1e-2147483648", "1e-9", Decimal("1e-9")),
    ],
)
def test_an_absurd_exponent_costs_nothing(text: str, canonical: str, amount: Decimal) -> None:
    assert canonical_quantity(text) == canonical
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["1" * 5000, "0." + "1" * 5000])
def test_a_number_of_thousands_of_digits_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="unable to parse numeric part of quantity"):
        parse_quantity(text)


def test_a_long_text_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(DataError, match="quantities must match"):
        parse_quantity("0" * 1_000_000 + "x")


def test_an_exponent_of_thousands_of_digits_is_refused_as_any_that_is_too_large() -> None:
    assert result_of(canonical_quantity, f"1e{'9' * 5000}") == result_of(canonical_quantity, "1e99999999999999999999")
    assert result_of(canonical_quantity, f"1e{'9' * 5000}").startswith("error: ")


def test_a_short_quantity_is_canonical_as_it_is() -> None:
    units = ("", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")
    texts = [f"{number}{unit}" for number in range(1, 1_000) for unit in units]

    assert [normalise(text, "resource.Quantity") for text in texts] == texts
    assert [canonical_quantity(text) for text in texts] == texts
