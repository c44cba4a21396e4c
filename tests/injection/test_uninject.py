"""An injected pod becomes what it was."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from injector.errors import ManifestError
from injector.injection.steps.probes import APP_PROBERS as PROBERS
from injector.injection.steps.prometheus import ENV as SCRAPE
from injector.injection.steps.prometheus import SECURE_PORT
from injector.injection.tools.uninject import remaining_annotations, remaining_labels, uninject_object, uninject_pod
from tests.cases import cases
from tests.factories import make_container, make_pod, named
from tests.revisions.fakes import embedded
from tests.revisions.fakes import injected as injection_of

STATUS = "sidecar.istio.io/status"
AT_AGENT = {"path": "/app-health/app/livez", "port": 15020}


def injected(
    app: dict[str, Any] | None = None,
    *,
    env: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with a proxy whose variables are the JSON of ``env``, as an injection without a status annotation left it."""
    variables = [{"name": name, "value": json.dumps(value)} for name, value in (env or {}).items()]
    listed = [make_container() if app is None else app, make_container("istio-proxy", env=variables)]
    return make_pod(containers=listed, annotations=annotations, labels=labels, **spec)


def test_a_pod_that_was_never_injected_is_the_very_same() -> None:
    pod = make_pod(annotations={"prometheus.io/path": "/stats/prometheus"}, securityContext={"fsGroup": 1337})

    assert uninject_pod(pod) is pod


def test_the_pod_given_is_not_changed() -> None:
    pod = injected(initContainers=named("istio-init"), annotations={"istio.io/rev": "a"})
    uninject_pod(pod)

    assert pod == injected(initContainers=named("istio-init"), annotations={"istio.io/rev": "a"})


@cases("injected_with", "expected")
def test_what_an_injection_added_is_removed(injected_with: dict[str, Any], expected: dict[str, Any]) -> None:
    assert uninject_pod(injected(**injected_with)) == make_pod(**expected)


def test_the_status_says_what_was_added_whatever_its_name() -> None:
    status = {"initContainers": ["x"], "containers": ["istio-proxy", "y"], "volumes": ["v"], "imagePullSecrets": ["s"]}
    pod = make_pod(
        annotations={STATUS: json.dumps(status), "a": "b"},
        containers=[make_container(), make_container("istio-proxy"), make_container("y")],
        initContainers=named("x", "istio-init"),
        volumes=named("v", "istio-envoy"),
        imagePullSecrets=named("s", "registry"),
    )

    assert uninject_pod(pod) == make_pod(
        annotations={"a": "b"},
        initContainers=named("istio-init"),
        volumes=named("istio-envoy"),
        imagePullSecrets=named("registry"),
    )


def test_a_status_without_a_proxy_is_taken_back_too() -> None:
    pod = make_pod(annotations={STATUS: '{"volumes": ["v"]}'}, volumes=named("v", "w"))

    assert uninject_pod(pod) == make_pod(volumes=named("w"))


@pytest.mark.parametrize(
    ("kind", "field"), [("readyz", "readinessProbe"), ("livez", "livenessProbe"), ("startupz", "startupProbe")]
)
@pytest.mark.parametrize(
    "action", [{"httpGet": {"path": "/", "port": 1}}, {"tcpSocket": {"port": 2}}, {"grpc": {"port": 3, "service": "s"}}]
)
def test_a_probe_is_back_and_keeps_its_thresholds(kind: str, field: str, action: dict[str, Any]) -> None:
    probe = {"httpGet": AT_AGENT, "periodSeconds": 7, "timeoutSeconds": 3}
    probers = {f"/app-health/app/{kind}": {**action, "timeoutSeconds": 3}}

    result = uninject_pod(injected({**make_container(), field: probe}, env={PROBERS: probers}))

    assert result == make_pod(
        containers=[{**make_container(), field: {"periodSeconds": 7, "timeoutSeconds": 3, **action}}]
    )


def test_a_container_may_be_called_by_any_dns_label() -> None:
    probers = {"/app-health/app-2/livez": {"tcpSocket": {"port": 2}}}
    app = make_container("app-2", livenessProbe={"httpGet": AT_AGENT})

    result = uninject_pod(injected(app, env={PROBERS: probers}))

    assert result["spec"]["containers"] == [make_container("app-2", livenessProbe={"tcpSocket": {"port": 2}})]


@pytest.mark.parametrize(
    "probers",
    [{"/app-health/gone/livez": {"httpGet": {"port": 1}}}, {"/else": {}}, {"/app-health/app/livez": None}, [], None],
)
def test_a_prober_of_nothing_in_the_pod_is_left_out(probers: object) -> None:
    assert uninject_pod(injected(env={PROBERS: probers})) == make_pod()


def test_values_that_injection_does_not_write_into_variables_are_left_out() -> None:
    app = make_container(ports=[{"containerPort": 80, "name": "http"}])
    env = {
        PROBERS: {"/app-health/app/livez": {"httpGet": 5, "grpc": {"port": 80}}},
        SCRAPE: {"path": "/m", "targets": 5},
    }
    pod = injected(app, env=env, annotations={"prometheus.io/path": "/stats/prometheus"})

    assert uninject_pod(pod) == make_pod(
        containers=[{**app, "livenessProbe": {"grpc": {"port": 80}}}], annotations={"prometheus.io/path": "/m"}
    )


@pytest.mark.parametrize("variable", [PROBERS, SCRAPE])
def test_a_variable_that_is_not_json_is_named(variable: str) -> None:
    proxy = make_container("istio-proxy", env=[{"name": variable, "value": "{"}])

    with pytest.raises(
        ManifestError, match=f"istio-proxy: the proxy's variable {variable} is not JSON; it was changed"
    ):
        uninject_pod(make_pod(containers=[make_container(), proxy]))


def test_the_canonical_name_may_be_the_cut_name_of_the_workload() -> None:
    pod = injected(labels={"service.istio.io/canonical-name": "a" * 62})

    assert "labels" not in uninject_pod(pod, workload="a" * 62 + "-bcd")["metadata"]


def workload(kind: str, pod: dict[str, Any]) -> dict[str, Any]:
    """A workload of pods like ``pod``; a CronJob's metadata is in its job template, where Istio writes it."""
    if kind == "CronJob":
        job = {"metadata": pod["metadata"], "spec": {"template": {"spec": pod["spec"]}}}
        spec: dict[str, Any] = {"schedule": "@daily", "jobTemplate": job}
    else:
        spec = {"replicas": 2, "template": {"metadata": pod["metadata"], "spec": pod["spec"]}}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "w"}, "spec": spec}


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "StatefulSet", "ReplicationController", "Job", "CronJob"])
def test_every_kind_of_workload_is_restored_where_its_pods_are_described(kind: str) -> None:
    pod = injected(annotations={"istio.io/rev": "a", "a": "b"}, volumes=named("istio-envoy"))

    assert uninject_object(workload(kind, pod)) == workload(kind, make_pod(annotations={"a": "b"}))


def test_the_labels_of_a_workload_are_told_by_its_own_name() -> None:
    obj = workload("Deployment", injected(labels={"service.istio.io/canonical-name": "w"}))

    assert uninject_object(obj) == workload("Deployment", make_pod())


def test_a_workload_that_was_never_injected_is_the_very_same() -> None:
    obj = workload("Deployment", make_pod())

    assert uninject_object(obj) is obj


def test_a_pod_without_a_sidecar_may_have_placeholders_that_kubernetes_cannot_read() -> None:
    obj = workload("Deployment", make_pod(containers=[make_container(ports=[{"containerPort": "${PORT}"}])]))

    assert uninject_object(obj) is obj


@pytest.mark.parametrize("obj", [{"kind": "Service"}, {"kind": "ConfigMap", "data": {}}, {}])
def test_other_kinds_have_no_pods(obj: dict[str, Any]) -> None:
    assert uninject_object(obj) is None


@pytest.mark.parametrize("version", ["v1", "meta.k8s.io/v1"])  # kube-inject injects the items of both
def test_the_items_of_a_list_are_restored_in_place(version: str) -> None:
    listed = {"apiVersion": version, "kind": "List", "items": [{"kind": "Service"}, injected()]}

    assert uninject_object(listed) == {**listed, "items": [{"kind": "Service"}, make_pod()]}


def test_the_annotations_of_scrape_targets_and_of_the_secure_port_are_restored() -> None:
    config = '{"scrape":"true","path":"/a","port":"80","targets":[{"port":"80","path":"/a"},{"port":"90","path":"/metrics"}]}'
    added = {"prometheus.io/path": "/stats/prometheus", "prometheus.io/port": "15020", SECURE_PORT: "15091"}
    env = [{"name": SCRAPE, "value": config}, {"name": "ENVOY_SECURE_MERGED_METRICS_PORT", "value": "15091"}]
    pod = make_pod(annotations=added, containers=[make_container(), make_container("istio-proxy", env=env)])

    restored = uninject_pod(pod)

    wanted = {"prometheus.io/scrape": "true", "prometheus.istio.io/scrape-targets": "80:/a,90:/metrics"}
    assert restored["metadata"]["annotations"] == wanted


@cases("obj", "says")
def test_an_invalid_workload_is_refused_with_advice(obj: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        uninject_object(obj)

    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["stable", "canary"])
def test_an_injection_by_a_revision_that_the_project_ships_is_taken_back(name: str) -> None:
    probe = {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 7}
    pod = make_pod(
        namespace="shop",
        labels={"app": "hello"},
        annotations={"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
        containers=[make_container(livenessProbe=probe, resources={})],
        volumes=[{"name": "data", "emptyDir": {}}],
    )

    result = injection_of(embedded(name), pod)

    assert result.pod != pod
    assert uninject_pod(result.pod) == pod


MODE = "sidecar.istio.io/interceptionMode"
PORTS = "traffic.sidecar.istio.io/includeInboundPorts"
RANGES = "traffic.sidecar.istio.io/includeOutboundIPRanges"
EXCLUDED = "traffic.sidecar.istio.io/excludeInboundPorts"
TEMPLATES = "inject.istio.io/templates"
STATUS_PORT = "status.sidecar.istio.io/port"
APP = make_container(ports=[{"containerPort": 80}, {"containerPort": 90}])


def annotations_of(annotations: dict[str, str], **known: str) -> dict[str, str]:
    return remaining_annotations(make_pod(containers=[APP], annotations=annotations), {}, **known)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({MODE: "REDIRECT", PORTS: "*", RANGES: "*", EXCLUDED: "15020"}, {}),
        ({MODE: "REDIRECT", PORTS: "80,90", EXCLUDED: "15020"}, {}),
        ({MODE: "REDIRECT", PORTS: "80", EXCLUDED: "7,15020"}, {PORTS: "80", EXCLUDED: "7"}),
        ({MODE: "TPROXY", RANGES: "10.0.0.0/8"}, {MODE: "TPROXY", RANGES: "10.0.0.0/8"}),
        ({MODE: "REDIRECT", RANGES: "", PORTS: ""}, {RANGES: "", PORTS: ""}),
        ({MODE: "REDIRECT", EXCLUDED: "123", STATUS_PORT: "123"}, {STATUS_PORT: "123"}),
        ({PORTS: "*", RANGES: "*"}, {PORTS: "*", RANGES: "*"}),
    ],
)
def test_what_the_cni_would_be_told_of_any_pod_is_not_the_users(
    annotations: dict[str, str], expected: dict[str, str]
) -> None:
    assert annotations_of(annotations) == expected


def test_the_agents_port_may_stand_in_the_proxys_arguments() -> None:
    assert annotations_of({MODE: "REDIRECT", EXCLUDED: "7,123"}, agent_port="123") == {EXCLUDED: "7"}


def test_a_list_of_networks_with_very_many_spaces_takes_no_longer_for_each() -> None:
    networks = "[" + " " * 100_000 + "istio-cni]"
    start = time.thread_time()

    assert annotations_of({"k8s.v1.cni.cncf.io/networks": networks}) == {"k8s.v1.cni.cncf.io/networks": networks}

    assert time.thread_time() - start < 2


@cases("annotations", "expected")
def test_the_templates_of_grpc_turn_rewriting_off_themselves(
    annotations: dict[str, str], expected: dict[str, str]
) -> None:
    assert annotations_of(annotations) == expected


@cases("labels", "env", "noted", "expected")
def test_labels_of_the_value_that_injection_writes_are_not_the_users(
    labels: dict[str, str], env: dict[str, str], noted: bool, expected: dict[str, str]
) -> None:
    pod: dict[str, Any] = make_pod(labels=labels)

    assert remaining_labels(pod, "shop", env, revision_noted=noted) == expected


def test_the_template_of_gateways_still_writes_the_revision_as_a_label() -> None:
    pod = make_pod(labels={"istio.io/rev": "default"}, annotations={TEMPLATES: "gateway"})

    assert remaining_labels(pod, "shop", {}, revision_noted=True) == {}
