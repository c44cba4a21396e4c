"""What golang/protobuf's jsonpb (v1.5.4, jsonpb/decode.go and encode.go) reads and writes."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ConfigError
from injector.istio.proto import MESH_CONFIG, PROXY_CONFIG, message_type, read_fields, write_fields

PROXY = message_type(PROXY_CONFIG)
MESH = message_type(MESH_CONFIG)
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"statusPort": 15020}, {"statusPort": 15020}),
        ({"status_port": 15020}, {"statusPort": 15020}),
        ({"statusPort": "15020"}, {"statusPort": 15020}),
        ({"statusPort": "-1"}, {"statusPort": -1}),
        ({"statusPort": " 7 "}, {"statusPort": 7}),
        ({"statusPort": "null"}, {"statusPort": 0}),
        ({"statusPort": "-0"}, {"statusPort": 0}),
        ({"statusPort": 1, "status_port": 2}, {"statusPort": 1}),
        ({"status_port": 2, "statusPort": None}, {}),
        ({"statusPort": 15020.0}, {"statusPort": 15020}),
        ({"concurrency": 2}, {"concurrency": 2}),
        ({"concurrency": "2"}, {"concurrency": 2}),
        ({"holdApplicationUntilProxyStarts": False}, {"holdApplicationUntilProxyStarts": False}),
        ({"interceptionMode": "TPROXY"}, {"interceptionMode": 1}),
        ({"interceptionMode": 2}, {"interceptionMode": 2}),
        ({"interceptionMode": 77}, {"interceptionMode": 77}),
        ({"drainDuration": "1m30s"}, {"drainDuration": 90 * SECOND}),
        ({"drainDuration": "-0.5s"}, {"drainDuration": -SECOND // 2}),
        ({"proxyMetadata": {"A": "1"}}, {"proxyMetadata": {"A": "1"}}),
        ({"extraStatTags": ["a", "b"]}, {"extraStatTags": ["a", "b"]}),
        ({"extraStatTags": ["a", None]}, {"extraStatTags": ["a", ""]}),
        ({"proxyMetadata": {"A": None}}, {"proxyMetadata": {"A": ""}}),
        ({"tracing": {"customTags": {"t": None}}}, {"tracing": {"customTags": {"t": {}}}}),
        ({"tracing": {"sampling": 10}}, {"tracing": {"sampling": 10.0}}),
        ({"tracing": {"sampling": "10"}}, {"tracing": {"sampling": 10.0}}),
        ({"tracing": {"sampling": " -1.5e1 "}}, {"tracing": {"sampling": -15.0}}),
        ({"tracing": {"sampling": "null"}}, {"tracing": {"sampling": 0.0}}),
        ({"tracing": {"sampling": "Infinity"}}, {"tracing": {"sampling": float("inf")}}),
        ({"image": {"imageType": "debug"}}, {"image": {"imageType": "debug"}}),
        ({"image": {}}, {"image": {}}),
    ],
)
def test_a_field_is_read_into_its_plain_form(data: dict[str, Any], expected: dict[str, Any]) -> None:
    assert read_fields(PROXY, data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, {}),
        ({"unknown": 1}, {}),
        ({"statusPort": None}, {}),
        ({"image": None}, {}),
        ({"tracing": {"no": 1}}, {"tracing": {}}),
    ],
)
def test_unknown_fields_and_null_set_nothing(data: dict[str, Any], expected: dict[str, Any]) -> None:
    assert read_fields(PROXY, data) == expected


def test_null_leaves_the_rest_of_the_message_alone() -> None:
    assert read_fields(PROXY, {"statusPort": None, "proxyAdminPort": 1}) == {"proxyAdminPort": 1}


@pytest.mark.parametrize("members", [("zipkin", "lightstep"), ("lightstep", "zipkin")])
def test_of_a_oneof_the_last_declared_member_counts(members: tuple[str, str]) -> None:
    data = {"tracing": {**{name: {"address": f"{name}:1"} for name in members}, "sampling": 1}}
    assert read_fields(PROXY, data) == {"tracing": {"lightstep": {"address": "lightstep:1"}, "sampling": 1.0}}


def test_a_null_member_of_a_oneof_is_not_set() -> None:
    assert read_fields(PROXY, {"serviceCluster": "c", "tracingServiceName": None}) == {"serviceCluster": "c"}


def test_a_null_message_in_a_list_is_an_empty_one() -> None:
    assert read_fields(MESH, {"extensionProviders": [None]}) == {"extensionProviders": [{}]}


def test_data_of_google_protobuf_struct_is_kept_as_it_is() -> None:
    labels = {"a": 1, "b": [None, {"c": True}]}
    provider = {"name": "n", "envoyFileAccessLog": {"logFormat": {"labels": labels}}}
    assert read_fields(MESH, {"extensionProviders": [provider]}) == {"extensionProviders": [provider]}


@pytest.mark.parametrize(
    ("data", "what", "hint"),
    [
        (["a"], "`` is a list", "make it a ProxyConfig"),
        ({"image": "x"}, "`image` is 'x'", "make it a ProxyImage"),
        ({"image": {"imageType": 1}}, "`image.imageType` is 1", "make it a string"),
        ({"image": {"image_type": {}}}, "`image.image_type` is a mapping", "make it a string"),
        ({"statusPort": 1.5}, "`statusPort` is 1.5", "make it a whole number (int32)"),
        ({"statusPort": True}, "`statusPort` is True", "make it a whole number (int32)"),
        ({"statusPort": "x"}, "`statusPort` is 'x'", "make it a whole number (int32)"),
        ({"statusPort": "--5"}, "`statusPort` is '--5'", "make it a whole number (int32)"),
        ({"statusPort": "01"}, "`statusPort` is '01'", "make it a whole number (int32)"),
        ({"statusPort": "1.0"}, "`statusPort` is '1.0'", "make it a whole number (int32)"),
        ({"statusPort": "9" * 5000}, f"`statusPort` is '{'9' * 99}...", "make it a whole number (int32)"),
        ({"fileFlushMinSizeKb": "-0"}, "`fileFlushMinSizeKb` is '-0'", "make it a whole number (uint32)"),
        ({"tracing": {"sampling": "1_0"}}, "`tracing.sampling` is '1_0'", "make it a number"),
        ({"tracing": {"sampling": "1e400"}}, "`tracing.sampling` is '1e400'", "make it a number"),
        ({"tracing": {"sampling": "nan"}}, "`tracing.sampling` is 'nan'", "make it a number"),
        ({"tracing": {"sampling": ""}}, "`tracing.sampling` is ''", "make it a number"),
        ({"interceptionMode": 2**31}, "`interceptionMode` is 2147483648", "make it one of NONE, REDIRECT, TPROXY"),
        ({"statusPort": "0x10"}, "`statusPort` is '0x10'", "make it a whole number (int32)"),
        ({"statusPort": "٣"}, "`statusPort` is '٣'", "make it a whole number (int32)"),
        ({"concurrency": "a"}, "`concurrency` is 'a'", "make it a whole number (int32)"),
        ({"fileFlushMinSizeKb": -1}, "`fileFlushMinSizeKb` is -1", "make it a whole number (uint32)"),
        ({"statsCompression": "true"}, "`statsCompression` is 'true'", "make it true or false"),
        ({"interceptionMode": "x"}, "`interceptionMode` is 'x'", "make it one of NONE, REDIRECT, TPROXY"),
        ({"interceptionMode": True}, "`interceptionMode` is True", "make it one of NONE, REDIRECT, TPROXY"),
        ({"tracing": {"sampling": True}}, "`tracing.sampling` is True", "make it a number"),
        ({"drainDuration": 45}, "`drainDuration` is 45", "make it a duration such as 45s"),
        ({"proxyMetadata": ["a"]}, "`proxyMetadata` is a list", "make it a mapping"),
        ({"proxyMetadata": {"A": 1}}, "`proxyMetadata.A` is 1", "make it a string"),
        ({"extraStatTags": "a"}, "`extraStatTags` is 'a'", "make it a list"),
        ({"extraStatTags": ["a", 1]}, "`extraStatTags[1]` is 1", "make it a string"),
    ],
)
def test_a_wrong_type_is_named_with_its_path(data: Any, what: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_fields(PROXY, data, where="mesh")
    assert (caught.value.what, caught.value.where, caught.value.hint) == (what, "mesh", hint)


@pytest.mark.parametrize("port", [-(2**31), 2**31 - 1])
def test_an_int32_reaches_as_far_as_gos(port: int) -> None:
    assert read_fields(PROXY, {"statusPort": port}) == {"statusPort": port}


@pytest.mark.parametrize("port", [-(2**31) - 1, 2**31, str(2**31)])
def test_an_int32_reaches_no_farther(port: int | str) -> None:
    with pytest.raises(ConfigError, match="make it a whole number"):
        read_fields(PROXY, {"statusPort": port})


@pytest.mark.parametrize("text", ["", "s", "abc"])
def test_a_bad_duration_is_refused_with_gos_words(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_fields(PROXY, {"drainDuration": text})
    assert caught.value.what == f'`drainDuration`: bad Duration: time: invalid duration "{text}"'


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"statusPort": 0, "configPath": "", "proxyMetadata": {}, "extraStatTags": []}, {}),
        ({"interceptionMode": 0}, {}),
        ({"concurrency": 0}, {"concurrency": 0}),
        ({"holdApplicationUntilProxyStarts": False}, {"holdApplicationUntilProxyStarts": False}),
        ({"image": {}}, {"image": {}}),
        ({"image": None}, {}),
        ({"serviceCluster": ""}, {"serviceCluster": ""}),
        ({"interceptionMode": 1}, {"interceptionMode": "TPROXY"}),
        ({"interceptionMode": 77}, {"interceptionMode": 77}),
        ({"drainDuration": 45 * SECOND}, {"drainDuration": "45s"}),
        ({"drainDuration": 0}, {"drainDuration": "0s"}),
        ({"tracing": {"zipkin": {"address": ""}}}, {"tracing": {"zipkin": {}}}),
        ({"tracing": {"sampling": float("nan")}}, {"tracing": {"sampling": "NaN"}}),
        ({"tracing": {"sampling": float("-inf")}}, {"tracing": {"sampling": "-Infinity"}}),
        ({"extraStatTags": ["b", "a"]}, {"extraStatTags": ["b", "a"]}),
    ],
)
def test_a_message_is_written_without_zero_scalars_and_with_set_messages(
    values: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert write_fields(PROXY, values) == expected


def test_fields_are_written_in_declaration_order_and_maps_by_key() -> None:
    values = {"proxyMetadata": {"B": "2", "A": "1"}, "statusPort": 1, "configPath": "p"}
    written = write_fields(PROXY, values)
    assert list(written) == ["configPath", "proxyMetadata", "statusPort"]
    assert list(written["proxyMetadata"]) == ["A", "B"]


def test_an_int64_is_written_as_a_string() -> None:
    health = message_type("google.protobuf.Int64Value")
    assert write_fields(health, {"value": 5}) == {"value": "5"}


def test_what_is_read_is_written_again() -> None:
    data = {
        "configPath": "p",
        "serviceCluster": "c",
        "drainDuration": "1.500s",
        "concurrency": 0,
        "interceptionMode": "TPROXY",
        "tracing": {"zipkin": {"address": "z:1"}, "sampling": 2.5},
        "proxyMetadata": {"A": ""},
    }
    assert write_fields(PROXY, read_fields(PROXY, data)) == data


def test_a_negative_zero_is_a_value_that_was_set() -> None:
    assert str(write_fields(PROXY, {"tracing": {"sampling": -0.0}})) == "{'tracing': {'sampling': -0.0}}"
    assert write_fields(PROXY, {"tracing": {"sampling": 0.0}}) == {"tracing": {}}
