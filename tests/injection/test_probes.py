"""Probes of the app are rewritten to the agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from injector.injection.steps.probes import APP_PROBERS, REWRITE, STATUS_PORT, Rewrite, rewritten, with_probers
from injector.injection.steps.status import STATUS
from injector.istio.behaviours import behaviours_of
from tests.cases import cases
from tests.factories import make_container, make_pod

PORT = 15020
HTTP = {"httpGet": {"path": "/ready", "port": 8080}}
AT_READYZ = {"path": "/app-health/app/readyz", "port": PORT}


def rewrite_of(minor: int = 30, env: dict[str, str] | None = None) -> Rewrite:
    """The rewrite of Istio 1.``minor``."""
    return Rewrite.of(behaviours_of((1, minor)), env or {})


def rewritten_by(minor: int, pod: dict[str, Any], *, by_default: bool = True) -> dict[str, Any]:
    """The pod as Istio 1.``minor`` rewrites its probes."""
    return rewritten(pod, rewrite_of(minor), by_default=by_default, status_port=PORT)


def app(**fields: Any) -> dict[str, Any]:
    """A container that names one of its ports."""
    return make_container(ports=[{"name": "http", "containerPort": 8080}, {"containerPort": 9090}], **fields)


def noted(container: dict[str, Any], minor: int = 30, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The probers that Istio 1.``minor`` notes, decoded."""
    return {url: json.loads(text) for url, text in rewrite_of(minor, env).probers([container], PORT).items()}


def injected(*, env: list[dict[str, str]] | None = None, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod whose application has a probe, with its proxy."""
    proxy = make_container("istio-proxy", **({} if env is None else {"env": env}))
    return make_pod(annotations=annotations or {}, containers=[app(readinessProbe=HTTP), proxy])


def proxy_env(pod: dict[str, Any]) -> Any:
    """The variables of the proxy."""
    return pod["spec"]["containers"][1].get("env")


@cases("fields", "minor", "env", "expected")
def test_probes_and_hooks_are_noted_as_the_minor_does(
    fields: dict[str, Any], minor: int, env: dict[str, str], expected: dict[str, Any]
) -> None:
    assert noted(app(**fields), minor, env) == expected


def test_probers_are_never_the_proxys() -> None:
    listed = [make_container("b", livenessProbe=HTTP), make_container("istio-proxy", livenessProbe=HTTP)]

    result = rewrite_of().probers([*listed, make_container("a", livenessProbe=HTTP, readinessProbe=HTTP)], PORT)

    assert sorted(result) == ["/app-health/a/livez", "/app-health/a/readyz", "/app-health/b/livez"]


def test_the_probers_are_one_json_object_sorted_by_url() -> None:
    (variable,) = with_probers(make_container(), {"/b": '{"c":1}', "/a": "{}"})["env"]

    assert variable == {"name": APP_PROBERS, "value": '{"/a":{},"/b":{"c":1}}'}


@cases("fields", "minor", "annotations", "port", "expected")
def test_probes_and_hooks_ask_the_agent_by_http_and_keep_the_rest(
    fields: dict[str, Any], minor: int, annotations: dict[str, str], port: int, expected: dict[str, Any]
) -> None:
    assert rewrite_of(minor).redirect([app(**fields)], annotations, port) == [app(**expected)]


@pytest.mark.parametrize(("text", "port"), [("0" * 10_000 + "7", 7), (" 7", 0)])
def test_the_port_of_the_agent_is_read_as_go_reads_it(text: str, port: int) -> None:
    (result,) = rewrite_of().redirect([app(readinessProbe=HTTP)], {STATUS_PORT: text}, PORT)

    assert result["readinessProbe"]["httpGet"]["port"] == port


def test_the_agent_is_told_in_a_variable_where_the_probes_went() -> None:
    result = rewritten_by(30, injected())

    assert result["spec"]["containers"][0]["readinessProbe"] == {"httpGet": AT_READYZ}
    assert proxy_env(result) == [
        {"name": APP_PROBERS, "value": '{"/app-health/app/readyz":{"httpGet":{"path":"/ready","port":8080}}}'}
    ]


def test_the_pod_given_is_not_changed() -> None:
    pod = injected()
    rewritten_by(30, pod)

    assert pod == injected()


@cases("annotated", "by_default", "expected")
def test_the_pod_decides_and_else_the_values(annotated: str | None, by_default: bool, expected: bool) -> None:
    pod = injected(annotations={} if annotated is None else {REWRITE: annotated})

    result = rewritten_by(30, pod, by_default=by_default)

    assert (result != pod) is expected


def test_a_pod_without_a_proxy_keeps_its_probes() -> None:
    pod = make_pod(containers=[app(readinessProbe=HTTP)])

    assert rewritten_by(30, pod) == pod


def test_a_pod_without_probes_tells_the_agent_nothing() -> None:
    pod = make_pod(containers=[app(), make_container("istio-proxy")])

    assert rewritten_by(30, pod) == pod


@pytest.mark.parametrize(("minor", "rewrites"), [(18, False), (19, True)])
def test_init_containers_are_probed_from_1_19_on(minor: int, rewrites: bool) -> None:
    pod = make_pod(
        containers=[app(), make_container("istio-proxy")], initContainers=[make_container("side", startupProbe=HTTP)]
    )

    result = rewritten_by(minor, pod)

    assert result["spec"]["initContainers"][0]["startupProbe"] == (
        {"httpGet": {"path": "/app-health/side/startupz", "port": PORT}} if rewrites else HTTP
    )


EARLIER = '{"/app-health/app/readyz":{"httpGet":{"port":1}},"/app-health/app/livez":{"tcpSocket":{"port":2}}}'


@cases("minor", "earlier", "expected")
def test_on_a_second_injection_what_was_noted_before_wins(minor: int, earlier: str, expected: str) -> None:
    pod = injected(env=[{"name": "A", "value": "b"}, {"name": APP_PROBERS, "value": earlier}], annotations={STATUS: ""})

    result = rewritten_by(minor, pod)

    assert proxy_env(result) == [{"name": "A", "value": "b"}, {"name": APP_PROBERS, "value": expected}]


@pytest.mark.parametrize(("minor", "annotations"), [(16, {STATUS: ""}), (30, {})])
def test_up_to_1_16_and_for_a_pod_without_status_the_variable_is_appended_again(
    minor: int, annotations: dict[str, str]
) -> None:
    pod = injected(env=[{"name": APP_PROBERS, "value": EARLIER}], annotations=annotations)

    assert len(proxy_env(rewritten_by(minor, pod))) == 2


@pytest.mark.parametrize(("minor", "expected"), [(26, None), (27, [APP_PROBERS])])
def test_a_variable_that_was_lost_is_back_from_1_27_on(minor: int, expected: list[str] | None) -> None:
    result = proxy_env(rewritten_by(minor, injected(annotations={STATUS: ""})))

    assert (result and [probe["name"] for probe in result]) == expected
