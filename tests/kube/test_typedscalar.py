"""Whole objects are held against Go in test_typed; here are the scalars one by one."""

from __future__ import annotations

from typing import Any

import pytest

from injector.kube import typedscalar
from injector.kube.typedscalar import TypeMismatchError


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1.10, "1.1"), (True, "true"), (1e6, "1e+06"), ("x", "x"), (2**64 - 1, "18446744073709551615")],
)
def test_a_manifests_number_becomes_the_text_that_sigs_yaml_makes_of_it(value: Any, text: str) -> None:
    assert typedscalar.coerced_string("string")(value) == text


def test_an_integer_has_the_range_of_its_type() -> None:
    decode = typedscalar.integer("int32")

    assert [decode(value) for value in (2**31 - 1, -(2**31), 5.0)] == [2**31 - 1, -(2**31), 5]
    for value, found in ((2**31, "number 2147483648"), (1.5, "number 1.5"), (True, "bool"), ("1", "string")):
        with pytest.raises(TypeMismatchError, match=f"json: cannot unmarshal {found} into Go value of type int32"):
            decode(value)


def test_a_port_is_a_number_or_a_name() -> None:
    assert [typedscalar.int_or_string(value) for value in (80, "http")] == [80, "http"]


def test_a_quantity_that_is_canonical_stays_the_same_object() -> None:
    text = str(b"100m", "ascii")

    assert typedscalar.quantity(text) is text
    assert typedscalar.quantity(0.5) == "500m"


def test_a_mismatch_is_named_by_the_structs_on_its_way() -> None:
    error = typedscalar.mismatch([], "openshiftv1.DeploymentConfigSpec")
    error.struct, error.fields = "DeploymentConfig", ["spec"]

    assert str(error) == (
        "json: cannot unmarshal array into Go struct field DeploymentConfig.spec of type v1.DeploymentConfigSpec"
    )
