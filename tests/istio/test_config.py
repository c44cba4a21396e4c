"""Istio's inject config and values are read, and refused with their place."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ConfigError, DataError
from injector.istio.config import InjectConfig, float_numbers, infer_minor, parse_inject_config, parse_values
from injector.kube.selectors import Selector
from tests.cases import cases

SENTINEL = "{{ Template_Version_And_Istio_Version_Mismatched_Check_Installation }}"
MODERN = """
policy: enabled
defaultTemplates: [sidecar, extra]
aliases: {both: [sidecar, extra], none: []}
injectedAnnotations: {example.com/a: b, example.com/empty: null}
neverInjectSelector:
- matchLabels: {app: never}
alwaysInjectSelector:
- matchExpressions: [{key: always, operator: Exists}]
template: "%s"
templates:
  sidecar: "{{ .Spec }}"
  extra: "[[ x ]]"
"""


def _with(text: str) -> InjectConfig:
    return parse_inject_config(f"templates: {{}}\n{text}")


def test_a_config_since_1_9_has_a_map_of_templates() -> None:
    config = parse_inject_config(MODERN % SENTINEL)

    assert config.templates == {"sidecar": "{{ .Spec }}", "extra": "[[ x ]]"}
    assert not config.appends
    assert config.delimiters == ("{{", "}}")
    assert config.default_templates == ("sidecar", "extra")
    assert config.aliases == {"both": ("sidecar", "extra"), "none": ()}
    assert config.injected_annotations == {"example.com/a": "b", "example.com/empty": ""}


def test_equal_configs_are_parsed_once() -> None:
    text = MODERN % "one"
    config = parse_inject_config(text)

    assert parse_inject_config("".join(list(text))) is config
    assert parse_inject_config(MODERN % "another") is not config


def test_the_policy_and_its_selectors_are_compiled() -> None:
    policy = parse_inject_config(MODERN % SENTINEL).policy

    assert policy.policy == "enabled"
    assert policy.never == (Selector.compile({"matchLabels": {"app": "never"}}),)
    assert policy.always[0].matches({"always": ""})


def test_a_config_until_1_8_has_one_template_named_sidecar() -> None:
    config = parse_inject_config("policy: disabled\ntemplate: |\n  containers: {{ .Spec }}\n")

    assert config.templates == {"sidecar": "containers: {{ .Spec }}\n"}
    assert config.appends
    assert config.default_templates == ("sidecar",)
    assert config.policy.policy == "disabled"


@cases("template", "expected")
def test_the_first_action_of_a_single_template_tells_its_delimiters(template: str, expected: tuple[str, str]) -> None:
    assert parse_inject_config(f"template: '{template}'").delimiters == expected


@pytest.mark.parametrize("text", ["templates: {}", "templates: null", "templates: {}\ntemplate: old"])
def test_an_empty_map_of_templates_is_one_that_injects_nothing(text: str) -> None:
    config = parse_inject_config(text)

    assert (dict(config.templates), config.appends) == ({}, False)


@pytest.mark.parametrize("text", ["policy: enabled", "template: ''", "template: null", "template: ' \t'", "{}"])
def test_a_config_without_any_template_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="there is neither `templates` nor `template`"):
        parse_inject_config(text)


def test_a_placeholder_is_no_template() -> None:
    with pytest.raises(ConfigError, match="`template` is only the placeholder") as error:
        parse_inject_config(f'template: "{SENTINEL}"', where="stable: config")

    assert error.value.where == "stable: config"
    assert error.value.hint == "copy the whole key `config` of the ConfigMap"


@cases("text")
def test_a_config_is_a_mapping(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^config: `config` must be a mapping; give the key `config`"):
        parse_inject_config(text)


def test_yaml_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(DataError) as error:
        parse_inject_config("a: [", where="stable: config")

    assert error.value.where == "stable: config"


@cases("text", "what", "hint")
def test_a_key_of_the_wrong_type_is_refused(text: str, what: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        _with(text)

    assert (error.value.what, error.value.where, error.value.hint) == (what, "config", hint)


@cases(
    "text",
    "field",
    "expected",
    also=[
        ("defaultTemplates: []", "default_templates", ("sidecar",)),
        ("defaultTemplates: null", "default_templates", ("sidecar",)),
        ("aliases: {a: null}", "aliases", {"a": ()}),
    ],
)
def test_null_and_empty_are_as_absent(text: str, field: str, expected: Any) -> None:
    assert getattr(_with(text), field) == expected


@pytest.mark.parametrize("key", ["neverInjectSelector", "alwaysInjectSelector"])
def test_a_selector_that_kubernetes_refuses_is_passed_over(key: str) -> None:
    policy = _with(f"{key}: [{{matchExpressions: [{{key: a, operator: Nope}}]}}, {{matchLabels: {{app: b}}}}]").policy

    assert [*policy.never, *policy.always] == [Selector.compile({"matchLabels": {"app": "b"}})]


def test_numbers_and_bools_are_strings_where_go_wants_one() -> None:
    config = parse_inject_config(
        "{policy: true, templates: {a: 5}, defaultTemplates: [1], injectedAnnotations: {b: 1.5}}"
    )

    assert (config.policy.policy, config.templates, config.default_templates) == ("true", {"a": "5"}, ("1",))
    assert config.injected_annotations == {"b": "1.5"}


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
    [("1.24", "1.24"), ("124", "124"), ("'1.20'", "1.20"), ("1.20", "1.2"), ("true", "true"), ("null", "<nil>")],
)
def test_a_tag_may_be_any_scalar_and_prints_as_go_does(tag: str, expected: str) -> None:
    """Follows Istio 1.30.3, pkg/kube/inject/inject.go: ProxyImage prints a google.protobuf.Value with %v, and a null is one."""
    assert parse_values(f"global: {{tag: {tag}}}").tag == expected


@cases("text", "what", "hint")
def test_a_value_of_the_wrong_type_is_refused(text: str, what: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_values(text, where="stable: values")

    assert (error.value.what, error.value.where, error.value.hint) == (what, "stable: values", hint)


@pytest.mark.parametrize("text", ["- a", "a", "1", "true"])
def test_values_are_a_mapping(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^values: `values` must be a mapping; "):
        parse_values(text)


@cases("value", "expected")
def test_integers_become_floats_all_the_way_down(value: Any, expected: Any) -> None:
    changed = float_numbers(value)

    assert (changed, type(changed)) == (expected, type(expected))


def test_booleans_are_no_numbers() -> None:
    assert float_numbers([True, False]) == [True, False]
    assert type(float_numbers(True)) is bool


SQUARE = "template: '[[ .Spec ]]'"
MAP = "templates: {sidecar: '{{ .Spec }}'}"


def _infer(config: str, tag: str) -> tuple[tuple[int, int], str]:
    return infer_minor(parse_inject_config(config), parse_values(f'global: {{tag: "{tag}"}}'))


@cases("tag", "expected")
def test_the_tag_of_a_release_names_the_minor(tag: str, expected: tuple[int, int]) -> None:
    assert _infer(MAP, tag) == (expected, f"values.global.tag is {tag}")


@pytest.mark.parametrize("tag", ["", "latest", "release-1.24", "1", "1.24x", "x1.24", "0.8.0", "1." + "9" * 5000])
def test_a_tag_of_no_known_release_leaves_it_to_the_shape(tag: str) -> None:
    assert _infer(MAP, tag) == ((1, 31), "newest Istio with a map of templates (up to 1.31)")


@pytest.mark.parametrize("tag", ["1.32.0", "1.32-alpha.0", "2.0.0"])
def test_a_tag_newer_than_any_supported_istio_is_named(tag: str) -> None:
    assert _infer(MAP, tag) == ((1, 32), f"values.global.tag is {tag}, newer than Istio 1.31, the newest supported")


@cases("config", "expected", "why")
def test_the_newest_istio_of_a_shape_counts_without_a_tag(config: str, expected: tuple[int, int], why: str) -> None:
    assert _infer(config, "") == (expected, why)


@cases("config", "tag", "expected")
def test_a_tag_newer_than_the_shape_is_not_believed(config: str, tag: str, expected: tuple[int, int]) -> None:
    assert _infer(config, tag)[0] == expected


def test_a_tag_written_as_a_number_counts() -> None:
    values = parse_values("global: {tag: 1.24}")

    assert infer_minor(parse_inject_config(MAP), values) == ((1, 24), "values.global.tag is 1.24")


def test_no_values_at_all_leave_it_to_the_shape() -> None:
    assert infer_minor(parse_inject_config(SQUARE), parse_values(None))[0] == (1, 1)


@cases("config", "expected", "why")
def test_what_later_minors_have_not_gives_an_end(config: str, expected: tuple[int, int], why: str) -> None:
    minor, note = _infer(config, "")

    assert minor == expected
    assert why in note


def test_a_tag_beyond_that_end_is_not_believed() -> None:
    config = "templates: {a: '{{ .EstimatedConcurrency }}'}"

    assert (_infer(config, "1.14.6")[0], _infer(config, "1.20.8")[0]) == ((1, 14), (1, 17))
