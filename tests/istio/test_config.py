from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ConfigError, DataError
from injector.istio.config import InjectConfig, parse_inject_config
from injector.kube.selectors import Selector

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


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("[[ .Spec ]]", ("[[", "]]")),
        ("[[ `{{` ]]", ("[[", "]]")),
        ("{{ .Spec }}", ("{{", "}}")),
        ("{{ `[[` }}", ("{{", "}}")),
        ("containers: []", ("{{", "}}")),
    ],
)
def test_the_first_action_of_a_single_template_tells_its_delimiters(template: str, expected: tuple[str, str]) -> None:
    assert parse_inject_config(f"template: '{template}'").delimiters == expected


@pytest.mark.parametrize("text", ["templates: {}", "templates: null", "templates: {}\ntemplate: old"])
def test_an_empty_map_of_templates_is_one_that_injects_nothing(text: str) -> None:
    config = parse_inject_config(text)

    assert (dict(config.templates), config.appends) == ({}, False)


@pytest.mark.parametrize("text", ["policy: enabled", "template: ''", "template: null", "template: ' \t'", "{}"])
def test_a_config_without_any_template_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="it has neither `templates` nor `template`"):
        parse_inject_config(text)


def test_a_placeholder_is_no_template() -> None:
    with pytest.raises(ConfigError, match="it has only the placeholder `template`") as error:
        parse_inject_config(f'template: "{SENTINEL}"', where="stable: config")

    assert error.value.where == "stable: config"
    assert error.value.hint == "copy the whole key `config` of the ConfigMap"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("- a", "a list"),
        ("a", "a string"),
        ("1", "a number"),
        ("1.5", "a number"),
        ("true", "a boolean"),
        ("", "empty"),
    ],
)
def test_a_config_is_a_mapping(text: str, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"^config: an inject config is a mapping, this is {kind};"):
        parse_inject_config(text)


def test_yaml_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(DataError) as error:
        parse_inject_config("a: [", where="stable: config")

    assert error.value.where == "stable: config"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("policy: [a]", "`policy` is a list", "make it a string"),
        ("policy: {a: b}", "`policy` is a mapping", "make it a string"),
        ("defaultTemplates: sidecar", "`defaultTemplates` is a string", "make it a list of strings"),
        ("defaultTemplates: [[a]]", "`defaultTemplates[0]` is a list", "make it a string"),
        ("aliases: [a]", "`aliases` is a list", "make it a mapping"),
        ("aliases: {a: b}", "`aliases.a` is a string", "make it a list of strings"),
        ("injectedAnnotations: {a: [b]}", "`injectedAnnotations.a` is a list", "make it a string"),
        ("neverInjectSelector: {}", "`neverInjectSelector` is a mapping", "make it a list of label selectors"),
        ("alwaysInjectSelector: [a]", "`alwaysInjectSelector` is a list", "make it a list of label selectors"),
    ],
)
def test_a_key_of_the_wrong_type_is_refused(text: str, what: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        _with(text)

    assert (error.value.what, error.value.where, error.value.hint) == (what, "config", hint)


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("defaultTemplates: []", "default_templates", ("sidecar",)),
        ("defaultTemplates: null", "default_templates", ("sidecar",)),
        ("aliases: {a: null}", "aliases", {"a": ()}),
        ("aliases: null", "aliases", {}),
        ("injectedAnnotations: null", "injected_annotations", {}),
        ("unknown: 1", "injected_annotations", {}),
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
