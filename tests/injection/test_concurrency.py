from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from injector.injection.data import estimated_concurrency
from injector.injection.pipeline import webhook_parameters
from injector.injection.result import RequestFacts
from injector.istio.revision import RevisionSettings, build_revision
from tests.factories import make_pod

if TYPE_CHECKING:
    from injector.injection.data import Parameters

CONFIG = "{policy: enabled, templates: {sidecar: ''}}"
LIMIT = "sidecar.istio.io/proxyCPULimit"
REQUEST = "sidecar.istio.io/proxyCPU"
PROXY_CONFIG = "proxy.istio.io/config"


def _params(
    *, annotations: dict[str, str] | None = None, mesh: str | None = None, resources: str = "{}", version: str = "1.17"
) -> Parameters:
    revision = build_revision(
        "default",
        config=CONFIG,
        values=f"{{global: {{proxy: {{resources: {resources}}}}}}}",
        mesh=mesh,
        settings=RevisionSettings(istio_version=version),
        origin="test",
    )
    return webhook_parameters(revision, make_pod(annotations=annotations), RequestFacts())


def _by_cpus(annotations: dict[str, str], resources: str = "{}") -> int:
    mesh = "defaultConfig: {concurrency: 0}"
    return estimated_concurrency(_params(annotations=annotations, resources=resources, mesh=mesh))


@pytest.mark.parametrize(
    ("mesh", "annotations", "expected"),
    [
        (None, {}, 2),
        (None, {LIMIT: "7"}, 2),
        ("defaultConfig: {concurrency: 5}", {}, 5),
        ("defaultConfig: {concurrency: 5}", {LIMIT: "7"}, 5),
        ("defaultConfig: {concurrency: 5}", {PROXY_CONFIG: "concurrency: 3"}, 3),
        ("defaultConfig: {concurrency: 5}", {PROXY_CONFIG: "concurrency: 0", LIMIT: "7"}, 7),
        ("defaultConfig: {concurrency: 0}", {}, 2),
    ],
)
def test_the_proxy_config_decides_unless_it_says_zero(
    mesh: str | None, annotations: dict[str, str], expected: int
) -> None:
    assert estimated_concurrency(_params(annotations=annotations, mesh=mesh)) == expected


def test_where_the_proxy_config_has_none_it_is_two_whatever_the_cpus_are() -> None:
    params = _params(annotations={LIMIT: "7"})
    without = replace(params, proxy_config=replace(params.proxy_config, concurrency=None))
    assert estimated_concurrency(without) == 2


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ("1", 1),
        ("500m", 1),
        ("1001m", 2),
        ("6500m", 7),
        ("7", 7),
        ("2.5", 3),
        ("1e1", 10),
        ("100n", 1),
    ],
)
def test_cpus_are_rounded_up(cpu: str, expected: int) -> None:
    assert _by_cpus({LIMIT: cpu}) == expected


@pytest.mark.parametrize(
    ("annotations", "resources", "expected"),
    [
        ({LIMIT: "3", REQUEST: "4"}, "{limits: {cpu: '5'}, requests: {cpu: '6'}}", 3),
        ({REQUEST: "4"}, "{limits: {cpu: '5'}, requests: {cpu: '6'}}", 4),
        ({}, "{limits: {cpu: '5'}, requests: {cpu: '6'}}", 5),
        ({}, "{limits: {memory: 1Gi}, requests: {cpu: '6'}}", 6),
        ({}, "{requests: {cpu: 5500m}}", 6),
        ({}, "{limits: {memory: 1Gi}}", 2),
        ({}, "{}", 2),
    ],
)
def test_a_limit_counts_before_a_request_and_an_annotation_before_the_values(
    annotations: dict[str, str], resources: str, expected: int
) -> None:
    assert _by_cpus(annotations, resources) == expected


@pytest.mark.parametrize("annotation", [LIMIT, REQUEST])
def test_an_annotation_that_is_no_quantity_hides_the_values_all_the_same(annotation: str) -> None:
    assert _by_cpus({annotation: "many"}, "{limits: {cpu: '5'}}") == 2


@pytest.mark.parametrize(("version", "expected"), [("1.10", 0), ("1.11", 5), ("1.17", 5)])
def test_istio_1_10_declares_the_field_and_leaves_it_zero(version: str, expected: int) -> None:
    assert estimated_concurrency(_params(mesh="defaultConfig: {concurrency: 5}", version=version)) == expected
