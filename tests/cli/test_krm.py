"""``injector krm``, a KRM function; kustomize itself runs it at the end."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from injector.injection.data import SUPPLEMENTAL_GROUPS, UID_RANGE
from injector.kube.podsecurity import RESTRICTED, violations
from injector.kube.typed import normalise
from injector.kube.yaml import load_yaml
from tests.architecture.documents import blocks
from tests.cases import cases
from tests.cli.clusters import assert_fails, deployment, invoke, namespace
from tests.factories import make_pod
from tests.revisions.fakes import CONFIG, VALUES, saying, write_revision

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gitops.md"
KUSTOMIZE = ROOT / "scripts" / "kustomize-cli"
LIST = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList"}
TEXT = """\
# about the list
apiVersion: config.kubernetes.io/v1
kind: ResourceList
items:
# about web
- apiVersion: apps/v1
  kind: Deployment
  metadata:
    name: web # its name
    annotations: {config.kubernetes.io/index: '0', internal.config.kubernetes.io/path: 'web.yaml'}
  spec:
    replicas: 0x2
    template:
      spec:
        containers:
        - image: web
          name: web
          args:
          - |
            # no comment

    # about what follows
    paused: yes # or no
- kind: ConfigMap # no workload
  apiVersion: v1
  data: {"b": 'x', a: "yes"}
functionConfig:
  kind: Injection
  spec: {revision: prod}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with two revisions and a tag below it."""
    monkeypatch.chdir(tmp_path)
    for name, version in (("1-24", "1.24.6"), ("1-30", "1.30.1")):
        write_revision(tmp_path / "revisions" / name, CONFIG, VALUES.replace("1.24.6", version))
    (tmp_path / "revisions" / "tags.yaml").write_text("prod: 1-24\ndefault: 1-30\n")
    return tmp_path


def krm(text: str, *flags: str) -> Result:
    return invoke("krm", *flags, text=text)


def run(*items: dict[str, Any], **settings: Any) -> Result:
    """Run the function on items, with a ConfigMap of settings."""
    data = {"revisionsDir": "revisions", **settings}
    return krm(yaml.safe_dump({**LIST, "items": list(items), "functionConfig": {"kind": "ConfigMap", "data": data}}))


def images(result: Result) -> list[str]:
    """The images of the pods."""
    items = load_yaml(result.stdout)["items"]
    specs = [item["spec"].get("template", item)["spec"] for item in items if "spec" in item]
    return [container["image"] for spec in specs for container in spec["containers"]]


def test_only_the_pod_template_changes(folder: Path) -> None:
    result = krm(TEXT, "--revisions-dir", str(folder / "revisions"))

    assert (result.exit_code, result.stderr) == (0, "")
    start, end = TEXT.index("      spec:\n        containers"), TEXT.index("\n    # about what follows")
    assert result.stdout.startswith(TEXT[:start])
    assert result.stdout.endswith(TEXT[end + 1 :])
    assert images(result) == ["web", "proxy:1.24.6"]
    template = load_yaml(result.stdout)["items"][0]["spec"]["template"]
    assert template["spec"]["containers"][0]["args"] == ["# no comment\n"]
    assert "creationTimestamp" not in template["metadata"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: json.dumps(load_yaml(text)),
        lambda text: text.replace("template:", "template: &a").replace("functionConfig:", "other: *a\nfunctionConfig:"),
        lambda text: text.replace("    template:", "    ? template\n    :"),
    ],
    ids=["JSON", "an anchor", "a complex key"],
)
def test_a_text_that_cannot_be_edited_is_written_again(folder: Path, change: Callable[[str], str]) -> None:
    text = change(TEXT)
    result = krm(text, "--revisions-dir", str(folder / "revisions"))

    before, after = load_yaml(text), load_yaml(result.stdout)
    assert images(result) == ["web", "proxy:1.24.6"]
    del before["items"][0]["spec"]["template"], after["items"][0]["spec"]["template"]
    assert after == before


@pytest.mark.usefixtures("folder")
def test_a_list_without_workloads_stays_byte_for_byte_the_same() -> None:
    text = (
        TEXT.replace("kind: Deployment", "kind: Unknown")
        .replace("revision: prod", "")
        .replace("          name: web\n", "")
    )

    assert krm(text, "--embedded").stdout.startswith(text)


@cases("settings", "image")
@pytest.mark.usefixtures("folder")
def test_the_function_config_selects_the_revision(settings: dict[str, str], image: str) -> None:
    assert images(run(make_pod(), **settings))[-1] == image


@pytest.mark.usefixtures("folder")
def test_pods_cron_jobs_and_other_kinds_are_injected() -> None:
    job = {"jobTemplate": {"spec": {"template": {"spec": make_pod()["spec"]}}}}
    cron_job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "job"}, "spec": job}
    rollout = {**deployment("web", "shop", kind="Rollout"), "apiVersion": "argoproj.io/v1alpha1"}

    result = run(make_pod(), cron_job, rollout, namespace="shop")

    pod, cron_job, rollout = load_yaml(result.stdout)["items"]
    assert "sidecar.istio.io/status" in pod["metadata"]["annotations"]
    assert "namespace" not in pod["metadata"]
    template = cron_job["spec"]["jobTemplate"]["spec"]["template"]
    assert "metadata" not in cron_job["spec"]["jobTemplate"]
    assert "sidecar.istio.io/status" in template["metadata"]["annotations"]
    assert len(template["spec"]["containers"]) == 2
    assert len(rollout["spec"]["template"]["spec"]["containers"]) == 2


def results_of(result: Result) -> list[str]:
    """The severity and the message of each result, up to the first semicolon."""
    return [
        f"{entry['severity']}: {entry['message'].partition(';')[0]}" for entry in load_yaml(result.stdout)["results"]
    ]


@pytest.mark.usefixtures("folder")
def test_workloads_of_a_list_are_injected() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [deployment("web", "shop"), make_pod(hostNetwork=True)]}

    result = run(listed)

    web, _ = load_yaml(result.stdout)["items"][0]["items"]
    assert len(web["spec"]["template"]["spec"]["containers"]) == 2
    assert [entry["resourceRef"]["kind"] for entry in load_yaml(result.stdout)["results"]] == ["Pod"]


@pytest.mark.usefixtures("folder")
def test_several_pod_templates_are_injected_by_rules_or_named() -> None:
    template = deployment("x", "ml")["spec"]["template"]
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"template": template}, "Worker": {"template": template}}},
    }
    rule = "PyTorchJob.kubeflow.org=spec.pytorchReplicaSpecs"

    def containers(result: Result) -> list[int]:
        replicas = load_yaml(result.stdout)["items"][0]["spec"]["pytorchReplicaSpecs"].values()
        return [len(replica["template"]["spec"]["containers"]) for replica in replicas]

    none, one = run(job), run(job, podTemplatePaths=f"{rule}.Master.template")
    both = run(job, podTemplatePaths=f"{rule}.Master.template\n{rule}.Worker.template")
    every = run(job, podTemplatePaths=f"A.b=c, {rule}.*.template")

    assert [containers(output) for output in (none, one, both, every)] == [[1, 1], [2, 1], [2, 2], [2, 2]]
    assert [len(load_yaml(output.stdout).get("results", ())) for output in (none, one, both, every)] == [2, 1, 0, 0]
    assert f"give --pod-template-path {rule}.Worker.template" in load_yaml(one.stdout)["results"][0]["message"]


@pytest.mark.usefixtures("folder")
def test_a_path_to_something_else_than_a_pod_template_is_refused() -> None:
    machine = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm"},
        "spec": {"template": {"spec": {"domain": {}}}},
    }

    result = run(machine, podTemplatePaths="VirtualMachine.kubevirt.io=spec.template")

    assert result.exit_code == 65
    assert results_of(result) == ["error: spec.template: no pod template, because it has no spec.containers"]
    assert load_yaml(result.stdout)["items"] == [machine]


@pytest.mark.usefixtures("folder")
def test_the_labels_of_a_namespace_among_the_items_count() -> None:
    off = namespace("off", **{"istio-injection": "disabled"})
    strict = namespace("strict", **{"pod-security.kubernetes.io/enforce": "restricted"})

    result = run(off, deployment("web", "off"), strict, deployment("web", "strict"), make_pod(), namespace="off")

    assert images(result)[-1] == "registry.example.com/app:1.0"
    assert [line.partition(":latest")[0] for line in results_of(result)] == [
        "info: not injected: namespace off has the label istio-injection: disabled",
        'warning: violates PodSecurity "restricted',
        "info: not injected: namespace off has the label istio-injection: disabled",
    ]


@pytest.mark.parametrize(("settings", "uid"), [("", "1000989999"), ("namespaces: {geo: {}}\n", "1337")])
def test_the_ranges_of_a_namespace_count_unless_the_settings_have_others(folder: Path, settings: str, uid: str) -> None:
    write_revision(folder / "revisions" / "ids", saying(".ProxyUID"), VALUES)
    text = f"env: {{PLATFORM: openshift}}\nistioVersion: '1.30'\n{settings}"
    (folder / "revisions" / "ids" / "revision.yaml").write_text(text)
    geo = namespace("geo")
    geo["metadata"]["annotations"] = {UID_RANGE: "1000980000/10000", SUPPLEMENTAL_GROUPS: "1000980000/10000"}

    listed = {"apiVersion": "v1", "kind": "List", "items": [geo]}
    uids = {images(run(item, deployment("web", "geo"), revision="ids"))[-1] for item in (geo, listed)}

    assert uids == {uid}


@pytest.mark.usefixtures("folder")
def test_what_is_left_alone_or_not_known_is_a_result() -> None:
    skipped = make_pod("a", namespace="shop", hostNetwork=True, annotations={"config.kubernetes.io/path": "a.yaml"})
    skipped["metadata"]["annotations"]["config.kubernetes.io/index"] = "3"
    unknown = {**deployment("web", "shop", kind="Foo"), "apiVersion": "example.com/v1"}

    result = run(skipped, unknown)

    first, second = load_yaml(result.stdout)["results"]
    reference = {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "a"}
    assert first == {
        "message": '===> Skipping injection because Pod "shop/a" has host networking enabled',
        "severity": "info",
        "resourceRef": reference,
        "file": {"path": "a.yaml", "index": 3},
    }
    assert (second["severity"], second["resourceRef"]["kind"]) == ("warning", "Foo")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.usefixtures("folder")
def test_a_refused_workload_is_an_error_and_nothing_changes() -> None:
    refused = make_pod("a", annotations={"sidecar.istio.io/proxyCPU": "odd!"})

    result = run(make_pod("b"), refused, {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "c"}})

    first, second = load_yaml(result.stdout)["results"]
    assert (result.exit_code, len(images(result))) == (65, 2)
    assert (first["severity"], first["resourceRef"]["name"], second["resourceRef"]["name"]) == ("error", "a", "c")
    assert "proxyCPU" in first["message"]
    assert [line[:17] for line in result.stderr.splitlines()] == ["error: Pod a: fai", "error: Deployment"]


@pytest.mark.usefixtures("folder")
def test_results_of_an_earlier_function_are_replaced() -> None:
    text = yaml.safe_dump({**LIST, "items": [make_pod(hostNetwork=True)], "results": [{"message": "old"}]})

    results = load_yaml(krm(text, "--embedded").stdout)["results"]

    assert [entry["severity"] for entry in results] == ["info"]


@cases("text", "code", "says")
@pytest.mark.usefixtures("folder")
def test_wrong_input_is_one_line(text: str, code: int, says: str) -> None:
    assert_fails(krm(text, "--embedded"), code, says)


@pytest.mark.parametrize("folder_name", ["/etc", "..", "revisions/../..", "out"])
def test_a_function_config_cannot_read_outside_of_the_working_folder(folder: Path, folder_name: str) -> None:
    (folder / "out").symlink_to("/etc")

    assert_fails(run(make_pod(), revisionsDir=folder_name), 65, "functionConfig: revisionsDir: not below the working")


@pytest.fixture
def program_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with kustomize and the injector."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "kustomize").write_text(f'#!/bin/sh\nexec {KUSTOMIZE} "$@"\n')
    (folder / "kustomize").chmod(0o755)
    return os.pathsep.join((str(folder), str(Path(sys.executable).parent), os.environ["PATH"]))


def on_page(kind: str, name: str) -> str:
    """The text of an object on the page about GitOps."""
    texts = (block.text for block in blocks(PAGE) if block.language == "yaml" and "metadata" in block.text)
    return next(text for text in texts if f"kind: {kind}\n" in text and f"  name: {name}\n" in text)


def ran(path: str, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the working folder."""
    variables = {**os.environ, "PATH": path, **env}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


def write_app(folder: Path, *items: dict[str, Any], transformed: bool = True) -> None:
    """Write a kustomization, with the transformer of the page or without one."""
    (folder / "app.yaml").write_text(yaml.safe_dump_all(items))
    (folder / "inject.yaml").write_text(on_page("ConfigMap", "inject").replace("canary", "prod"))
    kustomization = next(block.text for block in blocks(PAGE) if block.mark == "kustomization")
    content = kustomization if transformed else kustomization.splitlines()[0]
    (folder / "kustomization.yaml").write_text(f"{content}\nnamePrefix: my-\n")


@pytest.mark.needs("kustomize")
def test_kustomize_runs_the_function(folder: Path, program_path: str) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    command = next(block.text for block in blocks(PAGE) if block.text.startswith("kustomize build"))

    write_app(folder, deployment("web", "shop"), service)
    done = ran(program_path, *shlex.split(command))
    write_app(folder, make_pod(annotations={"traffic.sidecar.istio.io/excludeInboundPorts": "https"}))
    refused = ran(program_path, *shlex.split(command))

    assert (done.returncode, done.stderr) == (0, "")
    built = {item["kind"]: item for item in yaml.safe_load_all(done.stdout)}
    assert built["Service"] == {**service, "metadata": {"name": "my-web"}}
    template = built["Deployment"]["spec"].pop("template")
    assert [container["image"] for container in template["spec"]["containers"]][1:] == ["proxy:1.24.6"]
    assert json.loads(template["metadata"]["annotations"]["sidecar.istio.io/status"])["revision"] == "1-24"
    assert built["Deployment"]["metadata"] == {"name": "my-web", "namespace": "shop"}
    assert refused.returncode == 1
    assert "error: Pod my-hello: failed to run injection template" in refused.stderr


@pytest.mark.needs("kustomize")
def test_the_plugin_for_argo_cd_builds_and_injects(folder: Path, program_path: str) -> None:
    config = yaml.safe_load(yaml.safe_load(on_page("ConfigMap", "injector-plugin"))["data"]["plugin.yaml"])
    generate = config["spec"]["generate"]
    command = [*generate["command"], *generate["args"]]
    env = {"INJECTOR_REVISIONS_DIR": "revisions", "ARGOCD_APP_NAMESPACE": "shop", "ARGOCD_ENV_REVISION": "1-30"}

    write_app(folder, make_pod(), transformed=False)
    done, by_default = (
        ran(program_path, *command, **env),
        ran(program_path, *command, **{**env, "ARGOCD_ENV_REVISION": ""}),
    )
    (folder / "app.yaml").unlink()
    broken = ran(program_path, *command, **env)

    (pod,) = filter(None, yaml.safe_load_all(done.stdout))
    assert (done.returncode, pod["metadata"]["name"], pod["spec"]["containers"][1]["image"]) == (
        0,
        "my-hello",
        "proxy:1.30.1",
    )
    assert "proxy:1.24.6" in by_default.stdout
    assert (broken.returncode, broken.stdout) == (1, "")


def test_the_sidecar_for_argo_cd_has_what_the_plugin_needs() -> None:
    spec = yaml.safe_load(on_page("Deployment", "argocd-repo-server"))["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}

    assert (
        violations(
            normalise({"spec": {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}, **spec}}, "v1.Pod"),
            RESTRICTED,
        )
        == ()
    )
    assert mounts["injector-revisions"].startswith(container["env"][0]["value"])
    assert {"var-files", "plugins", *(volume["name"] for volume in spec["volumes"])} == mounts.keys()
