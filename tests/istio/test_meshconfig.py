"""What ``ApplyMeshConfig``, ``ApplyProxyConfig`` (pkg/config/mesh/mesh.go) and ``protoToJSON`` (pkg/kube/inject/template.go) do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import AnnotationError, ConfigError
from injector.istio.mesh import apply_proxy_config, default_mesh_config, parse_mesh_config, proto_to_json

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor
    from injector.istio.proto import Message

NEWEST: Minor = (1, 30)
SECOND = 1_000_000_000


def _proxy(mesh: Message) -> dict[str, Any]:
    values: dict[str, Any] = mesh.values["defaultConfig"]
    return values


def _written(mesh: Message, minor: Minor = NEWEST) -> Any:
    return json.loads(proto_to_json(mesh.field("DefaultConfig").target, minor))


@pytest.mark.parametrize("text", [None, "", "{}", "null", "# nothing\n", "unknown: 1", "trustDomain: null"])
@pytest.mark.parametrize("minor", [(1, 0), (1, 17), NEWEST])
def test_a_mesh_that_says_nothing_is_the_default_of_its_minor(text: str | None, minor: Minor) -> None:
    assert parse_mesh_config(text, minor).values == default_mesh_config(minor)


@pytest.mark.parametrize("text", ["a", "[]", "1"])
def test_a_mesh_is_a_mapping(text: str) -> None:
    with pytest.raises(ConfigError, match="a mesh config must be a mapping") as caught:
        parse_mesh_config(text, NEWEST, where="istio: mesh")
    assert caught.value.where == "istio: mesh"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("trustDomain: 1", "`trustDomain` is 1"),
        ("defaultConfig: []", "`defaultConfig` is a list"),
        ("defaultConfig: {statusPort: x}", "`defaultConfig.statusPort` is 'x'"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(text: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_mesh_config(text, NEWEST)
    assert (caught.value.what, caught.value.where) == (what, "mesh")


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


def test_a_message_inside_the_default_config_is_replaced() -> None:
    mesh = parse_mesh_config("defaultConfig: {tracing: {sampling: 5}}", (1, 21))
    assert _proxy(mesh)["tracing"] == {"sampling": 5.0}


def test_the_defaults_are_not_changed() -> None:
    before = repr(default_mesh_config(NEWEST))
    mesh = parse_mesh_config("{extensionProviders: [{name: x}], defaultConfig: {proxyMetadata: {A: a}}}", NEWEST)
    apply_proxy_config("{statusPort: 1, proxyMetadata: {A: b}}", mesh, NEWEST)
    assert repr(default_mesh_config(NEWEST)) == before
    assert _proxy(mesh)["proxyMetadata"] == {"A": "a"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", ["prometheus", "stackdriver", "envoy"]),
        ("extensionProviders: []", ["prometheus", "stackdriver", "envoy"]),
        ("extensionProviders: [{name: otel}]", ["prometheus", "stackdriver", "envoy", "otel"]),
        ("extensionProviders: [{name: b}, {name: envoy}, {name: a}]", ["prometheus", "stackdriver", "envoy", "b", "a"]),
    ],
)
def test_extension_providers_are_added_to_the_default_ones(text: str, expected: list[str]) -> None:
    mesh = parse_mesh_config(text, NEWEST)
    assert [provider["name"] for provider in mesh.values["extensionProviders"]] == expected


def test_an_extension_provider_of_a_known_name_replaces_it() -> None:
    mesh = parse_mesh_config("extensionProviders: [{name: envoy, zipkin: {service: z, port: 1}}]", NEWEST)
    assert mesh.values["extensionProviders"][2] == {"name": "envoy", "zipkin": {"service": "z", "port": 1}}


def test_the_last_of_two_extension_providers_of_one_name_takes_the_place_of_the_first() -> None:
    mesh = parse_mesh_config("extension_providers: [{name: a, stackdriver: {}}, {name: b}, {name: a}]", NEWEST)
    assert mesh.values["extensionProviders"][3:] == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(("minor", "expected"), [((1, 11), ["b", "a", "b"]), ((1, 12), ["a", "b"])])
def test_the_aliases_of_the_trust_domain_are_a_sorted_set_since_1_12(minor: Minor, expected: list[str]) -> None:
    mesh = parse_mesh_config("trustDomainAliases: [b, a, b]", minor)
    assert mesh.values["trustDomainAliases"] == expected


@pytest.mark.parametrize(("minor", "named"), [((1, 12), False), ((1, 13), True)])
def test_a_tracing_service_name_takes_the_place_of_the_service_cluster_since_1_13(minor: Minor, named: bool) -> None:
    mesh = parse_mesh_config("defaultConfig: {serviceCluster: foo}", minor)
    proxy = _proxy(apply_proxy_config("tracingServiceName: APP_LABEL_AND_NAMESPACE", mesh, minor))
    assert ("serviceCluster" in proxy, "tracingServiceName" in proxy) == (not named, named)


def test_before_1_11_extension_providers_have_no_defaults() -> None:
    mesh = parse_mesh_config("extensionProviders: [{name: otel}]", (1, 10))
    assert mesh.values["extensionProviders"] == [{"name": "otel"}]


@pytest.mark.parametrize(
    ("minor", "expected"),
    [((1, 9), {"A": "pod", "C": "pod"}), ((1, 10), {"A": "pod", "B": "mesh", "C": "pod"})],
)
def test_proxy_metadata_is_merged_by_key_since_1_10(minor: Minor, expected: dict[str, str]) -> None:
    mesh = parse_mesh_config("defaultConfig: {proxyMetadata: {A: mesh, B: mesh}}", minor)
    assert _proxy(apply_proxy_config("proxyMetadata: {A: pod, C: pod}", mesh, minor))["proxyMetadata"] == expected


@pytest.mark.parametrize(
    ("minor", "expected"),
    [
        ((1, 18), {"requestId": {"disabled": False}}),
        ((1, 19), {"server": {"value": "s"}, "requestId": {"disabled": False}}),
    ],
)
def test_proxy_headers_are_merged_by_header_since_1_19(minor: Minor, expected: dict[str, Any]) -> None:
    mesh = parse_mesh_config("defaultConfig: {proxyHeaders: {server: {value: s}, requestId: {disabled: true}}}", minor)
    applied = apply_proxy_config("proxyHeaders: {requestId: {disabled: false}}", mesh, minor)
    assert _proxy(applied)["proxyHeaders"] == expected


@pytest.mark.parametrize("text", ["", "{}", "null", "unknown: 1", "statusPort: null"])
def test_an_annotation_that_says_nothing_changes_nothing(text: str) -> None:
    mesh = parse_mesh_config("defaultConfig: {statusPort: 1}", NEWEST)
    assert apply_proxy_config(text, mesh, NEWEST).values == mesh.values


def test_an_annotation_wins_over_the_mesh_and_leaves_the_rest_of_it() -> None:
    mesh = parse_mesh_config("{trustDomain: td, defaultConfig: {statusPort: 1, proxyAdminPort: 2}}", NEWEST)
    applied = apply_proxy_config("statusPort: 3", mesh, NEWEST)
    assert _proxy(applied) == {**_proxy(mesh), "statusPort": 3}
    assert applied.values["trustDomain"] == "td"
    assert _proxy(mesh)["statusPort"] == 1


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[]", "could not parse proxy config: `` is a list"),
        ("statusPort: x", "could not parse proxy config: `statusPort` is 'x'"),
        ("concurrency: -", "could not parse proxy config: "),
        ("{", "could not parse proxy config: "),
    ],
)
def test_an_annotation_that_is_no_proxy_config_is_refused_by_name(text: str, what: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        apply_proxy_config(text, parse_mesh_config(None, NEWEST), NEWEST)
    assert caught.value.what.startswith(what)
    assert caught.value.where == "metadata.annotations[proxy.istio.io/config]"


@pytest.mark.parametrize("minor", [(1, number) for number in range(7, 31)])
def test_the_defaults_of_a_proxy_config_are_not_written(minor: Minor) -> None:
    assert _written(parse_mesh_config(None, minor), minor) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("statusPort: 15021", {"statusPort": 15021}),
        ("statusPort: 15020", {}),
        ("drainDuration: 45000ms", {}),
        ("drainDuration: 46s", {"drainDuration": "46s"}),
        ("serviceCluster: c", {"serviceCluster": "c"}),
        ("controlPlaneAuthPolicy: NONE", {}),
        ("concurrency: 2", {"concurrency": 2}),
        ("interceptionMode: REDIRECT", {}),
        ("proxyMetadata: {}", {}),
        ("holdApplicationUntilProxyStarts: false", {"holdApplicationUntilProxyStarts": False}),
    ],
)
def test_what_differs_from_the_defaults_is_written(text: str, expected: dict[str, Any]) -> None:
    assert _written(apply_proxy_config(text, parse_mesh_config(None, NEWEST), NEWEST)) == expected


@pytest.mark.parametrize(
    ("minor", "text", "expected"),
    [
        ((1, 17), "concurrency: 2", {}),
        ((1, 18), "concurrency: 2", {"concurrency": 2}),
        ((1, 21), "tracing: {zipkin: {address: 'zipkin.istio-system:9411'}}", {}),
        (
            (1, 22),
            "tracing: {zipkin: {address: 'zipkin.istio-system:9411'}}",
            {"tracing": {"zipkin": {"address": "zipkin.istio-system:9411"}}},
        ),
    ],
)
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
