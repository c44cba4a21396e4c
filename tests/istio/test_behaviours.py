"""The differences between minors, by name."""

from __future__ import annotations

from dataclasses import Field, fields
from itertools import pairwise
from typing import Any

import pytest

from injector.errors import ConfigError
from injector.istio.behaviours import (
    NEWEST,
    OLDEST,
    Behaviours,
    Minor,
    behaviours_of,
    format_minor,
    missing_fields,
    parse_minor,
)
from injector.kube.typed import struct_type
from tests.cases import cases

DROPPED = {("v1.PodSpec", "workloadRef"), ("v1.PodResourceClaim", "source"), ("v1.EphemeralVolumeSource", "readOnly")}
MINORS = [(1, number) for number in range(33)]


@pytest.mark.parametrize("behaviour", fields(Behaviours), ids=lambda behaviour: behaviour.name)
def test_every_minor_has_a_value_of_each_behaviour_and_they_are_in_order(behaviour: Field[Any]) -> None:
    firsts = list(behaviour.metadata)
    assert firsts[0] == OLDEST
    assert firsts == sorted(firsts)
    assert set(firsts) <= set(MINORS)


@cases("minor", "value", "wanted")
def test_only_true_and_false_count_since_1_27(minor: Minor, value: str, wanted: bool | None) -> None:
    assert behaviours_of(minor).wants_injection(value) is wanted


@pytest.mark.parametrize("text", ["1.24", "v1.24", "1.24.6", "1.24-alpha.0", "1.24.0+build", " 1.24 "])
def test_every_spelling_of_a_version_gives_its_minor(text: str) -> None:
    assert parse_minor(text) == (1, 24)


@cases("text", "what")
def test_an_unknown_version_is_refused_with_the_supported_range(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as error:
        parse_minor(text, where="revision.yaml: istioVersion")
    assert error.value.where == "revision.yaml: istioVersion"
    assert error.value.hint


def test_a_minor_is_formatted_with_a_dot() -> None:
    assert format_minor((1, 9)) == "1.9"


@cases("struct", "field", "first")
def test_a_field_is_missing_up_to_the_minor_whose_kubernetes_has_it(struct: str, field: str, first: Minor) -> None:
    assert (struct, field) in missing_fields((1, first[1] - 1))
    assert (struct, field) not in missing_fields(first)


def test_older_minors_miss_the_fields_that_newer_ones_miss() -> None:
    assert missing_fields(NEWEST) == DROPPED
    assert all(missing_fields(newer) - DROPPED <= missing_fields(older) for older, newer in pairwise(MINORS))


@pytest.mark.parametrize(("minor", "has"), [((1, 28), False), ((1, 29), True), ((1, 30), True), ((1, 31), False)])
def test_a_field_that_kubernetes_dropped_is_missing_before_and_after(minor: Minor, has: bool) -> None:
    assert (("v1.PodSpec", "workloadRef") not in missing_fields(minor)) is has


def test_every_missing_field_is_in_the_kubernetes_schema() -> None:
    assert [name for name in missing_fields(OLDEST) if struct_type(name[0]).json_field(name[1]) is None] == []
