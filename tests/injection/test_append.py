from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from injector.errors import OverlayError
from injector.injection.append import (
    TOKEN_PATH,
    AppendSpec,
    ListTemplate,
    status_port,
    with_cluster_env,
    with_concurrency,
    with_proxy,
    with_token_mount,
)
from injector.injection.data import template_data
from injector.injection.pipeline import admitted_pod, webhook_parameters
from injector.injection.pipeline import inject as run_injection
from injector.injection.result import RequestFacts
from injector.kube.typed import normalise
from injector.revisions.build import build
from tests.cases import cases
from tests.factories import make_container, make_pod
from tests.revisions.fakes import make_raw

STATUS = "sidecar.istio.io/status"
TEMPLATE = """\
rewriteAppHTTPProbe: true
initContainers:
- name: istio-init
containers:
- name: istio-proxy
  args: [proxy, --statusPort, "15020"]
volumes:
- name: istio-envoy
  emptyDir: {}
imagePullSecrets:
- name: secret
"""
SCRAPE = {"prometheus.io/path": "/stats/prometheus", "prometheus.io/port": "15020", "prometheus.io/scrape": "true"}
PROBE = {"httpGet": {"path": "/ready", "port": 8080}}
TOKEN = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}


def inject(
    pod: dict[str, Any],
    minor: int = 8,
    *,
    template: str = TEMPLATE,
    webhook: bool = True,
    config: str = "",
    envs: dict[str, str] | None = None,
    **raw: Any,
) -> dict[str, Any]:
    """The pod that Istio 1.``minor`` makes with ``template``; keywords are of a raw revision."""
    text = f"policy: enabled\n{config}template: {json.dumps(template)}\n"
    settings = {"istioVersion": f"1.{minor}", "env": raw.pop("env", {})}
    revision = build(make_raw("rev", config=text, settings=settings, **raw))
    params = webhook_parameters(revision, admitted_pod(pod, "shop"), RequestFacts("shop", envs or {}))
    made = run_injection(params, webhook=webhook)
    found, templates = made.pod, made.templates
    assert templates == ("sidecar",)
    return found


def names(pod: dict[str, Any], kind: str = "containers") -> list[str]:
    return [each["name"] for each in pod["spec"].get(kind, [])]


def proxy_of(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in pod["spec"]["containers"] if each["name"] == "istio-proxy")
    return found


@pytest.mark.parametrize("webhook", [True, False])
@pytest.mark.parametrize("minor", [6, 8])
def test_the_lists_are_appended_to_the_pods_own(minor: int, webhook: bool) -> None:
    pod = make_pod(
        initContainers=[make_container("setup")],
        volumes=[{"name": "data", "emptyDir": {}}],
        imagePullSecrets=[{"name": "registry"}],
    )

    found = inject(pod, minor, webhook=webhook)

    assert [names(found, kind) for kind in ("initContainers", "containers", "volumes", "imagePullSecrets")] == [
        ["setup", "istio-init"],
        ["app", "istio-proxy"],
        ["data", "istio-envoy"],
        ["registry", "secret"],
    ]


@pytest.mark.parametrize(("minor", "expected"), [(5, ["registry"]), (6, ["registry", "secret"])])
def test_kube_inject_adds_pull_secrets_from_1_6_on(minor: int, expected: list[str]) -> None:
    found = inject(make_pod(imagePullSecrets=[{"name": "registry"}]), minor, webhook=False)

    assert names(found, "imagePullSecrets") == expected


def test_validation_comes_before_the_pods_own_init_containers() -> None:
    template = TEMPLATE.replace("- name: istio-init\n", "- name: istio-init\n- name: istio-validation\n")

    found = inject(make_pod(initContainers=[make_container("setup")]), template=template)

    assert names(found, "initContainers") == ["istio-validation", "setup", "istio-init"]


@cases("minor", "values", "mesh", "webhook", "expected")
def test_a_proxy_that_starts_first_stands_first(
    minor: int, values: str | None, mesh: str | None, webhook: bool, expected: list[str]
) -> None:
    assert names(inject(make_pod(), minor, values=values, mesh=mesh, webhook=webhook)) == expected


@pytest.mark.parametrize("config", ["", "injectedAnnotations: {a: b}\n"])
def test_the_status_names_what_was_added_and_the_hash_of_the_template(config: str) -> None:
    found = inject(make_pod(annotations={"own": "x"}), config=config)

    annotations = found["metadata"]["annotations"]
    assert json.loads(annotations.pop(STATUS)) == {
        "version": hashlib.sha256(TEMPLATE.encode()).hexdigest(),
        "initContainers": ["istio-init"],
        "containers": ["istio-proxy"],
        "volumes": ["istio-envoy"],
        "imagePullSecrets": ["secret"],
    }
    assert annotations == {"own": "x", **SCRAPE, **({"a": "b"} if config else {})}


def test_a_list_that_adds_nothing_is_null_in_the_status() -> None:
    found = inject(make_pod(), template="containers: [{name: istio-proxy}]\n")

    assert found["metadata"]["annotations"][STATUS].endswith(
        '"initContainers":null,"containers":["istio-proxy"],"volumes":null,"imagePullSecrets":null}'
    )


def test_an_earlier_injection_is_replaced() -> None:
    once = inject(make_pod())

    twice = inject(once)

    assert [names(twice, kind) for kind in ("initContainers", "containers", "volumes", "imagePullSecrets")] == [
        ["istio-init"],
        ["app", "istio-proxy"],
        ["istio-envoy"],
        ["secret"],
    ]


def test_what_injectors_before_the_status_added_is_removed_by_its_name() -> None:
    pod = make_pod(
        containers=[make_container(), make_container("istio-proxy", tty=True)],
        initContainers=[make_container("enable-core-dump"), make_container("setup")],
        volumes=[{"name": "istio-certs"}, {"name": "data"}],
    )

    found = inject(pod)

    assert [names(found, kind) for kind in ("initContainers", "containers", "volumes")] == [
        ["setup", "istio-init"],
        ["app", "istio-proxy"],
        ["data", "istio-envoy"],
    ]
    assert "tty" not in proxy_of(found)


def test_kube_inject_up_to_1_7_removes_nothing() -> None:
    pod = make_pod(containers=[make_container(), make_container("istio-proxy")])

    assert names(inject(pod, 7, webhook=False)) == ["app", "istio-proxy", "istio-proxy"]


@cases("minor", "expected")
def test_the_webhook_adds_labels(minor: int, expected: dict[str, str]) -> None:
    assert inject(make_pod(labels={"app": "a"}), minor)["metadata"]["labels"] == {"app": "a", **expected}


def test_labels_of_the_pods_own_stay_and_name_the_service() -> None:
    own = {
        "app": "a",
        "app.kubernetes.io/name": "b",
        "version": "v1",
        "app.kubernetes.io/version": "v2",
        "security.istio.io/tlsMode": "disabled",
    }

    assert inject(make_pod(labels=own))["metadata"]["labels"] == {
        **own,
        "service.istio.io/canonical-name": "b",
        "service.istio.io/canonical-revision": "v2",
        "istio.io/rev": "rev",
    }


def test_kube_inject_up_to_1_7_labels_no_canonical_service() -> None:
    found = inject(make_pod(labels={"app": "a"}), 7, webhook=False)

    assert found["metadata"]["labels"] == {"app": "a", "security.istio.io/tlsMode": "istio", "istio.io/rev": "rev"}


def test_in_1_8_the_network_of_the_url_is_a_variable_and_a_label() -> None:
    found = inject(make_pod(), envs={"ISTIO_META_NETWORK": "n", "A": "b"})

    assert found["metadata"]["labels"]["topology.istio.io/network"] == "n"
    assert proxy_of(found)["env"] == [{"name": "A", "value": "b"}, {"name": "ISTIO_META_NETWORK", "value": "n"}]


@pytest.mark.parametrize(
    ("minor", "expected"),
    [(5, []), (6, [{"name": "ISTIO_META_CLUSTER_ID"}, {"name": "ISTIO_META_NETWORK", "value": "n"}])],
)
def test_before_1_8_the_url_has_cluster_and_network_alone(minor: int, expected: list[dict[str, str]]) -> None:
    template = TEMPLATE.replace("true", "false")

    found = inject(make_pod(), minor, template=template, envs={"ISTIO_META_NETWORK": "n", "A": "b"})

    assert proxy_of(found).get("env", []) == expected


@cases("minor", "mesh", "env", "expected")
def test_the_pod_gets_the_group_of_the_proxy_for_its_token(
    minor: int, mesh: str | None, env: dict[str, str], expected: dict[str, int]
) -> None:
    found = inject(make_pod(securityContext={"runAsUser": 7}), minor, mesh=mesh, env=env)

    assert found["spec"]["securityContext"] == expected


@pytest.mark.parametrize("webhook", [True, False])
def test_probes_go_to_the_agent_which_is_told(webhook: bool) -> None:
    found = inject(make_pod(containers=[make_container(livenessProbe=PROBE)]), 7, webhook=webhook)

    assert found["spec"]["containers"][0]["livenessProbe"] == {
        "httpGet": {"path": "/app-health/app/livez", "port": 15020}
    }
    assert proxy_of(found)["env"] == [
        {
            "name": "ISTIO_KUBE_APP_PROBERS",
            "value": '{"/app-health/app/livez":{"httpGet":{"path":"/ready","port":8080}}}',
        }
    ]


@cases("minor", "annotated", "asked", "rewrites")
def test_probes_are_rewritten_where_pod_or_template_ask_for_it(
    minor: int, annotated: str | None, asked: bool, rewrites: bool
) -> None:
    annotations = {} if annotated is None else {"sidecar.istio.io/rewriteAppHTTPProbers": annotated}
    pod = make_pod(annotations=annotations, containers=[make_container(livenessProbe=PROBE)])

    found = inject(pod, minor, template=TEMPLATE.replace("true", str(asked).lower()))

    assert (found["spec"]["containers"][0]["livenessProbe"] != PROBE) is rewrites


@pytest.mark.parametrize(("minor", "expected"), [(7, ["a"]), (8, [])])
def test_without_probes_the_agent_is_told_of_none_up_to_1_7(minor: int, expected: list[str]) -> None:
    env = proxy_of(inject(make_pod(), minor)).get("env", [])

    assert env == [{"name": "ISTIO_KUBE_APP_PROBERS", "value": "{}"} for _ in expected]


def test_the_annotations_that_prometheus_reads_move_into_a_variable() -> None:
    pod = make_pod(annotations={"prometheus.io/port": "80", "prometheus.io.path": "/m"})

    found = inject(pod)

    assert {**found["metadata"]["annotations"], STATUS: ""} == {"prometheus.io.path": "/m", **SCRAPE, STATUS: ""}
    assert proxy_of(found)["env"] == [
        {"name": "ISTIO_PROMETHEUS_ANNOTATIONS", "value": '{"scrape":"","path":"","port":"80"}'}
    ]


@pytest.mark.parametrize(("minor", "mounts"), [(0, None), (1, [TOKEN]), (8, [TOKEN])])
def test_the_proxy_has_the_mount_of_the_token_that_the_application_has(
    minor: int, mounts: list[dict[str, str]] | None
) -> None:
    found = inject(make_pod(containers=[make_container(volumeMounts=[TOKEN])]), minor)

    assert proxy_of(found).get("volumeMounts") == mounts


def test_a_mount_of_the_token_that_an_earlier_proxy_had_counts_too() -> None:
    earlier = make_container("istio-proxy", volumeMounts=[TOKEN])

    assert proxy_of(inject(make_pod(containers=[make_container(), earlier])))["volumeMounts"] == [TOKEN]


@pytest.mark.parametrize(("minor", "told"), [(5, False), (6, True)])
def test_kube_inject_up_to_1_5_rewrites_no_probe_where_the_agent_has_no_port(minor: int, told: bool) -> None:
    pod = make_pod(containers=[make_container(livenessProbe=PROBE)])
    template = "rewriteAppHTTPProbe: true\ncontainers: [{name: istio-proxy}]\n"

    found = inject(pod, minor, template=template, webhook=False)

    assert ("env" in proxy_of(found), found["spec"]["containers"][0]["livenessProbe"] != PROBE) == (told, told)


@pytest.mark.parametrize(("minor", "expected"), [(0, {"searches": ["own"]}), (1, {"searches": ["global"]})])
def test_the_dns_config_of_the_template_replaces_the_pods(minor: int, expected: dict[str, list[str]]) -> None:
    found = inject(
        make_pod(dnsConfig={"searches": ["own"]}), minor, template=f"{TEMPLATE}dnsConfig: {{searches: [global]}}\n"
    )

    assert found["spec"]["dnsConfig"] == expected


def test_a_pod_keeps_its_dns_config_where_the_template_has_none() -> None:
    assert inject(make_pod(dnsConfig={"searches": ["own"]}))["spec"]["dnsConfig"] == {"searches": ["own"]}


@pytest.mark.parametrize(("minor", "expected"), [(2, None), (3, "15001"), (7, "15001")])
def test_kube_inject_adds_the_annotations_for_the_cni_from_1_3_to_1_7(minor: int, expected: str | None) -> None:
    name = "traffic.sidecar.istio.io/includeInboundPorts"
    template = f'{TEMPLATE}podRedirectAnnot: {{{name}: "15001", unknown: x}}\n'

    annotations = inject(make_pod(), minor, template=template, webhook=False)["metadata"]["annotations"]

    assert (annotations.get(name), "unknown" in annotations) == (expected, False)


def test_the_pod_is_as_go_would_print_it() -> None:
    found = inject(make_pod())

    assert found == normalise(found, "v1.Pod")


def test_a_template_that_renders_no_lists_names_the_revision() -> None:
    with pytest.raises(OverlayError, match="revision rev, rendered template: failed parsing generated injected YAML"):
        inject(make_pod(), template="- a\n")


def spec_of(*containers: dict[str, Any]) -> AppendSpec:
    """A spec that appends containers only."""
    return AppendSpec([], list(containers), [], [], None, rewrite_probes=False, redirect_annotations={})


def proxy(**fields: Any) -> dict[str, Any]:
    return {"name": "istio-proxy", **fields}


NOTHING = "{{- /* a template is never empty */}}"


def read(text: str) -> AppendSpec:
    """The spec of a rendered text."""
    config = f"policy: enabled\ntemplate: {json.dumps(text + NOTHING)}\n"
    revision = build(make_raw("rev", config=config, settings={"istioVersion": "1.8"}))
    params = webhook_parameters(revision, admitted_pod(make_pod(), "shop"), RequestFacts("shop"))
    template = ListTemplate(revision)
    return template.merge(template.render(template_data(params, params.pod)))


def test_every_list_is_read_typed() -> None:
    found = read(
        "initContainers: [{name: istio-init}]\n"
        "containers: [{name: istio-proxy, unknown: 1}]\n"
        "volumes: [{name: v, emptyDir: {}}]\n"
        "imagePullSecrets: [{name: s}]\n"
        "dnsConfig: {searches: [global]}\n"
        "rewriteAppHTTPProbe: true\n"
        "podRedirectAnnot: {a: b}\n"
        "unknown: 1\n"
    )

    assert found == AppendSpec(
        init_containers=[{"name": "istio-init"}],
        containers=[{"name": "istio-proxy"}],
        volumes=[{"name": "v", "emptyDir": {}}],
        image_pull_secrets=[{"name": "s"}],
        dns_config={"searches": ["global"]},
        rewrite_probes=True,
        redirect_annotations={"a": "b"},
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "containers:\nvolumes: null\n"])
def test_an_empty_text_appends_nothing(text: str) -> None:
    assert read(text) == spec_of()


def test_keys_match_in_any_case_as_in_gos_json() -> None:
    found = read("CONTAINERS: [{name: a}]\nrewriteapphttpprobe: true\n")

    assert (found.containers, found.rewrite_probes) == ([{"name": "a"}], True)


@pytest.mark.parametrize("text", ["[a]", "a", "containers: 1", "containers: [1]", "a: [", "volumes: {a: b}"])
def test_invalid_lists_are_refused_in_istios_words(text: str) -> None:
    with pytest.raises(OverlayError) as caught:
        read(text)

    assert caught.value.what.startswith("failed parsing generated injected YAML (check Istio sidecar injector config")
    assert caught.value.where
    assert caught.value.hint


@cases("resources", "expected")
def test_the_proxy_has_as_many_threads_as_cpus(resources: dict[str, Any], expected: str | None) -> None:
    spec = spec_of({"name": "x"}, proxy(args=["proxy"], resources=resources))

    found = with_concurrency(spec).containers[1]["args"]

    assert found == (["proxy"] if expected is None else ["proxy", "--concurrency", expected])


@cases("args", "kept")
def test_threads_that_are_given_stay_unless_they_are_none(args: list[str], kept: bool) -> None:
    found = with_concurrency(spec_of(proxy(args=args, resources={"limits": {"cpu": "2"}})))

    assert found.containers[0]["args"] == (args if kept else [*args, "--concurrency", "2"])


def test_without_a_proxy_nothing_gets_threads() -> None:
    spec = spec_of({"name": "x", "resources": {"limits": {"cpu": "2"}}})

    assert with_concurrency(spec) is spec


@cases("args", "expected")
def test_the_agents_port_is_an_argument_of_the_proxy(args: list[str] | None, expected: int) -> None:
    assert status_port(spec_of(proxy(args=args))) == expected


def test_a_spec_without_a_proxy_has_no_port_of_the_agent() -> None:
    assert status_port(spec_of({"name": "x", "args": ["--statusPort", "1"]})) == -1


def test_the_variables_of_the_url_replace_the_templates_and_stand_at_the_end() -> None:
    env = [{"name": "ISTIO_META_NETWORK", "value": "a"}, {"name": "B", "value": "b"}]

    found = with_cluster_env(spec_of(proxy(env=env)), {"ISTIO_META_NETWORK": "n", "ISTIO_META_CLUSTER_ID": ""})

    assert found.containers == [
        proxy(
            env=[
                {"name": "B", "value": "b"},
                {"name": "ISTIO_META_NETWORK", "value": "n"},
                {"name": "ISTIO_META_CLUSTER_ID"},
            ]
        )
    ]


@pytest.mark.parametrize(("spec", "envs"), [(spec_of(proxy()), {}), (spec_of({"name": "x"}), {"A": "b"})])
def test_without_variables_or_a_proxy_nothing_changes(spec: AppendSpec, envs: dict[str, str]) -> None:
    assert with_cluster_env(spec, envs) is spec


def test_the_proxy_gets_the_last_mount_of_the_token_that_the_application_has() -> None:
    mounts = [{"name": name, "mountPath": path} for name, path in (("a", TOKEN_PATH), ("b", "/b"), ("c", TOKEN_PATH))]
    own = {"name": "own", "mountPath": "/own"}

    found = with_token_mount(
        spec_of(proxy(volumeMounts=[own])), make_pod(containers=[make_container(volumeMounts=mounts)])
    )

    assert found.containers == [proxy(volumeMounts=[own, mounts[2]])]


def test_a_pod_without_the_token_gives_the_proxy_none() -> None:
    spec = spec_of(proxy())

    assert with_token_mount(spec, make_pod()) is spec


def test_a_changed_proxy_takes_the_place_of_the_first() -> None:
    spec = spec_of({"name": "x"}, proxy(), {"name": "y"}, proxy(n=2))

    assert with_proxy(spec, proxy(n=1)).containers == [{"name": "x"}, proxy(n=1), {"name": "y"}, proxy(n=2)]
    assert spec.containers[1] == proxy()
