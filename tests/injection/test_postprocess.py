from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from injector.injection.pipeline import webhook_parameters
from injector.injection.postprocess import (
    cluster_info,
    keep_env_order,
    metadata,
    post_processed,
    prometheus_merge,
    reorder,
    rewrite_probes,
)
from injector.injection.result import RequestFacts
from injector.istio.revision import RevisionSettings, build_revision
from tests.factories import make_container, make_pod

if TYPE_CHECKING:
    from injector.injection.data import Parameters

STATUS = "sidecar.istio.io/status"
NETWORK_LABEL = "topology.istio.io/network"
ENV = "ISTIO_PROMETHEUS_ANNOTATIONS"
CLUSTER = "ISTIO_META_CLUSTER_ID"
NETWORK = "ISTIO_META_NETWORK"
PROBERS = "ISTIO_KUBE_APP_PROBERS"
CONFIG = """
policy: enabled
templates: {sidecar: ""}
injectedAnnotations: {psp: runtime/default}
"""
HOLD = "defaultConfig: {holdApplicationUntilProxyStarts: true}"
TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "istio-proxy"}], "volumes": [{"name": "istio-envoy"}]}}


def _params(
    pod: dict[str, Any] | None = None,
    *,
    version: str = "1.30",
    values: str = "{}",
    mesh: str | None = None,
    revision: str = "canary",
    envs: dict[str, str] | None = None,
) -> Parameters:
    built = build_revision(
        "canary",
        config=CONFIG,
        values=values,
        mesh=mesh,
        settings=RevisionSettings(istio_version=version, revision=revision),
        origin="test",
    )
    return webhook_parameters(built, make_pod() if pod is None else pod, RequestFacts(proxy_envs=envs or {}))


def _pod(*, proxy: str = "containers", env: list[dict[str, str]] | None = None, **fields: Any) -> dict[str, Any]:
    sidecar = make_container("istio-proxy") if env is None else make_container("istio-proxy", env=env)
    pod = make_pod(**fields)
    pod["spec"][proxy] = [*pod["spec"].get(proxy, []), sidecar]
    return pod


def _env(pod: dict[str, Any], kind: str = "containers") -> Any:
    return next(item.get("env") for item in pod["spec"][kind] if item["name"] == "istio-proxy")


@pytest.mark.parametrize(
    ("given", "envs", "expected"),
    [
        (
            [{"name": "A", "value": "a"}],
            {NETWORK: "n", CLUSTER: "c"},
            [{"name": "A", "value": "a"}, {"name": CLUSTER, "value": "c"}, {"name": NETWORK, "value": "n"}],
        ),
        (
            [{"name": CLUSTER, "value": "template"}, {"name": "A", "value": "a"}],
            {CLUSTER: "c"},
            [{"name": "A", "value": "a"}, {"name": CLUSTER, "value": "c"}],
        ),
        (
            [{"name": CLUSTER, "value": "one"}, {"name": CLUSTER, "value": "two"}],
            {CLUSTER: "c"},
            [{"name": CLUSTER, "value": "c"}],
        ),
        (None, {CLUSTER: "c"}, [{"name": CLUSTER, "value": "c"}]),
        ([{"name": "B", "value": "b"}], {"B": ""}, [{"name": "B"}]),
    ],
)
def test_the_pairs_of_the_url_replace_the_proxys_variables_sorted_at_the_end(
    given: list[dict[str, str]] | None, envs: dict[str, str], expected: list[dict[str, str]]
) -> None:
    assert _env(cluster_info(_pod(env=given), {}, _params(envs=envs))) == expected


def test_a_native_sidecar_gets_the_pairs_as_well() -> None:
    pod = cluster_info(_pod(proxy="initContainers"), {}, _params(envs={CLUSTER: "c"}))
    assert _env(pod, "initContainers") == [{"name": CLUSTER, "value": "c"}]


def test_without_pairs_or_without_a_proxy_no_variable_is_set() -> None:
    with_proxy, without = _pod(env=[{"name": CLUSTER, "value": "template"}]), make_pod()
    assert cluster_info(with_proxy, {}, _params()) is with_proxy
    assert cluster_info(without, {}, _params(envs={CLUSTER: "c"})) is without


@pytest.mark.parametrize(
    ("mesh", "version", "expected"),
    [
        (None, "1.30", ["15020", True]),
        ("defaultConfig: {statusPort: 15099}", "1.30", ["15099", True]),
        ("enablePrometheusMerge: false", "1.30", [None, False]),
        (None, "1.12", ["15020", False]),
    ],
)
def test_metrics_are_merged_as_the_mesh_and_the_minor_have_it(
    mesh: str | None, version: str, expected: list[Any]
) -> None:
    pod = _pod(annotations={"prometheus.io.path": "/m"})
    merged = prometheus_merge(pod, {}, _params(mesh=mesh, version=version))
    assert [
        merged["metadata"]["annotations"].get("prometheus.io/port"),
        any(item["name"] == ENV for item in _env(merged) or ()),
    ] == expected


def test_the_pods_own_proxy_config_moves_no_port_of_the_mesh() -> None:
    pod = _pod(annotations={"proxy.istio.io/config": "statusPort: 15099"})
    merged = prometheus_merge(pod, {}, _params(pod))
    assert merged["metadata"]["annotations"]["prometheus.io/port"] == "15020"


def _probed(annotations: dict[str, str] | None = None) -> dict[str, Any]:
    app = make_container("app", readinessProbe={"httpGet": {"path": "/ready", "port": 8080}})
    return _pod(annotations=annotations, containers=[app])


REWRITE = "sidecar.istio.io/rewriteAppHTTPProbers"


@pytest.mark.parametrize(
    ("values", "annotations", "mesh", "port"),
    [
        ("{sidecarInjectorWebhook: {rewriteAppHTTPProbe: true}}", None, None, 15020),
        (
            "{sidecarInjectorWebhook: {rewriteAppHTTPProbe: true}}",
            None,
            "defaultConfig: {statusPort: 15099}",
            15099,
        ),
        ("{sidecarInjectorWebhook: {rewriteAppHTTPProbe: true}}", {REWRITE: "false"}, None, 8080),
        ("{sidecarInjectorWebhook: {rewriteAppHTTPProbe: false}}", None, None, 8080),
        ("{}", None, None, 8080),
        ("{}", {REWRITE: "true"}, None, 15020),
    ],
)
def test_probes_go_to_the_agent_by_annotation_else_by_values(
    values: str, annotations: dict[str, str] | None, mesh: str | None, port: int
) -> None:
    rewritten = rewrite_probes(_probed(annotations), {}, _params(values=values, mesh=mesh))
    assert rewritten["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] == port
    assert [item["name"] for item in _env(rewritten) or ()] == ([] if port == 8080 else [PROBERS])


@pytest.mark.parametrize(
    ("labels", "envs", "expected"),
    [
        (None, {}, None),
        ({"app": "a"}, {}, {"app": "a"}),
        ({"app": "a"}, {NETWORK: "n"}, {"app": "a", NETWORK_LABEL: "n"}),
        (None, {NETWORK: "n"}, {NETWORK_LABEL: "n"}),
        ({NETWORK_LABEL: "mine"}, {NETWORK: "n"}, {NETWORK_LABEL: "mine"}),
        (None, {CLUSTER: "c"}, None),
    ],
)
def test_the_network_is_a_label_of_the_pod(
    labels: dict[str, str] | None, envs: dict[str, str], expected: dict[str, str] | None
) -> None:
    pod = make_pod(labels=labels)
    assert metadata(pod, TEMPLATE, _params(pod, envs=envs))["metadata"].get("labels") == expected


STATUS_HEAD = '{"initContainers":null,"containers":["istio-proxy"],"volumes":["istio-envoy"],"imagePullSecrets":null'


@pytest.mark.parametrize(
    ("version", "revision", "expected"),
    [
        ("1.30", "canary", f'{STATUS_HEAD},"revision":"canary"}}'),
        ("1.30", "", f'{STATUS_HEAD},"revision":"default"}}'),
        ("1.11", "canary", f'{STATUS_HEAD},"revision":"canary"}}'),
        ("1.10", "canary", f"{STATUS_HEAD}}}"),
    ],
)
def test_the_status_names_what_the_template_adds_and_the_revision_since_1_11(
    version: str, revision: str, expected: str
) -> None:
    pod = metadata(make_pod(), TEMPLATE, _params(version=version, revision=revision))
    assert pod["metadata"]["annotations"][STATUS] == expected


def test_a_template_without_a_spec_adds_nothing_to_the_status() -> None:
    empty = '{"initContainers":null,"containers":null,"volumes":null,"imagePullSecrets":null,"revision":"canary"}'
    assert metadata(make_pod(), {}, _params())["metadata"]["annotations"][STATUS] == empty


def test_the_configs_annotations_win_over_the_pods_and_over_the_status() -> None:
    pod = make_pod(annotations={"psp": "mine", "own": "kept"})
    assert metadata(pod, TEMPLATE, _params(pod))["metadata"]["annotations"] == {
        "psp": "runtime/default",
        "own": "kept",
        STATUS: f'{STATUS_HEAD},"revision":"canary"}}',
    }
    overriding = replace(_params(pod), injected_annotations={STATUS: "config"})
    assert metadata(pod, TEMPLATE, overriding)["metadata"]["annotations"][STATUS] == "config"


def _listed(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("given", "mesh", "expected"),
    [
        (("istio-proxy", "app", "other"), None, ("app", "other", "istio-proxy")),
        (("app", "other", "istio-proxy"), None, ("app", "other", "istio-proxy")),
        (("app", "other", "istio-proxy"), HOLD, ("istio-proxy", "app", "other")),
        (("app", "other"), HOLD, ("app", "other")),
    ],
)
def test_the_proxy_is_the_last_container_unless_the_application_waits_for_it(
    given: tuple[str, ...], mesh: str | None, expected: tuple[str, ...]
) -> None:
    pod = make_pod(containers=_listed(*given))
    assert reorder(pod, {}, _params(pod, mesh=mesh))["spec"]["containers"] == _listed(*expected)


@pytest.mark.parametrize("mesh", [None, HOLD])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("istio-init", "setup"), ("setup", "istio-init")),
        (("setup", "istio-validation"), ("istio-validation", "setup")),
        (("enable-core-dump", "istio-init", "setup"), ("setup", "istio-init", "enable-core-dump")),
        (("setup", "istio-proxy"), ("istio-proxy", "setup")),
        (("setup", "istio-proxy", "istio-init"), ("istio-init", "istio-proxy", "setup")),
        (("setup", "istio-proxy", "istio-validation"), ("istio-validation", "istio-proxy", "setup")),
        (
            ("setup", "enable-core-dump", "istio-proxy", "istio-init", "migrate"),
            ("istio-init", "istio-proxy", "enable-core-dump", "setup", "migrate"),
        ),
        (("setup", "migrate"), ("setup", "migrate")),
    ],
)
def test_interception_starts_after_the_users_init_containers_unless_the_proxy_runs_by_then(
    mesh: str | None, given: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    pod = make_pod(initContainers=_listed(*given))
    assert reorder(pod, {}, _params(pod, mesh=mesh))["spec"]["initContainers"] == _listed(*expected)


A: dict[str, str] = {"name": "A", "value": "a"}
B: dict[str, str] = {"name": "B", "value": "b"}
INJECTED = {STATUS: "{}"}


@pytest.mark.parametrize(
    ("annotations", "before", "after", "expected"),
    [
        (INJECTED, [A, B], [B, A], [A, B]),
        (None, [A, B], [B, A], [B, A]),
        (INJECTED, [A], [B, A], [B, A]),
        (INJECTED, [A, B], [A], [A]),
        (INJECTED, [A, B], [{**B, "value": "new"}, A], [{**B, "value": "new"}, A]),
        (INJECTED, None, [A], [A]),
        (INJECTED, [A], None, None),
    ],
)
def test_a_second_injection_that_would_only_reorder_variables_leaves_them(
    annotations: dict[str, str] | None,
    before: list[dict[str, str]] | None,
    after: list[dict[str, str]] | None,
    expected: list[dict[str, str]] | None,
) -> None:
    params = _params(_pod(annotations=annotations, env=before))
    assert _env(keep_env_order(_pod(annotations=annotations, env=after), {}, params)) == expected


def test_a_pod_without_a_proxy_has_no_order_to_keep() -> None:
    pod, with_proxy = make_pod(annotations=INJECTED), _pod(annotations=INJECTED, env=[A])
    assert keep_env_order(with_proxy, {}, _params(pod)) is with_proxy
    assert keep_env_order(pod, {}, _params(_pod(annotations=INJECTED))) is pod
    assert keep_env_order(pod, {}, _params(pod)) is pod


def test_all_of_it_together() -> None:
    app = make_container("app", readinessProbe={"httpGet": {"path": "/ready", "port": 8080}})
    pod = make_pod(
        annotations={"prometheus.io/port": "80", REWRITE: "true"}, containers=[make_container("istio-proxy"), app]
    )
    done = post_processed(pod, TEMPLATE, _params(pod, envs={NETWORK: "n"}))
    assert done["metadata"] == {
        "name": "hello",
        "labels": {NETWORK_LABEL: "n"},
        "annotations": {
            REWRITE: "true",
            "prometheus.io/port": "15020",
            "prometheus.io/path": "/stats/prometheus",
            "prometheus.io/scrape": "true",
            "psp": "runtime/default",
            STATUS: f'{STATUS_HEAD},"revision":"canary"}}',
        },
    }
    assert [item["name"] for item in done["spec"]["containers"]] == ["app", "istio-proxy"]
    assert [item["name"] for item in _env(done)] == [NETWORK, ENV, PROBERS]


def test_the_pod_given_is_not_changed() -> None:
    pod = _probed({REWRITE: "true", "prometheus.io/port": "80"})
    post_processed(pod, TEMPLATE, _params(pod, envs={NETWORK: "n"}))
    assert pod == _probed({REWRITE: "true", "prometheus.io/port": "80"})
