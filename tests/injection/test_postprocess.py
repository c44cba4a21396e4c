"""The steps after the merge: order, probes, metrics, status and variables."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import AnnotationError
from injector.injection import containers as c
from injector.injection.data import (
    Parameters,
    forget_assigned_user,
    keep_assigned_user,
    parse_block,
    proxy_ids,
)
from injector.injection.pipeline import webhook_parameters
from injector.injection.result import RequestFacts
from injector.injection.steps.postprocess import (
    cluster_info,
    keep_env_order,
    metadata,
    post_process,
    prometheus_merge,
    reorder,
    rewrite_probes,
)
from injector.injection.steps.prometheus import (
    SECURE_PORT,
    is_enabled,
    merge_metrics,
    scrape_config_json,
    with_secure_port,
    without_agent_annotations,
)
from injector.istio.behaviours import behaviours_of, parse_minor
from injector.revisions.source import build
from tests.cases import cases
from tests.factories import make_container, make_pod, named, proxy_of
from tests.revisions.fakes import make_raw

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
    built = make_raw(config=CONFIG, values=values, mesh=mesh, settings={"istioVersion": version, "revision": revision})
    return webhook_parameters(build(built), make_pod() if pod is None else pod, RequestFacts(proxy_envs=envs or {}))


def _pod(*, proxy: str = "containers", env: list[dict[str, str]] | None = None, **fields: Any) -> dict[str, Any]:
    sidecar = make_container("istio-proxy") if env is None else make_container("istio-proxy", env=env)
    pod = make_pod(**fields)
    pod["spec"][proxy] = [*pod["spec"].get(proxy, []), sidecar]
    return pod


def _env(pod: dict[str, Any], kind: str = "containers") -> Any:
    return next(item.get("env") for item in pod["spec"][kind] if item["name"] == "istio-proxy")


@cases("variables", "envs", "expected")
def test_the_pairs_of_the_url_replace_the_proxys_variables_sorted_at_the_end(
    variables: list[dict[str, str]] | None, envs: dict[str, str], expected: list[dict[str, str]]
) -> None:
    assert _env(cluster_info(_pod(env=variables), _params(envs=envs))) == expected


def test_a_native_sidecar_gets_the_pairs_as_well() -> None:
    pod = cluster_info(_pod(proxy="initContainers"), _params(envs={CLUSTER: "c"}))
    assert _env(pod, "initContainers") == [{"name": CLUSTER, "value": "c"}]


def test_without_pairs_or_without_a_proxy_no_variable_is_set() -> None:
    with_proxy, without = _pod(env=[{"name": CLUSTER, "value": "template"}]), make_pod()
    assert cluster_info(with_proxy, _params()) is with_proxy
    assert cluster_info(without, _params(envs={CLUSTER: "c"})) is without


@cases("mesh", "version", "expected")
def test_metrics_are_merged_as_the_mesh_and_the_minor_have_it(
    mesh: str | None, version: str, expected: list[Any]
) -> None:
    pod = _pod(annotations={"prometheus.io.path": "/m"})
    merged = prometheus_merge(pod, _params(mesh=mesh, version=version))
    assert [
        merged["metadata"]["annotations"].get("prometheus.io/port"),
        any(item["name"] == ENV for item in _env(merged) or ()),
    ] == expected


def _probed(annotations: dict[str, str] | None = None) -> dict[str, Any]:
    app = make_container("app", readinessProbe={"httpGet": {"path": "/ready", "port": 8080}})
    return _pod(annotations=annotations, containers=[app])


REWRITE = "sidecar.istio.io/rewriteAppHTTPProbers"


@cases("values", "annotations", "mesh", "port")
def test_probes_go_to_the_agent_by_annotation_else_by_values(
    values: str, annotations: dict[str, str] | None, mesh: str | None, port: int
) -> None:
    rewritten = rewrite_probes(_probed(annotations), _params(values=values, mesh=mesh))
    assert rewritten["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] == port
    assert [item["name"] for item in _env(rewritten) or ()] == ([] if port == 8080 else [PROBERS])


@cases("labels", "envs", "expected")
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
    overriding = _params(pod)._replace(injected_annotations={STATUS: "config"})
    assert metadata(pod, TEMPLATE, overriding)["metadata"]["annotations"][STATUS] == "config"


@cases("names", "mesh", "expected")
def test_the_proxy_is_the_last_container_unless_the_application_waits_for_it(
    names: tuple[str, ...], mesh: str | None, expected: tuple[str, ...]
) -> None:
    pod = make_pod(containers=named(*names))
    assert reorder(pod, _params(pod, mesh=mesh))["spec"]["containers"] == named(*expected)


@pytest.mark.parametrize("mesh", [None, HOLD])
@cases("names", "expected")
def test_interception_starts_after_init_containers_unless_the_proxy_runs(
    mesh: str | None, names: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    pod = make_pod(initContainers=named(*names))
    assert reorder(pod, _params(pod, mesh=mesh))["spec"]["initContainers"] == named(*expected)


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
    assert _env(keep_env_order(_pod(annotations=annotations, env=after), params)) == expected


def test_a_pod_without_a_proxy_has_no_order_to_keep() -> None:
    pod, with_proxy = make_pod(annotations=INJECTED), _pod(annotations=INJECTED, env=[A])
    assert keep_env_order(with_proxy, _params(pod)) is with_proxy
    assert keep_env_order(pod, _params(_pod(annotations=INJECTED))) is pod
    assert keep_env_order(pod, _params(pod)) is pod


def test_all_of_it_together() -> None:
    app = make_container("app", readinessProbe={"httpGet": {"path": "/ready", "port": 8080}})
    pod = make_pod(
        annotations={"prometheus.io/port": "80", REWRITE: "true"}, containers=[make_container("istio-proxy"), app]
    )
    done = post_process(pod, TEMPLATE, _params(pod, envs={NETWORK: "n"}))
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
    post_process(pod, TEMPLATE, _params(pod, envs={NETWORK: "n"}))
    assert pod == _probed({REWRITE: "true", "prometheus.io/port": "80"})


def test_a_container_moves_to_the_front_or_end_and_the_last_of_a_name_is_kept() -> None:
    twice: list[c.Container] = [{"name": "p", "n": 1}, {"name": "a"}, {"name": "p", "n": 2}]
    assert c.move_first("b", named("a", "b", "d")) == named("b", "a", "d")
    assert c.move_last("b", named("a", "b", "d")) == named("a", "d", "b")
    assert c.move_first("x", named("a", "b")) == named("a", "b")
    assert c.move_last("p", twice) == [{"name": "a"}, {"name": "p", "n": 2}]


def test_containers_are_found_before_init_containers() -> None:
    pod = {"spec": {"containers": [{"name": "p", "n": 1}], "initContainers": [{"name": "p", "n": 2}, {"name": "q"}]}}
    assert c.find_in_pod("p", pod) == {"name": "p", "n": 1}
    assert c.find_in_pod("q", pod) == {"name": "q"}
    assert c.find_in_pod("z", pod) is None


def test_a_changed_container_takes_its_place_and_the_original_stays() -> None:
    pod = {"spec": {"containers": named("a", "b")}}
    changed = c.with_container(pod, {"name": "b", "image": "new"})
    assert changed["spec"]["containers"] == [{"name": "a"}, {"name": "b", "image": "new"}]
    assert pod == {"spec": {"containers": named("a", "b")}}


def test_an_empty_list_and_empty_annotations_leave_their_key_out() -> None:
    pod = {"metadata": {"name": "p", "annotations": {"a": "b"}}}
    assert c.with_spec({"spec": {"initContainers": named("a"), "x": 1}}, initContainers=[]) == {"spec": {"x": 1}}
    assert c.with_metadata(pod, annotations={}) == {"metadata": {"name": "p"}}


def test_env_is_appended_also_where_there_was_none() -> None:
    assert c.env_appended({"name": "a"}, "N", "v") == {"name": "a", "env": [{"name": "N", "value": "v"}]}


@cases("text", "expected")
def test_a_block_is_a_start_and_a_size_or_two_ends(text: str, expected: tuple[int, int] | None) -> None:
    assert parse_block(text) == expected


def test_a_block_may_have_any_number_of_digits() -> None:
    assert parse_block(f"{'0' * 10_000}7/{'0' * 10_000}2") == (7, 8)
    assert parse_block(f"7/{'9' * 10_000}") is None


@cases("annotations", "expected")
def test_the_proxy_runs_with_the_last_ids_of_the_namespace(
    annotations: dict[str, str], expected: tuple[int, int]
) -> None:
    assert proxy_ids({"annotations": annotations}) == expected


def test_without_a_namespace_the_proxy_runs_as_1337() -> None:
    assert proxy_ids(None) == (1337, 1337)


def _users(proxy_user: int | None, app_user: int | None, kind: str = "containers") -> dict[str, Any]:
    def container(name: str, user: int | None) -> dict[str, Any]:
        context = {} if user is None else {"runAsUser": user, "runAsGroup": user}
        return {"name": name, "securityContext": {**context, "privileged": False}}

    pod: dict[str, Any] = {"spec": {"containers": [container("app", app_user)]}}
    pod["spec"][kind] = [*pod["spec"].get(kind, []), container("istio-proxy", proxy_user)]
    return pod


def _proxy(pod: dict[str, Any]) -> Any:
    return proxy_of(pod)["securityContext"]


def test_a_user_that_openshift_gave_to_all_is_forgotten_for_the_proxy() -> None:
    assert _proxy(forget_assigned_user(_users(7, 7), with_init_containers=True)) == {"privileged": False}


def test_a_user_of_the_proxys_own_is_the_users_choice() -> None:
    pod = _users(8, 7)
    assert forget_assigned_user(pod, with_init_containers=True) is pod


def test_a_native_sidecar_counts_only_where_init_containers_do() -> None:
    pod = _users(7, 7, kind="initContainers")
    assert _proxy(forget_assigned_user(pod, with_init_containers=True)) == {"privileged": False}
    assert forget_assigned_user(pod, with_init_containers=False) is pod


def test_forgetting_the_user_does_not_change_the_pod() -> None:
    pod = _users(7, 7)
    forget_assigned_user(pod, with_init_containers=True)
    assert pod == _users(7, 7)


def test_a_forgotten_user_comes_back_to_the_list_that_had_the_proxy() -> None:
    pod = _users(7, 7, kind="initContainers")
    added = {"name": "istio-proxy", "image": "proxy:1"}
    injected = {"spec": {**pod["spec"], "containers": [*pod["spec"]["containers"], added]}}
    assert keep_assigned_user(injected, pod) == injected


MERGE_METRICS = "prometheus.istio.io/merge-metrics"
PORT, PATH, SCRAPE = "prometheus.io/port", "prometheus.io/path", "prometheus.io/scrape"
TARGETS = "prometheus.istio.io/scrape-targets"
AGENT = {PORT: "15020", PATH: "/stats/prometheus", SCRAPE: "true"}


def _scraped(annotations: dict[str, str] | None, *, proxy: str = "containers", **fields: Any) -> dict[str, Any]:
    pod = make_pod(annotations=annotations)
    sidecar = make_container("istio-proxy", **fields)
    pod["spec"][proxy] = [*pod["spec"].get(proxy, []), sidecar]
    return pod


def _merged(pod: dict[str, Any], *, mesh: bool | None = None, port: int = 15020, version: str = "1.30") -> Any:
    return merge_metrics(pod, behaviours_of(parse_minor(version)), mesh_setting=mesh, status_port=port)


def _scrape_env(pod: dict[str, Any], kind: str = "containers") -> Any:
    return pod["spec"][kind][-1].get("env")


@cases("annotation", "mesh", "expected")
def test_the_annotation_decides_else_the_mesh_else_metrics_are_merged(
    annotation: str | None, mesh: bool | None, expected: bool
) -> None:
    annotations = {} if annotation is None else {MERGE_METRICS: annotation}
    assert is_enabled(annotations, mesh_setting=mesh) is expected


@cases("annotations", "made_with", "expected", "env")
def test_the_agent_is_told_what_to_scrape_and_is_scraped_in_its_place(
    annotations: dict[str, str] | None,
    made_with: dict[str, Any],
    expected: dict[str, str],
    env: list[dict[str, str]] | None,
) -> None:
    pod = _scraped(annotations)

    result = _merged(pod, **made_with)

    assert (result["metadata"]["annotations"], _scrape_env(result)) == (expected, env)
    assert (result is pod) is (annotations == expected)
    assert pod == _scraped(annotations)


def test_the_variable_comes_after_the_proxys_own() -> None:
    pod = _merged(_scraped({PORT: "80"}, env=[{"name": "A", "value": "b"}]))
    assert [item["name"] for item in _scrape_env(pod)] == ["A", ENV]


def test_a_native_sidecar_is_told_as_well() -> None:
    pod = _merged(_scraped({PORT: "80"}, proxy="initContainers"))
    assert [item["name"] for item in _scrape_env(pod, "initContainers")] == [ENV]


def test_a_pod_without_a_proxy_gets_the_annotations_alone() -> None:
    assert _merged(make_pod(annotations={PORT: "80"})) == make_pod(annotations=AGENT)


@cases("scrape", "version", "left_alone")
def test_scrape_false_declines_since_1_13(scrape: dict[str, str], version: str, left_alone: bool) -> None:
    pod = _scraped({**scrape, PORT: "80"})
    assert (_merged(pod, version=version) is pod) is left_alone


@cases("annotations", "expected", "env")
def test_scrape_targets_name_several_endpoints_since_1_31(
    annotations: dict[str, str], expected: dict[str, str], env: str
) -> None:
    result = _merged(_scraped(annotations), version="1.31")
    assert result["metadata"]["annotations"] == {**AGENT, **expected}
    assert _scrape_env(result) == [{"name": ENV, "value": env}]


def test_scrape_targets_mean_nothing_up_to_1_30() -> None:
    result = _merged(_scraped({TARGETS: "15000"}), version="1.30")
    assert result["metadata"]["annotations"] == {TARGETS: "15000", **AGENT}
    assert _scrape_env(result) is None


@cases("annotations", "what")
def test_a_port_that_cannot_be_scraped_is_refused_since_1_31(annotations: dict[str, str], what: str) -> None:
    with pytest.raises(AnnotationError) as error:
        _merged(_scraped(annotations), version="1.31")
    assert error.value.what == f"invalid prometheus scrape {what}"
    _merged(_scraped(annotations), version="1.30")


@cases("annotations", "env", "expected")
def test_the_secure_port_of_the_proxy_is_annotated_unless_it_is_said(
    annotations: dict[str, str], env: list[dict[str, str]], expected: str | None
) -> None:
    pod = with_secure_port(_scraped(annotations, env=env))
    assert pod["metadata"].get("annotations", {}).get(SECURE_PORT) == expected


@pytest.mark.parametrize(("version", "annotated"), [("1.30", False), ("1.31", True)])
def test_the_secure_port_is_annotated_since_1_31(version: str, annotated: bool) -> None:
    pod = _pod(env=[{"name": "ENVOY_SECURE_MERGED_METRICS_PORT", "value": "15091"}])
    assert (SECURE_PORT in prometheus_merge(pod, _params(version=version))["metadata"]["annotations"]) is annotated


@cases("annotations", "expected")
def test_the_config_of_the_exact_spelling_is_none_where_it_is_empty(
    annotations: dict[str, str], expected: str | None
) -> None:
    assert scrape_config_json(annotations) == expected


@cases("annotations", "version", "expected")
def test_annotations_of_an_earlier_injection_are_told_by_the_agents_port(
    annotations: dict[str, str], version: str, expected: dict[str, str]
) -> None:
    pod = without_agent_annotations(
        make_pod(annotations=annotations), behaviours_of(parse_minor(version)), status_port=15020
    )
    assert pod == make_pod(annotations=expected)
