from __future__ import annotations

from typing import Any

import pytest

from injector.injection.steps.prometheus import (
    agent_annotations,
    enabled,
    merged,
    scrape_config_json,
    without_agent_annotations,
)
from tests.factories import make_container, make_pod

ENV = "ISTIO_PROMETHEUS_ANNOTATIONS"
MERGE_METRICS = "prometheus.istio.io/merge-metrics"
PORT, PATH, SCRAPE = "prometheus.io/port", "prometheus.io/path", "prometheus.io/scrape"
AGENT = {PORT: "15020", PATH: "/stats/prometheus", SCRAPE: "true"}


def _pod(annotations: dict[str, str] | None, *, proxy: str = "containers", **fields: Any) -> dict[str, Any]:
    pod = make_pod(annotations=annotations)
    sidecar = make_container("istio-proxy", **fields)
    pod["spec"][proxy] = [*pod["spec"].get(proxy, []), sidecar]
    return pod


def _merged(pod: dict[str, Any], *, mesh: bool | None = None, port: int = 15020, sanitised: bool = True) -> Any:
    return merged(pod, mesh_setting=mesh, status_port=port, sanitised=sanitised)


def _told(pod: dict[str, Any], kind: str = "containers") -> Any:
    return pod["spec"][kind][-1].get("env")


@pytest.mark.parametrize(
    ("annotation", "mesh", "expected"),
    [
        (None, None, True),
        (None, True, True),
        (None, False, False),
        ("true", False, True),
        ("false", True, False),
        ("1", False, True),
        ("F", None, False),
        ("yes", False, False),
        ("no", None, True),
        ("", False, False),
    ],
)
def test_the_annotation_decides_else_the_mesh_else_metrics_are_merged(
    annotation: str | None, mesh: bool | None, expected: bool
) -> None:
    annotations = {} if annotation is None else {MERGE_METRICS: annotation}
    assert enabled(annotations, mesh_setting=mesh) is expected


@pytest.mark.parametrize(
    ("annotations", "config"),
    [
        ({SCRAPE: "true", PATH: "/m", PORT: "80"}, '{"scrape":"true","path":"/m","port":"80"}'),
        ({PORT: "80"}, '{"scrape":"","path":"","port":"80"}'),
        ({PATH: "/a?b=1&c=2"}, '{"scrape":"","path":"/a?b=1\\u0026c=2","port":""}'),
        ({"prometheus.io.port": "80"}, '{"scrape":"","path":"","port":"80"}'),
        ({"prometheus_io/path": "/m"}, '{"scrape":"","path":"/m","port":""}'),
    ],
)
def test_the_agent_is_told_what_to_scrape_and_is_scraped_in_its_place(annotations: dict[str, str], config: str) -> None:
    pod = _merged(_pod({**annotations, "mine": "kept"}))
    assert pod["metadata"]["annotations"] == {"mine": "kept", **AGENT}
    assert _told(pod) == [{"name": ENV, "value": config}]


@pytest.mark.parametrize("annotations", [None, {}, {"mine": "kept"}, {PORT: "", SCRAPE: ""}])
def test_an_application_that_says_nothing_is_not_told_of(annotations: dict[str, str] | None) -> None:
    pod = _merged(_pod(annotations))
    assert AGENT.items() <= pod["metadata"]["annotations"].items()
    assert _told(pod) is None


def test_the_variable_comes_after_the_proxys_own() -> None:
    pod = _merged(_pod({PORT: "80"}, env=[{"name": "A", "value": "b"}]))
    assert [item["name"] for item in _told(pod)] == ["A", ENV]


def test_a_native_sidecar_is_told_as_well() -> None:
    pod = _merged(_pod({PORT: "80"}, proxy="initContainers"))
    assert [item["name"] for item in _told(pod, "initContainers")] == [ENV]


def test_a_pod_without_a_proxy_gets_the_annotations_alone() -> None:
    pod = make_pod(annotations={PORT: "80"})
    assert _merged(pod) == make_pod(annotations=AGENT)


def test_the_agents_port_is_the_meshs() -> None:
    assert _merged(make_pod(), port=15099)["metadata"]["annotations"] == {**AGENT, PORT: "15099"}


@pytest.mark.parametrize("annotation", [PORT, "prometheus.io.port"])
def test_who_has_the_agents_port_already_is_left_alone(annotation: str) -> None:
    pod = _pod({annotation: "15020", PATH: "/mine"})
    assert _merged(pod) is pod


@pytest.mark.parametrize(("annotations", "mesh"), [({PORT: "80"}, False), ({PORT: "80", MERGE_METRICS: "false"}, None)])
def test_where_merging_is_off_the_pod_is_left_alone(annotations: dict[str, str], mesh: bool | None) -> None:
    pod = _pod(annotations)
    assert _merged(pod, mesh=mesh) is pod


@pytest.mark.parametrize(
    ("scrape", "sanitised", "left_alone"),
    [
        ({SCRAPE: "false"}, True, True),
        ({SCRAPE: "F"}, True, True),
        ({"prometheus.io.scrape": "0"}, True, True),
        ({SCRAPE: "no"}, True, False),
        ({SCRAPE: ""}, True, False),
        ({SCRAPE: "true"}, True, False),
        ({SCRAPE: "false"}, False, False),
    ],
)
def test_scrape_false_declines_since_1_13(scrape: dict[str, str], sanitised: bool, left_alone: bool) -> None:
    pod = _pod({**scrape, PORT: "80"})
    assert (_merged(pod, sanitised=sanitised) is pod) is left_alone


def test_up_to_1_12_only_the_exact_spelling_counts() -> None:
    pod = _merged(_pod({"prometheus.io.port": "80", "prometheus.io.scrape": "false"}), sanitised=False)
    other = {"prometheus.io.port": "80", "prometheus.io.scrape": "false"}
    assert pod["metadata"]["annotations"] == {**other, **AGENT}
    assert _told(pod) is None


@pytest.mark.parametrize("name", ["prometheus.io/ports", "my.prometheus.io/port", "prometheus.io/Port", "prometheusio"])
def test_names_that_prometheus_reads_otherwise_are_kept(name: str) -> None:
    assert _merged(make_pod(annotations={name: "80"}))["metadata"]["annotations"] == {name: "80", **AGENT}


def test_the_pod_given_is_not_changed() -> None:
    pod = _pod({PORT: "80"})
    _merged(pod)
    assert pod == _pod({PORT: "80"})


def test_the_agent_serves_the_metrics_of_both_on_the_status_port() -> None:
    assert agent_annotations(15020) == AGENT


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({"prometheus.io.port": "80"}, None),
        ({PORT: ""}, None),
        ({PORT: "80"}, '{"scrape":"","path":"","port":"80"}'),
        ({PATH: "/m", SCRAPE: "true"}, '{"scrape":"true","path":"/m","port":""}'),
    ],
)
def test_the_config_of_the_exact_spelling_is_none_where_it_is_empty(
    annotations: dict[str, str], expected: str | None
) -> None:
    assert scrape_config_json(annotations) == expected


@pytest.mark.parametrize(
    ("annotations", "sanitised", "expected"),
    [
        ({**AGENT, "mine": "kept"}, True, {"mine": "kept"}),
        ({**AGENT, "mine": "kept"}, False, {"mine": "kept"}),
        ({**AGENT, "prometheus.io.path": "/m"}, False, {"prometheus.io.path": "/m"}),
        ({"prometheus.io.port": "15020", PATH: "/m", "mine": "kept"}, True, {"mine": "kept"}),
        ({"prometheus.io.port": "15020", PATH: "/m"}, False, {"prometheus.io.port": "15020", PATH: "/m"}),
        ({**AGENT, PORT: "80"}, True, {**AGENT, PORT: "80"}),
        ({PATH: "/stats/prometheus"}, True, {PATH: "/stats/prometheus"}),
    ],
)
def test_annotations_of_an_earlier_injection_are_told_by_the_agents_port(
    annotations: dict[str, str], sanitised: bool, expected: dict[str, str]
) -> None:
    pod = without_agent_annotations(make_pod(annotations=annotations), status_port=15020, sanitised=sanitised)
    assert pod == make_pod(annotations=expected)
