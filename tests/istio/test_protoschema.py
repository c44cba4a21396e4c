from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.istio.proto import (
    MESH_CONFIG,
    PROXY_CONFIG,
    enum_type,
    mesh_config_type,
    message_type,
    proxy_config_type,
)

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor


@pytest.mark.parametrize(
    ("json", "proto", "go", "kind", "type_name"),
    [
        ("configPath", "config_path", "ConfigPath", "string", ""),
        ("statusPort", "status_port", "StatusPort", "int32", ""),
        ("drainDuration", "drain_duration", "DrainDuration", "message", "google.protobuf.Duration"),
        ("concurrency", "concurrency", "Concurrency", "message", "google.protobuf.Int32Value"),
        (
            "interceptionMode",
            "interception_mode",
            "InterceptionMode",
            "enum",
            "istio.mesh.v1alpha1.ProxyConfig.InboundInterceptionMode",
        ),
    ],
)
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


@pytest.mark.parametrize(
    ("name", "go_type"),
    [
        (MESH_CONFIG, "v1alpha1.MeshConfig"),
        (PROXY_CONFIG, "v1alpha1.ProxyConfig"),
        ("istio.mesh.v1alpha1.MeshConfig.ExtensionProvider", "v1alpha1.MeshConfig_ExtensionProvider"),
        ("istio.networking.v1beta1.ProxyImage", "v1beta1.ProxyImage"),
        ("google.protobuf.Duration", "durationpb.Duration"),
        ("google.protobuf.BoolValue", "wrapperspb.BoolValue"),
    ],
)
def test_a_nested_message_has_the_go_name_of_its_parents(name: str, go_type: str) -> None:
    assert message_type(name).go_type == go_type


@pytest.mark.parametrize(
    ("message", "json", "proto", "go", "kind", "before"),
    [
        (
            PROXY_CONFIG,
            "parentShutdownDuration",
            "parent_shutdown_duration",
            "ParentShutdownDuration",
            "message",
            "drain",
        ),
        (PROXY_CONFIG, "connectTimeout", "connect_timeout", "ConnectTimeout", "message", "zipkin"),
        (MESH_CONFIG, "disablePolicyChecks", "disable_policy_checks", "DisablePolicyChecks", "bool", "mixerReport"),
        (MESH_CONFIG, "sdsUdsPath", "sds_uds_path", "SdsUdsPath", "string", "enableTracing"),
        (MESH_CONFIG, "enableSdsTokenMount", "enable_sds_token_mount", "EnableSdsTokenMount", "bool", ""),
    ],
)
def test_fields_that_later_minors_dropped_are_known(
    message: str, json: str, proto: str, go: str, kind: str, before: str
) -> None:
    found = message_type(message)
    field = found.by_json[json]
    assert (field.proto, field.go, field.kind) == (proto, go, kind)
    assert (found.by_json[proto], found.by_go[go]) == (field, field)
    names = [item.json for item in found.fields]
    assert names[names.index(json) - 1].startswith(before)


def test_no_message_names_a_field_twice() -> None:
    for name in (MESH_CONFIG, PROXY_CONFIG):
        names = [field.json for field in message_type(name).fields]
        assert len(names) == len(set(names))


def test_every_type_that_a_mesh_config_reaches_is_in_the_schema() -> None:
    seen: set[str] = set()
    todo = [MESH_CONFIG]
    while todo:
        name = todo.pop()
        seen.add(name)
        for field in message_type(name).fields:
            if field.kind == "enum":
                assert enum_type(field.type).numbers
            elif field.kind == "message" and field.type not in seen:
                todo.append(field.type)
    assert PROXY_CONFIG in seen


@pytest.mark.parametrize(("name", "number"), [("REDIRECT", 0), ("TPROXY", 1), ("NONE", 2)])
def test_an_enumeration_maps_both_ways(name: str, number: int) -> None:
    kind = enum_type("istio.mesh.v1alpha1.ProxyConfig.InboundInterceptionMode")
    assert (kind.numbers[name], kind.names[number]) == (number, name)
    assert kind.go_type == "v1alpha1.ProxyConfig_InboundInterceptionMode"


def test_an_unknown_type_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        message_type("istio.mesh.v1alpha1.Nothing")
    with pytest.raises(KeyError):
        enum_type("istio.mesh.v1alpha1.Nothing")


@pytest.mark.parametrize(("minor", "kind"), [((1, 0), "int32"), ((1, 6), "int32"), ((1, 7), "message")])
def test_concurrency_is_wrapped_since_1_7(minor: Minor, kind: str) -> None:
    assert message_type(proxy_config_type(minor)).by_json["concurrency"].kind == kind
    assert message_type(mesh_config_type(minor)).by_json["defaultConfig"].type == proxy_config_type(minor)
