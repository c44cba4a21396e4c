from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ConfigError
from injector.istio.values import float_numbers, parse_values

FULL = """
global:
  hub: docker.io/istio
  tag: 1.24.6
  variant: distroless
  network: net-1
  multiCluster: {clusterName: east}
  proxy:
    image: proxyv2
    statusPort: 15020
    holdApplicationUntilProxyStarts: true
sidecarInjectorWebhook:
  rewriteAppHTTPProbe: true
"""


def test_the_injector_reads_these_fields_itself() -> None:
    values = parse_values(FULL)

    assert (values.hub, values.tag, values.variant) == ("docker.io/istio", "1.24.6", "distroless")
    assert (values.proxy_image, values.cluster_name, values.network) == ("proxyv2", "east", "net-1")
    assert (values.hold_application, values.rewrite_probes) == (True, True)


def test_json_is_yaml_too() -> None:
    assert parse_values('{"global": {"hub": "example.com"}}').hub == "example.com"


def test_templates_see_every_number_as_a_float() -> None:
    port = parse_values(FULL).tree["global"]["proxy"]["statusPort"]

    assert (port, type(port)) == (15020.0, float)


@pytest.mark.parametrize("text", [None, "", "null", "{}", "global: null", "global: {proxy: null}"])
def test_without_values_the_fields_are_zero(text: str | None) -> None:
    values = parse_values(text)

    assert (values.hub, values.tag, values.variant, values.proxy_image) == ("", "", "", "")
    assert (values.cluster_name, values.network) == ("", "")
    assert (values.hold_application, values.rewrite_probes) == (False, False)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [("1.24", "1.24"), ("124", "124"), ("'1.20'", "1.20"), ("1.20", "1.2"), ("true", "true"), ("null", "")],
)
def test_a_tag_may_be_any_scalar_and_prints_as_go_does(tag: str, expected: str) -> None:
    assert parse_values(f"global: {{tag: {tag}}}").tag == expected


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("global: {hub: 1}", "`global.hub` is not a string", "quote it"),
        ("global: {network: [a]}", "`global.network` is not a string", "quote it"),
        (
            "global: {proxy: {holdApplicationUntilProxyStarts: 'true'}}",
            "`global.proxy.holdApplicationUntilProxyStarts` is not a boolean",
            "write true or false, without quotes",
        ),
        (
            "sidecarInjectorWebhook: {rewriteAppHTTPProbe: 1}",
            "`sidecarInjectorWebhook.rewriteAppHTTPProbe` is not a boolean",
            "write true or false, without quotes",
        ),
        ("global: a", "`global` is not a mapping", "indent its keys under it"),
        ("global: {proxy: [a]}", "`global.proxy` is not a mapping", "indent its keys under it"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(text: str, what: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_values(text, where="stable: values")

    assert (error.value.what, error.value.where, error.value.hint) == (what, "stable: values", hint)


@pytest.mark.parametrize("text", ["- a", "a", "1", "true"])
def test_values_are_a_mapping(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^values: values are a mapping;"):
        parse_values(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (-3, -3.0),
        (1.5, 1.5),
        (2**63, float(2**63)),
        ("1", "1"),
        (None, None),
        ({"a": [1, {"b": 2}]}, {"a": [1.0, {"b": 2.0}]}),
    ],
)
def test_integers_become_floats_all_the_way_down(value: Any, expected: Any) -> None:
    changed = float_numbers(value)

    assert (changed, type(changed)) == (expected, type(expected))


def test_booleans_are_no_numbers() -> None:
    assert float_numbers([True, False]) == [True, False]
    assert type(float_numbers(True)) is bool
