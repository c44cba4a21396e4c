"""Workloads of manifests are injected in their place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from injector.errors import AnnotationError, BreakOutError, ManifestError
from injector.injection.data import SUPPLEMENTAL_GROUPS, UID_RANGE
from injector.injection.tools.manifest import inject_object, inject_templates
from injector.injection.tools.uninject import uninject_object
from injector.istio.revision import Revision, RevisionSettings
from injector.kube.podtemplates import change_at, created_pods, parse_rules, template_at
from tests.cases import cases
from tests.factories import created_by, make_container, make_pod
from tests.revisions.fakes import CONFIG, revision_of, saying

APPENDING = """\
policy: disabled
template: |
  containers:
  - name: istio-proxy
    image: proxy
"""
"""An inject config as Istio had it up to 1.8."""


def workload(kind: str = "Deployment", *, namespace: str = "", **pod: Any) -> dict[str, Any]:
    """A workload; keywords are of ``make_pod``."""
    result = make_pod("", **pod)
    template = {"metadata": {k: v for k, v in result["metadata"].items() if v}, "spec": result["spec"]}
    metadata = {"name": "w", "namespace": namespace} if namespace else {"name": "w"}
    spec = {"jobTemplate": {"spec": {"template": template}}} if kind == "CronJob" else {"template": template}
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}


def injected(revision: Revision, obj: dict[str, Any]) -> dict[str, Any]:
    """The object with its pods injected, without a warning."""
    result = inject_object(revision, obj, warn=pytest.fail)
    assert result is not None
    return result


def images(spec: dict[str, Any]) -> list[str]:
    return sorted(container["image"] for container in spec["containers"])


def image_of_proxy(revision: Revision, obj: dict[str, Any]) -> str:
    """What the template of ``revision`` said in place of the proxy's image."""
    result = injected(revision, obj)
    spec = result["spec"] if result["kind"] == "Pod" else result["spec"]["template"]["spec"]
    return next(str(container["image"]) for container in spec["containers"] if container["name"] == "istio-proxy")


def warned(revision: Revision, obj: dict[str, Any]) -> list[str]:
    """What is said of an object that is left alone."""
    lines: list[str] = []
    result = inject_object(revision, obj, warn=lines.append)
    assert result is not None
    spec = result["spec"] if result["kind"] == "Pod" else result["spec"]["template"]["spec"]
    assert "proxy:1.24.6" not in images(spec)
    return lines


@pytest.mark.parametrize(
    "kind", ["DaemonSet", "Deployment", "DeploymentConfig", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"]
)
def test_every_kind_of_workload_is_injected_in_its_template(kind: str) -> None:
    result = injected(revision_of(), workload(kind))

    assert images(result["spec"]["template"]["spec"]) == ["proxy:1.24.6", "registry.example.com/app:1.0"]
    assert "sidecar.istio.io/status" in result["spec"]["template"]["metadata"]["annotations"]


def test_a_pod_is_injected_itself() -> None:
    assert images(injected(revision_of(), make_pod())["spec"]) == ["proxy:1.24.6", "registry.example.com/app:1.0"]


def test_the_annotations_of_a_cron_job_go_to_its_job_template_with_a_note() -> None:
    lines: list[str] = []

    cron_job = inject_object(revision_of(), workload("CronJob", namespace="ci"), warn=lines.append) or {}

    job = cron_job["spec"]["jobTemplate"]
    assert len(job["spec"]["template"]["spec"]["containers"]) == 2
    assert "sidecar.istio.io/status" in job["metadata"]["annotations"]
    assert "annotations" not in job["spec"]["template"].get("metadata", {})
    assert [line.partition(" reads and writes ")[0] for line in lines] == [
        "warning: CronJob ci/w: as istioctl does, kube-inject"
    ]


@pytest.mark.parametrize("metadata", [{"labels": {"sidecar.istio.io/inject": "false"}}, {}])
def test_the_pod_template_of_a_cron_job_decides_about_its_injection(metadata: dict[str, Any]) -> None:
    cron_job = workload("CronJob", **metadata)
    cron_job["spec"]["jobTemplate"]["metadata"] = {"annotations": {"sidecar.istio.io/inject": "false"}}

    parts = inject_templates(revision_of(), cron_job, warn=lambda _: None)

    path = ("spec", "jobTemplate", "spec", "template")
    assert list(parts) == ([] if metadata else [path])
    if parts:
        assert "sidecar.istio.io/status" in parts[path]["metadata"]["annotations"]
        restored = uninject_object(change_at(cron_job, path, lambda _: parts[path])) or {}
        assert images(template_at(restored, path)["spec"]) == ["registry.example.com/app:1.0"]
        assert "annotations" not in template_at(restored, path).get("metadata", {})


@pytest.mark.parametrize(("namespace", "count"), [("kube-system", 0), ("shop", 1)])
def test_the_namespace_of_a_workload_counts_for_its_pod_template(namespace: str, count: int) -> None:
    assert len(inject_templates(revision_of(), workload(namespace=namespace), warn=lambda _: None)) == count


@pytest.mark.parametrize(("namespace", "uid"), [("geo", "1000989999"), ("shop", "1337")])
def test_the_ids_of_a_namespace_of_openshift_count_for_its_pod_templates(namespace: str, uid: str) -> None:
    annotations = {UID_RANGE: "1000980000/10000", SUPPLEMENTAL_GROUPS: "1000980000/10000"}
    settings = RevisionSettings(
        istio_version="1.30", env={"PLATFORM": "openshift"}, namespaces={"geo": {"annotations": annotations}}
    )
    revision = replace(revision_of(30, saying(".ProxyUID")), env=settings.env, namespaces=settings.namespaces)
    lines: list[str] = []

    (template,) = inject_templates(revision, workload(namespace=namespace), warn=pytest.fail).values()
    as_istioctl = inject_object(revision, workload(namespace=namespace), warn=lines.append) or {}

    assert uid in images(template["spec"])
    assert "1337" in images(as_istioctl["spec"]["template"]["spec"])
    assert [line.split(":")[1] for line in lines] == ([" Deployment geo/w"] if namespace == "geo" else [])


TEMPLATE = workload(labels={"app": "w"})["spec"]["template"]
DECLINED = {**TEMPLATE, "metadata": {"labels": {"sidecar.istio.io/inject": "false"}}}
SEVERAL = [
    (
        "PyTorchJob.kubeflow.org=spec.pytorchReplicaSpecs.*.template",
        {"pytorchReplicaSpecs": {"Master": {"template": DECLINED}, "Worker": {"replicas": 2, "template": TEMPLATE}}},
        "spec.pytorchReplicaSpecs.Master.template",
    ),
    (
        "RayCluster.ray.io=spec.workerGroupSpecs[*].template",
        {"workerGroupSpecs": [{"template": DECLINED}, {"replicas": 2, "template": TEMPLATE}]},
        "spec.workerGroupSpecs[0].template",
    ),
    (
        "Job.batch.volcano.sh=spec.tasks[*].template",
        {"tasks": [{"name": "a", "template": DECLINED}, {"name": "b", "template": TEMPLATE}]},
        "spec.tasks[0].template",
    ),
    ("StrimziPodSet.core.strimzi.io=spec.pods[*]", {"pods": [DECLINED, TEMPLATE]}, "spec.pods[0]"),
]


@pytest.mark.parametrize(("rule", "spec", "declined"), SEVERAL)
def test_every_pod_template_of_a_workload_is_injected(rule: str, spec: dict[str, Any], declined: str) -> None:
    kind, _, group = rule.partition("=")[0].partition(".")
    obj = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "w", "namespace": "ml"}, "spec": spec}
    others = parse_rules([rule])
    lines: list[str] = []

    result = inject_object(revision_of(), obj, warn=lines.append, others=others) or {}
    parts = inject_templates(revision_of(), obj, warn=lines.append, others=others)

    assert [len(created_pod.pod["spec"]["containers"]) for created_pod in created_pods(result, "", others)] == [1, 2]
    assert next(created_pods(result, "", others)).part == declined
    assert [template_at(result, path) for path in parts] == list(parts.values())
    assert len(parts) == 1
    assert lines == 2 * [f'===> Skipping injection because {kind} "ml/w" at {declined} has sidecar injection disabled']
    assert uninject_object(result, others) == obj


def test_the_object_given_is_not_changed() -> None:
    obj = workload()
    injected(revision_of(), obj)

    assert obj == workload()


@pytest.mark.parametrize("kind", ["Service", "ConfigMap", "Nope", None])
def test_other_kinds_have_no_pods(kind: str | None) -> None:
    assert inject_object(revision_of(), {"kind": kind, "metadata": {"name": "x"}}, warn=pytest.fail) is None


def test_the_items_of_a_list_are_injected_in_place_and_others_stay() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"odd": "stays"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [service, workload(), make_pod()]}

    result = injected(revision_of(), listed)

    assert result["items"] == [service, *(injected(revision_of(), obj) for obj in (workload(), make_pod()))]


@pytest.mark.parametrize(
    ("fields", "printed"),
    [
        ({"metadata": {"resourceVersion": "", "selfLink": ""}, "items": []}, {"metadata": {}, "items": []}),
        ({"metadata": {"continue": "x"}}, {"metadata": {"continue": "x"}, "items": None}),
        ({"metadata": None, "items": None}, {"metadata": {}, "items": None}),
    ],
)
def test_a_list_is_printed_as_go_reads_it(fields: dict[str, Any], printed: dict[str, Any]) -> None:
    assert injected(revision_of(), {"kind": "List", **fields}) == {"kind": "List", **printed}


@cases("old", "new")
def test_policy_selectors_and_default_templates_of_the_config_do_not_count(old: str, new: str) -> None:
    revision = revision_of(config=CONFIG.replace(old, new, 1))

    assert len(injected(revision, make_pod(labels={"app": "w"}))["spec"]["containers"]) == 2


def test_the_annotations_of_the_config_are_not_added() -> None:
    result = injected(revision_of(config=f"{CONFIG}injectedAnnotations: {{a: b}}\n"), make_pod())

    assert "a" not in result["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("expression", "obj", "expected"),
    [
        (".DeploymentMeta.Name", workload(), "w"),
        (".DeploymentMeta.Namespace", workload(namespace="shop"), "shop"),
        (".TypeMeta.Kind", workload("StatefulSet"), "StatefulSet"),
        (".TypeMeta.APIVersion", workload(), "batch/v1"),
        (".DeploymentMeta.Name", make_pod("p"), "p"),
        (".Revision", make_pod(), "rev"),
    ],
)
def test_templates_know_the_workload(expression: str, obj: dict[str, Any], expected: str) -> None:
    assert image_of_proxy(revision_of(config=saying(expression)), obj) == expected


@cases("minor", "expression", "expected")
def test_since_1_21_the_workload_of_a_bare_pod_is_told_by_its_owner(minor: int, expression: str, expected: str) -> None:
    pod = created_by(make_pod("w-29000000-x"), "w-29000000", "Job", "batch/v1")

    assert image_of_proxy(revision_of(minor, saying(expression)), pod) == expected


@pytest.mark.parametrize("expression", [".MeshConfig.DefaultConfig.StatusPort", ".ProxyConfig.StatusPort"])
def test_the_proxy_config_of_the_pod_reaches_the_mesh_config_too(expression: str) -> None:
    pod = make_pod(annotations={"proxy.istio.io/config": "statusPort: 7"})

    assert image_of_proxy(revision_of(config=saying(expression)), pod) == "7"


@cases("minor", "expected")
def test_host_networking_is_left_alone_with_a_warning_in_the_words_of_the_minor(minor: int, expected: str) -> None:
    config = APPENDING if minor <= 8 else CONFIG

    assert warned(revision_of(minor, config), workload(namespace="shop", hostNetwork=True)) == [expected]


@pytest.mark.parametrize(
    ("obj", "name"),
    [
        (make_pod("p", annotations={"sidecar.istio.io/inject": "false"}), 'Pod "p"'),
        (make_pod("p", labels={"sidecar.istio.io/inject": "false"}), 'Pod "p"'),
        (make_pod("p", namespace="kube-system"), 'Pod "kube-system/p"'),
        (workload(annotations={"sidecar.istio.io/inject": "false"}), 'Deployment "w"'),
    ],
)
def test_a_pod_that_declines_is_left_alone_with_a_warning(obj: dict[str, Any], name: str) -> None:
    assert warned(revision_of(), obj) == [f"===> Skipping injection because {name} has sidecar injection disabled"]


def test_up_to_1_7_a_pod_that_declines_is_injected_all_the_same() -> None:
    pod = make_pod(annotations={"sidecar.istio.io/inject": "false"})

    assert len(injected(revision_of(7, APPENDING), pod)["spec"]["containers"]) == 2


@cases("minor", "annotations", "count")
def test_an_injected_pod_is_told_by_its_containers_or_its_status(
    minor: int, annotations: dict[str, str], count: int | None
) -> None:
    config = (APPENDING.replace("{{", "[[") if minor <= 1 else APPENDING) if minor <= 8 else CONFIG
    pod = make_pod(annotations=annotations, containers=[make_container(), make_container("istio-proxy")])
    lines: list[str] = []

    result = inject_object(revision_of(minor, config), pod, warn=lines.append)

    assert result is not None
    assert [line.partition(" has ")[2] for line in lines] == (
        ['injected "istio-proxy" sidecar already'] if count == 2 else []
    )
    assert count is None or len(result["spec"]["containers"]) == count


def test_a_pod_of_a_proxy_alone_is_not_taken_for_injected() -> None:
    pod = make_pod(containers=[make_container("istio-proxy")], annotations={"sidecar.istio.io/status": "{}"})

    assert image_of_proxy(revision_of(16), pod)


@pytest.mark.parametrize(("minor", "expected"), [(27, {"creationTimestamp": None}), (28, {})])
def test_up_to_1_27_an_empty_timestamp_is_printed(minor: int, expected: dict[str, None]) -> None:
    metadata = injected(revision_of(minor), workload())["metadata"]

    assert {key: value for key, value in metadata.items() if key != "name"} == expected


@cases("obj", "says")
def test_what_is_no_workload_is_refused_with_advice(obj: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        inject_object(revision_of(), obj, warn=pytest.fail)

    assert says in str(caught.value)


def test_an_annotation_that_istio_refuses_is_refused() -> None:
    with pytest.raises(AnnotationError, match="invalid value 'nope' for annotation"):
        inject_object(
            revision_of(), make_pod(annotations={"sidecar.istio.io/interceptionMode": "nope"}), warn=pytest.fail
        )


def test_each_workload_is_guarded_as_the_guard_mode_says() -> None:
    revision = revision_of(config=CONFIG.replace("{{ .Values.global.tag }}", "{{ .ObjectMeta.Labels.a }}"))
    hostile = workload(labels={"a": "x" + "\n  - name: other"})
    warnings: list[str] = []

    inject_object(revision, hostile, warn=pytest.fail, guard="off")
    for _ in range(2):
        inject_object(revision, hostile, warn=warnings.append, guard="warn")

    assert len(warnings) == 2
    assert all("metadata.labels[a]: the value breaks out of the template" in warning for warning in warnings)
    with pytest.raises(BreakOutError):
        inject_object(revision, hostile, warn=pytest.fail)
