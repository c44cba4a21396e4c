"""``injector diff``: how pods differ between two revisions, from files and from a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from injector.cli.diff import as_text, comparison_data, comparison_summary
from injector.fleet.compare import Comparison
from injector.fleet.groups import groups
from injector.golang.json import dump_json
from injector.injection.data import SUPPLEMENTAL_GROUPS, UID_RANGE
from injector.injection.result import Skipped
from injector.injection.tools.podchanges import ABSENT, Change
from injector.kube.podtemplates import Created
from tests.cases import cases
from tests.cli.clusters import (
    SHOWS_A,
    FakeKube,
    assert_fails,
    deployment,
    invoke,
    labelled,
    namespace,
    owned,
    proxy_config,
    reached,
    revision,
    tag,
    with_cpus,
)
from tests.factories import make_container, make_pod
from tests.revisions.fakes import CONFIG, VALUES, saying, write_revision

PRIVATE = "hunter2-hunter2"
NATIVE = """\
policy: enabled
templates:
  sidecar: |
    spec:
      {{ if .NativeSidecars }}initContainers{{ else }}containers{{ end }}:
      - name: istio-proxy
        image: proxy
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three revisions, a tag, and two workloads, one of which asks for the label's strict reading."""
    for name, version, config in (
        ("1-24", "1.24.6", CONFIG),
        ("1-30", "1.30.1", f"injectedAnnotations: {{a: b}}\n{CONFIG}"),
        ("off", "1.30.1", CONFIG.replace("enabled", "disabled")),
    ):
        write_revision(tmp_path / "revisions" / name, config, VALUES.replace("1.24.6", version))
    (tmp_path / "revisions" / "tags.yaml").write_text("prod: 1-24\n")
    pod = make_pod("own", namespace="shop", containers=[make_container(env=[{"name": "TOKEN", "value": PRIVATE}])])
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all([make_pod("a"), pod]))
    return tmp_path


def diff(folder: Path, *arguments: str) -> Result:
    """Run the command on the folder's revisions and manifest."""
    sources = ["--revisions-dir", str(folder / "revisions"), "-f", str(folder / "m.yaml")]
    return invoke("diff", *arguments, *sources)


def test_it_shows_what_differs_and_ends_with_1(folder: Path) -> None:
    result = diff(folder, "prod", "1-30", "--only", "image")

    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout == (
        "Pod default/a\n"
        "  image\n"
        "    containers[istio-proxy].image: proxy:1.24.6 -> proxy:1.30.1\n"
        "\n"
        "Pod shop/own\n"
        "  image\n"
        "    containers[istio-proxy].image: proxy:1.24.6 -> proxy:1.30.1\n"
        "\n"
        "KIND    WORKLOADS   CHANGES\n"
        "image   2           2\n"
        "\n"
        "2 of 2 workloads differ between prod (revision 1-24, Istio 1.24) and 1-30 (Istio 1.30)\n"
    )


def test_revisions_that_differ_in_their_names_alone_do_not_differ(folder: Path) -> None:
    for name in ("1-24", "1-30"):
        (folder / "revisions" / name / "config").write_text(CONFIG)
        (folder / "revisions" / name / "values").write_text(VALUES)

    assert diff(folder, "1-24", "1-30", "-o", "unified").stdout == ""


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        ((), {"image", "metadata"}),
        (("--only", "image"), {"image"}),
        (("--only", "image", "--only", "metadata"), {"image", "metadata"}),
        (("--ignore", "image"), {"metadata"}),
        (("--only", "image", "--ignore", "image"), set()),
    ],
)
@pytest.mark.parametrize("output", ["json", "yaml"])
def test_kinds_can_be_selected_and_ignored(folder: Path, flags: tuple[str, ...], kinds: set[str], output: str) -> None:
    result = diff(folder, "1-24", "1-30", "-o", output, *flags)

    data = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    assert result.exit_code == (1 if kinds else 0)
    assert set(data["summary"]) == kinds
    assert {change["kind"] for workload in data["workloads"] for change in workload["changes"]} == kinds


def test_the_data_names_both_sides(folder: Path) -> None:
    data = json.loads(diff(folder, "prod", "1-30", "-o", "json").stdout)

    assert data["old"] == {"name": "prod", "revision": "1-24", "istioVersion": "1.24"}
    assert data["new"] == {"name": "1-30", "revision": "1-30", "istioVersion": "1.30"}
    assert [(workload["kind"], workload["namespace"], workload["name"]) for workload in data["workloads"]] == [
        ("Pod", "default", "a"),
        ("Pod", "shop", "own"),
    ]


def test_the_unified_diff_is_of_the_two_pods(folder: Path) -> None:
    result = diff(folder, "1-24", "1-30", "-o", "unified", "--only", "image")

    assert result.exit_code == 1
    assert "--- 1-24/Pod shop/own\n+++ 1-30/Pod shop/own\n@@ " in result.stdout
    assert "-  - image: proxy:1.24.6\n+  - image: proxy:1.30.1\n" in result.stdout
    assert diff(folder, "1-24", "1-24", "-o", "unified").stdout == ""


@pytest.mark.parametrize("output", ["text", "unified", "json", "yaml"])
@pytest.mark.parametrize("pair", [("1-24", "1-30"), ("1-24", "off")])
def test_no_output_has_a_value_of_the_users_variables(folder: Path, output: str, pair: tuple[str, str]) -> None:
    result = diff(folder, *pair, "-o", output)

    assert result.exit_code == 1
    assert PRIVATE not in result.output


def test_a_variable_added_to_a_users_container_is_shown_without_its_value(folder: Path) -> None:
    config = CONFIG + "      - name: app\n        env: [{name: TOKEN, value: taken-hunter2}]\n"
    (folder / "revisions" / "1-30" / "config").write_text(config)

    text = diff(folder, "1-24", "1-30", "--only", "env").stdout
    unified = diff(folder, "1-24", "1-30", "--only", "env", "-o", "unified").stdout

    assert "    containers[app].env[TOKEN]: (none) -> <hidden>\n" in text
    assert "hunter2" not in text + unified


def test_a_unified_diff_names_a_difference_of_hidden_values(folder: Path) -> None:
    for name in ("1-24", "1-30"):
        lines = f"      - name: app\n        env: [{{name: TOKEN, value: taken-{name}}}]\n"
        (folder / "revisions" / name / "config").write_text(CONFIG + lines)
        (folder / "revisions" / name / "values").write_text(VALUES)
        (folder / "revisions" / name / "revision.yaml").write_text("revision: same\n")

    result = diff(folder, "1-24", "1-30", "-o", "unified")

    assert result.exit_code == 1
    assert "# only hidden values differ\n" in result.stdout


def test_a_pod_that_one_revision_skips_differs_only_in_the_decision(folder: Path) -> None:
    result = diff(folder, "1-24", "off")

    assert "  decision\n    injected -> skipped: the policy is disabled\n" in result.stdout
    assert "decision   2           2\n" in result.stdout
    assert "+  - image" not in diff(folder, "1-24", "off", "-o", "unified").stdout


def test_a_pod_that_one_revision_refuses_differs_in_the_decision(folder: Path) -> None:
    (folder / "m.yaml").write_text(yaml.safe_dump(make_pod(annotations={"sidecar.istio.io/proxyCPU": "odd!"})))

    result = diff(folder, "1-24", "1-30")

    assert (result.exit_code, result.stderr) == (1, "")
    assert "    injected -> refused: failed to run injection template: 1 error occurred: " in result.stdout
    assert "+++ 1-30/Pod default/hello\n" in diff(folder, "1-24", "1-30", "-o", "unified").stdout


def test_a_pod_that_both_refuse_does_not_differ_and_is_named_on_stderr(folder: Path) -> None:
    (folder / "m.yaml").write_text(yaml.safe_dump(make_pod(annotations={"inject.istio.io/templates": "nope"})))

    result = diff(folder, "1-24", "1-30")

    assert result.exit_code == 0
    assert result.stderr.startswith("warning: Pod default/hello: refused by both: ")


def test_node_versions_are_used(folder: Path) -> None:
    for name in ("1-24", "1-30"):
        (folder / "revisions" / name / "config").write_text(NATIVE if name == "1-30" else CONFIG)

    result = diff(folder, "1-24", "1-30", "--only", "containers", "--node-version", "v1.33.0")

    assert "    istio-proxy: containers -> initContainers\n" in result.stdout


def with_privileged_sidecar(folder: Path, *labels: str) -> None:
    """Let the new revision's sidecar be privileged, in a namespace with labels of Pod Security."""
    (folder / "revisions" / "1-30" / "config").write_text(f"{CONFIG}        securityContext: {{privileged: true}}\n")
    levels = {f"pod-security.kubernetes.io/{label.partition('=')[0]}": label.partition("=")[2] for label in labels}
    (folder / "m.yaml").write_text(yaml.safe_dump_all([namespace("shop", **levels), make_pod("a", namespace="shop")]))


def test_another_level_of_pod_security_is_a_change(folder: Path) -> None:
    with_privileged_sidecar(folder)

    text = diff(folder, "1-24", "1-30", "--only", "podsecurity").stdout
    summary = diff(folder, "1-24", "1-30", "-o", "summary").stdout
    (workload,) = json.loads(diff(folder, "1-24", "1-30", "-o", "json").stdout)["workloads"]

    assert text.startswith("Pod shop/a\n  podsecurity\n    baseline -> privileged\n\n")
    assert summary.startswith("1 image, security, pod security baseline to privileged: Pod shop/a\n")
    assert workload["podSecurity"] == {"pod": "baseline", "old": "baseline", "new": "privileged"}


def test_a_pod_that_its_namespace_does_not_allow_is_refused(folder: Path) -> None:
    with_privileged_sidecar(folder, "enforce=baseline", "enforce-version=v1.30")

    result = diff(folder, "1-24", "1-30")

    assert '    injected -> refused: violates PodSecurity "baseline:v1.30": privileged (istio-proxy): ' in result.stdout


@cases("arguments", "code", "says")
def test_wrong_flags_are_64_and_bad_input_is_65(folder: Path, arguments: list[str], code: int, says: str) -> None:
    assert_fails(diff(folder, *arguments), code, says)


def test_the_guard_is_shown(folder: Path) -> None:
    for name in ("1-24", "1-30"):
        config = CONFIG.replace("{{ .Values.global.tag }}", "{{ .ObjectMeta.Labels.a }}")
        (folder / "revisions" / name / "config").write_text(config)
    (folder / "m.yaml").write_text(
        yaml.safe_dump(make_pod("a", labels={"a": "x" + "\n  - name: other\n    image: other"}))
    )

    refused, warned = diff(folder, "1-24", "1-30"), diff(folder, "1-24", "1-30", "--guard", "warn")

    assert "refused by both: metadata.labels[a]: the value breaks out of the template" in refused.stderr
    assert "warning: Pod default/a: 1-30: metadata.labels[a]: the value breaks out of the template" in warned.stderr


LIVE = (
    *revision("1-24", "1.24.6"),
    *revision("1-30", "1.30.1"),
    tag("prod", "1-24"),
    labelled("shop", "prod"),
    namespace("dark"),
    deployment("web", "shop"),
    owned("web", "shop"),
    owned("lone", "shop"),
    deployment("web", "dark"),
)


live = partial(invoke, "diff", "prod", "1-30", "--live")


def test_the_workloads_of_a_cluster_are_grouped_by_what_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*LIVE))

    result = live()

    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout == (
        "2 image only: Deployment shop/lone, Deployment shop/web\n"
        "\n"
        "2 of 2 workloads differ between prod (revision 1-24, Istio 1.24) and 1-30 (Istio 1.30)\n"
    )
    assert live("-n", "shop", "--exit-code=false").exit_code == 0


def test_proxy_configs_of_the_cluster_apply_to_its_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    revisions = (*revision("1-24", "1.12.0", config=SHOWS_A), *revision("1-30", "1.30.1", config=SHOWS_A))
    reached(monkeypatch, FakeKube(*revisions, *LIVE[6:], proxy_config("shop", A="cluster")))

    (workload, _) = json.loads(live("-o", "json").stdout)["workloads"]

    assert [(change["old"], change["new"]) for change in workload["changes"]] == [("proxy:none", "proxy:cluster")]


def test_workloads_of_other_kinds_are_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foo = {**deployment("foo", "shop", kind="Foo"), "apiVersion": "example.com/v1"}
    roll = {**deployment("roll", "shop", kind="Rollout"), "apiVersion": "argoproj.io/v1alpha1"}
    flags = ("--pod-template-path", "Foo.example.com=spec.template")
    reached(monkeypatch, FakeKube(*LIVE[:-4], foo, roll))
    (folder / "m.yaml").write_text(yaml.safe_dump_all([foo, roll]))

    plain, named = diff(folder, "1-24", "1-30", "-o", "summary"), diff(folder, "1-24", "1-30", "-o", "summary", *flags)

    assert plain.stdout.startswith("1 image, metadata: Rollout shop/roll\n")
    assert "Foo foo: the kind is not known" in plain.stderr
    assert named.stdout.startswith("2 image, metadata: Foo shop/foo, Rollout shop/roll\n")
    assert live().stdout.startswith("1 image only: Rollout shop/roll\n")
    assert live(*flags).stdout.startswith("2 image only: Foo shop/foo, Rollout shop/roll\n")


def test_the_guard_applies_to_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    pasting = CONFIG.replace("{{ .Values.global.tag }}", "{{ .ObjectMeta.Labels.a }}")
    hostile = owned("web", "shop", labels={"a": "x" + "\n  - name: other\n    image: other"})
    sides = *revision("1-24", "1.24.6", config=pasting), *revision("1-30", "1.30.1", config=pasting)
    reached(monkeypatch, FakeKube(*sides, tag("prod", "1-24"), labelled("shop", "prod"), hostile))

    refused, warned = live(), live("--guard", "warn")

    assert "refused by both: metadata.labels[a]: the value breaks out of the template" in refused.stderr
    assert "prod: metadata.labels[a]: the value breaks out of the template" in warned.stderr


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("output", ["text", "summary", "unified", "json", "yaml"])
def test_several_processes_print_what_one_prints(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    pasting = CONFIG.replace("{{ .Values.global.tag }}", "{{ .ObjectMeta.Labels.a }}")
    sides = *revision("1-24", "1.24.6"), *revision("1-30", "1.30.1", config=pasting)
    values = ("1", "x\n  - name: other\n    image: other", None)
    pods = [
        owned(f"web-{number}-{index}", "shop", labels={"a": value} if value else {})
        for number in range(110)
        for index, value in enumerate(values)
    ]
    reached(monkeypatch, FakeKube(*sides, tag("prod", "1-24"), labelled("shop", "prod"), *pods))
    results = []
    for cpus in (1, 3):
        with_cpus(monkeypatch, cpus)
        results.append(live("-o", output, "--confirm", "0"))

    assert (results[0].stdout, results[0].stderr) == (results[1].stdout, results[1].stderr)
    assert "web-109-1" in results[1].stdout or output == "summary"


def test_live_diffs_have_all_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*LIVE))

    data = json.loads(live("-o", "json").stdout)

    assert [workload["name"] for workload in data["workloads"]] == ["lone", "web"]
    assert [(group["changes"], group["count"]) for group in data["groups"]] == [(["image"], 2)]
    assert live("-o", "text").stdout.startswith("Deployment shop/lone\n  image\n")


def test_revisions_of_a_folder_are_compared_on_the_workloads_of_a_cluster(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(monkeypatch, FakeKube(*LIVE))

    result = live("--revisions-dir", str(folder / "revisions"))

    assert "2 image, metadata" in result.stdout


@pytest.mark.parametrize(
    ("objects", "arguments", "code", "says"),
    [
        (LIVE, ("-f", "x.yaml"), 64, "-f and --live exclude each other"),
        (LIVE, ("-n", "dark"), 65, "namespace dark: none of 1 workloads is injected"),
        (LIVE[:8], (), 65, "the cluster's webhooks: none of 0 workloads is injected"),
        (LIVE[:3], (), 64, "the configmaps of namespace istio-system: there is no revision or tag 'prod'"),
    ],
)
def test_without_a_workload_or_a_revision_there_is_nothing_to_compare(
    objects: tuple[dict[str, Any], ...],
    arguments: tuple[str, ...],
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached(monkeypatch, FakeKube(*objects))

    assert_fails(live(*arguments), code, says)


def tried(cluster: FakeKube, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    reached(monkeypatch, cluster)
    return live("--exit-code=false", *arguments)


def test_the_api_server_checks_a_pod_of_each_group_of_changes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    args = (
        CONFIG + "        {{- if eq (index .ObjectMeta.Labels `app`) `zed` }}\n        args: [a]\n        {{- end }}\n"
    )
    cluster = FakeKube(*LIVE[:3], *revision("1-30", "1.30.1", config=args), *LIVE[6:], owned("zed", "shop"))

    result = tried(cluster, monkeypatch, "--confirm", "2")

    assert result.stderr == ""
    assert [pod["metadata"]["generateName"] for pod in cluster.tried] == ["lone-abc-", "zed-abc-"]


def test_the_checked_pod_is_injected_and_istios_webhooks_are_not_called_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeKube(*LIVE)

    assert tried(cluster, monkeypatch, "--confirm", "0").stderr == ""
    assert cluster.tried == []
    tried(cluster, monkeypatch, "--confirm", "1")

    (pod,) = cluster.tried
    assert (pod["metadata"]["namespace"], pod["metadata"]["labels"]["sidecar.istio.io/inject"]) == ("shop", "false")
    assert "ownerReferences" not in pod["metadata"]
    assert [container["image"] for container in pod["spec"]["containers"] if container["name"] == "istio-proxy"] == [
        "proxy:1.30.1"
    ]


@pytest.mark.parametrize("status", [400, 403, 422])
def test_a_pod_that_the_api_server_refuses_is_refused(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(pod: Mapping[str, Any]) -> tuple[int, str] | None:
        return (status, "x is invalid") if "1.30.1" in str(pod) and pod["metadata"]["generateName"] == "web-" else None

    result = tried(FakeKube(*LIVE, refuses=refuses), monkeypatch)

    assert "1 refused: dry run: x is invalid: Deployment shop/web\n" in result.stdout
    assert "1 image only: Deployment shop/lone\n" in result.stdout


def test_a_pod_that_is_refused_with_both_revisions_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    result = tried(FakeKube(*LIVE, refuses=lambda _: (403, "violates PodSecurity")), monkeypatch, "--confirm", "1")

    assert result.stderr == "warning: Deployment shop/lone: refused by both: dry run: violates PodSecurity\n"
    assert result.stdout.startswith("1 image only: Deployment shop/web\n")


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ((403, 'user "a" cannot create resource "pods"'), "grant this permission to the account, or give"),
        ((503, "is overloaded"), "x"),
    ],
)
def test_that_the_api_server_cannot_be_asked_is_a_note(
    answer: tuple[int, str], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tried(FakeKube(*LIVE, refuses=lambda _: answer), monkeypatch)

    assert result.stderr.startswith(f"note: the API server did not check the injected pods: {answer[1]}; {hint}")
    assert result.stdout.startswith("2 image only: ")


def changed(name: str, *changes: Change) -> Comparison:
    answer = Skipped("", "")
    workload = Created("Deployment", "shop", name, {})
    return Comparison(workload, answer, answer, changes, {"pod": "baseline"}, dump_json(make_pod()))


IMAGE = Change("image", "containers[istio-proxy].image", "a:1", "a:2")
ENV = Change("env", "containers[istio-proxy].env[A]", ABSENT, "1")
COMPARED = [changed("a", IMAGE, ENV, ENV), changed("b", IMAGE), changed("c")]


def test_the_text_has_each_workload_that_differs_and_a_table_of_the_kinds() -> None:
    assert as_text(COMPARED, "x", "y") == (
        "Deployment shop/a\n"
        "  image\n"
        "    containers[istio-proxy].image: a:1 -> a:2\n"
        "  env\n"
        "    containers[istio-proxy].env[A]: (none) -> 1\n"
        "    containers[istio-proxy].env[A]: (none) -> 1\n"
        "\n"
        "Deployment shop/b\n"
        "  image\n"
        "    containers[istio-proxy].image: a:1 -> a:2\n"
        "\n"
        "KIND    WORKLOADS   CHANGES\n"
        "image   2           2\n"
        "env     1           2\n"
        "\n"
        "2 of 3 workloads differ between x and y\n"
    )


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (Change("decision", "", "injected", "skipped: no"), "injected -> skipped: no"),
        (Change("order", "p", ["a", "b"], ["b", "a"]), "p: a, b -> b, a"),
        (Change("ports", "p", ABSENT, [{"a": 1}]), 'p: (none) -> [{"a": 1}]'),
        (Change("other", "p", True, None), "p: true -> null"),
        (Change("args", "p", "", " a"), 'p: "" -> " a"'),
        (Change("args", "p", "\x1b[31m", "a\nb"), 'p: "\\u001b[31m" -> "a\\nb"'),
        (Change("args", "p", ["\x9b"], "a"), 'p: ["\\u009b"] -> a'),
        (Change("containers", "p", ABSENT, make_container("x")), "p: (none) -> container with image registry.example.com/x:1.0"),
        (Change("containers", "p", "containers", "initContainers"), "p: containers -> initContainers"),
    ],
)  # fmt: skip
def test_a_change_is_one_line_that_a_terminal_shows_as_it_is(change: Change, line: str) -> None:
    assert as_text([changed("a", change)], "x", "y").splitlines()[2] == f"    {line}"


@pytest.mark.parametrize(
    ("change", "data"),
    [
        (IMAGE, {"kind": "image", "path": IMAGE.path, "old": "a:1", "new": "a:2"}),
        (ENV, {"kind": "env", "path": ENV.path, "new": "1"}),
        (Change("other", "p", None, ABSENT), {"kind": "other", "path": "p", "old": None}),
        (Change("decision", "", "a", "b"), {"kind": "decision", "old": "a", "new": "b"}),
    ],
)
def test_the_data_omits_absent_values(change: Change, data: dict[str, Any]) -> None:
    data_of_one = comparison_data([changed("a", change)])
    del data_of_one["groups"]
    assert data_of_one == {
        "workloads": [
            {
                "kind": "Deployment",
                "namespace": "shop",
                "name": "a",
                "podSecurity": {"pod": "baseline"},
                "changes": [data],
            }
        ],
        "summary": {change.kind: {"workloads": 1, "changes": 1}},
    }


@pytest.mark.parametrize("text_of", [as_text, comparison_summary])
def test_no_difference_is_one_line(text_of: Callable[..., str]) -> None:
    assert text_of([changed("c")], "x", "y") == "no difference in 1 workload between x and y\n"


ADDED = "initContainers[istio-init].securityContext.capabilities.add"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (IMAGE, ("image",)),
        (Change("security", ADDED, ABSENT, ["NET_ADMIN", "NET_RAW"]), ("NET_ADMIN gained", "NET_RAW gained")),
        (Change("security", ADDED, ["NET_ADMIN"], ["NET_RAW"]), ("NET_RAW gained", "NET_ADMIN lost")),
        (Change("security", "a.securityContext.privileged", False, True), ("privileged gained",)),
        (Change("security", "a.securityContext.privileged", True, ABSENT), ("privileged lost",)),
        (Change("security", "a.securityContext.runAsUser", 1, 2), ("security",)),
        (Change("containers", "initContainers[istio-init]", ABSENT, {}), ("container istio-init gained",)),
        (Change("containers", "initContainers[istio-proxy].restartPolicy", ABSENT, "Always"), ("containers",)),
        (Change("containers", "initContainers[istio-init]", {}, ABSENT), ("container istio-init lost",)),
        (Change("containers", "istio-proxy", "containers", "initContainers"), ("containers",)),
        (Change("decision", "", "injected", "refused: bad"), ("refused: bad",)),
        (Change("decision", "", "injected", "skipped: off"), ("injected -> skipped: off",)),
    ],
)
def test_group_names_include_gained_and_lost_privileges_and_containers(change: Change, words: tuple[str, ...]) -> None:
    ((kinds, _),) = groups([changed("a", change)])

    assert kinds == words


def test_workloads_are_grouped_by_their_changes() -> None:
    refused = Change("decision", "", "injected", "refused: bad")
    compared = [
        changed("same"),
        changed("x", refused),
        changed("a", IMAGE),
        changed("b", IMAGE, IMAGE),
        changed("c", IMAGE, Change("security", ADDED, ABSENT, ["NET_ADMIN"])),
        *(changed(f"d{number}", IMAGE) for number in range(3)),
    ]

    assert comparison_summary(compared, "1-24", "1-30") == (
        "5 image only: Deployment shop/a, Deployment shop/b, Deployment shop/d0 and 2 more\n"
        "1 image, NET_ADMIN gained: Deployment shop/c\n"
        "1 refused: bad: Deployment shop/x\n"
        "\n"
        "7 of 8 workloads differ between 1-24 and 1-30\n"
    )


def test_the_groups_are_data_with_every_workload() -> None:
    workloads = [{"kind": "Deployment", "namespace": "shop", "name": name} for name in "ab"]
    (group,) = comparison_data([changed("a", IMAGE), changed("b", IMAGE), changed("c")])["groups"]
    assert group == {"changes": ["image"], "count": 2, "workloads": workloads}


@pytest.mark.parametrize("in_list", [False, True])
def test_the_ranges_of_a_namespace_in_the_files_count_and_each_pod_template(tmp_path: Path, in_list: bool) -> None:
    for name, platform in (("plain", "{}"), ("ids", "{PLATFORM: openshift}")):
        write_revision(tmp_path / "revisions" / name, saying(".ProxyUID"), VALUES)
        settings = f"env: {platform}\nistioVersion: '1.30'\n"
        (tmp_path / "revisions" / name / "revision.yaml").write_text(settings)
    geo = namespace("geo")
    geo["metadata"]["annotations"] = {UID_RANGE: "1000980000/10000", SUPPLEMENTAL_GROUPS: "1000980000/10000"}
    template = deployment("x", "geo")["spec"]["template"]
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": "geo"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"template": template}, "Worker": {"template": template}}},
    }
    objects = [{"apiVersion": "v1", "kind": "List", "items": [geo, job]}] if in_list else [geo, job]
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all(objects))
    rule = "PyTorchJob.kubeflow.org=spec.pytorchReplicaSpecs.*.template"

    result = diff(tmp_path, "plain", "ids", "--pod-template-path", rule, "-o", "json")

    workloads = json.loads(result.stdout)["workloads"]
    assert [workload["part"] for workload in workloads] == [
        f"spec.pytorchReplicaSpecs.{name}.template" for name in ("Master", "Worker")
    ]
    assert [change["new"] for workload in workloads for change in workload["changes"] if change["kind"] == "image"] == [
        "1000989999",
        "1000989999",
    ]
