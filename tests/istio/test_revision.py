"""A revision is built from its texts, with settings and a fingerprint."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from injector.errors import ConfigError, TemplateRenderError
from injector.istio.behaviours import behaviours_of
from injector.istio.revision import Revision, RevisionSettings, build_revision
from injector.istio.template import TemplateData
from injector.kube.yaml import load_yaml
from tests.cases import cases

REVISIONS = Path(__file__).resolve().parents[2] / "revisions"
CONFIG = "templates: {sidecar: 'rev: {{ .Revision }}'}"
NOTHING_SAID = RevisionSettings()


def _build(
    config: str = CONFIG,
    *,
    values: str | None = None,
    mesh: str | None = None,
    settings: RevisionSettings = NOTHING_SAID,
    name: str = "stable",
) -> Revision:
    return build_revision(name, config=config, values=values, mesh=mesh, settings=settings, origin="revisions/stable")


def _shipped(name: str) -> Revision:
    folder = REVISIONS / name
    return build_revision(
        name,
        config=(folder / "config").read_text(),
        values=(folder / "values").read_text(),
        mesh=(folder / "mesh").read_text(),
        settings=RevisionSettings.from_mapping(load_yaml((folder / "revision.yaml").read_text())),
        origin=str(folder),
    )


def test_empty_settings_are_not_set() -> None:
    assert RevisionSettings.from_mapping({}) == RevisionSettings(
        istio_version=None, env={}, engine="go", revision=None, node_versions=None, namespaces={}
    )


def test_every_setting_is_read() -> None:
    namespaces = {"shop": {"labels": {"istio-injection": "enabled"}}}

    settings = RevisionSettings.from_mapping(
        {
            "istioVersion": "1.24",
            "env": {"PLATFORM": "openshift", "ENABLE": True, "COUNT": 3},
            "engine": "jinja2",
            "revision": "blue",
            "nodeVersions": ["v1.33.0", 1.33],
            "namespaces": namespaces,
        }
    )

    assert settings == RevisionSettings(
        istio_version="1.24",
        env={"PLATFORM": "openshift", "ENABLE": "true", "COUNT": "3"},
        engine="jinja2",
        revision="blue",
        node_versions=("v1.33.0", "1.33"),
        namespaces=namespaces,
    )


@pytest.mark.parametrize("key", ["istioVersion", "env", "engine", "revision", "nodeVersions", "namespaces"])
def test_null_is_not_set(key: str) -> None:
    assert RevisionSettings.from_mapping({key: None}) == NOTHING_SAID


def test_an_empty_revision_name_is_kept() -> None:
    assert RevisionSettings.from_mapping({"revision": ""}).revision == ""


@cases("mapping", "what", "hint")
def test_an_invalid_setting_is_refused(mapping: dict[str, Any], what: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        RevisionSettings.from_mapping(mapping, where="stable: revision.yaml")

    assert (error.value.what, error.value.where, error.value.hint) == (what, "stable: revision.yaml", hint)


def test_a_revision_has_the_settings_it_was_built_from() -> None:
    settings = RevisionSettings(
        env={"A": "b"}, node_versions=("v1.33.0",), namespaces={"shop": {"labels": {}}}, istio_version="1.24.6"
    )

    revision = _build(values="global: {hub: example.com}", mesh="defaultConfig: {statusPort: 15021}", settings=settings)

    assert (revision.name, revision.written, revision.origin) == ("stable", "stable", "revisions/stable")
    assert (revision.minor, revision.istio_version, revision.version_reason) == ((1, 24), "1.24", "stated")
    assert (revision.engine, revision.env) == ("go", {"A": "b"})
    assert (revision.node_versions, revision.namespaces) == (("v1.33.0",), {"shop": {"labels": {}}})
    assert (revision.values.hub, revision.mesh.status_port) == ("example.com", 15021)
    assert revision.behaviours == behaviours_of((1, 24))
    assert revision.config.default_templates == ("sidecar",)


@pytest.mark.parametrize(("said", "expected"), [(None, "stable"), ("blue", "blue"), ("", "")])
def test_the_name_in_pods_can_be_set(said: str | None, expected: str) -> None:
    assert _build(settings=RevisionSettings(revision=said)).written == expected


@cases("stated", "tag", "minor", "reason")
def test_a_version_in_the_settings_overrides_the_tag(
    stated: str | None, tag: str, minor: tuple[int, int], reason: str
) -> None:
    revision = _build(values=f"global: {{tag: '{tag}'}}", settings=RevisionSettings(istio_version=stated))

    assert (revision.minor, revision.version_reason) == (minor, reason)


@pytest.mark.parametrize(
    ("env", "expected"),
    [({"PLATFORM": "openshift"}, True), ({"PLATFORM": "OpenShift"}, False), ({"PLATFORM": "gcp"}, False), ({}, False)],
)
def test_openshift_is_a_platform(env: dict[str, str], expected: bool) -> None:
    assert _build(settings=RevisionSettings(env=env)).openshift is expected


def test_templates_are_compiled_and_render() -> None:
    revision = _build(
        "templates: {a: '{{ .Revision }}', b: '{{ env `KEY` `none` }}'}", settings=RevisionSettings(env={"KEY": "v"})
    )

    assert {name: item.render(TemplateData({"Revision": "r"})) for name, item in revision.templates.items()} == {
        "a": "r",
        "b": "v",
    }


def test_istio_1_0_opens_actions_with_square_brackets() -> None:
    revision = _build("template: '[[ .Spec ]] {{ x }}'", settings=RevisionSettings(istio_version="1.0"))

    assert revision.templates["sidecar"].render(TemplateData({"Spec": "s"})) == "s {{ x }}"


@pytest.mark.parametrize(("version", "known"), [("1.7", False), ("1.8", True)])
def test_sprig_is_known_since_1_8(version: str, known: bool) -> None:
    settings = RevisionSettings(istio_version=version)
    config = "template: '{{ upper `a` }}'"
    if known:
        assert _build(config, settings=settings).templates["sidecar"].render(TemplateData({})) == "A"
        return
    with pytest.raises(TemplateRenderError, match='function "upper" not defined'):
        _build(config, settings=settings)


@cases(
    "texts",
    "what",
    "where",
    also=[
        (
            {"settings": RevisionSettings(istio_version="2.0")},
            "Istio 2.0 is not supported",
            "revisions/stable: istioVersion",
        )
    ],
)
def test_an_invalid_text_is_named(texts: dict[str, Any], what: str, where: str) -> None:
    with pytest.raises(ConfigError) as error:
        _build(**texts)

    assert (error.value.what, error.value.where) == (what, where)


def test_a_template_that_does_not_parse_is_refused() -> None:
    with pytest.raises(TemplateRenderError, match='function "nope" not defined'):
        _build("templates: {sidecar: ok, extra: '{{ nope }}'}")


def test_the_same_texts_have_the_same_fingerprint() -> None:
    first, second = _build(values="{}", name="a"), _build(values="{}", name="b")

    assert first.fingerprint == second.fingerprint
    assert len(first.fingerprint) == 12


@cases("change", also=[{"settings": RevisionSettings(revision="blue")}, {"settings": RevisionSettings(env={"A": "b"})}])
def test_any_change_gives_another_fingerprint(change: dict[str, Any]) -> None:
    assert _build(**change).fingerprint != _build().fingerprint


def test_text_that_moves_from_one_key_to_the_next_changes_the_fingerprint() -> None:
    assert _build(values="{}", mesh=None).fingerprint != _build(values=None, mesh="{}").fingerprint


@pytest.mark.parametrize("field", [field.name for field in fields(Revision)])
def test_a_revision_is_frozen(field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(_build(), field, None)


@pytest.mark.parametrize(("name", "minor", "tag"), [("stable", (1, 24), "1.24.6"), ("canary", (1, 30), "1.30.3")])
def test_the_revisions_that_the_project_ships_can_be_built(name: str, minor: tuple[int, int], tag: str) -> None:
    revision = _shipped(name)

    assert (revision.engine, revision.values.tag, list(revision.templates)) == ("jinja2", tag, ["sidecar"])
    assert (revision.minor, revision.version_reason, revision.mesh.status_port) == (minor, "stated", 15020)


@cases("version", "env", "expected")
def test_a_revision_asks_nodes_if_native_sidecars_depend_on_them(
    version: str, env: dict[str, str], expected: bool
) -> None:
    assert _build(settings=RevisionSettings(istio_version=version, env=env)).asks_nodes is expected
