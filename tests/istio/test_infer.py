from __future__ import annotations

import pytest

from injector.istio.behaviours import behaviours_of
from injector.istio.config import infer_minor, parse_inject_config
from injector.istio.template import go_functions
from injector.istio.values import parse_values

SQUARE = "template: '[[ .Spec ]]'"
SINGLE = "template: '{{ .Spec }}'"
MAP = "templates: {sidecar: '{{ .Spec }}'}"


def _infer(config: str, tag: str) -> tuple[tuple[int, int], str]:
    return infer_minor(parse_inject_config(config), parse_values(f'global: {{tag: "{tag}"}}'))


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("1.24.6", (1, 24)),
        ("1.24", (1, 24)),
        ("v1.24.6", (1, 24)),
        ("1.24.6-distroless", (1, 24)),
        ("1.24-alpha.0123abc", (1, 24)),
        ("1.9.0", (1, 9)),
        ("1.10.0", (1, 10)),
        ("1.30.3", (1, 30)),
        ("1.0.9", (1, 0)),
    ],
)
def test_the_tag_of_a_release_names_the_minor(tag: str, expected: tuple[int, int]) -> None:
    assert _infer(MAP, tag) == (expected, f"values.global.tag is {tag}")


@pytest.mark.parametrize("tag", ["", "latest", "release-1.24", "1", "1.24x", "x1.24", "2.0.0", "0.8.0", "1.31.0"])
def test_a_tag_of_no_known_release_leaves_it_to_the_shape(tag: str) -> None:
    assert _infer(MAP, tag) == ((1, 30), "newest Istio with a map of templates (up to 1.30)")


@pytest.mark.parametrize(
    ("config", "expected", "why"),
    [
        (SQUARE, (1, 1), "newest Istio with a template in [[ ]] (up to 1.1)"),
        (SINGLE, (1, 8), "newest Istio with a single template in {{ }} (up to 1.8)"),
        (MAP, (1, 30), "newest Istio with a map of templates (up to 1.30)"),
    ],
)
def test_the_newest_istio_of_a_shape_counts_without_a_tag(config: str, expected: tuple[int, int], why: str) -> None:
    assert _infer(config, "") == (expected, why)


@pytest.mark.parametrize(
    ("config", "tag", "expected"),
    [
        (SQUARE, "1.0.9", (1, 0)),
        (SQUARE, "1.2.10", (1, 1)),
        (SINGLE, "1.8.6", (1, 8)),
        (SINGLE, "1.9.0", (1, 8)),
        (SINGLE, "1.0.9", (1, 0)),
    ],
)
def test_a_tag_newer_than_the_shape_is_not_believed(config: str, tag: str, expected: tuple[int, int]) -> None:
    assert _infer(config, tag)[0] == expected


def test_a_tag_written_as_a_number_counts() -> None:
    values = parse_values("global: {tag: 1.24}")

    assert infer_minor(parse_inject_config(MAP), values) == ((1, 24), "values.global.tag is 1.24")


def test_no_values_at_all_leave_it_to_the_shape() -> None:
    assert infer_minor(parse_inject_config(SQUARE), parse_values(None))[0] == (1, 1)


@pytest.mark.parametrize(
    ("config", "expected", "why"),
    [
        ("templates: {a: '', b: '{{ if .EstimatedConcurrency }}{{ end }}'}", (1, 17), "read .EstimatedConcurrency"),
        ("templates: {a: '{{ .Values.EstimatedConcurrency }}'}", (1, 30), ""),
        ("templates: {a: '{{- render .Values.x }}'}", (1, 13), "call render"),
        ("template: '{{ render .Values.x }}'", (1, 8), "a single template"),
        ("templates: {a: '{{ if gt .ProxyConfig.Concurrency.GetValue 0 }}{{ end }}'}", (1, 30), ""),
        ("template: '{{ if gt .ProxyConfig.Concurrency 0 }}{{ end }}'", (1, 6), "compare .ProxyConfig.Concurrency"),
        ("template: '[[ if gt .ProxyConfig.Concurrency 0 ]][[ end ]]'", (1, 1), ""),
    ],
)
def test_what_later_minors_have_not_gives_an_end(config: str, expected: tuple[int, int], why: str) -> None:
    minor, told = _infer(config, "")

    assert minor == expected
    assert why in told


def test_a_tag_beyond_that_end_is_not_believed() -> None:
    config = "templates: {a: '{{ .EstimatedConcurrency }}'}"

    assert (_infer(config, "1.14.6")[0], _infer(config, "1.20.8")[0]) == ((1, 14), (1, 17))


def test_the_ends_are_those_of_the_behaviours_and_functions() -> None:
    assert "EstimatedConcurrency" in behaviours_of((1, 17)).template_fields
    assert "EstimatedConcurrency" not in behaviours_of((1, 18)).template_fields
    assert "render" in go_functions((1, 13), {}, with_sprig=False)
    assert "render" not in go_functions((1, 14), {}, with_sprig=False)
