from __future__ import annotations

from typing import Any

import pytest

from injector.istio.proto import DurationValue, EnumValue, WrapperValue, format_duration

MODE = "istio.mesh.v1alpha1.ProxyConfig.InboundInterceptionMode"
SECOND = 1_000_000_000


@pytest.mark.parametrize(("number", "expected"), [(0, "REDIRECT"), (1, "TPROXY"), (2, "NONE"), (7, "7")])
def test_an_enumeration_prints_its_name_and_a_number_without_one(number: int, expected: str) -> None:
    value = EnumValue(MODE, number)
    string = value.method("String")
    assert string is not None
    assert (str(value), value.go_string(), string.call()) == (expected, expected, expected)


def test_an_enumeration_is_its_number_with_a_go_type() -> None:
    value = EnumValue(MODE, 1)
    assert value == 1
    assert value.go_type == "v1alpha1.ProxyConfig_InboundInterceptionMode"
    assert value.method("Number") is None


@pytest.mark.parametrize(
    ("nanoseconds", "seconds", "nanos"),
    [
        (0, 0, 0),
        (45 * SECOND, 45, 0),
        (1_500_000_000, 1, 500_000_000),
        (-1_500_000_000, -1, -500_000_000),
        (-7, 0, -7),
        (2**63 - 1, 9223372036, 854775807),
        (9007199254999999999, 9007199254, 999999999),
    ],
)
def test_a_duration_has_seconds_and_nanos_of_one_sign(nanoseconds: int, seconds: int, nanos: int) -> None:
    value = DurationValue(nanoseconds)
    assert list(value.fields()) == [("Seconds", seconds), ("Nanos", nanos)]
    assert [item.go_type for _, item in value.fields()] == ["int64", "int32"]
    assert (value.field("Seconds"), value.field("Nanos")) == (seconds, nanos)


@pytest.mark.parametrize(("getter", "expected"), [("GetSeconds", 1), ("GetNanos", 5)])
def test_a_duration_has_the_generated_getters(getter: str, expected: int) -> None:
    method = DurationValue(SECOND + 5).method(getter)
    assert method is not None
    assert method.call() == expected


@pytest.mark.parametrize("name", ["Seconds", "GetMinutes", "Get", ""])
def test_a_duration_has_no_other_getter(name: str) -> None:
    assert DurationValue(SECOND).method(name) is None


@pytest.mark.parametrize(
    ("nanoseconds", "text", "json", "go"),
    [
        (0, "", "0s", "0s"),
        (45 * SECOND, "seconds:45", "45s", "45s"),
        (90 * SECOND, "seconds:90", "90s", "1m30s"),
        (1_500_000_000, "seconds:1 nanos:500000000", "1.500s", "1.5s"),
        (1_000, "nanos:1000", "0.000001s", "1µs"),
        (-500_000_000, "nanos:-500000000", "-0.500s", "-500ms"),
        (3600 * SECOND, "seconds:3600", "3600s", "1h0m0s"),
        (10_000_000, "nanos:10000000", "0.010s", "10ms"),
        (1, "nanos:1", "0.000000001s", "1ns"),
        (SECOND + 1_000_001, "seconds:1 nanos:1000001", "1.001000001s", "1.001000001s"),
        (-1_500_000_000, "seconds:-1 nanos:-500000000", "-1.500s", "-1.5s"),
        (-SECOND, "seconds:-1", "-1s", "-1s"),
        (-1, "nanos:-1", "-0.000000001s", "-1ns"),
    ],
)
def test_a_duration_prints_as_text_as_protobufs_json_and_as_gos_duration(
    nanoseconds: int, text: str, json: str, go: str
) -> None:
    value = DurationValue(nanoseconds)
    assert (value.go_string(), value.json_value(), format_duration(value)) == (text, json, go)
    assert value.go_type == "durationpb.Duration"


@pytest.mark.parametrize(
    ("scalar", "text"), [(True, "value:true"), (False, ""), (2, "value:2"), (0, ""), ("x", "value:x"), ("", "")]
)
def test_a_wrapper_holds_one_scalar_and_prints_none_that_is_zero(scalar: Any, text: str) -> None:
    value = WrapperValue("wrapperspb.Value", scalar)
    getter = value.method("GetValue")
    assert getter is not None
    assert getter.call() == scalar
    assert list(value.fields()) == [("Value", scalar)]
    assert (value.field("Value"), value.json_value(), value.go_string()) == (scalar, scalar, text)


def test_a_wrapper_has_no_other_field_or_getter() -> None:
    value = WrapperValue("wrapperspb.BoolValue", value=True)
    assert value.go_type == "wrapperspb.BoolValue"
    assert value.method("GetOther") is None
    with pytest.raises(KeyError):
        value.field("value")
