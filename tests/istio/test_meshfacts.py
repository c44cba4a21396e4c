from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.istio.mesh import mesh_facts, parse_mesh_config

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("concurrency", 0, None),
        ("status_port", 0, 15020),
        ("interception_mode", "REDIRECT", "REDIRECT"),
        ("hold_application", False, False),
        ("prometheus_merge", None, True),
        ("inbound_traffic_policy", "passthrough", "passthrough"),
        ("image_type", None, None),
        ("sds_uds_path", "", ""),
        ("enable_sds_token_mount", False, False),
    ],
)
def test_a_mesh_that_says_nothing_has_the_defaults_of_its_minor(name: str, old: Any, new: Any) -> None:
    assert getattr(mesh_facts(parse_mesh_config(None, (1, 0))), name) == old
    assert getattr(mesh_facts(parse_mesh_config(None, (1, 30))), name) == new


@pytest.mark.parametrize(("minor", "concurrency"), [((1, 5), 0), ((1, 6), 2), ((1, 17), 2), ((1, 18), None)])
def test_concurrency_is_a_plain_number_then_two_then_unset(minor: Minor, concurrency: int | None) -> None:
    assert mesh_facts(parse_mesh_config(None, minor)).concurrency == concurrency


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("defaultConfig: {concurrency: 0}", "concurrency", 0),
        ("defaultConfig: {concurrency: 4}", "concurrency", 4),
        ("defaultConfig: {statusPort: 1234}", "status_port", 1234),
        ("defaultConfig: {interceptionMode: TPROXY}", "interception_mode", "TPROXY"),
        ("defaultConfig: {interceptionMode: NONE}", "interception_mode", "NONE"),
        ("defaultConfig: {holdApplicationUntilProxyStarts: true}", "hold_application", True),
        ("defaultConfig: {holdApplicationUntilProxyStarts: false}", "hold_application", False),
        ("defaultConfig: {image: {imageType: distroless}}", "image_type", "distroless"),
        ("defaultConfig: {image: {}}", "image_type", ""),
        ("enablePrometheusMerge: false", "prometheus_merge", False),
        ("inboundTrafficPolicy: {mode: LOCALHOST}", "inbound_traffic_policy", "localhost"),
        ("inboundTrafficPolicy: {mode: PASSTHROUGH}", "inbound_traffic_policy", "passthrough"),
        ("inboundTrafficPolicy: {}", "inbound_traffic_policy", "passthrough"),
        ("sdsUdsPath: unix:/x", "sds_uds_path", "unix:/x"),
        ("enableSdsTokenMount: true", "enable_sds_token_mount", True),
    ],
)
def test_a_field_of_the_mesh_is_read_once(text: str, name: str, expected: Any) -> None:
    assert getattr(mesh_facts(parse_mesh_config(text, (1, 30))), name) == expected


def test_the_pointers_are_what_templates_get() -> None:
    mesh = parse_mesh_config("trustDomain: td", (1, 30))
    facts = mesh_facts(mesh)
    assert facts.mesh_config is mesh
    assert (facts.mesh_pointer.go_type, facts.mesh_pointer.target) == ("*v1alpha1.MeshConfig", mesh)
    assert facts.proxy_config.go_type == "*v1alpha1.ProxyConfig"
    assert facts.proxy_config.target.field("StatusPort") == 15020
