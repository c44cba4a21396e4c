"""``injector explain``: why a pod is injected or not, from files and from a cluster."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from injector.cli.explain import as_text
from injector.cluster.resources import PODS
from injector.fleet.explain import WorkloadDecision, explain_live
from injector.fleet.manifests import WorkloadFiles
from injector.fleet.routing import pod_labels
from injector.fleet.sources import RevisionSources
from injector.fleet.view import read_view
from injector.fleet.workloads import WorkloadName, read_target
from injector.injection.result import GUARDS
from injector.injection.tools.explain import Decision, Step
from injector.istio.webhooks.configurations import WebhookOptions, tag_webhook
from injector.kube.podtemplates import Created
from injector.revisions.tags import TagWorkload
from tests.cases import cases
from tests.cli.clusters import (
    HOME,
    FakeKube,
    assert_fails,
    cluster,
    deployment,
    endpoints,
    invoke,
    labelled,
    owned,
    proxy_config,
    reached,
    revision,
    tag,
    written,
)
from tests.factories import make_container, make_pod
from tests.revisions.fakes import VALUES, write_revision

STEPS = [
    *("webhook", "tag", "revision", "host_network", "ignored_namespace", "illegal_policy", "label", "annotation"),
    *("never_selector", "always_selector", "policy", "validation", "templates", "guard", "pod_security", "result"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two revisions and two tags."""
    for name, version in (("1-24", "1.24.6"), ("1-30", "1.30.1")):
        write_revision(tmp_path / "revisions" / name, values=VALUES.replace("1.24.6", version))
    (tmp_path / "revisions" / "tags.yaml").write_text("prod: 1-24\ndefault: 1-30\n")
    return tmp_path


def explain(folder: Path, *arguments: str, documents: list[dict[str, Any]] | None = None) -> Result:
    """Run the command on the folder's revisions and the documents, by default one pod."""
    (folder / "m.yaml").write_text(yaml.safe_dump_all(documents or [make_pod(namespace="shop")]))
    sources = ["--revisions-dir", str(folder / "revisions"), "-f", str(folder / "m.yaml")]
    return invoke("explain", *sources, *arguments)


def data_of(result: Result) -> list[dict[str, Any]]:
    workloads: list[dict[str, Any]] = json.loads(result.stdout)["workloads"]
    return workloads


def test_the_text_has_a_line_for_each_step_with_verdict_reason_and_source(folder: Path) -> None:
    result = explain(folder, "--namespace-labels", "istio.io/rev=prod,team=a")

    first, *lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (0, "")
    assert first == "Pod shop/hello: injected by 1-24 (policy_enabled)"
    assert [line.split()[0] for line in lines] == STEPS
    assert lines[1].split("  ")[-2:] == ["prod is a tag of 1-24", f"[{folder}/revisions/tags.yaml]"]
    assert lines[-1].split("  ")[-2:] == ["injected: istio-proxy (proxy:1.24.6)", "[1-24, Istio 1.24]"]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_the_trace_is_available_as_data(folder: Path, output: str) -> None:
    result = explain(folder, "--namespace-labels", "istio.io/rev=prod", "-o", output)

    (workload,) = (json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout))["workloads"]
    assert [step["step"] for step in workload["steps"]] == STEPS
    by = {"outcome": "injected", "reason": "policy_enabled", "revision": "1-24", "tag": "prod", "messages": []}
    del workload["steps"]
    assert workload == {"kind": "Pod", "namespace": "shop", "name": "hello", **by}


@pytest.mark.parametrize(
    ("flags", "revision", "tag"),
    [
        (("--path", "/inject/prod"), "1-24", "prod"),
        (("--path", "/inject/1-30/cluster/c1/net/n1"), "1-30", None),
        (("--path", "/inject"), "1-30", "default"),
        (("--revision", "prod"), "1-24", "prod"),
        (("-r", "1-30"), "1-30", None),
        (("--namespace-labels", "istio-injection=enabled"), "1-30", "default"),
        (("--namespace-labels", "a=b", "--namespace-labels", "istio.io/rev=1-24"), "1-24", None),
    ],
)
def test_flags_and_labels_lead_to_a_revision(
    folder: Path, flags: tuple[str, ...], revision: str, tag: str | None
) -> None:
    (workload,) = data_of(explain(folder, *flags, "-o", "json"))

    assert (workload["outcome"], workload["revision"], workload["tag"]) == ("injected", revision, tag)


def test_namespace_labels_come_from_the_files_or_the_flag(folder: Path) -> None:
    shop = {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"istio.io/rev": "1-24"}}}
    documents = [shop, make_pod(namespace="shop"), make_pod(namespace="other")]

    read, lone = data_of(explain(folder, "-o", "json", documents=documents))
    flagged = data_of(explain(folder, "-o", "json", "--namespace-labels", "istio.io/rev=1-30", documents=documents))

    assert (read["revision"], lone["reason"]) == ("1-24", "no_webhook")
    assert [workload["revision"] for workload in flagged] == ["1-30", "1-30"]


def test_a_pod_without_a_webhook_is_skipped_with_a_note_about_labels(folder: Path) -> None:
    result = explain(folder)

    assert result.exit_code == 0
    assert result.stdout.startswith("Pod shop/hello: skipped (no_webhook)\n")
    assert result.stderr == "note: the labels of namespace shop are not known; give --namespace-labels\n"
    assert explain(folder, "--namespace-labels", "a=b").stderr == ""


@pytest.mark.parametrize(
    ("pod", "flags", "reason"),
    [
        (make_pod(hostNetwork=True), (), "host_network"),
        (make_pod(), ("-n", "kube-system"), "ignored_namespace"),
        (make_pod(labels={"sidecar.istio.io/inject": "false"}), (), "label"),
        (make_pod(annotations={"sidecar.istio.io/inject": "false"}), (), "annotation"),
    ],
)
def test_a_skipped_pod_ends_with_0_and_the_rule(
    folder: Path, pod: dict[str, Any], flags: tuple[str, ...], reason: str
) -> None:
    result = explain(folder, "-r", "1-30", "-o", "json", *flags, documents=[pod])

    (workload,) = data_of(result)
    assert (result.exit_code, workload["outcome"], workload["reason"]) == (0, "skipped", reason)


@cases("annotations", "path", "reason")
def test_a_refused_pod_ends_with_65_and_its_trace(
    folder: Path, annotations: dict[str, str], path: str, reason: str
) -> None:
    documents = [make_pod("good"), make_pod("bad", annotations=annotations)]

    result = explain(folder, "--path", path, "-o", "json", documents=documents)

    workload = data_of(result)[-1]
    assert (result.exit_code, workload["outcome"], workload["reason"]) == (65, "refused", reason)
    assert workload["steps"][-1]["step"] == "result"


def test_no_detail_has_a_value_of_the_users_variables(folder: Path) -> None:
    pod = make_pod(
        annotations={"sidecar.istio.io/proxyCPU": "hunter2-hunter2"},
        containers=[make_container(env=[{"name": "TOKEN", "value": "hunter2-hunter2"}])],
    )

    for output in ("text", "json"):
        result = explain(folder, "-r", "1-30", "-o", output, documents=[pod])

        assert "invalid value '<hidden>'" in result.stdout
        assert "hunter2" not in result.output


@pytest.mark.parametrize("guard", GUARDS)
def test_the_guard_of_the_trace_comes_from_the_option(folder: Path, guard: str) -> None:
    (workload,) = data_of(explain(folder, "-r", "1-30", "--guard", guard, "-o", "json"))

    assert [step["source"] for step in workload["steps"] if step["step"] == "guard"] == [f"--guard {guard}"]


@pytest.mark.parametrize(
    ("pod", "namespace", "whose"),
    [({"istio.io/rev": "canray"}, "", "the pod's"), ({}, "istio.io/rev=canray", "the namespace's")],
)
def test_an_unknown_name_is_shown_with_the_known_ones_and_the_nearest(
    folder: Path, pod: dict[str, str], namespace: str, whose: str
) -> None:
    (folder / "m.yaml").write_text(yaml.safe_dump(make_pod(labels=pod)))

    result = invoke("explain", "-f", str(folder / "m.yaml"), "--namespace-labels", namespace or "team=a", "--embedded")

    assert result.stdout.startswith("Pod default/hello: skipped (no_webhook)\n")
    says = f"{whose} label istio.io/rev names `canray`, which is not served (did you mean canary?); known are canary, "
    assert says in result.stdout


@cases("arguments", "code", "says")
def test_wrong_flags_are_64_and_bad_input_is_65(folder: Path, arguments: list[str], code: int, says: str) -> None:
    assert_fails(explain(folder, *arguments), code, says)


CLUSTER = (
    endpoints(ready=1),
    *revision("1-24", "1.24.6"),
    tag("prod", "1-24"),
    labelled("shop", "prod"),
    owned("web", "shop"),
    owned("odd", "shop", annotations={"sidecar.istio.io/interceptionMode": "odd"}),
    deployment("web", "shop"),
)


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands reach the cluster."""
    reached(monkeypatch, FakeKube(*CLUSTER))


in_cluster = pytest.mark.usefixtures("kube")
of_cluster = partial(invoke, "explain")


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (("web-abc-1.shop",), "Pod shop/web-abc-1: injected by 1-24 (policy_enabled)"),
        (("web-abc-1", "-n", "shop"), "Pod shop/web-abc-1: injected by 1-24 (policy_enabled)"),
        (("deploy/web", "-n", "shop"), "Deployment shop/web: injected by 1-24 (policy_enabled)"),
    ],
)
@in_cluster
def test_a_workload_of_the_cluster_is_explained(arguments: tuple[str, ...], first: str) -> None:
    result = of_cluster(*arguments)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == first
    assert ["endpoints", "passed", "1", "ready", "[Service", "injector-system/injector]"] in [
        line.split() for line in result.stdout.splitlines()
    ]


@pytest.mark.parametrize(
    ("policy", "first", "code"),
    [
        ("Fail", "Deployment shop/web: refused by 1-24 (endpoints)", 65),
        ("Ignore", "Deployment shop/web: skipped by 1-24 (endpoints)", 0),
    ],
)
def test_without_a_ready_replica_the_headline_says_what_the_api_server_does(
    policy: str, first: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prod = tag_webhook("prod", "1-24", WebhookOptions(failure_policy=policy))
    reached(monkeypatch, FakeKube(endpoints(ready=0, unready=2), *revision("1-24", "1.24.6"), prod, *CLUSTER[-4:]))

    result = of_cluster("deploy/web.shop")

    assert (result.exit_code, result.stdout.splitlines()[0]) == (code, first)
    done = "refused" if policy == "Fail" else "created without a sidecar"
    why = f"pods are {done}: no replica of Service injector-system/injector is ready to answer the webhook"
    assert why in result.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("answer", "outcome", "line"),
    [
        (None, "injected", "passed   the API server accepts the injected pod"),
        ((403, "violates PodSecurity"), "refused", "refuse   violates PodSecurity"),
        (
            (503, "is overloaded"),
            "injected",
            "unknown  the API server did not check the injected pod: is overloaded; x",
        ),
    ],
)
def test_the_api_server_checks_the_injected_pod_of_one_workload(
    answer: tuple[int, str] | None, outcome: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = FakeKube(*CLUSTER, refuses=lambda _: answer)
    reached(monkeypatch, kube)

    one, all_of_them = of_cluster("deploy/web.shop"), of_cluster("-n", "shop")

    assert f": {outcome}" in one.stdout.splitlines()[0]
    assert any(row.split() == ["dry_run", *line.split(), "[the", "API", "server]"] for row in one.stdout.splitlines())
    assert [pod["metadata"]["generateName"] for pod in kube.tried] == ["web-"]
    assert "dry_run" not in all_of_them.stdout


def messages_of(result: Result) -> list[str]:
    return [
        f"{message['code']} {message['origin']}" for workload in data_of(result) for message in workload["messages"]
    ]


def test_istios_analyzer_messages_follow_the_steps(folder: Path) -> None:
    pod = make_pod(namespace="shop", annotations={"sidecar.istio.io/inject": "true", "x.istio.io/y": "z"})
    flags = ("--namespace-labels", "istio.io/rev=prod,istio-injection=enabled")
    result = explain(folder, *flags, documents=[pod])

    labels = "[istio-injection=enabled istio.io/rev=prod]"
    assert [line.partition(")")[0] for line in result.stdout.splitlines()[-3:]] == [
        "  Warning [IST0108] (Pod shop/hello",
        "  Warning [IST0123] (Namespace shop",
        "  Info [IST0135] (Pod shop/hello",
    ]
    assert f" injection labels {labels}, which may lead to undefined behavior. " in result.stdout
    codes = ["IST0108 Pod shop/hello", "IST0123 Namespace shop", "IST0135 Pod shop/hello"]
    assert messages_of(explain(folder, *flags, "-o", "json", documents=[pod])) == codes
    assert messages_of(explain(folder, "-r", "1-24", "-o", "json", documents=[pod])) == [codes[0], codes[2]]


def test_an_unknown_name_and_an_image_that_stays_auto_are_messages_too(folder: Path) -> None:
    gateway = make_pod(containers=[make_container("istio-proxy", image="auto")], namespace="shop")

    def messages(*flags: str) -> list[str]:
        return messages_of(explain(folder, "-o", "json", *flags, documents=[gateway]))

    assert messages("--namespace-labels", "istio.io/rev=1-25") == ["INJ0001 Namespace shop", "IST0146 Pod shop/hello"]
    assert messages("--namespace-labels", "istio.io/rev=1-24") == messages("--path", "/inject") == []


def test_the_messages_about_a_pod_of_the_cluster_are_those_of_analyze(monkeypatch: pytest.MonkeyPatch) -> None:
    again = {**tag("prod", "1-24"), "metadata": {"name": "again"}}
    other = {**tag("edge", "1-24"), "metadata": {"name": "other"}}
    reached(monkeypatch, FakeKube(*CLUSTER, again, other, tag("edge", "1-24")))

    overlaps = 4 * ["IST0139 MutatingWebhookConfiguration istio-revision-tag-prod"]
    messages = messages_of(of_cluster("web-abc-1.shop", "-o", "json"))
    assert [message for message in messages if "IST0139" not in message] == ["IST0103 Pod shop/web-abc-1"]
    assert {message for message in messages if "IST0139" in message} == set(overlaps)
    assert "IST0103" not in of_cluster("deploy/web", "-n", "shop").stdout


OTHER_KINDS = [
    ("ro/web", "Rollout", "argoproj.io", ()),
    ("ksvc/web", "Service", "serving.knative.dev", ()),
    ("cloneset/web", "CloneSet", "apps.kruise.io", ()),
    ("foo/web", "Foo", "example.com", ("--pod-template-path", "Foo.example.com=spec.template")),
]


@pytest.mark.parametrize(("target", "kind", "group", "flags"), OTHER_KINDS)
def test_workloads_of_other_kinds_are_explained(
    target: str, kind: str, group: str, flags: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = {**deployment("web", "shop", kind=kind), "apiVersion": f"{group}/v1"}
    reached(monkeypatch, FakeKube(*CLUSTER[:-1], workload))

    of_files = explain(folder, *flags, documents=[labelled("shop", "prod"), workload])
    of_kube = of_cluster(target, "-n", "shop", *flags)

    assert (of_files.exit_code, of_files.stderr) == (of_kube.exit_code, of_kube.stderr) == (0, "")
    for result in of_files, of_kube:
        assert result.stdout.splitlines()[0] == f"{kind} shop/web: injected by 1-24 (policy_enabled)"


def test_each_pod_template_of_a_workload_of_the_cluster_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    template = deployment("train", "shop")["spec"]["template"]
    declined = {**template, "metadata": {"labels": {"sidecar.istio.io/inject": "false"}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": "shop"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"template": declined}, "Worker": {"template": template}}},
    }
    reached(monkeypatch, FakeKube(*CLUSTER[:-1], job))
    flags = ("--pod-template-path", "PyTorchJob.kubeflow.org=spec.pytorchReplicaSpecs.*.template", "-o", "json")

    of_name, of_namespace = of_cluster("pytorchjob/train.shop", *flags), of_cluster("-n", "shop", *flags)

    expected = [
        ("spec.pytorchReplicaSpecs.Master.template", "skipped"),
        ("spec.pytorchReplicaSpecs.Worker.template", "injected"),
    ]
    for result in of_name, of_namespace:
        jobs = [workload for workload in json.loads(result.stdout)["workloads"] if workload["kind"] == "PyTorchJob"]
        assert [(job["part"], job["outcome"]) for job in jobs] == expected


@in_cluster
def test_a_kind_that_the_cluster_does_not_have_is_an_error() -> None:
    assert_fails(of_cluster("rollout/web", "-n", "shop"), 1, "the API server has no kind Rollout of argoproj.io")


def test_a_rollout_of_a_deployment_is_explained_by_that_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = {**deployment("web", "shop", kind="Rollout"), "apiVersion": "argoproj.io/v1alpha1"}
    reached(monkeypatch, FakeKube(*CLUSTER, {**workload, "spec": {"workloadRef": {"name": "web"}}}))

    assert_fails(of_cluster("rollout/web", "-n", "shop"), 65, "explain the Deployment of its workloadRef")


@in_cluster
def test_without_a_namespace_that_of_the_kubeconfig_is_used(tmp_path: Path) -> None:
    context = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}
    (tmp_path / "config").write_text(json.dumps({"contexts": [context], "current-context": "c"}))

    assert of_cluster("web-abc-1", "--kubeconfig", str(tmp_path / "config")).exit_code == 0


def test_a_whole_namespace_is_explained_and_a_refusal_in_it_ends_with_65(monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*CLUSTER, labelled("empty", "prod")))

    result = of_cluster("-n", "shop", "-o", "json")

    assert result.exit_code == 65
    assert [(workload["name"], workload["outcome"]) for workload in data_of(result)] == [
        ("odd", "refused"),
        ("web", "injected"),
    ]
    assert of_cluster("-n", "empty").stderr == "note: there is no workload in namespace empty\n"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            ("web", "-f", "m.yaml"),
            64,
            "NAME and -f exclude each other; give NAME, -n or -A for workloads of the cluster",
        ),
        (("web", "--path", "/inject/prod"), 64, "--path: only for FILES"),
        (("web", "-r", "prod"), 64, "--revision: only for FILES"),
        (("-n", "shop", "--namespace-labels", "a=b"), 64, "--namespace-labels: only for FILES"),
        (("web", "--revision-label-precedence", "pod"), 64, "--revision-label-precedence: only for FILES"),
        (("svc/web",), 64, "'svc' is not a type of workload"),
        (("web", "-n", "shop"), 1, "told missing"),
    ],
)
@in_cluster
def test_invalid_arguments_for_a_cluster_are_refused(arguments: tuple[str, ...], code: int, says: str) -> None:
    assert_fails(of_cluster(*arguments), code, says)


PRIVATE = "hunter2-hunter2"
STEPS_trace = (Step("webhook", "passed", "called", "somewhere"), Step("tag", "passed", f"quotes {PRIVATE}", "tags"))


def workload() -> Created:
    container = make_container(env=[{"name": "TOKEN", "value": PRIVATE}])
    return Created("Pod", "shop", "web", make_pod("web", namespace="shop", containers=[container]))


def test_the_text_is_a_line_for_each_step() -> None:
    answer = WorkloadDecision(workload(), Decision(STEPS_trace, "injected", "policy_enabled"), "1-24", "prod")

    assert as_text(answer) == (
        "Pod shop/web: injected by 1-24 (policy_enabled)\n"
        "  webhook  passed  called  [somewhere]\n"
        "  tag      passed  quotes <hidden>  [tags]\n"
    )


OBJECTS = (
    *revision("1-24", "1.24.6"),
    *revision("broken", "1.24.6", config="templates: {sidecar: '{{ .x'}"),
    tag("prod", "1-24"),
    labelled("shop", "prod"),
    labelled("lost", "gone"),
    labelled("bad", "broken"),
    owned("web", "shop"),
    owned("web", "lost"),
    owned("web", "bad"),
    deployment("web", "shop"),
)
SOURCES = RevisionSources(None, HOME)


def explanation(place: str, *more: dict[str, Any], guard: str = "enforce") -> WorkloadDecision:
    reader, wanted = cluster(*OBJECTS, *more), WorkloadName(PODS, "web-abc-1", place)
    ((answer,), _) = explain_live(reader, SOURCES, wanted, WorkloadFiles(()), guard)
    return answer


def test_the_delivery_steps_follow_the_webhook() -> None:
    answer = explanation("shop")

    assert (str(answer.workload), answer.revision, answer.tag) == ("Pod shop/web-abc-1", "1-24", "prod")
    steps = ["webhook", "failure_policy", "ca_bundle", "endpoints", "tag", "revision"]
    assert [step.step for step in answer.decision.steps][:6] == steps
    assert answer.decision.outcome == "injected"


def test_the_proxy_configs_of_the_cluster_that_apply_are_named() -> None:
    resources = proxy_config("istio-system"), proxy_config("shop"), proxy_config("lost")
    answer = explanation("shop", *resources)

    assert [step.detail for step in answer.decision.steps if step.step == "proxy_configs"] == [
        "istio-system/all, shop/all: each overrides the ones before it"
    ]


def test_the_guard_comes_from_the_option() -> None:
    answer = explanation("shop", guard="warn")

    assert [step.source for step in answer.decision.steps if step.step == "guard"] == ["--guard warn"]


def test_the_trace_of_a_pod_without_a_webhook_ends_there() -> None:
    answer = explanation("lost")

    assert [step.step for step in answer.decision.steps] == ["webhook", "result"]
    assert "names `gone`, which is not served" in answer.decision.steps[0].detail


def test_a_broken_revision_refuses_its_pods_and_hides_no_other(tmp_path: Path) -> None:
    command = "explain", "-f", written(tmp_path, *OBJECTS)

    result = invoke(*command, "-o", "json")

    assert result.exit_code == 65
    decided = {
        (workload["namespace"], workload["kind"]): (workload["outcome"], workload["reason"], workload["revision"])
        for workload in json.loads(result.stdout)["workloads"]
    }
    assert decided["bad", "Deployment"] == ("refused", "revision", "broken")
    assert decided["shop", "Deployment"] == ("injected", "policy_enabled", "1-24")
    assert_fails(invoke(*command, "-r", "broken"), 65, "istio-sidecar-injector-broken")


def test_the_template_of_a_broken_revision_is_named_by_the_step_that_refuses() -> None:
    answer = explanation("bad")

    assert [step.step for step in answer.decision.steps][-2:] == ["revision", "result"]
    assert "istio-sidecar-injector-broken: " in answer.decision.steps[-2].detail


def test_the_labels_of_a_workload_are_its_pods_and_its_namespaces() -> None:
    reader = cluster(*OBJECTS)
    around = asyncio.run(read_view(reader, SOURCES, None))
    labels = pod_labels(
        asyncio.run(read_target(reader, WorkloadName(PODS, "web-abc-1", "shop")))[0], around.namespaces["shop"]
    )

    assert labels.namespace["istio.io/rev"] == "prod"
    assert labels.pod["app"] == "web"
    assert labels.workload == TagWorkload(("shop", "Deployment", "web"))
