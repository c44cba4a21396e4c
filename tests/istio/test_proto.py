from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ConfigError
from injector.istio.proto import MESH_CONFIG, PROXY_CONFIG, Message, MessagePointer, parse_message, to_json

SECOND = 1_000_000_000


def _proxy(**data: Any) -> Message:
    return parse_message(PROXY_CONFIG, data)


def _call(owner: Any, name: str) -> Any:
    method = owner.method(name)
    assert method is not None, name
    return method.call()


@pytest.mark.parametrize(
    ("name", "expected", "go_type"),
    [
        ("StatusPort", 0, "int32"),
        ("FileFlushMinSizeKb", 0, "uint32"),
        ("InterceptionMode", 0, "v1alpha1.ProxyConfig_InboundInterceptionMode"),
        ("ProxyMetadata", {}, "map[string]string"),
        ("ExtraStatTags", [], "[]string"),
    ],
)
def test_an_absent_field_has_gos_typed_zero_value(name: str, expected: Any, go_type: str) -> None:
    value = _proxy().field(name)
    assert value == expected
    assert value.go_type == go_type


def test_an_absent_map_and_slice_are_nil_and_an_empty_one_is_not() -> None:
    assert _proxy().field("ProxyMetadata").nil
    assert _proxy().field("ExtraStatTags").nil
    assert not _proxy(proxyMetadata={}).field("ProxyMetadata").nil
    assert not _proxy(extraStatTags=[]).field("ExtraStatTags").nil


@pytest.mark.parametrize(
    ("name", "go_type"),
    [
        ("Tracing", "*v1alpha1.Tracing"),
        ("DrainDuration", "*durationpb.Duration"),
        ("Concurrency", "*wrapperspb.Int32Value"),
    ],
)
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
    assert proxy.field("DrainDuration").target.nanoseconds == 3 * SECOND // 2
    assert proxy.field("Concurrency").target.field("Value") == 3
    assert proxy.field("Image").target.field("ImageType") == "debug"
    assert proxy.field("Image").json_value() == {"imageType": "debug"}


def test_a_pointer_to_a_message_of_a_mesh_answers_like_the_message() -> None:
    mesh = parse_message(MESH_CONFIG, {"trustDomain": "td", "defaultConfig": {"statusPort": 5}})
    pointer = MessagePointer(MESH_CONFIG, "*v1alpha1.MeshConfig", mesh)
    assert _call(pointer, "GetTrustDomain") == "td"
    assert _call(_call(pointer, "GetDefaultConfig"), "GetStatusPort") == 5


def test_a_oneof_is_read_by_its_member_or_wrapped_by_its_name() -> None:
    proxy = _proxy(serviceCluster="c")
    wrapped = proxy.field("ClusterName")
    assert proxy.field("ServiceCluster") == "c"
    assert (wrapped.go_type, wrapped.target.go_type) == (
        "*v1alpha1.ProxyConfig_ServiceCluster",
        "v1alpha1.ProxyConfig_ServiceCluster",
    )
    assert list(wrapped.target.fields()) == [("ServiceCluster", "c")]
    assert wrapped.target.field("ServiceCluster") == "c"
    assert _call(proxy, "GetClusterName").target.field("ServiceCluster") == "c"


def test_a_oneof_with_no_member_set_is_nil() -> None:
    assert _proxy().field("ClusterName") is None


@pytest.mark.parametrize("name", ["statusPort", "status_port", "Nothing", "String"])
def test_there_are_no_fields_but_gos(name: str) -> None:
    with pytest.raises(KeyError):
        _proxy(statusPort=1).field(name)


@pytest.mark.parametrize("name", ["StatusPort", "Get", "GetNothing", "Reset"])
def test_there_are_no_methods_but_getters(name: str) -> None:
    assert _proxy().method(name) is None


def test_lists_and_maps_of_messages_hold_pointers() -> None:
    mesh = parse_message(MESH_CONFIG, {"extensionProviders": [{"name": "a"}]})
    providers = mesh.field("ExtensionProviders")
    assert providers.go_type == "[]*v1alpha1.MeshConfig_ExtensionProvider"
    assert [item.target.field("Name") for item in providers] == ["a"]
    tags = (
        _proxy(tracing={"customTags": {"t": {"literal": {"value": "v"}}}}).field("Tracing").target.field("CustomTags")
    )
    assert tags.go_type == "map[string]*v1alpha1.Tracing_CustomTag"
    assert tags["t"].target.field("Literal").target.field("Value") == "v"


def test_fields_come_in_declaration_order() -> None:
    names = [name for name, _ in _proxy().fields()]
    assert names[:3] == ["ConfigPath", "BinaryPath", "ServiceCluster"]
    assert _proxy().go_type == "v1alpha1.ProxyConfig"


def test_a_document_replaces_what_was_there_message_by_message() -> None:
    base = {"statusPort": 1, "configPath": "p", "tracing": {"sampling": 1.0, "zipkin": {"address": "z"}}}
    merged = parse_message(PROXY_CONFIG, {"statusPort": 2, "tracing": {"maxPathTagLength": 3}}, base=base)
    assert merged.values == {"statusPort": 2, "configPath": "p", "tracing": {"maxPathTagLength": 3}}
    assert base["statusPort"] == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"tracingServiceName": "CANONICAL_NAME_ONLY"}, {"tracingServiceName": 1, "statusPort": 1}),
        ({"tracingServiceName": None}, {"serviceCluster": "c", "statusPort": 1}),
        ({"serviceCluster": "d"}, {"serviceCluster": "d", "statusPort": 1}),
    ],
)
def test_a_member_of_a_oneof_takes_the_place_of_the_bases(data: dict[str, Any], expected: dict[str, Any]) -> None:
    assert parse_message(PROXY_CONFIG, data, base={"serviceCluster": "c", "statusPort": 1}).values == expected


def test_null_leaves_the_base_alone() -> None:
    assert parse_message(PROXY_CONFIG, {"statusPort": None}, base={"statusPort": 1}).values == {"statusPort": 1}


def test_an_error_names_the_document_and_the_path() -> None:
    with pytest.raises(ConfigError, match=r"^mesh: `tracing\.sampling` is a list; make it a number$"):
        parse_message(PROXY_CONFIG, {"tracing": {"sampling": []}}, where="mesh")


def test_json_is_compact_ordered_and_escaped_as_gos() -> None:
    message = _proxy(statusPort=1, configPath="<a&b>", drainDuration="45s")
    expected = '{"configPath":"\\u003ca\\u0026b\\u003e","drainDuration":"45s","statusPort":1}'
    assert (to_json(message), message.go_string()) == (expected, expected)
    assert list(message.json_value()) == ["configPath", "drainDuration", "statusPort"]
