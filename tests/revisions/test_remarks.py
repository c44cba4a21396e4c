"""Remarks of ``revision verify`` about a config and values that Istio accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from injector.istio.revision import RevisionSettings, build_revision
from injector.revisions.verify import verify

CONFIG = """\
policy: enabled
templates:
  sidecar: |
    metadata:
      annotations:
        missing: "{{ .Values.global.missing }}"
    spec:
      containers:
      - name: istio-proxy
        image: "{{ .ProxyImage }}"
        args:
        - "{{ .Values.global.arg }}"
        - {{ toJson .Values.global.json | quote }}
"""
GLOBAL = {"hub": "istio", "tag": "1.30.3", "arg": "a", "json": {"a": "b"}, "missing": ""}


def notes(more: str = "", **values: Any) -> list[str]:
    """The notes about a revision with more text in its config, and values of ``global``."""
    text = json.dumps({"global": {**GLOBAL, **values}})
    settings = RevisionSettings(istio_version="1.30")
    revision = build_revision("r", config=CONFIG + more, values=text, mesh=None, settings=settings, origin="r")
    return list(verify(revision).notes)


def test_a_config_as_it_should_be_has_no_remark() -> None:
    more = "neverInjectSelector:\n- matchLabels: {app: a}\n- matchExpressions: [{key: a, operator: Exists}]\n"

    assert notes(more, arg="[c d]", json=["a", "b"]) == []


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"hub": "https://registry.example.com"}, "it is a URL"),
        ({"hub": "registry.example.com/"}, "a part of its path is empty"),
        ({"tag": "1.30:1"}, "it has two tags"),
        ({"hub": "registry.example.com/Mesh"}, "'Mesh' has letters in upper case"),
        ({"tag": ""}, "the tag is empty"),
        ({"proxy": {"image": "registry.example.com:5000/mesh/proxyv2:1.30"}}, "it has two tags"),
    ],
)
def test_an_image_that_the_kubelet_refuses_is_noted(values: dict[str, Any], fault: str) -> None:
    (note,) = notes(**values)

    assert note.startswith("the image '")
    assert note.endswith(f"of spec.containers[istio-proxy].image is not valid, and the kubelet refuses it: {fault}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["a", "b"], "values: global.arg is a list, which the template prints as '[a b]' into {}; write it as a text"),
        (
            {"a": 1},
            "values: global.arg is a mapping, which the template prints as 'map[a:1]' into {}; write it as a text",
        ),
        ([["a"]], "values: global.arg is a list, which the template prints as '[[a]]' into {}; write it as a text"),
        (
            1000620000,
            "values: global.arg is a large number, which the template prints as '1.00062e+09' into {}; write it as a text",
        ),
        (None, "the template prints '<no value>' into {}: a value is missing or of a wrong type"),
    ],
)
def test_a_value_of_a_type_that_the_template_does_not_expect_is_noted(value: Any, expected: str) -> None:
    assert expected.format("spec.containers[istio-proxy].args[0]") in notes(arg=value)


def test_a_value_that_is_missing_is_noted() -> None:
    values = {name: value for name, value in GLOBAL.items() if name != "missing"}
    settings = RevisionSettings(istio_version="1.30")
    text = json.dumps({"global": values})
    revision = build_revision("r", config=CONFIG, values=text, mesh=None, settings=settings, origin="r")

    (note,) = verify(revision).notes

    assert "into metadata.annotations.missing: a value is missing or of a wrong type" in note


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"proxy": {"image": "proxyv2", "logLevel": "x"}, "imagePullSecrets": [], "network": ""}, []),
        ({"imagePullPolcy": "Always"}, ["correct or remove it (did you mean global.imagePullPolicy?)"]),
        ({"proxy": {"resource": {}}}, ["correct or remove it (did you mean global.proxy.resources?)"]),
        ({"proxy_init": {"imag": "a"}}, ["correct or remove it (did you mean global.proxy_init.image?)"]),
        ({"mtls": {"enabled": True}}, ["remove it; Istio 1.0 to 1.6 have it"]),
        ({"proxy": {"lifecycle": {"preStop": {"any": 1}}}}, []),
    ],
)
def test_a_value_that_the_chart_of_the_minor_does_not_know_is_noted(
    values: dict[str, Any], expected: list[str]
) -> None:
    said = notes(**values)

    assert [note.partition("no template reads it; ")[2] for note in said] == expected
    assert all(note.startswith("values: global.") and "of the chart of Istio 1.30" in note for note in said)


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        (
            "neverInjectSelector: [{matchLabel: {app: a}}]",
            [
                "config: neverInjectSelector[0]: unknown field matchLabel, which is ignored (did you mean matchLabels?)",
                "config: neverInjectSelector[0]: it is empty, and matches no pod",
            ],
        ),
        (
            "alwaysInjectSelector: [{matchLabels: {a: b}}, {matchExpressions: [{key: app, operator: Exist}]}]",
            [
                (
                    'config: alwaysInjectSelector[1]: it is not valid, and matches no pod: "Exist" is not a valid label selector operator; '
                    "use one of In, NotIn, Exists, DoesNotExist"
                )
            ],
        ),
        (
            "neverInjectSelector: [{matchExpressions: [{key: app, operator: Exists, value: [a]}]}]",
            ["config: neverInjectSelector[0]: unknown field value, which is ignored (did you mean values?)"],
        ),
        (
            "neverInjectSelector: [{matchExpressions: [{key: app, operator: In}]}]",
            [
                (
                    "config: neverInjectSelector[0]: it is not valid, and matches no pod: values: Invalid value: [] for In; "
                    "give values to In and NotIn, and to no other operator"
                )
            ],
        ),
        ("neverInjectSelector: [{}]", ["config: neverInjectSelector[0]: it is empty, and matches no pod"]),
    ],
)
def test_a_selector_that_does_not_match_what_it_says_is_noted(selectors: str, expected: list[str]) -> None:
    assert notes(f"{selectors}\n") == expected
