"""``injector kube-inject`` and ``uninject``: manifests in, manifests out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from injector.cli.kube_inject import IGNORED, IGNORED_SWITCHES, REFUSED_FLAGS
from injector.cli.revisionoptions import revision_options
from injector.errors import ConfigError, DataError, UsageError
from injector.fleet.sources import RevisionList
from injector.istio.revision import Revision
from injector.revisions.source import SourceState
from injector.revisions.tags import parse_tags
from tests.cases import cases
from tests.cli.clusters import SHOWS_A, FakeKube, assert_fails, invoke, parsed, proxy_config, reached, revision, tag
from tests.factories import make_container, make_pod
from tests.revisions.fakes import CONFIG, VALUES, make_raw, write_revision

INJECTOR = str(Path(sys.executable).with_name("injector"))
uninject = partial(invoke, "uninject")
NOTHING = "note: stdin: nothing is injected, because no document has a pod"
SERVICE = "# kept as it is\napiVersion: v1\nkind:   Service\nmetadata: {name: hello}\n"


def workload(kind: str = "Deployment", name: str = "hello", **spec: Any) -> dict[str, Any]:
    """A workload with one container in its pods; further keywords are fields of the pod's spec."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [make_container()], **spec}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {"template": template}}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files of one revision and a manifest."""
    (tmp_path / "config").write_text(CONFIG)
    (tmp_path / "values").write_text(VALUES)
    (tmp_path / "hello.yaml").write_text(yaml.safe_dump(workload()))
    return tmp_path


def kube_inject(folder: Path, *arguments: str, text: str | None = None) -> Result:
    """Run the command with the revision of ``folder``."""
    sources = ["--injectConfigFile", str(folder / "config"), "--valuesFile", str(folder / "values")]
    return invoke("kube-inject", *sources, *arguments, text=text)


def images(document: dict[str, Any]) -> list[str]:
    """The images of a workload's containers."""
    spec = document["spec"]["template"]["spec"] if "template" in document["spec"] else document["spec"]
    return [container["image"] for container in spec["containers"]]


def injected(result: Result) -> list[dict[str, Any]]:
    """Return the printed documents."""
    assert (result.exit_code, result.stderr) == (0, "")
    return [document for document in yaml.safe_load_all(result.stdout) if document is not None]


def test_the_guard_refuses_warns_or_is_off(files: Path) -> None:
    pasting = CONFIG.replace("{{ .Values.global.tag }}", "{{ .ObjectMeta.Labels.app }}")
    (files / "config").write_text(pasting)
    (files / "hello.yaml").write_text(yaml.safe_dump(workload(name="x" + "\n  - name: other")))

    enforced, warned, unseen = (
        kube_inject(files, "-f", str(files / "hello.yaml"), *flags)
        for flags in ((), ("--guard", "warn"), ("--guard", "off"))
    )

    assert (enforced.exit_code, enforced.stdout) == (65, "")
    assert "metadata.labels[app]: the value breaks out of the template" in enforced.stderr
    assert (warned.exit_code, warned.stdout) == (unseen.exit_code, unseen.stdout) == (0, unseen.stdout)
    assert "metadata.labels[app]: the value breaks out of the template" in warned.stderr
    assert unseen.stderr == ""


PROXIED = ["registry.example.com/app:1.0", "proxy:1.24.6"]


def test_every_document_ends_as_istioctl_ends_it_and_other_kinds_pass_byte_for_byte(files: Path) -> None:
    text = f"{SERVICE}---\n{yaml.safe_dump(workload())}"

    result = kube_inject(files, "-f", "-", text=text)

    assert result.stdout.startswith(f"{SERVICE}---\n")
    assert result.stdout.endswith("\n---\n")
    assert [document["kind"] for document in injected(result)] == ["Service", "Deployment"]


OTHERS = [("Rollout", "argoproj.io"), ("Service", "serving.knative.dev"), ("CloneSet", "apps.kruise.io")]
OTHER_FIELDS = {"replicas": 3, "strategy": {"canary": {"steps": [{"setWeight": 20}]}}}


def other(kind: str, group: str, **spec: Any) -> dict[str, Any]:
    """A workload of a kind that Istio does not know."""
    base = workload(kind, **spec)
    return {**base, "apiVersion": f"{group}/v1", "spec": {**OTHER_FIELDS, **base["spec"]}}


@pytest.mark.parametrize(("kind", "group"), OTHERS)
def test_only_the_pod_template_of_other_kinds_changes_and_uninject_restores_it(
    files: Path, kind: str, group: str
) -> None:
    before = other(kind, group, containerConcurrency=5)

    there = kube_inject(files, "-", text=yaml.safe_dump(before))

    (after,) = injected(there)
    assert injected(uninject("-", text=there.stdout)) == [before]
    assert sorted(images(after)) == sorted(PROXIED)
    assert after["spec"]["template"]["spec"]["containerConcurrency"] == 5
    assert {**after, "spec": {**after["spec"], "template": before["spec"]["template"]}} == before


def test_a_kind_of_another_group_is_another_kind(files: Path) -> None:
    text = yaml.safe_dump({**other("Rollout", "example.com"), "spec": {"template": {"image": "a"}}})

    assert kube_inject(files, "-", text=text).stdout == f"{text}---\n"


def test_a_rollout_of_a_deployment_has_no_pods_of_its_own(files: Path) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    text = yaml.safe_dump({**other("Rollout", "argoproj.io"), "spec": {"workloadRef": reference}})

    result = kube_inject(files, "-", text=text)

    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{text}---\n", f"{NOTHING}\n")


def test_a_container_of_knative_has_the_name_that_knative_gives_it(files: Path) -> None:
    document = other("Service", "serving.knative.dev", containers=[{"image": "a"}])

    (service,) = injected(kube_inject(files, "-", text=yaml.safe_dump(document)))

    assert {"user-container", "istio-proxy"} == {
        container["name"] for container in service["spec"]["template"]["spec"]["containers"]
    }


FOO = {
    "apiVersion": "example.com/v1",
    "kind": "Foo",
    "metadata": {"name": "x"},
    "spec": {"worker": workload()["spec"]["template"]},
}


@pytest.mark.parametrize("command", ["kube-inject", "uninject"])
def test_a_pod_template_of_an_unknown_kind_is_reported_and_a_rule_names_it(files: Path, command: str) -> None:
    sources = ["--injectConfigFile", str(files / "config"), "--valuesFile", str(files / "values")]
    arguments = [command, "-", *(sources if command == "kube-inject" else ())]
    text = f"{yaml.safe_dump(workload())}---\n{yaml.safe_dump(FOO)}"

    plain = invoke(*arguments, text=text)
    named = invoke(*arguments, "--pod-template-path", "Foo.example.com=spec.worker", text=text)

    what = "Foo x: the kind is not known, and its pod template at spec.worker is not used"
    line = text.count("\n", 0, text.index("---")) + 2
    assert plain.stderr == (f"warning: stdin:{line}: {what}; give --pod-template-path Foo.example.com=spec.worker\n")
    assert plain.stdout.endswith(f"---\n{yaml.safe_dump(FOO)}---\n")
    (_, foo) = injected(named)
    assert len(foo["spec"]["worker"]["spec"]["containers"]) == (2 if command == "kube-inject" else 1)


def test_pod_templates_in_lists_are_reported_too(files: Path) -> None:
    nested = {"apiVersion": "v1", "kind": "Template", "objects": [workload()]}
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [workload(), FOO, nested]})

    result = kube_inject(files, "-", text=text)

    assert [line.partition(": the kind")[0] for line in result.stderr.splitlines()] == [
        "warning: stdin:1: Foo x",
        "warning: stdin:1: Template",
    ]
    rule = "give --pod-template-path Template=objects[*].spec.template"
    assert result.stderr.endswith(f"its pod template at objects[0].spec.template is not used; {rule}\n")


def test_a_skipped_workload_is_named_on_stderr(files: Path) -> None:
    result = kube_inject(files, "-", text=yaml.safe_dump(workload(hostNetwork=True)))

    assert result.exit_code == 0
    assert result.stderr.startswith("===> Skipping injection because ")
    assert "has host networking enabled" in result.stderr
    assert images(yaml.safe_load(result.stdout.removesuffix("---\n"))) == PROXIED[:1]


@pytest.mark.parametrize("text", ["", "- a\n", SERVICE])
def test_input_without_a_workload_is_reported(files: Path, text: str) -> None:
    assert kube_inject(files, "-", text=text).stderr.splitlines() == [NOTHING]


def test_a_folder_and_several_files_are_one_stream(files: Path) -> None:
    (files / "more").mkdir()
    for name in ("b", "a"):
        (files / "more" / f"{name}.yaml").write_text(yaml.safe_dump(workload(name=name)))

    documents = injected(kube_inject(files, "-f", str(files / "hello.yaml"), "-f", str(files / "more")))

    assert [document["metadata"]["name"] for document in documents] == ["hello", "a", "b"]


@pytest.mark.parametrize("flags", [["-o", "out.yaml"], ["-o=json", "--output-file", "out.yaml"]])
def test_the_output_is_a_file_as_with_istioctl_or_a_format_as_with_kubectl(
    files: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.chdir(files)

    result = kube_inject(files, "-f", "hello.yaml", *flags)

    text = Path("out.yaml").read_text()
    assert (result.exit_code, result.output, text.startswith("{")) == (0, "wrote out.yaml\n", "-o=json" in flags)
    assert len(images(next(yaml.safe_load_all(text)))) == 2


def test_workloads_without_a_namespace_get_the_one_of_the_flag(files: Path) -> None:
    config = CONFIG.replace("{{ .Values.global.tag }}", "{{ .DeploymentMeta.Namespace }}")
    (files / "config").write_text(config)
    listed = {"apiVersion": "v1", "kind": "List", "items": [workload()]}
    own = {**workload(), "metadata": {"name": "own", "namespace": "other"}}
    text = "---\n".join(yaml.safe_dump(document) for document in (workload(), own, listed, yaml.safe_load(SERVICE)))

    documents = injected(kube_inject(files, "-", "-n", "shop", text=text))

    assert [
        next(image for image in images(document) if image.startswith("proxy:"))
        for document in (*documents[:2], documents[2]["items"][0])
    ] == ["proxy:shop", "proxy:other", "proxy:shop"]
    assert [document["metadata"] for document in (documents[0], documents[2]["items"][0])] == [
        {"creationTimestamp": None, "name": "hello"}
    ] * 2
    assert documents[1]["metadata"]["namespace"] == "other"


@cases("arguments", "code", "says")
def test_invalid_input_is_one_line_and_prints_nothing(
    files: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: str
) -> None:
    monkeypatch.chdir(files)
    (files / "broken.yaml").write_text("kind: Pod\n---\nkind: Pod\n\ta: b\n")
    (files / "lines.json").write_text('{"kind": "Pod"}\n{"kind": "Pod"}\n')
    (files / "odd.yaml").write_text(f"\n---\n{yaml.safe_dump({'kind': 'Deployment', 'metadata': {'name': 'odd'}})}")

    assert_fails(kube_inject(Path(), *arguments), code, says)


@cases("name", "text", "says")
def test_a_revision_that_cannot_be_used_is_named_by_its_file(
    files: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, says: str
) -> None:
    monkeypatch.chdir(files)
    (files / name).write_text(text)

    assert_fails(kube_inject(Path(), "-f", "hello.yaml"), 65, says)


def test_nothing_is_written_when_one_document_of_many_is_bad(files: Path) -> None:
    (files / "out.yaml").write_text("before")
    text = f"{yaml.safe_dump(workload())}---\nkind: Deployment\n"

    result = kube_inject(files, "-", "-o", str(files / "out.yaml"), text=text)

    assert (result.exit_code, (files / "out.yaml").read_text()) == (65, "before")
    assert sorted(path.name for path in files.iterdir()) == ["config", "hello.yaml", "out.yaml", "values"]


def test_it_loads_nothing_that_only_a_server_needs(files: Path) -> None:
    arguments = ["kube-inject", "-f", str(files / "hello.yaml"), "--embedded", "-o", os.devnull]
    code = (
        "import sys; from injector.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit as end: print(end.code, *sys.modules, sep='\\n')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    status, *loaded = run.stdout.splitlines()
    assert status == "0"
    assert set(loaded) & {"aiohttp", "asyncio", "kubernetes_asyncio", "prometheus_client"} == set()


STATE = SourceState(
    (make_raw("a"), make_raw("b")), {"broken": ConfigError("it has no `config`")}, parse_tags("prod: b\nbad: broken")
)


def select(**options: Any) -> Revision:
    """Return the revision that the options select."""
    flags = {"config": "--inject-config-file", "values": "--values-file", "mesh": "--mesh-config-file"}
    arguments: list[str] = []
    for name, value in options.items():
        flag = flags.get(name, f"--{name.replace('_', '-')}")
        for text in value if isinstance(value, tuple) else () if value is None else (value,):
            arguments += [flag, str(text)]
    selected: Revision = parsed(revision_options, *arguments, use=lambda revision_source: revision_source.build())
    return selected


def test_the_files_of_a_revision_may_be_pipes(files: Path) -> None:
    """The shell makes ``/dev/fd/N`` of ``<(kubectl get configmap ...)``, which can be read only once."""
    ends = []
    for name in ("config", "values"):
        reader, writer = os.pipe()
        os.write(writer, (files / name).read_bytes())
        os.close(writer)
        ends.append(reader)
    config, values = (f"/dev/fd/{descriptor}" for descriptor in ends)

    result = invoke(
        "kube-inject", "-f", str(files / "hello.yaml"), "--injectConfigFile", config, "--valuesFile", values
    )
    for descriptor in ends:
        os.close(descriptor)

    assert result.exit_code == 0, result.output
    assert result.stdout == kube_inject(files, "-f", str(files / "hello.yaml")).stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of two revisions, with their tags, and files of one more."""
    for name in ("a", "b"):
        write_revision(tmp_path / "revisions" / name, values=VALUES)
    (tmp_path / "revisions" / "tags.yaml").write_text("prod: b\ndefault: a\n")
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "values.json").write_text('{"global": {"tag": "1.30.2"}}')
    return tmp_path


@pytest.mark.parametrize("name", ["broken", "bad"])
def test_a_revision_that_cannot_be_read_says_why(name: str) -> None:
    with pytest.raises(ConfigError, match="it has no `config`"):
        RevisionList(STATE, "x", "y").find(name)


def test_without_a_name_and_a_default_it_fails() -> None:
    with pytest.raises(UsageError, match=r"^x: no default revision; .*create the tag `default`; known are a, b"):
        RevisionList(STATE, "x", "y").find("")


def test_an_unknown_name_with_broken_tags_reports_the_tags() -> None:
    state = SourceState((make_raw("a"),), tags_error=ConfigError("tags.yaml is broken"))

    with pytest.raises(ConfigError, match=r"tags\.yaml is broken"):
        RevisionList(state, "x", "y").find("prod")


@pytest.mark.parametrize(("name", "expected"), [(None, "a"), ("b", "b"), ("prod", "b")])
def test_a_directory_has_revisions_tags_and_a_default(folder: Path, name: str | None, expected: str) -> None:
    assert select(revisions_dir=folder / "revisions", revision=name).name == expected


def test_files_are_a_revision_named_default_unless_a_name_is_given(folder: Path) -> None:
    config, values = folder / "config.yaml", folder / "values.json"

    assert (
        select(config=config, values=values).name,
        select(config=config, values=values, revision="1-30").written,
    ) == ("default", "1-30")
    assert select(config=config, values=values).istio_version == "1.30"


def test_values_and_flags_override_those_of_a_folder(folder: Path) -> None:
    files = {"revisions_dir": folder / "revisions", "values": folder / "values.json"}

    revision = select(**files, set_env=("PLATFORM=openshift",), node_version=("v1.33.0",))

    assert (revision.istio_version, revision.env) == ("1.30", {"PLATFORM": "openshift"})
    assert revision.node_versions == ("v1.33.0",)
    assert select(**files, istio_version="1.24").istio_version == "1.24"


def test_an_error_in_an_overriding_file_names_the_file(folder: Path) -> None:
    (folder / "values.json").write_text("{")

    with pytest.raises(DataError, match=r"values\.json"):
        select(revisions_dir=folder / "revisions", values=folder / "values.json")


HELLO = str(Path(__file__).resolve().parents[2] / "docs" / "samples" / "hello.yaml")
EX_USAGE = 64


def test_obsolete_flags_are_named_and_ignored() -> None:
    plain = invoke("kube-inject", "-f", HELLO, "--embedded")
    flags = [*(f"--{name}=1" for name in IGNORED), *(f"--{name}" for name in IGNORED_SWITCHES)]

    result = invoke("kube-inject", "-f", HELLO, "--embedded", *flags)

    assert (result.exit_code, result.stdout) == (0, plain.stdout)
    assert sorted(result.stderr.splitlines()) == sorted(
        f"Flag --{name} has been deprecated, Use --injectConfigFile instead" for name in (*IGNORED, *IGNORED_SWITCHES)
    )


def test_a_switch_takes_a_value_after_its_equals_sign() -> None:
    result = invoke("kube-inject", "--debug=false", "-f", HELLO, "--embedded")

    assert (result.exit_code, len(result.stderr.splitlines())) == (0, 1)


@pytest.mark.parametrize("name", REFUSED_FLAGS)
def test_a_template_from_flags_is_refused_with_what_to_do(name: str) -> None:
    result = invoke("kube-inject", "-f", HELLO, f"--{name}", "x")

    assert (result.exit_code, result.stdout) == (EX_USAGE, "")
    assert f"--{name}: templates from flags are not supported; give --injectConfigFile FILE" in result.stderr


STATUS = "sidecar.istio.io/status"
NOTED = json.dumps({"initContainers": ["istio-init"], "containers": ["istio-proxy"], "volumes": ["istio-envoy"]})


def injected_pod(name: str = "hello") -> dict[str, Any]:
    """A pod as an injection left it."""
    return make_pod(
        name,
        annotations={STATUS: NOTED},
        containers=[make_container(), make_container("istio-proxy")],
        initContainers=[make_container("istio-init")],
        volumes=[{"name": "istio-envoy", "emptyDir": {}}],
    )


def test_a_pod_is_restored_and_other_documents_pass_byte_for_byte() -> None:
    result = uninject("-", text=f"{SERVICE}---\n{yaml.safe_dump(injected_pod())}")

    assert injected(result) == [yaml.safe_load(SERVICE), make_pod()]
    assert result.stdout.startswith(f"{SERVICE}---\n")


def test_a_patch_removes_what_was_added() -> None:
    result = uninject("-", "-o", "patch", text=yaml.safe_dump(injected_pod()))

    (line,) = result.stdout.splitlines()
    assert {(operation["op"], operation["path"]) for operation in json.loads(line)} == {
        ("remove", "/metadata/annotations"),
        ("remove", "/spec/containers/1"),
        ("remove", "/spec/initContainers"),
        ("remove", "/spec/volumes"),
    }


@cases("arguments", "code", "says")
def test_invalid_input_of_uninject_is_one_line_and_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.yaml").write_text(f"---\n{yaml.safe_dump({'kind': 'Deployment', 'metadata': {'name': 'odd'}})}")
    proxy = make_container("istio-proxy", env=[{"name": "ISTIO_KUBE_APP_PROBERS", "value": "{"}])
    (tmp_path / "env.yaml").write_text(yaml.safe_dump(make_pod(containers=[make_container(), proxy])))
    (tmp_path / "text.yaml").write_text("{kind: Deployment, metadata: x}")

    assert_fails(uninject(*arguments, text=""), code, says)


@pytest.fixture
def in_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    """A cluster with two revisions and a tag, and a kubeconfig that leads to it."""
    client = FakeKube(*revision("1-24", "1.24.6"), *revision("1-30", "1.30.3"), tag("prod", "1-24"))
    reached(monkeypatch, client)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}, {name: b, context: {}}]}"
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return client


@pytest.mark.parametrize(("flags", "version"), [(("-r", "1-30"), "1.30"), (("-r", "prod", "--context", "b"), "1.24")])
def test_without_files_the_revision_is_that_of_the_cluster(
    in_cluster: FakeKube, flags: tuple[str, ...], version: str
) -> None:
    result = invoke("kube-inject", "-f", HELLO, *flags)

    assert (result.exit_code, result.stderr) == (0, "")
    assert f"proxy:{version}" in result.stdout
    assert in_cluster.requests[1] == "list configmaps in istio-system istio.io/rev"


@pytest.mark.usefixtures("in_cluster")
@pytest.mark.parametrize(("place", "image"), [("demo", "proxy:cluster"), ("other", "proxy:none")])
def test_proxy_configs_of_the_cluster_apply_as_in_the_webhook_that_istioctl_asks(
    monkeypatch: pytest.MonkeyPatch, place: str, image: str
) -> None:
    reached(monkeypatch, FakeKube(*revision("1-30", "1.30.3", config=SHOWS_A), proxy_config(place, A="cluster")))

    result = invoke("kube-inject", "-f", HELLO, "-r", "1-30")

    assert (result.exit_code, result.stderr, image in result.stdout) == (0, "", True)


def test_proxy_configs_beside_the_revisions_of_a_directory_apply(tmp_path: Path) -> None:
    write_revision(tmp_path / "1-30", SHOWS_A, VALUES.replace("1.24.6", "1.30.3"))
    (tmp_path / "proxyconfigs.yaml").write_text(json.dumps(proxy_config("demo", A="file")))

    result = invoke("kube-inject", "-f", HELLO, "--revisions-dir", str(tmp_path), "-r", "1-30")

    assert "proxy:file" in result.stdout


@pytest.mark.usefixtures("in_cluster")
def test_a_directory_is_used_before_the_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert select(revisions_dir=folder / "revisions", revision="b").name == "b"
    monkeypatch.setenv("INJECTOR_REVISIONS_DIR", str(folder / "revisions"))
    assert select(revision="b").name == "b"
    assert select(config=folder / "config.yaml", values=folder / "values.json").name == "default"


@pytest.mark.usefixtures("in_cluster")
def test_the_cluster_is_used_by_the_other_commands_without_files() -> None:
    listed, compared, explained = (
        invoke(*arguments)
        for arguments in (
            ["revision", "list", "-o", "json"],
            ["diff", "1-24", "1-30", "-f", HELLO],
            ["explain", "-f", HELLO, "-r", "prod"],
        )
    )

    assert [row["name"] for row in json.loads(listed.stdout)] == ["1-24", "1-30"]
    assert (compared.exit_code, compared.stderr) == (1, "")
    assert explained.exit_code == 0
    assert "1-24: Istio 1.24" in explained.stdout


def test_named_config_maps_need_no_label(in_cluster: FakeKube) -> None:
    flags = ("--injectConfigMapName", "istio-sidecar-injector", "--meshConfigMapName", "istio-1-24", "-r", "1-30")

    result = invoke("kube-inject", "-f", HELLO, *flags, "--webhookConfig", "istio-sidecar-injector")

    assert (result.exit_code, result.stderr) == (0, "")
    assert in_cluster.requests == [
        "open",
        "get configmaps istio-sidecar-injector-1-30",
        "get configmaps istio-1-24",
        "list nodes",
        "list proxyconfigs",
        "list deployments in istio-system app=istiod",
        "close",
    ]


@pytest.mark.usefixtures("in_cluster")
def test_a_cluster_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = invoke("kube-inject", "-f", HELLO, "--injectConfigMapName", "nope")
    unknown = invoke("kube-inject", "-f", HELLO, "-r", "nope")
    reached(monkeypatch, FakeKube())
    empty = invoke("kube-inject", "-f", HELLO)

    assert (missing.exit_code, missing.stdout, unknown.stdout, empty.stdout) == (1, "", "", "")
    assert (unknown.exit_code, empty.exit_code) == (EX_USAGE, EX_USAGE)
    assert "known are 1-24, 1-30, prod" in unknown.stderr
    assert "no Istio revision found" in empty.stderr
