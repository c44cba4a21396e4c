"""Messages of istio.io/api: read and written as golang/protobuf's jsonpb does (v1.5.4), and seen by templates as Go's structs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from injector.errors import ConfigError
from injector.golang.time import go_duration
from injector.istio.behaviours import Minor
from injector.istio.proto import (
    MESH_CONFIG,
    PROXY_CONFIG,
    Message,
    WellKnown,
    enum_type,
    mesh_config_type,
    message_type,
    parse_message,
    proxy_config_type,
)
from tests.cases import cases

MODE = "istio.mesh.v1alpha1.ProxyConfig.InboundInterceptionMode"
SECOND = 1_000_000_000


def _proxy(**data: Any) -> Message:
    return parse_message(PROXY_CONFIG, data)


def _read(data: Any, type_name: str = PROXY_CONFIG) -> Any:
    return parse_message(type_name, data, where="mesh").values


def _write(values: dict[str, Any], type_name: str = PROXY_CONFIG) -> dict[str, Any]:
    return Message(message_type(type_name), values).json_value()


def _duration(nanoseconds: int) -> Any:
    return Message(message_type(PROXY_CONFIG), {"drainDuration": nanoseconds}).field("DrainDuration").target


def _call(owner: Any, name: str) -> Any:
    method = owner.method(name)
    assert method is not None, name
    return method.call()


@cases("data", "expected")
def test_a_field_is_read_into_its_plain_form(data: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _read(data) == expected


@cases("type_name", "data", "expected")
def test_messages_in_lists_and_of_a_oneof_are_read(
    type_name: str, data: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert _read(data, type_name) == expected


@cases(
    "data",
    "what",
    "hint",
    also=[({"statusPort": "9" * 5000}, f"`statusPort` is '{'9' * 99}...", "make it a whole number (int32)")],
)
def test_a_wrong_type_is_named_with_its_path(data: Any, what: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _read(data)
    assert (caught.value.what, caught.value.where, caught.value.hint) == (what, "mesh", hint)


# What jsonpb does: labels are a google.protobuf.Struct.
@pytest.mark.parametrize("labels", [[{"a": "b"}], "a", 1])
def test_a_struct_is_an_object(labels: Any) -> None:
    with pytest.raises(ConfigError, match="make it a mapping") as caught:
        _read(_with_labels(labels), MESH_CONFIG)
    assert "`extensionProviders[0].envoyOtelAls.logFormat.labels` is" in caught.value.what


def test_a_struct_is_written_with_sorted_keys() -> None:
    data = _with_labels({"b": -(10**20), "a": {"d": None, "c": [True]}})
    text = parse_message(MESH_CONFIG, data).go_string()
    assert '"labels":{"a":{"c":[true],"d":null},"b":-100000000000000000000}' in text


def _with_labels(labels: Any) -> dict[str, Any]:
    return {"extensionProviders": [{"name": "a", "envoyOtelAls": {"logFormat": {"labels": labels}}}]}


@pytest.mark.parametrize("text", ["", "s", "abc"])
def test_a_bad_duration_is_refused_with_gos_words(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _read({"drainDuration": text})
    assert caught.value.what == f'`drainDuration`: bad Duration: time: invalid duration "{text}"'


@cases("values", "expected", also=[({"tracing": {"sampling": float("nan")}}, {"tracing": {"sampling": "NaN"}})])
def test_a_message_is_written_without_zero_scalars_and_with_set_messages(
    values: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert _write(values) == expected


def test_fields_are_written_in_declaration_order_and_maps_by_key() -> None:
    values = {"proxyMetadata": {"B": "2", "A": "1"}, "statusPort": 1, "configPath": "p"}
    written = _write(values)
    assert list(written) == ["configPath", "proxyMetadata", "statusPort"]
    assert list(written["proxyMetadata"]) == ["A", "B"]


def test_an_int64_is_written_as_a_string() -> None:
    assert _write({"value": 5}, "google.protobuf.Int64Value") == {"value": "5"}


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
    assert _write(_read(data)) == data


def test_a_negative_zero_is_a_value_that_was_set() -> None:
    assert str(_write({"tracing": {"sampling": -0.0}})) == "{'tracing': {'sampling': -0.0}}"
    assert _write({"tracing": {"sampling": 0.0}}) == {"tracing": {}}


@cases("name", "expected", "go_type")
def test_an_absent_field_has_gos_typed_zero_value(name: str, expected: Any, go_type: str) -> None:
    value = _proxy().field(name)
    assert value == expected
    assert value.go_type == go_type


def test_an_absent_map_and_slice_are_nil_and_an_empty_one_is_not() -> None:
    for proxy, nil in ((_proxy(), True), (_proxy(proxyMetadata={}, extraStatTags=[]), False)):
        assert (proxy.field("ProxyMetadata").nil, proxy.field("ExtraStatTags").nil) == (nil, nil)


@cases("name", "go_type")
def test_an_absent_message_is_a_nil_pointer_of_its_type(name: str, go_type: str) -> None:
    pointer = _proxy().field(name)
    assert (pointer.go_type, pointer.target, bool(pointer)) == (go_type, None, False)
    assert pointer.json_value() is None


def test_getters_of_a_nil_pointer_give_zero_values() -> None:
    proxy = _proxy()
    tracing = proxy.field("Tracing")
    assert _call(tracing, "GetSampling") == 0.0
    assert _call(_call(tracing, "GetZipkin"), "GetAddress") == ""
    assert _call(proxy.field("DrainDuration"), "GetSeconds") == 0
    assert _call(proxy.field("Concurrency"), "GetValue") == 0
    assert tracing.method("GetNothing") is None


def test_set_messages_are_pointers_to_their_values() -> None:
    proxy = _proxy(drainDuration="1.5s", concurrency=3, image={"imageType": "debug"})
    assert proxy.field("DrainDuration").target.plain == 3 * SECOND // 2
    assert proxy.field("Concurrency").target.field("Value") == 3
    assert proxy.field("Image").target.field("ImageType") == "debug"
    assert proxy.field("Image").json_value() == {"imageType": "debug"}


def test_a_pointer_to_a_message_of_a_mesh_answers_like_the_message() -> None:
    mesh = parse_message(MESH_CONFIG, {"trustDomain": "td", "defaultConfig": {"statusPort": 5}})
    pointer = message_type(MESH_CONFIG).go(mesh.values)
    assert _call(pointer, "GetTrustDomain") == "td"
    assert _call(_call(pointer, "GetDefaultConfig"), "GetStatusPort") == 5


def test_a_oneof_is_read_by_the_getter_of_its_member_or_wrapped_by_its_name() -> None:
    proxy = _proxy(serviceCluster="c")
    wrapped = proxy.field("ClusterName")
    assert _call(proxy, "GetServiceCluster") == "c"
    with pytest.raises(KeyError):
        proxy.field("ServiceCluster")
    assert (wrapped.go_type, wrapped.target.go_type) == (
        "*v1alpha1.ProxyConfig_ServiceCluster",
        "v1alpha1.ProxyConfig_ServiceCluster",
    )
    assert list(wrapped.target.fields()) == [("ServiceCluster", "c")]
    assert wrapped.target.field("ServiceCluster") == "c"
    assert _call(proxy, "GetClusterName").target.field("ServiceCluster") == "c"


def test_a_oneof_with_no_member_set_is_nil() -> None:
    assert _proxy().field("ClusterName") is None


@pytest.mark.parametrize("name", ["statusPort", "status_port", "Nothing", "String", "Get", "GetNothing", "Reset"])
def test_there_are_no_fields_and_methods_but_gos(name: str) -> None:
    with pytest.raises(KeyError):
        _proxy(statusPort=1).field(name)
    assert _proxy().method(name) is None
    assert _proxy().method("StatusPort") is None


def test_lists_and_maps_of_messages_hold_pointers() -> None:
    mesh = parse_message(MESH_CONFIG, {"extensionProviders": [{"name": "a"}]})
    providers = mesh.field("ExtensionProviders")
    assert providers.go_type == "[]*v1alpha1.MeshConfig_ExtensionProvider"
    assert [item.target.field("Name") for item in providers] == ["a"]
    tags = (
        _proxy(tracing={"customTags": {"t": {"literal": {"value": "v"}}}}).field("Tracing").target.field("CustomTags")
    )
    assert tags.go_type == "map[string]*v1alpha1.Tracing_CustomTag"
    assert _call(tags["t"].target, "GetLiteral").target.field("Value") == "v"


def test_fields_come_in_declaration_order() -> None:
    names = [name for name, _ in _proxy().fields()]
    assert names[:3] == ["ConfigPath", "BinaryPath", "ServiceCluster"]
    assert _proxy().go_type == "v1alpha1.ProxyConfig"


def test_a_document_replaces_what_was_there_message_by_message() -> None:
    base = {"statusPort": 1, "configPath": "p", "tracing": {"sampling": 1.0, "zipkin": {"address": "z"}}}
    merged = parse_message(PROXY_CONFIG, {"statusPort": 2, "tracing": {"maxPathTagLength": 3}}, base=base)
    assert merged.values == {"statusPort": 2, "configPath": "p", "tracing": {"maxPathTagLength": 3}}
    assert base["statusPort"] == 1


@cases("data", "expected")
def test_a_member_of_a_oneof_takes_the_place_of_the_bases(data: dict[str, Any], expected: dict[str, Any]) -> None:
    assert parse_message(PROXY_CONFIG, data, base={"serviceCluster": "c", "statusPort": 1}).values == expected


def test_json_is_compact_ordered_and_escaped_as_gos() -> None:
    message = _proxy(statusPort=1, configPath="<a&b>", drainDuration="45s")
    expected = '{"configPath":"\\u003ca\\u0026b\\u003e","drainDuration":"45s","statusPort":1}'
    assert message.go_string() == expected
    assert list(message.json_value()) == ["configPath", "drainDuration", "statusPort"]


@cases("json", "proto", "go", "kind", "type_name")
def test_a_field_goes_by_its_json_and_its_protobuf_name(
    json: str, proto: str, go: str, kind: str, type_name: str
) -> None:
    proxy = message_type(PROXY_CONFIG)
    field = proxy.by_json[json]
    assert (field.json, field.proto, field.go, field.kind, field.type) == (json, proto, go, kind, type_name)
    assert proxy.by_json[proto] is field
    assert proxy.by_go[go] is field


def test_a_name_that_is_no_camel_case_of_the_other_is_known_too() -> None:
    mesh = message_type(MESH_CONFIG)
    assert mesh.by_json["mesh_mTLS"] is mesh.by_json["meshMTLS"]
    assert mesh.by_go["MeshMTLS"].json == "meshMTLS"


def test_maps_and_lists_and_oneofs_are_told_apart() -> None:
    fields = message_type(PROXY_CONFIG).by_json
    assert (fields["proxyMetadata"].map_key, fields["proxyMetadata"].repeated) == ("string", False)
    assert (fields["extraStatTags"].map_key, fields["extraStatTags"].repeated) == ("", True)
    assert message_type(PROXY_CONFIG).oneofs == {"ClusterName"}
    assert {name for name, field in fields.items() if field.oneof} == {
        "serviceCluster",
        "service_cluster",
        "tracingServiceName",
        "tracing_service_name",
    }


@cases("name", "go_type")
def test_a_nested_message_has_the_go_name_of_its_parents(name: str, go_type: str) -> None:
    assert message_type(name).go_type == go_type


@cases("message", "json", "proto", "go", "kind", "before")
def test_fields_that_later_minors_dropped_are_known(
    message: str, json: str, proto: str, go: str, kind: str, before: str
) -> None:
    result = message_type(message)
    field = result.by_json[json]
    assert (field.proto, field.go, field.kind) == (proto, go, kind)
    assert (result.by_json[proto], result.by_go[go]) == (field, field)
    names = [item.json for item in result.fields]
    assert names[names.index(json) - 1].startswith(before)


def test_no_message_names_a_field_twice() -> None:
    for name in (MESH_CONFIG, PROXY_CONFIG):
        names = [field.json for field in message_type(name).fields]
        assert len(names) == len(set(names))


def _reached() -> set[str]:
    """Return the messages that a mesh config reaches."""
    reached: set[str] = set()
    todo = [MESH_CONFIG]
    while todo:
        name = todo.pop()
        reached.add(name)
        todo += [field.type for field in message_type(name).fields if field.kind == "message"]
        todo = [name for name in todo if name not in reached]
    return reached


def test_every_type_that_a_mesh_config_reaches_is_in_the_schema() -> None:
    reached = _reached()
    assert PROXY_CONFIG in reached
    fields = [field for name in reached for field in message_type(name).fields]
    assert all(enum_type(field.type).numbers for field in fields if field.kind == "enum")


def _camel_case(name: str) -> str:
    """Return the Go name of a field, as protoc-gen-go makes it (GoCamelCase in internal/strs)."""
    return re.sub("(?:_(?=[a-z]))?([A-Za-z])([a-z]*)", lambda match: match[1].upper() + match[2], name)


def test_each_field_has_the_go_name_that_the_generator_makes_of_its_own() -> None:
    fields = [field for name in _reached() for field in message_type(name).fields]
    assert {field.proto: field.go for field in fields if field.go != _camel_case(field.proto)} == {}
    assert {"Consecutive_5XxErrors", "SdsUseK8SSaJwt"} <= {field.go for field in fields}


def test_an_unknown_type_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        message_type("istio.mesh.v1alpha1.Nothing")
    with pytest.raises(KeyError):
        enum_type("istio.mesh.v1alpha1.Nothing")


@pytest.mark.parametrize(("minor", "kind"), [((1, 0), "int32"), ((1, 6), "int32"), ((1, 7), "message")])
def test_concurrency_is_wrapped_since_1_7(minor: Minor, kind: str) -> None:
    assert message_type(proxy_config_type(minor)).by_json["concurrency"].kind == kind
    assert message_type(mesh_config_type(minor)).by_json["defaultConfig"].type == proxy_config_type(minor)


@pytest.mark.parametrize(("number", "name"), [(0, "REDIRECT"), (1, "TPROXY"), (2, "NONE"), (7, "7")])
def test_an_enumeration_is_its_number_and_prints_its_name_or_a_number_without_one(number: int, name: str) -> None:
    kind = enum_type(MODE)
    value = kind.go(number)
    assert (value, str(value), value.go_string(), _call(value, "String")) == (number, name, name, name)
    assert value.go_type == kind.go_type == "v1alpha1.ProxyConfig_InboundInterceptionMode"
    assert value.method("Number") is None
    assert (kind.numbers.get(name), kind.names.get(number)) == ((None, None) if name == "7" else (number, name))


@cases("nanoseconds", "seconds", "nanos")
def test_a_duration_has_seconds_and_nanos_of_one_sign(nanoseconds: int, seconds: int, nanos: int) -> None:
    value = _duration(nanoseconds)
    assert list(value.fields()) == [("Seconds", seconds), ("Nanos", nanos)]
    assert [item.go_type for _, item in value.fields()] == ["int64", "int32"]
    assert (value.field("Seconds"), value.field("Nanos")) == (seconds, nanos)


def test_a_duration_has_the_generated_getters_and_no_other() -> None:
    value = _duration(SECOND + 5)
    assert (_call(value, "GetSeconds"), _call(value, "GetNanos")) == (1, 5)
    assert [value.method(name) for name in ("Seconds", "GetMinutes", "Get", "")] == [None] * 4


@cases("nanoseconds", "text", "json", "go")
def test_a_duration_prints_as_text_as_protobufs_json_and_as_gos_duration(
    nanoseconds: int, text: str, json: str, go: str
) -> None:
    value = _duration(nanoseconds)
    assert (value.go_string(), value.json, go_duration(value.plain)) == (text, json, go)
    assert value.go_type == "durationpb.Duration"


@pytest.mark.parametrize(
    ("scalar", "text"), [(True, "value:true"), (False, ""), (2, "value:2"), (0, ""), ("x", "value:x"), ("", "")]
)
def test_a_wrapper_holds_one_scalar_and_prints_none_that_is_zero(scalar: Any, text: str) -> None:
    value = WellKnown("wrapperspb.Value", {"Value": scalar}, scalar, scalar)
    assert _call(value, "GetValue") == scalar
    assert list(value.fields()) == [("Value", scalar)]
    assert (value.field("Value"), value.json, value.go_string()) == (scalar, scalar, text)
    assert value.json_value() == ({"value": scalar} if scalar else {})


def test_a_wrapper_has_no_other_field_or_getter() -> None:
    value = WellKnown("wrapperspb.BoolValue", {"Value": True}, plain=True, json=True)
    assert value.go_type == "wrapperspb.BoolValue"
    assert value.method("GetOther") is None
    with pytest.raises(KeyError):
        value.field("value")
