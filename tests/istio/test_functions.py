"""Istio's template functions (pkg/kube/inject/template.go, 1.30.3)."""

from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import FuncError
from injector.gotemplate.values import Int32, Map, NamedString, Pointer
from injector.istio.behaviours import Minor
from injector.istio.functions import istio_functions
from injector.istio.goview import GoStruct, wrapper
from injector.istio.mesh import mesh_facts, parse_mesh_config
from injector.istio.proto import Message
from tests.cases import cases
from tests.factories import make_container

NIL_MAP = Map("string", "string", nil=True)
CONTAINERS = [
    {"name": "app", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]},
    {"name": "istio-proxy", "ports": [{"containerPort": 15090, "protocol": "TCP"}]},
    {"name": "quiet"},
    {"name": "signals", "ports": [{"containerPort": 9, "protocol": "SCTP"}, {"containerPort": 90}]},
]
FIRST_MINORS = {
    "formatDuration": 0,
    "isset": 0,
    "excludeInboundPort": 0,
    "includeInboundPorts": 0,
    "applicationPorts": 0,
    "annotation": 0,
    "toJSON": 1,
    "kubevirtInterfaces": 1,
    "valueOrDefault": 1,
    "fromJSON": 1,
    "toYaml": 1,
    "indent": 1,
    "directory": 1,
    "contains": 2,
    "structToJSON": 3,
    "toLower": 3,
    "protoToJSON": 4,
    "env": 5,
    "appendMultusNetwork": 8,
    "excludeInterfaces": 15,
    "omit": 18,
    "strdict": 18,
    "toJsonMap": 18,
    "mergeMaps": 21,
    "omitNil": 28,
    "otelResourceAttributes": 30,
}


def _call(name: str, *args: Any, minor: Minor = (1, 30), env: dict[str, str] | None = None) -> Any:
    return istio_functions(minor, env or {})[name].call(*args)


def _strings(**entries: str) -> Map:
    return Map("string", "string", entries)


def test_each_minor_has_the_functions_of_earlier_ones_and_its_own() -> None:
    for minor in range(32):
        expected = {name for name, first in FIRST_MINORS.items() if first <= minor}
        # From 1.19 on, toJson is sprig's.
        expected |= {"toJson"} if minor <= 18 else set()
        assert set(istio_functions((1, minor), {})) == expected


@pytest.mark.parametrize(
    ("minor", "expected"),
    [
        ((1, 1), "func(string, string) string"),
        ((1, 2), "func(interface {}, interface {}) interface {}"),
    ],
)
def test_value_or_default_takes_any_value_since_1_2(minor: Minor, expected: str) -> None:
    assert istio_functions(minor, {})["valueOrDefault"].signature == expected


META = GoStruct("v1.ObjectMeta", {"annotations": {"a": "1", "empty": ""}})


@cases(
    "name",
    "args",
    "expected",
    also=[
        ("valueOrDefault", (NamedString("v1.Protocol", ""), "x"), NamedString("v1.Protocol", "")),
        ("isset", (_strings(a=""), "a"), True),
        ("isset", (_strings(b="x"), "a"), False),
        ("isset", (NIL_MAP, "a"), False),
        ("excludeInboundPort", (Int32(15020), "80"), "80,15020"),
        ("annotation", (META, "a", "x"), "1"),
        ("annotation", (META, "empty", "x"), ""),
        ("annotation", (META, "b", "x"), "x"),
        ("annotation", (META, "b", 15020.0), "15020"),
        ("annotation", (META, "b", True), "true"),
        ("annotation", (GoStruct("v1.ObjectMeta", {}), "a", None), "<nil>"),
        ("includeInboundPorts", (wrapper("[]v1.Container")(None),), ""),
        ("applicationPorts", (wrapper("[]v1.Container")(None),), ""),
        ("toJSON", (_strings(b="2", a="1"),), '{"a":"1","b":"2"}'),
        ("toJSON", (_strings(a='<&>"'),), '{"a":"\\u003c\\u0026\\u003e\\""}'),
        ("toJSON", (_strings(),), "{}"),
        ("toJSON", (NIL_MAP,), "{}"),
        ("structToJSON", (Pointer("*v1.Probe", None),), "null"),
        ("structToJSON", (wrapper("[]v1.ContainerPort")(None),), "null"),
        ("structToJSON", (wrapper("[]v1.ContainerPort")([]),), "[]"),
        (
            "structToJSON",
            (wrapper("v1.ContainerPort")({"protocol": "TCP", "containerPort": 80}),),
            '{"containerPort":80,"protocol":"TCP"}',
        ),
        ("structToJSON", (wrapper("*v1.TCPSocketAction")({"port": 80}),), '{"port":80}'),
        (
            "toYaml",
            (wrapper("v1.ContainerPort")({"protocol": "TCP", "containerPort": 80}),),
            "containerPort: 80\nprotocol: TCP\n",
        ),
        ("toYaml", (NIL_MAP,), "null\n"),
        ("toYaml", (_strings(),), "{}\n"),
        ("toYaml", (float("nan"),), ""),
        ("indent", (1000, "a\nb"), f"a\n{' ' * 1000}b"),
        ("omit", (_strings(a="1", b="2", c="3"), "a", "c", "nope"), {"b": "2"}),
        ("omit", (NIL_MAP, "a"), {}),
        ("mergeMaps", (_strings(a="1", b="1"), NIL_MAP, _strings(b="2")), {"a": "1", "b": "2"}),
        ("toJsonMap", (NIL_MAP,), "{}"),
        ("toJsonMap", (_strings(b="1"), _strings(a="2", b="<")), '{"a":"2","b":"\\u003c"}'),
        ("toLower", ("A\udcff",), "a\ufffd"),
        ("toLower", ("É\udcff",), "é\ufffd"),
        ("protoToJSON", (Pointer("*v1alpha1.ProxyConfig", None),), "{}"),
    ],
)
def test_a_function_returns_what_istios_does(name: str, args: tuple[Any, ...], expected: Any) -> None:
    result = _call(name, *args)

    assert (result, type(result) is bool) == (expected, type(expected) is bool)


@pytest.mark.parametrize(
    ("env", "expected"), [({"KEY": "set"}, "set"), ({"KEY": ""}, "default"), ({}, "default"), ({"key": "x"}, "default")]
)
def test_env_reads_the_variables_of_the_revision(env: dict[str, str], expected: str) -> None:
    assert _call("env", "KEY", "default", env=env) == expected


@cases("minor", "name", "expected")
def test_only_tcp_ports_are_listed_since_1_4(minor: Minor, name: str, expected: str) -> None:
    assert _call(name, wrapper("[]v1.Container")(CONTAINERS), minor=minor) == expected


def test_from_json_decodes_numbers_as_floats() -> None:
    assert type(_call("fromJSON", "1")) is float


def test_a_very_wide_indentation_is_refused() -> None:
    with pytest.raises(FuncError, match="indent 1001 is too wide"):
        _call("indent", 1001, "a\nb")


def test_omit_does_not_change_its_argument_and_never_returns_a_nil_map() -> None:
    entries = _strings(a="1", b="2")
    _call("omit", entries, "a")

    assert entries == {"a": "1", "b": "2"}
    assert not _call("omit", NIL_MAP).nil


def test_strdict_returns_a_map_of_strings() -> None:
    result = _call("strdict", "a", "1")

    assert (result.go_type, result.nil) == ("map[string]string", False)


def test_merging_no_maps_gives_a_nil_map() -> None:
    assert _call("mergeMaps").nil
    assert not _call("mergeMaps", _strings(a="1"), NIL_MAP).nil


def test_omit_nil_returns_a_value_without_nil_unchanged() -> None:
    value = {"a": [{"b": 1.0}]}

    assert _call("omitNil", value) is value


@pytest.mark.parametrize(("minor", "expected"), [((1, 13), "1s"), ((1, 14), "0s")])
def test_an_unset_duration_is_a_second_before_1_14(minor: Minor, expected: str) -> None:
    assert _call("formatDuration", None, minor=minor) == expected
    assert _call("formatDuration", Pointer("*durationpb.Duration", None), minor=minor) == expected


def test_a_duration_prints_in_gos_units() -> None:
    mesh = mesh_facts(parse_mesh_config("defaultConfig: {drainDuration: 90s}", (1, 30)))

    assert _call("formatDuration", mesh.proxy_config.target.field("DrainDuration")) == "1m30s"


@cases("mesh", "expected")
def test_proto_to_json_leaves_out_defaults(mesh: str, expected: str) -> None:
    assert _call("protoToJSON", mesh_facts(parse_mesh_config(mesh, (1, 30))).proxy_config) == expected


def test_proto_to_json_refuses_other_types() -> None:
    with pytest.raises(FuncError, match=r"wrong type for value; expected proto\.Message; got string"):
        _call("protoToJSON", "x")


def test_proto_to_json_leaves_out_no_defaults_before_1_6() -> None:
    mesh = mesh_facts(parse_mesh_config(None, (1, 5)))

    assert '"configPath":' in _call("protoToJSON", mesh.proxy_config, minor=(1, 5))


@cases("minor", "existing", "expected")
def test_the_network_of_istios_cni_is_appended_as_the_minor_does(minor: Minor, existing: str, expected: str) -> None:
    assert _call("appendMultusNetwork", existing, "default/istio-cni", minor=minor) == expected


def test_a_network_without_namespace_is_found_by_its_name() -> None:
    assert _call("appendMultusNetwork", '[{"name": "istio-cni"}]', "istio-cni") == '[{"name": "istio-cni"}]'


PREFIX = "resource.opentelemetry.io/service."


def _otel(*args: Any) -> Any:
    return _call("otelResourceAttributes", *args)


def _mesh(enrichment: str = "OTEL_SEMANTIC_CONVENTIONS") -> Message:
    otel = f"{{service: s, port: 4317, serviceAttributeEnrichment: {enrichment}}}"
    return parse_mesh_config(f"extensionProviders: [{{name: otel, opentelemetry: {otel}}}]", (1, 30))


def _containers(*images: str) -> list[GoStruct]:
    named = enumerate(images)
    return [GoStruct("v1.Container", make_container(f"c{index}", image=image)) for index, image in named]


def test_the_namespace_the_version_and_the_instance_are_named() -> None:
    result = _otel(_mesh(), {}, {}, "ns", _containers("app:1.0"))
    assert result == "service.namespace=ns,service.version=1.0,service.instance.id=ns.$(POD_NAME).c0"


@cases("text")
def test_nothing_is_given_unless_a_provider_asks(text: str) -> None:
    mesh = parse_mesh_config(text, (1, 30))
    assert _otel(mesh, {}, {}, "ns", _containers("app:1.0")) == ""


def test_a_pointer_to_the_mesh_is_followed_and_nil_asks_for_nothing() -> None:
    pointer = Pointer("*v1alpha1.MeshConfig", _mesh())
    assert _otel(pointer, {}, {}, "ns", []) == "service.namespace=ns"
    assert _otel(Pointer("*v1alpha1.MeshConfig"), {}, {}, "ns", []) == ""


@cases("image", "expected")
def test_the_version_of_one_container_is_its_images_tag_and_digest(image: str, expected: str | None) -> None:
    result = _otel(_mesh(), {}, {}, "", _containers(image))
    version = [] if expected is None else [f"service.version={expected}"]
    assert result.split(",") == [*version, "service.instance.id=.$(POD_NAME).c0"]


def test_two_containers_have_no_version_and_the_first_names_the_instance() -> None:
    result = _otel(_mesh(), {}, {}, "ns", _containers("a:1", "b:2"))
    assert result == "service.namespace=ns,service.instance.id=ns.$(POD_NAME).c0"


@cases("annotations", "labels", "expected")
def test_an_annotation_wins_over_a_label_over_the_image(
    annotations: dict[str, str], labels: dict[str, str], expected: str
) -> None:
    result = _otel(_mesh(), annotations, labels, "ns", _containers("app:1.0"))
    assert f",service.version={expected}," in result


def test_annotations_name_the_namespace_and_the_instance() -> None:
    annotations = {PREFIX + "namespace": "other", PREFIX + "instance.id": "me"}
    result = _otel(_mesh(), annotations, {}, "ns", _containers("app:1.0"))
    assert result == "service.namespace=other,service.version=1.0,service.instance.id=me"
