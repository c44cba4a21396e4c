"""The data that a template gets of a pod and its revision."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from injector.errors import TemplateRenderError
from injector.injection.data import (
    Parameters,
    cluster_envs,
    estimate_concurrency,
    native_sidecar,
    tag_of_type,
    template_data,
)
from injector.injection.pipeline import answers_to, webhook_parameters
from injector.injection.result import RequestFacts
from injector.istio.revision import Revision, RevisionSettings, build_revision
from injector.istio.template import TemplateData
from tests.cases import cases
from tests.factories import make_pod
from tests.property.test_guard import revisions

VALUES = "{global: {hub: docker.io/istio, tag: 1.30.3, proxy: {image: proxyv2}}}"
FEATURE = "ENABLE_NATIVE_SIDECARS"
PROXY_CONFIG = "proxy.istio.io/config"


def _revision(
    version: str = "1.30", *, values: str = VALUES, mesh: str | None = None, template: str = "", **settings: Any
) -> Revision:
    return build_revision(
        "canary",
        config=f"policy: enabled\ntemplates:\n  sidecar: '{template}'\n",
        values=values,
        mesh=mesh,
        settings=RevisionSettings(istio_version=version, **settings),
        origin="test",
    )


def _data(revision: Revision, pod: dict[str, Any] | None = None, **facts: Any) -> TemplateData:
    subject = make_pod() if pod is None else pod
    return template_data(webhook_parameters(revision, subject, RequestFacts(**facts)), subject)


def _render(
    expression: str,
    version: str = "1.30",
    pod: dict[str, Any] | None = None,
    namespace_meta: dict[str, Any] | None = None,
    **revision: Any,
) -> str:
    built = _revision(version, template=f"{{{{ {expression} }}}}", **revision)
    return built.templates["sidecar"].render(_data(built, {**make_pod(), **(pod or {})}, namespace_meta=namespace_meta))


@cases("expression", "options", "expected")
def test_a_template_sees(expression: str, options: dict[str, Any], expected: str) -> None:
    assert _render(expression, **options) == expected


@cases("tag", "image_type", "expected")
def test_a_known_type_of_the_tag_is_replaced(tag: str, image_type: str, expected: str) -> None:
    assert tag_of_type(tag, image_type) == expected


@cases("variant", "mesh", "annotations", "expected")
def test_the_image_type_is_the_annotations_else_the_proxy_configs_else_the_variant(
    variant: str, mesh: str | None, annotations: dict[str, str], expected: str
) -> None:
    values = f"{{global: {{hub: docker.io/istio, tag: 1.30.3, variant: '{variant}'}}}}"
    data = _data(_revision(values=values, mesh=mesh), make_pod(annotations=annotations))
    assert data.field("ProxyImage") == f"docker.io/istio/proxyv2:{expected}"


@pytest.mark.parametrize(("tag", "image_type", "expected"), [("null", "", "<nil>"), ("null", "debug", "<nil>-debug")])
def test_a_tag_that_is_null_is_in_the_image_as_istio_prints_it(tag: str, image_type: str, expected: str) -> None:
    """Follows Istio 1.30.3, pkg/kube/inject/inject.go: ProxyImage."""
    data = _data(_revision(values=f"{{global: {{hub: h, tag: {tag}, variant: '{image_type}'}}}}"), make_pod())
    assert data.field("ProxyImage") == f"h/proxyv2:{expected}"


def test_templates_see_the_pod_without_what_an_earlier_injection_added() -> None:
    params = webhook_parameters(_revision(), make_pod(labels={"of": "pod"}), RequestFacts())
    data = template_data(params, make_pod(labels={"of": "stripped"}))
    assert data.field("ObjectMeta").field("Labels") == {"of": "stripped"}


def test_a_pod_without_metadata_and_spec_has_zero_values() -> None:
    params = webhook_parameters(_revision(), make_pod(), RequestFacts())
    data = template_data(params, {"metadata": None, "spec": None})
    assert data.field("ObjectMeta").field("Name") == ""
    assert data.field("Spec").field("Containers") == []


def test_values_are_seen_whole_with_numbers_as_floats() -> None:
    data = _data(_revision(values="{global: {mine: {port: 15020}}}"))
    assert data.field("Values") == {"global": {"mine": {"port": 15020.0}}}
    assert type(data.field("Values")["global"]["mine"]["port"]) is float


@cases("version", "field", "known")
def test_a_go_template_sees_the_fields_that_its_minor_has(version: str, field: str, known: bool) -> None:
    assert (field in dict(_data(_revision(version)).fields())) is known


def test_a_jinja2_template_sees_every_field_whatever_the_minor_is() -> None:
    old, new = (dict(_data(_revision(version, engine="jinja2")).fields()) for version in ("1.9", "1.30"))
    assert list(old) == list(new)
    assert "NativeSidecars" in old
    assert "EstimatedConcurrency" in new


@pytest.mark.parametrize("change", ["set .Values `a` `b`", "unset .Values `global`", "merge .Values (dict `a` `b`)"])
def test_a_template_that_changes_its_values_changes_those_of_no_other_pod(change: str) -> None:
    revision = _revision(template=f"{{{{ $_ := {change} }}}}{{{{ .Values }}}}")
    template = revision.templates["sidecar"]

    first, second = (template.render(_data(revision)) for _ in range(2))

    assert first == second
    assert list(revision.values.tree) == ["global"]


@pytest.mark.parametrize(
    ("template", "shared"),
    [("{{ .Values }}", True), ("{{ $_ := set .Values `a` `b` }}", False), ("{{ call .Values.f }}", False)],
)
def test_injections_share_the_values_unless_a_template_can_change_them(template: str, *, shared: bool) -> None:
    revision = _revision(template=template)

    first, second = (_data(revision).field("Values") for _ in range(2))

    assert (first is second) == shared
    assert first == second == revision.values.tree


@pytest.mark.parametrize(
    "template",
    [
        "{% set values.a = 1 %}",
        "{% set values = 1 %}{{ values }}",
        '{{ values.update({"a": 1}) }}',
        '{{ values["global"].pop("hub") }}',
        "{{ values.clear() }}{{ values.global.clear() }}",
        "{{ values | items | list }}{{ values.global | dictsort }}{{ values | tojson }}{{ values | toyaml }}",
        "{% for key, value in values | items %}{% set value.a = 1 %}{% endfor %}",
        "{% macro change(x) %}{% set x.a = 1 %}{% endmacro %}{{ change(values) }}",
    ],
)
def test_no_jinja2_template_changes_the_values_that_its_pods_share(template: str) -> None:
    revision = _revision(template=template, engine="jinja2")
    data = _data(revision)

    with suppress(TemplateRenderError):
        revision.templates["sidecar"].render(data)

    assert data.field("Values") is _data(revision).field("Values")
    assert data.field("Values") == revision.values.tree


def test_no_template_of_istio_changes_the_values_that_its_pods_share() -> None:
    results = [revision for revision in revisions().values() if revision.shared_values is not None]
    for revision in results:
        for name in revision.templates:
            answers_to(make_pod(annotations={"inject.istio.io/templates": name}), (revision, RequestFacts("shop")))[0]
        assert revision.shared_values == revision.values.tree

    assert len(results) >= 10


CLUSTER = "ISTIO_META_CLUSTER_ID"
NETWORK = "ISTIO_META_NETWORK"
NETWORK_LABEL = "topology.istio.io/network"
HOLD = "defaultConfig: {holdApplicationUntilProxyStarts: true}"
HOLD_VALUES = "{global: {proxy: {holdApplicationUntilProxyStarts: true}}}"
CLUSTER_VALUES = "{global: {network: net-v, multiCluster: {clusterName: cluster-v}}}"


def _held(revision: Revision, annotation: str | None = None) -> bool:
    annotations = {} if annotation is None else {"proxy.istio.io/config": annotation}
    return webhook_parameters(revision, make_pod(annotations=annotations), RequestFacts()).hold_application


@cases("mesh", "values", "annotation", "expected")
def test_the_annotation_overrides_the_mesh_but_never_the_values(
    mesh: str | None, values: str, annotation: str | None, expected: bool
) -> None:
    assert _held(_revision(values=values, mesh=mesh), annotation) is expected


@pytest.mark.parametrize(
    ("version", "by_values", "by_mesh"),
    [("1.6", False, False), ("1.7", True, False), ("1.8", True, True), ("1.9", True, True), ("1.30", True, True)],
)
def test_values_hold_the_application_since_1_7_and_the_mesh_since_1_8(
    version: str, by_values: bool, by_mesh: bool
) -> None:
    assert _held(_revision(version, values=HOLD_VALUES)) is by_values
    assert _held(_revision(version, mesh=HOLD)) is by_mesh


@pytest.mark.parametrize(
    ("values", "url", "label", "expected"),
    [
        ("{}", {}, None, {}),
        (CLUSTER_VALUES, {}, None, {CLUSTER: "cluster-v", NETWORK: "net-v"}),
        (CLUSTER_VALUES, {CLUSTER: "cluster-u"}, None, {CLUSTER: "cluster-u", NETWORK: "net-v"}),
        (CLUSTER_VALUES, {NETWORK: "net-u"}, None, {CLUSTER: "cluster-v", NETWORK: "net-u"}),
        (CLUSTER_VALUES, {NETWORK: "net-u"}, "net-l", {CLUSTER: "cluster-v", NETWORK: "net-l"}),
        (CLUSTER_VALUES, {}, "net-l", {CLUSTER: "cluster-v", NETWORK: "net-l"}),
        (CLUSTER_VALUES, {CLUSTER: "", NETWORK: ""}, None, {CLUSTER: "cluster-v", NETWORK: "net-v"}),
        ("{}", {NETWORK: "net-u"}, None, {NETWORK: "net-u"}),
        ("{}", {}, "net-l", {NETWORK: "net-l"}),
        (CLUSTER_VALUES, {}, "", {CLUSTER: "cluster-v"}),
        (CLUSTER_VALUES, {NETWORK: "net-u"}, "", {CLUSTER: "cluster-v", NETWORK: "net-u"}),
        ("{}", {"ISTIO_META_MESH_ID": "m"}, None, {"ISTIO_META_MESH_ID": "m"}),
    ],
)
def test_a_label_beats_the_url_which_beats_the_values(
    values: str, url: dict[str, str], label: str | None, expected: dict[str, str]
) -> None:
    pod = make_pod(labels=None if label is None else {NETWORK_LABEL: label})
    assert cluster_envs(_revision(values=values), pod, url) == expected


def test_the_pairs_of_the_url_are_not_changed() -> None:
    url = {"ISTIO_META_MESH_ID": "m"}
    cluster_envs(_revision(values=CLUSTER_VALUES), make_pod(), url)
    assert url == {"ISTIO_META_MESH_ID": "m"}


LIMIT = "sidecar.istio.io/proxyCPULimit"
REQUEST = "sidecar.istio.io/proxyCPU"


def _params(
    *, annotations: dict[str, str] | None = None, mesh: str | None = None, resources: str = "{}", version: str = "1.17"
) -> Parameters:
    revision = _revision(version, values=f"{{global: {{proxy: {{resources: {resources}}}}}}}", mesh=mesh)
    return webhook_parameters(revision, make_pod(annotations=annotations), RequestFacts())


def _by_cpus(annotations: dict[str, str], resources: str = "{}") -> int:
    mesh = "defaultConfig: {concurrency: 0}"
    return estimate_concurrency(_params(annotations=annotations, resources=resources, mesh=mesh))


@cases("mesh", "annotations", "expected")
def test_the_proxy_config_decides_unless_it_says_zero(
    mesh: str | None, annotations: dict[str, str], expected: int
) -> None:
    assert estimate_concurrency(_params(annotations=annotations, mesh=mesh)) == expected


def test_where_the_proxy_config_has_none_it_is_two_whatever_the_cpus_are() -> None:
    params = _params(annotations={LIMIT: "7"})
    without = params._replace(proxy_config=replace(params.proxy_config, concurrency=None))
    assert estimate_concurrency(without) == 2


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [("1", 1), ("500m", 1), ("1001m", 2), ("6500m", 7), ("7", 7), ("2.5", 3), ("1e1", 10), ("100n", 1)],
)
def test_cpus_are_rounded_up(cpu: str, expected: int) -> None:
    assert _by_cpus({LIMIT: cpu}) == expected


@cases("annotations", "resources", "expected")
def test_a_limit_counts_before_a_request_and_an_annotation_before_the_values(
    annotations: dict[str, str], resources: str, expected: int
) -> None:
    assert _by_cpus(annotations, resources) == expected


@pytest.mark.parametrize("annotation", [LIMIT, REQUEST])
def test_an_annotation_that_is_no_quantity_hides_the_values_all_the_same(annotation: str) -> None:
    assert _by_cpus({annotation: "many"}, "{limits: {cpu: '5'}}") == 2


@pytest.mark.parametrize(("version", "expected"), [("1.10", 0), ("1.11", 5), ("1.17", 5)])
def test_istio_1_10_declares_the_field_and_leaves_it_zero(version: str, expected: int) -> None:
    assert estimate_concurrency(_params(mesh="defaultConfig: {concurrency: 5}", version=version)) == expected


@cases("version", "mode", "nodes", "expected")
def test_the_feature_decides_and_auto_asks_the_nodes_since_1_27(
    version: str, mode: str | None, nodes: tuple[str, ...] | None, expected: bool
) -> None:
    env = {} if mode is None else {FEATURE: mode}
    assert native_sidecar(_revision(version, env=env, node_versions=nodes), make_pod()) is expected


SUPPORTED = [
    "v1.33.0",
    "1.33.0",
    "v1.33",
    "v1.100.2",
    "v1.33.4-gke.1036000",
    "v1.33.1-eks-113cf36",
    "v1.33.2+k3s1",
    "v1.33.0-beta.1",
    "v1.33.0-",
    "v1.33a",
    "v1.033.0",
    "v1.33.0.1",
    "v1.33.3-0+abc",
    "v2.34",
]
UNSUPPORTED = ("v1.9.33", "v1.32.33", "v1.32.1+k3s33", "v2.0.0", "v1", "", "kubelet v1.33.0", "unknown")
UNREADABLE = (
    "v1.33+",
    "v1.33.x",
    "v1.33.",
    "v1..33",
    "V1.33.0",
    " v1.33.0",
    "v1.33.0_1",
    "v1.33.0-1..2",
    "v1.33.0+a b",
)
"""Of these, Go's answers were recorded with github.com/hashicorp/go-version v1.9.0, on 2026-11-28."""


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (None, False),
        ((), True),
        (("v1.33.0", "v1.34.1"), True),
        (("v1.34.1", "v1.32.0"), False),
        (("v1.32.0", "v1.34.1"), False),
        (("v1.34.1", "unknown"), False),
        *(((kubelet,), True) for kubelet in SUPPORTED),
        *(((kubelet,), False) for kubelet in (*UNSUPPORTED, *UNREADABLE, "v1." + "9" * 5000, "v1.33." + "9" * 19)),
    ],
)
def test_auto_is_on_if_every_node_is_at_least_1_33(nodes: tuple[str, ...] | None, expected: bool) -> None:
    assert native_sidecar(_revision(env={FEATURE: "auto"}, node_versions=nodes), make_pod()) is expected


@pytest.mark.parametrize(("node", "expected"), [("new", True), ("old", False), ("gone", False), ("", False)], ids=str)
def test_auto_asks_the_pods_own_node_if_it_has_one_already(node: str, expected: bool) -> None:
    versions = {"new": "v1.33.0", "old": "v1.32.0"}
    revision = _revision(env={FEATURE: "auto"}, node_versions=tuple(versions.values()))

    pod = make_pod(nodeName=node) if node else make_pod()

    assert native_sidecar(replace(revision, versions_by_node=versions), pod) is expected
