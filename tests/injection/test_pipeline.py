"""A whole injection: the patch, the pod and the errors."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import FrozenInstanceError
from typing import Any

import jsonpatch
import pytest

from injector.errors import AnnotationError, DataError, OverlayError, TemplateRenderError
from injector.injection.pipeline import admitted_pod, inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from tests.cases import cases
from tests.factories import make_container, make_pod, proxy_of
from tests.revisions.fakes import CONFIG, FACTS, embedded, facts_with, injected, revision_of, saying

UNCHECKED = RequestFacts(namespace="shop", deny_invalid=False)
IN_CONFIG = {"proxy.istio.io/config": "statusPort: 7"}


def image_of_proxy(expression: str, pod: dict[str, Any], facts: RequestFacts = FACTS, **revision: Any) -> str:
    """What a template makes of ``expression``."""
    return str(proxy_of(injected(revision_of(config=saying(expression), **revision), pod, facts).pod)["image"])


@pytest.mark.parametrize("name", ["stable", "canary"])
def test_the_patch_leads_from_the_pod_given_to_the_injected_one(name: str) -> None:
    revision = embedded(name)
    pod = make_pod(namespace="shop", labels={"app": "a"}, containers=[make_container(resources={})])

    result = injected(revision, pod)

    assert jsonpatch.apply_patch(pod, result.patch) == json.loads(json.dumps(result.pod))
    assert pod == make_pod(namespace="shop", labels={"app": "a"}, containers=[make_container(resources={})])
    assert "istio-proxy" in json.dumps(result.pod)


def test_an_injection_names_the_templates_it_ran() -> None:
    config = CONFIG.replace("templates:", "templates:\n  other: 'spec: {priority: 7}'")

    result = injected(revision_of(config=config), make_pod(annotations={"inject.istio.io/templates": "sidecar,other"}))

    assert (result.templates, result.pod["spec"]["priority"]) == (("sidecar", "other"), 7)


@cases("pod", "namespace", "policy", "reason")
def test_a_pod_that_is_left_alone_has_the_reason(pod: dict[str, Any], namespace: str, policy: str, reason: str) -> None:
    revision = revision_of(config=CONFIG.replace("enabled", policy))

    result = inject_pod(revision, make_pod(**pod), RequestFacts(namespace))

    assert isinstance(result, Skipped)
    assert (result.reason, bool(result.detail), result.warnings) == (reason, True, ())


@pytest.mark.parametrize("policy", ["enabled", "disabled"])
def test_a_value_that_does_not_count_is_warned_of_with_either_outcome(policy: str) -> None:
    pod = make_pod(labels={"sidecar.istio.io/inject": "yes"})

    result = inject_pod(revision_of(config=CONFIG.replace("enabled", policy)), pod, FACTS)

    (warning,) = result.warnings
    assert warning.startswith("label sidecar.istio.io/inject has the value 'yes'; only `true` and `false` count")


def test_a_pod_that_declines_is_left_alone_whatever_else_is_wrong_with_it() -> None:
    annotations = {"sidecar.istio.io/inject": "false", "sidecar.istio.io/interceptionMode": "nope"}

    assert isinstance(inject_pod(revision_of(), make_pod(annotations=annotations), FACTS), Skipped)


@cases("annotations", "says")
def test_an_annotation_that_istio_refuses_is_refused_in_its_words(annotations: dict[str, str], says: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        inject_pod(revision_of(), make_pod(annotations=annotations), FACTS)

    assert says in caught.value.what
    assert caught.value.hint == "correct the annotation"


@pytest.mark.parametrize(
    ("template", "error"), [("'{{ .Nope.a }}'", TemplateRenderError), ("'- a'", OverlayError), ("'a: ['", OverlayError)]
)
def test_a_template_that_cannot_be_used_is_an_error_of_its_own(template: str, error: type[Exception]) -> None:
    config = f"policy: enabled\ndefaultTemplates: [sidecar]\ntemplates: {{sidecar: {template}}}\n"

    with pytest.raises(error):
        inject_pod(revision_of(config=config), make_pod(), FACTS)


def test_templates_see_the_namespace_of_the_request_and_the_patch_leaves_it_out() -> None:
    result = injected(revision_of(config=saying(".ObjectMeta.Namespace")), make_pod())

    assert proxy_of(result.pod)["image"] == "shop"
    assert result.pod["metadata"]["namespace"] == "shop"
    assert [operation for operation in result.patch if operation["path"].startswith("/metadata/namespace")] == []


@cases("expression", "pod", "options", "expected")
def test_a_template_renders_for_a_pod(
    expression: str, pod: dict[str, Any], options: dict[str, Any], expected: str
) -> None:
    facts = RequestFacts("shop", namespace_meta=options.get("namespace_meta"))
    base = make_pod()
    pod = {**base, "metadata": {**base["metadata"], **pod}}

    assert image_of_proxy(expression, pod, facts, **options.get("revision", {})) == expected


def test_a_pod_is_read_as_go_reads_it() -> None:
    pod = make_pod(labels={})
    pod["metadata"] |= {"managedFields": [{"manager": "kubectl"}], "creationTimestamp": None}

    assert admitted_pod(pod, "shop") == make_pod(namespace="shop")
    assert admitted_pod({"kind": "Pod"}, "") == {"kind": "Pod", "metadata": {}, "spec": {}}


def test_what_no_injection_touches_is_in_no_operation() -> None:
    pod = make_pod()
    pod["metadata"] |= {"managedFields": [{"manager": "kubectl"}], "creationTimestamp": None}

    assert injected(revision_of(), pod).patch == injected(revision_of(), make_pod()).patch


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"METADATA": {"name": "web"}}])
def test_the_patch_fits_a_pod_without_metadata(metadata: dict[str, Any]) -> None:
    pod = {**make_pod(), **metadata} if "metadata" in metadata else {"spec": make_pod()["spec"], **metadata}

    result = injected(revision_of(), pod)

    patched = jsonpatch.apply_patch(pod, result.patch)
    assert patched["metadata"] == {key: item for key, item in result.pod["metadata"].items() if key != "namespace"}


def test_the_agents_port_of_prometheus_is_the_meshs_not_the_pods() -> None:
    result = injected(revision_of(), make_pod(annotations=IN_CONFIG)).pod["metadata"]["annotations"]

    assert result["prometheus.io/port"] == "15020"


@pytest.mark.parametrize(("minor", "expected"), [(5, "mesh"), (6, "pod")])
def test_the_proxy_config_of_the_pod_counts_from_1_6_on(minor: int, expected: str) -> None:
    template = "containers: [{name: istio-proxy, image: {{ .ProxyConfig.ServiceCluster }}}]"
    revision = revision_of(
        minor, f"policy: enabled\ntemplate: '{template}'\n", mesh="defaultConfig: {serviceCluster: mesh}"
    )
    pod = make_pod(annotations={"proxy.istio.io/config": "serviceCluster: pod"})

    assert proxy_of(injected(revision, pod).pod)["image"] == expected


def test_the_pairs_of_the_url_and_the_values_reach_the_proxy() -> None:
    values = json.dumps({"global": {"tag": "1", "multiCluster": {"clusterName": "c"}, "network": "n"}})
    facts = RequestFacts("shop", {"ISTIO_META_NETWORK": "url", "A": "b"})

    result = injected(revision_of(values=values), make_pod(), facts)

    assert proxy_of(result.pod)["env"] == [
        {"name": "A", "value": "b"},
        {"name": "ISTIO_META_CLUSTER_ID", "value": "c"},
        {"name": "ISTIO_META_NETWORK", "value": "url"},
    ]
    assert result.pod["metadata"]["labels"] == {"topology.istio.io/network": "url"}


def test_a_pod_that_is_injected_again_is_rendered_without_the_first_injection() -> None:
    config = saying("len .Spec.Containers")
    once = injected(revision_of(config=config), make_pod()).pod

    twice = injected(revision_of(config=config), once)

    assert (proxy_of(twice.pod)["image"], twice.patch) == ("1", [])


@pytest.mark.parametrize(
    ("env", "templates", "user"), [({"PLATFORM": "openshift"}, 9, 9), ({"PLATFORM": "openshift"}, None, 7), ({}, 9, 7)]
)
def test_on_openshift_a_user_of_all_containers_is_not_an_override(
    env: dict[str, str], templates: int | None, user: int
) -> None:
    containers = [make_container(name, securityContext={"runAsUser": 7}) for name in ("app", "istio-proxy")]
    pod = make_pod(containers=containers)
    config = CONFIG if templates is None else f"{CONFIG}        securityContext: {{runAsUser: {templates}}}\n"

    result = injected(revision_of(config=config, env=env), pod)

    assert proxy_of(result.pod)["securityContext"] == {"runAsUser": user}
    assert jsonpatch.apply_patch(pod, result.patch)["spec"]["containers"] == result.pod["spec"]["containers"]


def test_on_openshift_the_proxys_group_does_not_go_to_the_container_in_its_place() -> None:
    assigned = {"runAsUser": 7, "runAsGroup": 8}
    containers = [
        make_container("istio-proxy", securityContext=assigned),
        make_container("app", securityContext={"runAsUser": 7}),
    ]

    result = injected(revision_of(env={"PLATFORM": "openshift"}), make_pod(containers=containers))

    contexts = {item["name"]: item.get("securityContext") for item in result.pod["spec"]["containers"]}
    assert contexts == {"app": {"runAsUser": 7}, "istio-proxy": {}}


def test_on_openshift_a_second_patch_is_empty_though_the_users_are_alike() -> None:
    revision = revision_of(config=f"{CONFIG}        securityContext: {{runAsUser: 7}}\n", env={"PLATFORM": "openshift"})
    once = injected(revision, make_pod(containers=[make_container("app", securityContext={"runAsUser": 7})])).pod

    twice = injected(revision, once)

    assert proxy_of(twice.pod)["securityContext"] == {"runAsUser": 7}
    assert twice.patch == []


def test_annotations_longer_than_kubernetes_permits_are_refused_unread() -> None:
    longest = {"a": "x" * ((256 << 10) - 1)}
    assert isinstance(inject_pod(revision_of(), make_pod(annotations=longest), UNCHECKED), Injected)
    with pytest.raises(AnnotationError, match="262145 characters, more than the 262144 bytes") as caught:
        inject_pod(revision_of(), make_pod(annotations={**longest, "b": ""}), FACTS)
    assert caught.value.where == "metadata.annotations"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("proxy.istio.io/config", "proxyMetadata: {" + "a: b, " * 1_500 + "}", "more than 2000 values"),
        ("proxy.istio.io/config", "a: &a [x, x, x, x, x]\nb: [" + "*a, " * 500 + "]", "more than 2000 values"),
        ("proxy.istio.io/config", "a: " + "[" * 10_000, "exceeded max depth"),
        ("proxy.istio.io/config", "".join(f"%TAG !a{n}! b\n" for n in range(9_000)) + "--- {}", "%TAG"),
        ("proxy.istio.io/overrides", '{"containers": [' + "{}," * 200 + "{}]}", "invalid value"),
        ("inject.istio.io/templates", "sidecar," * 30_000, "more than 32 templates"),
    ],
)
def test_an_annotation_that_would_take_long_is_refused(name: str, value: str, says: str) -> None:
    with pytest.raises(AnnotationError, match=says):
        inject_pod(revision_of(), make_pod(annotations={name: value}), FACTS)


MANY = 40_000
NAMED = [{"name": f"a{index}"} for index in range(MANY)]
MOUNTS = [{"name": "v", "mountPath": f"/{index}"} for index in range(MANY)]


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(containers=NAMED, annotations={"sidecar.istio.io/status": json.dumps({"containers": ["b"] * MANY})}),
        make_pod(containers=[make_container("istio-proxy", volumeMounts=MOUNTS)]),
        make_pod(containers=[make_container("istio-proxy", env=NAMED)], annotations={"sidecar.istio.io/status": "{}"}),
    ],
    ids=["status", "mounts", "env"],
)
def test_a_pod_with_very_many_entries_takes_no_longer_for_each(pod: dict[str, Any]) -> None:
    revision = revision_of(values=json.dumps({"global": {"tag": "1", "network": "n"}}))
    start = time.thread_time()

    once = inject_pod(revision, pod, UNCHECKED)
    assert isinstance(once, Injected)
    for subject in (pod, once.pod):
        with suppress(DataError):
            inject_pod(revision, subject, FACTS)

    assert time.thread_time() - start < 5


def test_a_list_that_no_istio_init_can_be_given_is_refused_without_repeating_it() -> None:
    name = "traffic.sidecar.istio.io/includeOutboundIPRanges"
    pod = make_pod(annotations={name: ",".join(["10.0.0.0/8"] * 20_000)})

    with pytest.raises(AnnotationError) as caught:
        inject_pod(embedded("stable"), pod, FACTS)

    assert str(caught.value) == (
        f"metadata.annotations[{name}]: the list has 219999 bytes, more than the 131071 that istio-init can be given; "
        "shorten the list"
    )


A_OF_PROXY = "index .ProxyConfig.ProxyMetadata `A`"
FOR_ALL, FOR_WEB = ({"environmentVariables": {"A": value}} for value in ("all", "web"))
RESOURCES = facts_with(FOR_ALL, {**FOR_WEB, "selector": {"matchLabels": {"app": "web"}}})


@pytest.mark.parametrize(
    ("minor", "labels", "annotation", "image"),
    [
        (30, {}, "", "all"),
        (30, {}, "proxyMetadata: {A: annotation}", "annotation"),
        (30, {"app": "web"}, "proxyMetadata: {A: annotation}", "web"),
        (12, {"app": "web"}, "proxyMetadata: {A: annotation}", "annotation"),
    ],
)
def test_a_pod_gets_the_proxy_config_resources_of_its_namespace(
    minor: int, labels: dict[str, str], annotation: str, image: str
) -> None:
    pod = make_pod(labels=labels, annotations={"proxy.istio.io/config": annotation} if annotation else None)

    def image_of(expression: str, minor: int) -> str:
        return str(proxy_of(injected(revision_of(minor, saying(expression), facts=RESOURCES), pod).pod)["image"])

    assert image_of(A_OF_PROXY, minor) == image
    mesh_config = 'index .MeshConfig.DefaultConfig.ProxyMetadata `A` | default "none"'
    assert image_of(mesh_config, 30) == "none"


@pytest.mark.parametrize("result", [RequestFacts(), Injected({}, b"[]", ()), Skipped("reason", "detail")])
def test_results_are_frozen(result: RequestFacts | Injected | Skipped) -> None:
    name = next(iter(type(result).__slots__))
    with pytest.raises(FrozenInstanceError):
        setattr(result, name, "changed")
