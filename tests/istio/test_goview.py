"""Plain dicts as Go structs, as templates see them."""

from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import compile_template
from injector.gotemplate.values import Int32, Int64, Map, NamedString, Pointer, Slice, json_data
from injector.istio.goview import GoStruct, NamespacedName, wrapper
from tests.cases import cases


def test_a_field_is_read_by_its_go_name() -> None:
    pod = GoStruct("v1.PodSpec", {"serviceAccountName": "me", "hostNetwork": True})

    assert (pod.field("ServiceAccountName"), pod.field("HostNetwork")) == ("me", True)


@pytest.mark.parametrize("name", ["serviceAccountName", "Nope", ""])
def test_there_is_no_field_of_another_name(name: str) -> None:
    with pytest.raises(KeyError):
        GoStruct("v1.PodSpec", {"serviceAccountName": "me"}).field(name)


@cases("type_name", "field", "expected")
def test_an_absent_field_has_its_zero_value(type_name: str, field: str, expected: Any) -> None:
    assert GoStruct(type_name, {}).field(field) == expected


@pytest.mark.parametrize(
    ("type_name", "field"),
    [("v1.Container", "LivenessProbe"), ("v1.PodSpec", "SecurityContext"), ("v1.PodSpec", "ShareProcessNamespace")],
)
def test_an_absent_pointer_is_nil(type_name: str, field: str) -> None:
    assert not GoStruct(type_name, {}).field(field)


def test_a_struct_of_the_zero_value_has_zero_fields() -> None:
    assert GoStruct("v1.Pod", {}).field("Spec").field("ServiceAccountName") == ""


def test_an_embedded_struct_reads_the_same_object() -> None:
    probe = GoStruct("v1.Probe", {"httpGet": {"path": "/ready"}, "periodSeconds": 5})

    embedded = probe.field("ProbeHandler")

    assert embedded.go_type == "v1.ProbeHandler"
    assert embedded.field("HTTPGet").target.field("Path") == "/ready"


def test_fields_come_in_the_order_of_gos_declaration() -> None:
    port = GoStruct("v1.ContainerPort", {"protocol": "TCP", "name": "http", "containerPort": 80})

    assert list(port.fields()) == [
        ("Name", "http"),
        ("HostPort", 0),
        ("ContainerPort", 80),
        ("Protocol", "TCP"),
        ("HostIP", ""),
    ]


@cases("name", "expected")
def test_object_meta_has_getters(name: str, expected: Any) -> None:
    meta = GoStruct("v1.ObjectMeta", {"name": "hello", "namespace": "shop", "uid": "1-2", "labels": {"app": "x"}})
    method = meta.method(name)

    assert method is not None
    assert method.call() == expected


@cases("type_name", "name")
def test_there_are_no_other_getters(type_name: str, name: str) -> None:
    assert GoStruct(type_name, {}).method(name) is None


@pytest.mark.parametrize(
    ("go_type", "value", "expected", "python_type"),
    [
        ("string", None, "", str),
        ("string", "a", "a", str),
        ("bool", None, False, bool),
        ("bool", True, True, bool),
        ("int32", None, 0, Int32),
        ("int64", 5, 5, Int64),
        ("v1.Protocol", "TCP", "TCP", NamedString),
        ("types.UID", None, "", NamedString),
    ],
)
def test_scalars_have_their_go_types(go_type: str, value: Any, expected: Any, python_type: type) -> None:
    wrapped = wrapper(go_type)(value)

    assert (wrapped, type(wrapped)) == (expected, python_type)


def test_a_defined_string_type_keeps_its_name() -> None:
    assert wrapper("v1.DNSPolicy")("Default").go_type == "v1.DNSPolicy"


@cases("go_type", "value", "expected")
def test_a_present_list_or_map_is_not_nil(go_type: str, value: Any, expected: Any) -> None:
    wrapped = wrapper(go_type)(value)

    assert (wrapped, wrapped.go_type, wrapped.nil) == (expected, go_type, False)


@pytest.mark.parametrize("go_type", ["[]string", "[]v1.Container", "map[string]string", "map[string]v1.Container"])
def test_an_absent_list_or_map_is_nil(go_type: str) -> None:
    wrapped = wrapper(go_type)(None)

    assert (len(wrapped), wrapped.go_type, wrapped.nil) == (0, go_type, True)


def test_elements_are_wrapped() -> None:
    listed = wrapper("[]v1.Container")([{"name": "a"}])[0]
    mapped = wrapper("map[string]v1.Container")({"x": {"name": "b"}})["x"]

    assert [(item.go_type, item.field("Name")) for item in (listed, mapped)] == [
        ("v1.Container", "a"),
        ("v1.Container", "b"),
    ]


@pytest.mark.parametrize(
    ("go_type", "value", "there", "target"),
    [("*int64", 5, True, 5), ("*bool", False, True, False), ("*int64", 0, True, 0), ("*int64", None, False, None)],
)
def test_a_pointer_is_nil_only_without_a_value(go_type: str, value: Any, there: bool, target: Any) -> None:
    pointer = wrapper(go_type)(value)

    assert (pointer.go_type, bool(pointer), pointer.target) == (go_type, there, target)


def test_a_pointer_to_an_empty_struct_is_not_nil() -> None:
    pointer = wrapper("*v1.PodSecurityContext")({})

    assert isinstance(pointer.target, GoStruct)


def test_the_fields_of_a_namespaced_name_are_in_order() -> None:
    owner = NamespacedName("shop", "hello")

    assert owner.go_type == "types.NamespacedName"
    assert list(owner.fields()) == [("Namespace", "shop"), ("Name", "hello")]
    assert owner.field("Name") == "hello"
    with pytest.raises(KeyError):
        owner.field("Nope")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("a", "a"),
        (1.5, 1.5),
        ({2: "b", 1: "a"}, {"1": "a", "2": "b"}),
        (["a", None], ["a", None]),
        (Slice("string", nil=True), None),
        (Slice("string"), []),
        (Map("string", "string", nil=True), None),
        (Map("string", "string"), {}),
        (Pointer("*int64", None), None),
        (Pointer("*int64", Int64(3)), 3),
        (NamespacedName("b", "a"), {"Name": "a", "Namespace": "b"}),
        ([Pointer("*v1.Probe", None), {"a": Slice("string", nil=True)}], [None, {"a": None}]),
        (
            GoStruct("v1.ContainerPort", {"protocol": "TCP", "containerPort": 80}),
            {"containerPort": 80, "protocol": "TCP"},
        ),
        (GoStruct("v1.ContainerPort", {}), {"containerPort": 0}),
        (wrapper("[]v1.EnvVar")([{"value": "1", "name": "A"}]), [{"name": "A", "value": "1"}]),
        (GoStruct("v1.Container", {"name": "a"}), {"name": "a", "resources": {}}),
    ],
)
def test_plain_data_is_what_encoding_json_writes(value: Any, expected: Any) -> None:
    assert json_data(value) == expected


def test_plain_maps_are_sorted_by_key() -> None:
    assert list(json_data({"b": 1, "a": {"d": 1, "c": 2}})) == ["a", "b"]


def test_plain_structs_keep_gos_order() -> None:
    assert list(json_data(GoStruct("v1.ContainerPort", {"protocol": "TCP", "containerPort": 80, "name": "x"}))) == [
        "name",
        "containerPort",
        "protocol",
    ]


@pytest.mark.parametrize(
    ("port", "text", "number"),
    [(8080, "8080", 8080), ("http", "http", 0), ("8080", "8080", 8080), ("9" * 30, "9" * 30, 0)],
)
def test_a_port_is_a_number_or_a_name_and_prints_as_either(port: int | str, text: str, number: int) -> None:
    probe = GoStruct("v1.Probe", {"httpGet": {"port": port}})
    template = compile_template(
        "t", "{{ .HTTPGet.Port }},{{ .HTTPGet.Port.IntValue }},{{ .HTTPGet.Port.StrVal }}", funcs={}
    )

    assert template.execute(probe) == f"{text},{number},{port if isinstance(port, str) else ''}"
    assert json_data(probe)["httpGet"]["port"] == port


def test_a_map_of_a_named_type_is_a_map() -> None:
    container = GoStruct("v1.Container", {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}})
    template = compile_template("t", "{{ range $k, $v := .Resources.Limits }}{{ $k }}={{ $v }};{{ end }}", funcs={})

    assert template.execute(container) == "cpu=1;memory=1Gi;"
