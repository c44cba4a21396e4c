from __future__ import annotations

import math

import pytest

from injector.golang.strconv import format_float, format_g


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1"),
        (1e6, "1e+06"),
        (123456.0, "123456"),
        (1e-5, "1e-05"),
        (0.1, "0.1"),
        (-0.0, "-0"),
        (math.inf, "+Inf"),
        (1e300, "1e+300"),
    ],
)
def test_the_shortest_form_is_gos(value: float, expected: str) -> None:
    assert format_g(value) == expected


def test_a_float32_is_shortest_for_its_size() -> None:
    assert format_g(0.1, 32) == "0.1"
    assert format_g(16777216.0, 32) == "1.6777216e+07"


@pytest.mark.parametrize(
    ("verb", "precision", "sharp", "expected"),
    [
        ("f", None, False, "3.141590"),
        ("e", 2, False, "3.14e+00"),
        ("g", 3, False, "3.14"),
        ("g", None, True, "3.14159"),
        ("x", 2, False, "0x1.92p+01"),
    ],
)
def test_each_verb_formats_as_fmt_does(verb: str, precision: int | None, sharp: bool, expected: str) -> None:
    assert format_float(3.14159, verb, precision, 64, sharp=sharp)[: len(expected)] == expected
