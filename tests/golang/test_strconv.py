"""JSON's floats are held against Go in test_gojson, YAML's in test_yamlwrite."""

from __future__ import annotations

import pytest

from injector.errors import DataError
from injector.golang.strconv import format_g, go_float, name_of_non_finite


@pytest.mark.parametrize(
    ("value", "json", "short"),
    [
        (0.0, "0", "0"),
        (-0.0, "-0", "-0"),
        (15.0, "15", "15"),
        (1e5, "100000", "100000"),
        (1e6, "1000000", "1e+06"),
        (1e20, "100000000000000000000", "1e+20"),
        (1e21, "1e+21", "1e+21"),
        (1.5e-7, "1.5e-7", "1.5e-07"),
        (1e-10, "1e-10", "1e-10"),
        (0.00001, "0.00001", "1e-05"),
        (-1234567.5, "-1234567.5", "-1.2345675e+06"),
        (5e-324, "5e-324", "5e-324"),
    ],
)
def test_a_float_is_printed_as_json_and_as_gos_shortest_form(value: float, json: str, short: str) -> None:
    assert (go_float(value), format_g(value)) == (json, short)


def test_a_single_has_fewer_digits() -> None:
    assert format_g(0.10000000149011612, bits=32) == "0.1"
    assert format_g(3.4028234663852886e38, bits=32) == "3.4028235e+38"


def test_what_is_not_finite_has_no_json() -> None:
    with pytest.raises(DataError, match="json: unsupported value: -Inf"):
        go_float(float("-inf"))
    assert name_of_non_finite(float("nan")) == "NaN"
