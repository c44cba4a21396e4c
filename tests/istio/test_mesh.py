"""The mesh config: its defaults, its fields, and ProxyConfigs merged into it (pkg/config/mesh/mesh.go, pkg/kube/inject/template.go).

The defaults are those of ``DefaultProxyConfig`` and ``DefaultMeshConfig`` (pilot/pkg/model/context.go before 1.4).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from injector.errors import AnnotationError, ConfigError
from injector.istio.behaviours import DEVELOPMENT, Minor
from injector.istio.mesh import (
    MESH_DEFAULTS,
    PROXY_DEFAULTS,
    default_mesh_config,
    default_proxy_config,
    mesh_facts,
    overlaid_mesh_config,
    parse_mesh_config,
    proto_to_json,
)
from injector.istio.proto import MESH_CONFIG, PROXY_CONFIG, Message, message_type
from injector.kube.yaml import load_yaml
from tests.cases import cases

NEWEST: Minor = (1, 31)
SECOND = 1_000_000_000


def apply_proxy_config(text: str, mesh: Message, minor: Minor) -> Message:
    """The mesh config with the annotation of a pod, as minors up to 1.12 merge it."""
    return overlaid_mesh_config([text], mesh, minor, "")


def _proxy(mesh: Message) -> dict[str, Any]:
    values: dict[str, Any] = mesh.values["defaultConfig"]
    return values


def _written(mesh: Message, minor: Minor = NEWEST) -> Any:
    return json.loads(proto_to_json(mesh.field("DefaultConfig").target, minor))


@pytest.mark.parametrize("text", [None, "", "{}", "null", "# nothing\n", "unknown: 1", "trustDomain: null"])
@pytest.mark.parametrize("minor", [(1, 0), (1, 17), NEWEST])
def test_an_empty_mesh_config_has_the_defaults_of_its_minor(text: str | None, minor: Minor) -> None:
    assert parse_mesh_config(text, minor).values == default_mesh_config(minor)


@pytest.mark.parametrize(
    "text",
    [
        "defaultInboundHttpRetryPolicy: {attempts: 3, backoff: 0.025s}",
        "defaultTrafficPolicy: {outlierDetection: {failurePercentageThreshold: 50}}",
        "ca: {tlsSettings: {caCertCredentialName: own}}",
    ],
)
def test_a_field_of_the_minor_in_development_is_not_read_before(text: str) -> None:
    before, after = (parse_mesh_config(text, minor).json_value() for minor in (NEWEST, DEVELOPMENT))
    assert before != after
    assert after.items() >= load_yaml(text, where="").items()


def test_proxies_get_a_field_of_the_minor_in_development_not_before() -> None:
    text = "defaultConfig: {tracing: {tlsSettings: {mode: SIMPLE, caCertCredentialName: own}}}"
    before, after = (_written(parse_mesh_config(text, minor), minor) for minor in (NEWEST, DEVELOPMENT))
    assert before["tracing"]["tlsSettings"] == {"mode": "SIMPLE"}
    assert after["tracing"]["tlsSettings"] == {"mode": "SIMPLE", "caCertCredentialName": "own"}


@pytest.mark.parametrize("text", ["a", "[]", "1"])
def test_a_mesh_is_a_mapping(text: str) -> None:
    with pytest.raises(ConfigError, match="a mesh config must be a mapping") as caught:
        parse_mesh_config(text, NEWEST, where="istio: mesh")
    assert caught.value.where == "istio: mesh"


@cases("text", "what")
def test_a_field_of_the_wrong_type_is_named(text: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_mesh_config(text, NEWEST)
    assert (caught.value.what, caught.value.where) == (what, "mesh")


@cases("minor", "text", "what")
def test_a_value_that_istio_refuses_is_refused_in_its_words(minor: Minor, text: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_mesh_config(text, minor)
    assert (caught.value.what, caught.value.where) == (what, "mesh")


@cases("minor", "text")
def test_a_value_that_istio_accepts_or_does_not_read_is_accepted(minor: Minor, text: str) -> None:
    parse_mesh_config(text, minor)


def test_fields_override_and_messages_are_replaced_whole() -> None:
    mesh = parse_mesh_config("{rootNamespace: r, localityLbSetting: {}, defaultServiceExportTo: [.]}", NEWEST)
    assert mesh.values == {
        **default_mesh_config(NEWEST),
        "rootNamespace": "r",
        "localityLbSetting": {},
        "defaultServiceExportTo": ["."],
    }


def test_the_default_config_is_merged_by_field() -> None:
    mesh = parse_mesh_config("defaultConfig: {statusPort: 1, drainDuration: 10s}", NEWEST)
    assert _proxy(mesh) == {**_proxy(parse_mesh_config(None, NEWEST)), "statusPort": 1, "drainDuration": 10 * SECOND}


def test_the_defaults_are_not_changed() -> None:
    before = repr(default_mesh_config(NEWEST))
    mesh = parse_mesh_config("{extensionProviders: [{name: x}], defaultConfig: {proxyMetadata: {A: a}}}", NEWEST)
    apply_proxy_config("{statusPort: 1, proxyMetadata: {A: b}}", mesh, NEWEST)
    assert repr(default_mesh_config(NEWEST)) == before
    assert _proxy(mesh)["proxyMetadata"] == {"A": "a"}


SHARED = """
rootNamespace: shared
trustDomain: shared
trustDomainAliases: [b]
extensionProviders: [{name: x, opentelemetry: {service: shared, port: 1}}, {name: other}]
defaultConfig: {statusPort: 1, drainDuration: 10s, proxyMetadata: {A: shared, B: shared}}
"""
OWN = """
trustDomain: own
trustDomainAliases: [a]
extensionProviders: [{name: x, opentelemetry: {service: own, port: 1}}]
defaultConfig: {statusPort: 2, proxyMetadata: {A: own}}
"""


def test_a_shared_mesh_config_is_below_the_own_one() -> None:
    mesh = parse_mesh_config(OWN, NEWEST, shared=SHARED)

    assert (mesh.values["rootNamespace"], mesh.values["trustDomain"]) == ("shared", "own")
    assert list(mesh.values["trustDomainAliases"]) == ["a", "b"]
    assert (_proxy(mesh)["statusPort"], _proxy(mesh)["drainDuration"]) == (2, 10 * SECOND)
    assert dict(_proxy(mesh)["proxyMetadata"]) == {"A": "own", "B": "shared"}
    names = [provider["name"] for provider in mesh.values["extensionProviders"]]
    assert names == ["prometheus", "stackdriver", "envoy", "x", "other"]
    assert "own" in repr(mesh.values["extensionProviders"][names.index("x")])


@pytest.mark.parametrize(
    "shared", ["", "{}", "[", "defaultConfig: 1", "trustDomain: [1]", "defaultConfig: {drainDuration: soon}"]
)
def test_a_shared_mesh_config_that_is_not_valid_is_ignored(shared: str) -> None:
    assert parse_mesh_config(OWN, NEWEST, shared=shared).values == parse_mesh_config(OWN, NEWEST).values


@pytest.mark.parametrize(
    ("minor", "own", "shared", "expected"),
    [
        (NEWEST, "{metrics: [b]}", "{tracing: [a], metrics: [a]}", {"tracing": ["a"], "metrics": ["b"]}),
        (NEWEST, "{metrics: []}", "{metrics: [a]}", {"metrics": []}),
        (NEWEST, "null", "{tracing: [a]}", {"tracing": ["a"]}),
        ((1, 11), "{metrics: [b]}", "{}", {"accessLogging": ["envoy"], "metrics": ["b"]}),
        ((1, 11), "{accessLogging: []}", "{tracing: [a]}", {"accessLogging": [], "tracing": ["a"]}),
    ],
)
def test_default_providers_are_merged_by_kind(
    minor: Minor, own: str, shared: str, expected: dict[str, list[str]]
) -> None:
    mesh = parse_mesh_config(f"defaultProviders: {own}", minor, shared=f"defaultProviders: {shared}")

    assert mesh.values["defaultProviders"] == expected


def test_istio_before_1_10_has_no_shared_mesh_config() -> None:
    text = "trustDomain: own"
    assert parse_mesh_config(text, (1, 9), shared=SHARED).values == parse_mesh_config(text, (1, 9)).values


@cases("minor", "text", "field", "expected")
def test_a_field_of_the_mesh_is_what_the_minor_makes_of_it(minor: Minor, text: str, field: str, expected: Any) -> None:
    assert parse_mesh_config(text, minor).values[field] == expected


@cases("minor", "mesh", "annotation", "expected")
def test_the_proxy_config_of_a_pod_is_merged_as_the_minor_does(
    minor: Minor, mesh: str, annotation: str, expected: dict[str, Any]
) -> None:
    proxy = _proxy(apply_proxy_config(annotation, parse_mesh_config(f"defaultConfig: {mesh}", minor), minor))
    assert {field: proxy.get(field) for field in expected} == expected


@pytest.mark.parametrize("text", ["", "{}", "null", "unknown: 1", "statusPort: null"])
def test_an_empty_annotation_changes_nothing(text: str) -> None:
    mesh = parse_mesh_config("defaultConfig: {statusPort: 1}", NEWEST)
    assert apply_proxy_config(text, mesh, NEWEST).values == mesh.values


def test_an_annotation_overrides_only_its_own_fields_of_the_mesh_config() -> None:
    mesh = parse_mesh_config("{trustDomain: td, defaultConfig: {statusPort: 1, proxyAdminPort: 2}}", NEWEST)
    applied = apply_proxy_config("statusPort: 3", mesh, NEWEST)
    assert _proxy(applied) == {**_proxy(mesh), "statusPort": 3}
    assert applied.values["trustDomain"] == "td"
    assert _proxy(mesh)["statusPort"] == 1


@cases("text", "what")
def test_an_invalid_annotation_is_named_in_the_error(text: str, what: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        apply_proxy_config(text, parse_mesh_config(None, NEWEST), NEWEST)
    assert caught.value.what.startswith(what)
    assert caught.value.where == "metadata.annotations[proxy.istio.io/config]"


@pytest.mark.parametrize("minor", [(1, number) for number in range(7, 32)])
def test_the_defaults_of_a_proxy_config_are_not_written(minor: Minor) -> None:
    assert _written(parse_mesh_config(None, minor), minor) == {}


@cases("text", "expected")
def test_fields_that_differ_from_the_defaults_are_written(text: str, expected: dict[str, Any]) -> None:
    assert _written(apply_proxy_config(text, parse_mesh_config(None, NEWEST), NEWEST)) == expected


@pytest.mark.parametrize("minor", [(1, 12), (1, 13), (1, 14), NEWEST])
@cases("text", "expected")
def test_a_null_in_a_proxy_config_is_an_empty_value(minor: Minor, text: str, expected: dict[str, Any]) -> None:
    """As the jsonpb of golang/protobuf 1.5.4 and istio.io/api 1.24.3 read and write it.

    Up to 1.13 (gogo/protobuf 1.3.2 and the API of 1.12.9), a null stays null where a message is expected; docs/compatibility.md has this
    difference.
    """
    assert _written(apply_proxy_config(text, parse_mesh_config(None, minor), minor), minor) == expected
    assert _written(parse_mesh_config(f"defaultConfig: {text}", minor), minor) == expected


@cases("minor", "text", "expected")
def test_a_default_is_written_by_minors_that_do_not_have_it(minor: Minor, text: str, expected: dict[str, Any]) -> None:
    assert _written(apply_proxy_config(text, parse_mesh_config(None, minor), minor), minor) == expected


def test_1_5_writes_every_field() -> None:
    written = _written(parse_mesh_config(None, (1, 5)), (1, 5))
    assert written["configPath"] == "/etc/istio/proxy"
    assert written["drainDuration"] == "45s"


def test_another_message_is_written_whole() -> None:
    mesh = parse_mesh_config(None, NEWEST)
    written = json.loads(proto_to_json(mesh, NEWEST))
    assert written["defaultConfig"]["statusPort"] == 15020
    assert written["outboundTrafficPolicy"] == {"mode": "ALLOW_ANY"}
    assert written["inboundTrafficPolicy"] == {}


@cases("name", "old", "new")
def test_the_facts_of_an_empty_mesh_config_are_the_defaults_of_its_minor(name: str, old: Any, new: Any) -> None:
    assert getattr(mesh_facts(parse_mesh_config(None, (1, 0))), name) == old
    assert getattr(mesh_facts(parse_mesh_config(None, (1, 30))), name) == new


@pytest.mark.parametrize(("minor", "concurrency"), [((1, 5), 0), ((1, 6), 2), ((1, 17), 2), ((1, 18), None)])
def test_concurrency_is_a_plain_number_then_two_then_unset(minor: Minor, concurrency: int | None) -> None:
    assert mesh_facts(parse_mesh_config(None, minor)).concurrency == concurrency


@cases("text", "name", "expected")
def test_a_field_of_the_mesh_is_read_once(text: str, name: str, expected: Any) -> None:
    assert getattr(mesh_facts(parse_mesh_config(text, (1, 30))), name) == expected


def test_the_pointers_are_what_templates_get() -> None:
    mesh = parse_mesh_config("trustDomain: td", (1, 30))
    facts = mesh_facts(mesh)
    assert facts.mesh_config is mesh
    assert (facts.mesh_pointer.go_type, facts.mesh_pointer.target) == ("*v1alpha1.MeshConfig", mesh)
    assert facts.proxy_config.go_type == "*v1alpha1.ProxyConfig"
    assert facts.proxy_config.target.field("StatusPort") == 15020


@cases("minor", "expected")
def test_the_default_proxy_config_of_a_minor_is_istios(minor: Minor, expected: dict[str, Any]) -> None:
    assert default_proxy_config(minor) == expected


@cases("minor", "expected")
def test_the_default_mesh_config_of_a_minor_is_istios(minor: Minor, expected: dict[str, Any]) -> None:
    assert default_mesh_config(minor) == {**expected, "defaultConfig": default_proxy_config(minor)}


@cases("field", "last_before", "before", "after")
def test_a_default_changes_with_its_minor(field: str, last_before: Minor, before: Any, after: Any) -> None:
    minors = last_before, (1, last_before[1] + 1)

    assert [{**default_mesh_config(minor), **default_proxy_config(minor)}.get(field) for minor in minors] == [
        before,
        after,
    ]


def test_every_default_is_a_field_of_its_message() -> None:
    assert PROXY_DEFAULTS.keys() <= message_type(PROXY_CONFIG).by_json.keys()
    assert MESH_DEFAULTS.keys() <= message_type(MESH_CONFIG).by_json.keys()
