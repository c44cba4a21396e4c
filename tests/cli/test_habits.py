"""Habits of users of kubectl and istioctl: each works as there, or is refused in one line with its remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from injector.revisions.tags import parse_tags
from tests.cases import cases
from tests.cli.clusters import (
    FakeKube,
    assert_fails,
    deployment,
    invoke,
    labelled,
    owned,
    reached,
    revision,
    tag,
    written,
)
from tests.factories import make_pod
from tests.revisions.fakes import CONFIG, VALUES, write_revision


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without a kubeconfig, and no other source of revisions."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "INJECTOR_REVISIONS_DIR"):
        monkeypatch.delenv(name, raising=False)


@cases("arguments", "says")
def test_a_habit_that_does_not_fit_is_refused_with_its_remedy(arguments: list[str], says: str) -> None:
    assert_fails(invoke(*arguments), 64, says)


@pytest.mark.parametrize("form", ["json", "JSON", "Yaml"])
def test_a_format_may_be_in_capitals(form: str) -> None:
    assert yaml.safe_load(invoke("revision", "list", "-o", form, "--revisions-dir", "revisions").stdout)


@pytest.mark.parametrize("flags", [("-o", "-"), ("--output-file", "-"), ("-o", "YAML")])
def test_a_hyphen_is_standard_output(flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, make_pod("a"))
    monkeypatch.chdir(tmp_path)

    assert "name: a" in invoke("uninject", path, *flags).stdout
    assert [path.name for path in tmp_path.iterdir()] == ["objects.yaml"]


@cases("arguments", "says")
def test_a_file_is_what_its_flag_says(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIG.replace("proxy:", '{{ if not .Values.global }}{{ fail "no values" }}{{ end }}proxy:')
    maps = {"config": config, "values": VALUES}
    for name, text in {**maps, "other": "{}", "mesh": "{}"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "hello.yaml").write_text(yaml.safe_dump(make_pod("hello")))
    for name, data in {"map.yaml": maps, "meshmap.yaml": {"mesh": "{}"}}.items():
        content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}
        (tmp_path / name).write_text(yaml.safe_dump(content))
    write_revision(tmp_path / "dir" / "1-24", config, VALUES)
    monkeypatch.chdir(tmp_path)

    assert_fails(invoke(*arguments), 65, says)


def test_a_go_template_and_a_revision_with_jinja_is_said(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('{{- define "x" }}{{ .Spec }}{{ end }}')

    result = invoke("template", "lint", str(tmp_path / "t"), "--revisions-dir", "revisions")

    assert result.exit_code == 65
    assert result.stderr == (
        "note: revision stable has Jinja2 templates; for one in Go, give another --revision or --injectConfigFile\n"
    )


@pytest.mark.parametrize("flag", ["--context=nope", "--kubeconfig=nope"])
def test_a_flag_for_a_cluster_is_refused_beside_the_variable_of_the_revisions(
    flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INJECTOR_REVISIONS_DIR", "revisions")

    says = f"{flag.partition('=')[0]} has no effect with INJECTOR_REVISIONS_DIR"
    assert_fails(invoke("kube-inject", "-f", "docs/samples/hello.yaml", flag), 64, says)
    assert_fails(invoke("tag", "list", flag), 64, says)


def test_a_missing_file_in_kubeconfig_is_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    files = ("-f", "docs/samples/hello.yaml", "--revisions-dir", "revisions")

    assert "name: istio-proxy" in invoke("kube-inject", *files).stdout
    assert invoke("diff", "stable", "canary", *files, "--exit-code=false").exit_code == 0
    assert "skipped" in invoke("explain", *files).stdout
    remedy = "/nonexistent does not exist; correct it, or give --kubeconfig FILE"
    assert_fails(invoke("tag", "list"), 78, f"KUBECONFIG: no cluster is configured; {remedy}")
    assert_fails(invoke("revision", "status"), 78, f"KUBECONFIG: no cluster is configured; {remedy}")
    assert_fails(invoke("tag", "list", "--context", "x"), 65, f"--context: there is no context 'x'; {remedy}")
    assert_fails(invoke("tag", "list", "--kubeconfig", "/nope"), 65, "/nope: cannot be read: No such file")


@pytest.mark.parametrize(
    "command",
    [("analyze",), ("revision", "status"), ("upgrade", "plan", "docs/samples/upgrade.yaml"), ("explain", "-A")],
)
def test_without_a_cluster_the_remedy_names_the_files_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    says = "kubeconfig: no cluster is configured; give --kubeconfig FILE, or -f FILE to read files"
    assert_fails(invoke(*command), 78, says)


CLUSTER = (
    *revision("1-24", "1.24.6"),
    *revision("1-30", "1.30.3"),
    tag("prod", "1-24"),
    labelled("shop", "prod"),
    labelled("bank", "prod"),
    deployment("web", "shop"),
    deployment("api", "shop"),
    deployment("web", "bank"),
    owned("web", "bank"),
    owned("api", "shop"),
)


def names_of(text: str) -> list[str]:
    return [f"{workload['namespace']}/{workload['name']}" for workload in json.loads(text)["workloads"]]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["explain", "-A"], ["bank/web", "shop/api", "shop/web"]),
        (["explain", "-A", "-l", "app=web"], ["bank/web", "shop/web"]),
        (["explain", "-n", "shop", "-l", "app!=web"], ["shop/api"]),
        (["diff", "1-24", "1-30", "--live", "-A", "--exit-code=false"], ["bank/web", "shop/api", "shop/web"]),
        (["diff", "1-24", "1-30", "--live", "-l", "app in (api)", "--exit-code=false"], ["shop/api"]),
        (["revision", "status", "-A", "--exit-code=false"], ["bank/web", "shop/api"]),
        (["revision", "status", "-l", "app=api", "--exit-code=false"], ["shop/api"]),
    ],
)
def test_all_namespaces_and_a_selector_choose_workloads_of_a_cluster_and_of_files(
    arguments: list[str], names: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reached(monkeypatch, FakeKube(*CLUSTER))
    result = invoke(*arguments, "-o", "json")
    assert names_of(result.stdout) == names

    if arguments[0] == "revision":
        files = written(tmp_path, *CLUSTER)
        assert names_of(invoke(*arguments, "-o", "json", "-f", files).stdout) == names


def test_a_selector_chooses_among_the_workloads_of_files(tmp_path: Path) -> None:
    path = written(tmp_path, deployment("web", "shop"), deployment("api", "shop"))
    files = ("-f", path, "--revisions-dir", "revisions", "-o", "json")

    assert names_of(invoke("explain", *files, "-l", "app=api").stdout) == ["shop/api"]
    assert names_of(invoke("diff", "stable", "canary", *files, "-l", "!x,app").stdout) == ["shop/web", "shop/api"]
    assert_fails(
        invoke("explain", *files, "-l", "app=x"), 65, "--selector: none of 2 workloads has pods that match; check"
    )


def test_a_dry_run_before_the_name_of_a_tag_takes_no_value(tmp_path: Path) -> None:
    write_revision(tmp_path / "1-24")

    result = invoke("tag", "set", "--dry-run", "prod", "-r", "1-24", "--revisions-dir", str(tmp_path))

    assert result.stdout == 'Revision tag "prod" would be created, referencing control plane revision "1-24".\n'
    assert not (tmp_path / "tags.yaml").exists()


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (
            ["--weight", "1-30=10"],
            "--weight: the weights sum to 10; give weights that sum to 100, or --revision REVISION",
        ),
        (
            ["--weight", "1-24=80", "--weight", "1-30=10"],
            "--weight: the weights sum to 90; give weights that sum to 100",
        ),
        (["-r", "1-24", "--weight", "1-24=80", "--weight", "1-30=10"], "--weight: the weights sum to 90"),
        (["--weight", "1-24=90", "--weight", "1-30=20"], "--weight: the weights sum to 110"),
        (["-r", "1-24", "--namespace-weight", "a/1-30=10"], "--namespace-weight: namespace a: the weights sum to 10"),
        (["--weight", "1-24=-1"], "is not a weight"),
        (["--weight", "1-24=99.5", "--weight", "1-30=0.5"], "is not a weight"),
    ],
)
@pytest.mark.parametrize("command", [["set"], ["generate", "--offline"]])
def test_weights_on_the_command_line_are_percentages(command: list[str], weights: list[str], says: str) -> None:
    assert_fails(invoke("tag", *command, "prod", *weights), 64, says)


def test_weights_with_another_sum_are_noted_with_their_shares(tmp_path: Path) -> None:
    for name in ("1-24", "1-30"):
        write_revision(tmp_path / name)
    (tmp_path / "tags.yaml").write_text("prod: {1-24: 60, 1-30: 30}\nlast: {1-24: 1}\nsure: {1-24: 90, 1-30: 10}\n")
    note = "note: tag prod: the weights sum to 90, not 100: 1-24 66.7 %, 1-30 33.3 % of the workloads\n"

    assert invoke("tag", "list", "--revisions-dir", str(tmp_path)).stderr == note
    assert note in invoke("revision", "verify", "--revisions-dir", str(tmp_path)).stdout


def test_the_weights_of_a_namespace_are_noted_too() -> None:
    tags = parse_tags("prod: {revision: a, namespaces: {shop: {a: 1, b: 3}, bank: b}}")

    assert tags["prod"].weight_notes == (
        "tag prod, namespace shop: the weights sum to 4, not 100: a 25 %, b 75 % of the workloads",
    )


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("tags.yaml", "prod: 1-24\nlate: 1-24\nprod: 1-24\n", 3),
        ("tags.yaml", "prod: {1-24: 90,\n  1-24: 10}\n", 2),
        ("1-24/revision.yaml", "istioVersion: '1.24'\nistioVersion: '1.30'\n", 2),
    ],
)
def test_a_key_that_occurs_twice_in_a_file_of_the_injector_is_an_error(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    write_revision(tmp_path / "1-24")
    (tmp_path / name).write_text(text)

    result = invoke("revision", "verify", "--revisions-dir", str(tmp_path))

    assert result.exit_code == 65
    assert f"{name}: yaml: line {line}: the key '" in result.output
    assert "occurs twice; keep one of them" in result.output


def test_a_key_that_occurs_twice_in_an_upgrade_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "upgrade.yaml"
    path.write_text("kind: Upgrade\nmetadata: {name: a}\nspec:\n  to: 1-24\n  to: 1-30\n")

    assert_fails(invoke("upgrade", "plan", str(path)), 65, "upgrade.yaml: yaml: line 5: the key 'to' occurs twice")
