from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.gotemplate import FuncError
from injector.gotemplate.values import Int32, Map, NamedString, Pointer
from injector.istio.functions import (
    annotation,
    directory,
    exclude_inbound_port,
    flipped_contains,
    from_json,
    indent,
    isset,
    istio_functions,
    merge_maps,
    omit,
    omit_nil,
    strdict,
    struct_to_json,
    to_json,
    to_json_map,
    to_yaml,
    value_or_default,
)
from injector.istio.goview import view, wrap
from injector.istio.mesh import mesh_facts, parse_mesh_config

if TYPE_CHECKING:
    from injector.istio.minor import Minor

NIL_MAP = Map("string", "string", nil=True)
CONTAINERS = [
    {"name": "app", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]},
    {"name": "istio-proxy", "ports": [{"containerPort": 15090, "protocol": "TCP"}]},
    {"name": "quiet"},
    {"name": "signals", "ports": [{"containerPort": 9, "protocol": "SCTP"}, {"containerPort": 90}]},
]
BIRTHS = [
    ("isset", (1, 0)),
    ("annotation", (1, 0)),
    ("toJSON", (1, 1)),
    ("kubevirtInterfaces", (1, 1)),
    ("valueOrDefault", (1, 1)),
    ("fromJSON", (1, 1)),
    ("toYaml", (1, 1)),
    ("indent", (1, 1)),
    ("directory", (1, 1)),
    ("contains", (1, 2)),
    ("structToJSON", (1, 3)),
    ("toLower", (1, 3)),
    ("protoToJSON", (1, 4)),
    ("env", (1, 5)),
    ("appendMultusNetwork", (1, 8)),
    ("excludeInterfaces", (1, 15)),
    ("omit", (1, 18)),
    ("strdict", (1, 18)),
    ("toJsonMap", (1, 18)),
    ("mergeMaps", (1, 21)),
    ("omitNil", (1, 28)),
    ("otelResourceAttributes", (1, 30)),
]


def _call(name: str, *args: Any, minor: Minor = (1, 30), env: dict[str, str] | None = None) -> Any:
    return istio_functions(minor, env or {})[name].call(*args)


def _strings(entries: dict[str, str]) -> Map:
    return Map("string", "string", entries)


@pytest.mark.parametrize(("name", "first"), BIRTHS)
def test_a_function_stays_from_the_minor_that_brought_it(name: str, first: Minor) -> None:
    having = [number for number in range(31) if name in istio_functions((1, number), {})]

    assert having == list(range(first[1], 31))


def test_to_json_in_lower_case_is_sprigs_since_1_19() -> None:
    assert [number for number in range(31) if "toJson" in istio_functions((1, number), {})] == list(range(19))


def test_istio_1_0_has_seven_functions() -> None:
    assert set(istio_functions((1, 0), {})) == {
        "formatDuration",
        "isset",
        "excludeInboundPort",
        "includeInboundPorts",
        "applicationPorts",
        "annotation",
        "toJson",
    }


@pytest.mark.parametrize(
    ("minor", "expected"),
    [
        ((1, 1), "func(string, string) string"),
        ((1, 2), "func(interface {}, interface {}) interface {}"),
    ],
)
def test_value_or_default_takes_anything_since_1_2(minor: Minor, expected: str) -> None:
    assert istio_functions(minor, {})["valueOrDefault"].signature == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", "x"), (None, "x"), ("a", "a"), (0, 0), (False, False), ([], []), (NamedString("v1.Protocol", ""), "")],
)
def test_only_nil_and_the_empty_string_give_way_to_the_default(value: Any, expected: Any) -> None:
    assert value_or_default(value, "x") == expected


@pytest.mark.parametrize(
    ("env", "expected"), [({"KEY": "set"}, "set"), ({"KEY": ""}, "default"), ({}, "default"), ({"key": "x"}, "default")]
)
def test_env_reads_the_variables_of_the_revision(env: dict[str, str], expected: str) -> None:
    assert _call("env", "KEY", "default", env=env) == expected


@pytest.mark.parametrize(
    ("entries", "expected"), [(_strings({"a": ""}), True), (_strings({"b": "x"}), False), (NIL_MAP, False)]
)
def test_isset_asks_for_the_key_alone(entries: Map, expected: bool) -> None:
    assert isset(entries, "a") is expected


@pytest.mark.parametrize(
    ("path", "expected"), [("/etc/istio/proxy", "/etc/istio/"), ("/a", "/"), ("a", ""), ("a/", "a/"), ("", "")]
)
def test_a_directory_keeps_its_last_slash(path: str, expected: str) -> None:
    assert directory(path) == expected


def test_contains_takes_the_needle_first() -> None:
    assert flipped_contains("b", "abc")
    assert not flipped_contains("abc", "b")


@pytest.mark.parametrize(
    ("port", "excluded", "expected"),
    [
        ("15020", "", "15020"),
        (15020, "80", "80,15020"),
        (15020.0, "80", "80,15020"),
        (Int32(15020), "80", "80,15020"),
        (" 15020 ", "80", "80,15020"),
        ("15020", " 80 , ,90,", "80,90,15020"),
        ("80", "80, 90 ,", "80, 90 ,"),
        ("80", "90, 80", "90,80,80"),
        ("0", "80", "80"),
        (0, " 80 ", " 80 "),
        ("", "80,", "80,"),
        ("  ", "80", "80"),
        ("80\x1f", "90\x1c", "90\x1c,80\x1f"),
        ("\u00a080\u3000", "\u168090", "90,80"),
    ],
)
def test_a_port_is_excluded_once(port: Any, excluded: str, expected: str) -> None:
    assert exclude_inbound_port(port, excluded) == expected


@pytest.mark.parametrize(
    ("minor", "name", "expected"),
    [
        ((1, 30), "includeInboundPorts", "80,15090,90"),
        ((1, 30), "applicationPorts", "80,90"),
        ((1, 4), "applicationPorts", "80,90"),
        ((1, 3), "applicationPorts", "80,53,9,90"),
        ((1, 3), "includeInboundPorts", "80,53,15090,9,90"),
    ],
)
def test_ports_other_than_tcps_are_left_out_since_1_4(minor: Minor, name: str, expected: str) -> None:
    assert _call(name, wrap("[]v1.Container", CONTAINERS), minor=minor) == expected


@pytest.mark.parametrize("name", ["includeInboundPorts", "applicationPorts"])
def test_no_containers_have_no_ports(name: str) -> None:
    assert _call(name, wrap("[]v1.Container", None)) == ""


@pytest.mark.parametrize(
    ("name", "default", "expected"),
    [("a", "x", "1"), ("empty", "x", ""), ("b", "x", "x"), ("b", 15020.0, "15020"), ("b", True, "true")],
)
def test_an_annotation_wins_over_the_default(name: str, default: Any, expected: str) -> None:
    assert annotation(view("v1.ObjectMeta", {"annotations": {"a": "1", "empty": ""}}), name, default) == expected


def test_a_pod_without_annotations_has_the_default() -> None:
    assert annotation(view("v1.ObjectMeta", {}), "a", None) == "<nil>"


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (_strings({"b": "2", "a": "1"}), '{"a":"1","b":"2"}'),
        (_strings({"a": '<&>"'}), '{"a":"\\u003c\\u0026\\u003e\\""}'),
        (_strings({}), "{}"),
        (NIL_MAP, "{}"),
    ],
)
def test_to_json_sorts_and_escapes_as_go_does(entries: Map, expected: str) -> None:
    assert to_json(entries) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, 2.5, true, null, "x"]}', {"a": [1.0, 2.5, True, None, "x"]}),
        ("null", None),
        ('""', ""),
        ("{", "{}"),
        ("", "{}"),
        ("a: b", "{}"),
        ('{"a": 1} x', "{}"),
        ("1e400", "{}"),
    ],
)
def test_from_json_gives_braces_for_what_is_no_json(text: str, expected: Any) -> None:
    assert from_json(text) == expected


def test_from_json_gives_floats() -> None:
    assert type(from_json("1")) is float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "{}"),
        (Pointer("*v1.Probe", None), "null"),
        (wrap("[]v1.ContainerPort", None), "null"),
        (wrap("[]v1.ContainerPort", []), "[]"),
        (wrap("v1.ContainerPort", {"protocol": "TCP", "containerPort": 80}), '{"containerPort":80,"protocol":"TCP"}'),
        (wrap("*v1.TCPSocketAction", {"port": 80}), '{"port":80}'),
        ({"b": 1.0, "a": 2.5}, '{"a":2.5,"b":1}'),
    ],
)
def test_struct_to_json_writes_what_encoding_json_does(value: Any, expected: str) -> None:
    assert struct_to_json(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": [1.0, 2.5], "a": {"x": "y"}}, 'a:\n  x: "y"\nb:\n- 1\n- 2.5\n'),
        (wrap("v1.ContainerPort", {"protocol": "TCP", "containerPort": 80}), "containerPort: 80\nprotocol: TCP\n"),
        ("true", '"true"\n'),
        (None, "null\n"),
        (NIL_MAP, "null\n"),
        (_strings({}), "{}\n"),
    ],
)
def test_to_yaml_keeps_the_last_newline(value: Any, expected: str) -> None:
    assert to_yaml(value) == expected


@pytest.mark.parametrize(
    "value",
    [float("nan"), {"a": [float("inf")]}],
    ids=["NaN", "inf"],
)
def test_to_yaml_says_nothing_of_what_json_does_not_have(value: Any) -> None:
    assert to_yaml(value) == ""


@pytest.mark.parametrize(
    ("spaces", "source", "expected"),
    [
        (2, "a\nb\nc", "a\n  b\n  c"),
        (2, "a", "a"),
        (2, "a\n", "a\n  "),
        (2, "a\n\nb", "a\n  \n  b"),
        (0, "a\nb", "a\nb"),
        (-3, "a\nb", "a\n   b"),
        (2, "", ""),
    ],
)
def test_indent_leaves_the_first_line_alone(spaces: int, source: str, expected: str) -> None:
    assert indent(spaces, source) == expected


def test_an_absurd_indentation_is_refused() -> None:
    assert indent(1000, "a\nb") == f"a\n{' ' * 1000}b"
    with pytest.raises(FuncError, match="indent 1001 is too wide"):
        indent(1001, "a\nb")


def test_omit_leaves_the_map_given_as_it_was() -> None:
    given = _strings({"a": "1", "b": "2", "c": "3"})

    assert omit(given, "a", "c", "nope") == {"b": "2"}
    assert given == {"a": "1", "b": "2", "c": "3"}
    assert omit(NIL_MAP, "a") == {}


def test_what_omit_makes_of_nil_is_an_empty_map() -> None:
    assert not omit(NIL_MAP).nil


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ((), {}),
        (("a", "1", "b", "2"), {"a": "1", "b": "2"}),
        (("a", "1", "b"), {"a": "1", "b": ""}),
        (("a",), {"a": ""}),
        (("a", "1", "a", "2"), {"a": "2"}),
    ],
)
def test_strdict_takes_keys_and_values_in_turn(pairs: tuple[str, ...], expected: dict[str, str]) -> None:
    made = strdict(*pairs)

    assert made == expected
    assert (made.go_type, made.nil) == ("map[string]string", False)


def test_later_maps_win() -> None:
    merged = merge_maps(_strings({"a": "1", "b": "1"}), NIL_MAP, _strings({"b": "2"}))

    assert merged == {"a": "1", "b": "2"}
    assert not merged.nil


def test_merging_nothing_gives_a_nil_map() -> None:
    assert merge_maps().nil


@pytest.mark.parametrize(
    ("maps", "expected"),
    [
        ((), "null"),
        ((NIL_MAP,), "{}"),
        ((_strings({"b": "1"}), _strings({"a": "2", "b": "<"})), '{"a":"2","b":"\\u003c"}'),
    ],
)
def test_to_json_map_writes_the_merged_maps(maps: tuple[Map, ...], expected: str) -> None:
    assert to_json_map(*maps) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", ""),
        ({}, {}),
        ([], []),
        ({"a": None}, None),
        ([None, None], None),
        ({"a": None, "b": 1.0}, {"b": 1.0}),
        ([None, 1.0, None, 2.0], [1.0, 2.0]),
        ({"a": {"b": {"c": None}}}, None),
        ({"a": {"b": None}, "c": {}}, {"c": {}}),
        ({"a": [{"b": None}, {"c": 1.0}]}, {"a": [{"c": 1.0}]}),
        ({"a": False, "b": "", "c": 0.0}, {"a": False, "b": "", "c": 0.0}),
    ],
)
def test_omit_nil_drops_nil_and_what_that_empties(value: Any, expected: Any) -> None:
    assert omit_nil(value) == expected


def test_omit_nil_gives_back_what_has_no_nil() -> None:
    value = {"a": [{"b": 1.0}]}

    assert omit_nil(value) is value


@pytest.mark.parametrize("name", ["kubevirtInterfaces", "excludeInterfaces"])
def test_lists_of_interfaces_pass_as_they_are(name: str) -> None:
    assert _call(name, " eth0,,") == " eth0,,"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TPROXY É", "tproxy é"),
        ("İ", "i"),
        ("\u0391\u03a3", "\u03b1\u03c3"),
        ("A\udcff", "a\ufffd"),
        ("É\udcff", "é\ufffd"),
    ],
)
def test_lower_case_is_gos(text: str, expected: str) -> None:
    assert _call("toLower", text) == expected


@pytest.mark.parametrize(("minor", "expected"), [((1, 13), "1s"), ((1, 14), "0s")])
def test_no_duration_is_a_second_before_1_14(minor: Minor, expected: str) -> None:
    assert _call("formatDuration", None, minor=minor) == expected
    assert _call("formatDuration", Pointer("*durationpb.Duration", None), minor=minor) == expected


def test_a_duration_prints_in_gos_units() -> None:
    mesh = mesh_facts(parse_mesh_config("defaultConfig: {drainDuration: 90s}", (1, 30)))

    assert _call("formatDuration", mesh.proxy_config.target.field("DrainDuration")) == "1m30s"


@pytest.mark.parametrize(
    ("mesh", "expected"),
    [
        ("", "{}"),
        ("defaultConfig: {concurrency: 3, drainDuration: 90s}", '{"drainDuration":"90s","concurrency":3}'),
        ("defaultConfig: {statusPort: 15020, proxyAdminPort: 15000, proxyMetadata: {}}", "{}"),
        ("defaultConfig: {statusPort: 15021, configPath: ./etc/istio/proxy}", '{"statusPort":15021}'),
    ],
)
def test_proto_to_json_leaves_out_what_is_the_default(mesh: str, expected: str) -> None:
    assert _call("protoToJSON", mesh_facts(parse_mesh_config(mesh, (1, 30))).proxy_config) == expected


@pytest.mark.parametrize("nothing", [None, Pointer("*v1alpha1.ProxyConfig", None)])
def test_proto_to_json_of_nil_is_an_empty_object(nothing: Any) -> None:
    assert _call("protoToJSON", nothing) == "{}"


def test_proto_to_json_cleans_nothing_before_1_6() -> None:
    mesh = mesh_facts(parse_mesh_config(None, (1, 5)))

    assert '"configPath":' in _call("protoToJSON", mesh.proxy_config, minor=(1, 5))


def test_multus_gets_the_network_as_the_minor_writes_it() -> None:
    assert _call("appendMultusNetwork", "istio-cni", "istio-cni", minor=(1, 8)) == "istio-cni, istio-cni"
    assert _call("appendMultusNetwork", "istio-cni", "istio-cni", minor=(1, 9)) == "istio-cni"


def test_the_pod_is_described_to_opentelemetry() -> None:
    provider = (
        "{name: otel, opentelemetry: {service: a, port: 1, serviceAttributeEnrichment: OTEL_SEMANTIC_CONVENTIONS}}"
    )
    mesh = mesh_facts(parse_mesh_config(f"extensionProviders: [{provider}]", (1, 30)))
    containers = wrap("[]v1.Container", [{"name": "app", "image": "example.com:5000/app:1.2"}])

    said = _call("otelResourceAttributes", mesh.mesh_pointer, NIL_MAP, NIL_MAP, "shop", containers)

    assert said == "service.namespace=shop,service.version=1.2,service.instance.id=shop.$(POD_NAME).app"
