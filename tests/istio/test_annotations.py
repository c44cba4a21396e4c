"""Validation of annotations by minor."""

from __future__ import annotations

from pathlib import Path

import pytest

from injector.istio.annotations import (
    ANNOTATIONS,
    checked_annotations,
    known_annotations,
    list_too_long,
    parse_bool,
    validate_annotations,
)
from injector.istio.behaviours import Minor
from tests.cases import cases, read_cases

LONGEST_LIST = 131_071

CASES = read_cases(Path(__file__).with_suffix(".yaml"))
TRAFFIC = "traffic.sidecar.istio.io/"
READINESS = "readiness.status.sidecar.istio.io/"
MODE = "sidecar.istio.io/interceptionMode"
STATUS_PORT = "status.sidecar.istio.io/port"
MERGE_METRICS = "prometheus.istio.io/merge-metrics"


def names_of(test: str) -> list[str]:
    """The annotations that a test has cases of."""
    return [case["name"] if isinstance(case, dict) else case[0] for case in CASES[test]]


@cases("name", "value", "minor")
def test_a_valid_value_is_accepted(name: str, value: str, minor: Minor) -> None:
    assert validate_annotations({name: value}, minor) == ""


@cases(
    "name",
    "value",
    "minor",
    "why",
    also=[
        (
            STATUS_PORT,
            "9" * 5000,
            (1, 30),
            (
                f"excludeInboundPorts invalid: failed parsing port '{'9' * 5000}': "
                f'strconv.ParseUint: parsing "{"9" * 5000}": value out of range'
            ),
        ),
        (
            f"{READINESS}initialDelaySeconds",
            "9" * 5000,
            (1, 30),
            f'strconv.ParseUint: parsing "{"9" * 5000}": value out of range',
        ),
    ],
)
def test_a_bad_value_is_refused_with_istios_words(name: str, value: str, minor: Minor, why: str) -> None:
    expected = f"1 error occurred:\n\t* invalid value '{value}' for annotation '{name}': {why}\n\n"

    assert validate_annotations({name: value}, minor) == expected


def test_every_validated_annotation_has_a_valid_and_an_invalid_value_here() -> None:
    validated = {row.name for row in ANNOTATIONS if row.validate is not None}

    for test in ("a_valid_value_is_accepted", "a_bad_value_is_refused_with_istios_words"):
        assert set(names_of(test)) == validated


@cases("name", "value", "without", "having")
def test_a_minor_refuses_only_what_it_validates(name: str, value: str, without: Minor, having: Minor) -> None:
    assert validate_annotations({name: value}, without) == ""
    assert validate_annotations({name: value}, having) != ""


@cases("minor", "annotations", "said")
def test_before_1_2_a_refusal_begins_with_the_failed_injection(
    minor: Minor, annotations: dict[str, str], said: str
) -> None:
    assert validate_annotations(annotations, minor) == said


def test_every_fault_is_named() -> None:
    said = validate_annotations({MODE: "NOPE", MERGE_METRICS: "x", STATUS_PORT: "15020", "example.com/x": "y"}, (1, 30))

    assert said == (
        "2 errors occurred:\n"
        f"\t* invalid value 'x' for annotation '{MERGE_METRICS}': strconv.ParseBool: parsing \"x\": invalid syntax\n"
        f"\t* invalid value 'NOPE' for annotation '{MODE}': "
        "interceptionMode invalid, use REDIRECT,TPROXY,NONE: NOPE\n\n"
    )


def test_annotations_without_a_validator_can_have_any_value() -> None:
    anything = {row.name: "\x00?" for row in ANNOTATIONS if row.validate is None}

    assert validate_annotations({**anything, "example.com/x": "?"}, (1, 30)) == ""


@cases("text", "expected")
def test_go_has_six_spellings_of_each_boolean(text: str, expected: bool | None) -> None:
    assert parse_bool(text) is expected


@cases("name", "first", "last")
def test_the_table_of_a_minor_has_the_annotations_of_its_time(name: str, first: Minor, last: Minor) -> None:
    knowing = [(1, number) for number in range(9) if name in known_annotations((1, number))]

    assert (knowing[0], knowing[-1], len(knowing)) == (first, last, last[1] - first[1] + 1)


@pytest.mark.parametrize(("minor", "checked"), [((1, 26), (MODE,)), ((1, 27), (MODE, "sidecar.istio.io/proxyCPU"))])
def test_the_checked_annotations_are_those_that_the_minor_checks(minor: Minor, checked: tuple[str, ...]) -> None:
    annotations = {"sidecar.istio.io/proxyCPU": "x", MODE: "x", "sidecar.istio.io/inject": "x", "own": "x"}

    assert checked_annotations(annotations, minor) == checked


@pytest.mark.parametrize("name", [row.name for row in ANNOTATIONS if row.is_list and row.last >= (1, 30)])
def test_a_list_may_be_as_long_as_an_argument_of_a_process(name: str) -> None:
    assert list_too_long({name: "x" * LONGEST_LIST, "other": "x" * 200_000}, (1, 30)) is None
    assert list_too_long({name: "x" * LONGEST_LIST + "x"}, (1, 30)) == (name, 131072)
    assert list_too_long({name: "\u00e9" * (LONGEST_LIST // 2 + 1)}, (1, 30)) == (name, 131072)


def test_a_list_that_the_minor_does_not_read_may_be_longer() -> None:
    assert list_too_long({f"{TRAFFIC}excludeInterfaces": "x" * 200_000}, (1, 29)) is None
