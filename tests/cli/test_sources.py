"""One order of the sources of revisions for every command: files, a directory, the cluster. Without one, exit code 78."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from injector.revisions.directory import EMBEDDED
from tests.cli.clusters import FakeKube, assert_fails, deployment, invoke, labelled, reached, revision, tag, written
from tests.factories import make_pod
from tests.revisions.fakes import CONFIG, write_revision

NO_SOURCE = "no source of revisions is configured; give "
DIRECTORY = "--revisions-dir DIR (or INJECTOR_REVISIONS_DIR)"
EXAMPLES = "or --embedded for the two examples\n"
CLUSTER = "a cluster (--kubeconfig, KUBECONFIG or --context)"
VARIABLE = "INJECTOR_REVISIONS_DIR"

COMMANDS: Mapping[str, str] = {
    "kube-inject": "kube-inject FILE",
    "kube-inject, values alone": "kube-inject FILE --valuesFile VALUES",
    "diff": "diff stable canary -f FILE",
    "explain": "explain -f FILE",
    "analyze": "analyze FILE",
    "revision list": "revision list",
    "revision verify": "revision verify",
    "template lint": "template lint",
    "template render": "template render -f FILE",
    "template trace": "template trace",
    "template test": "template test FOLDER",
    "webhook generate": "webhook generate",
    "webhook generate, one tag": "webhook generate --tag default",
}
"""The commands that use the cluster if there is no directory."""
FILES_OF_A_CLUSTER = {"revision status": "revision status -f FILE"}
IN_FILES = {"krm": "krm"}
LIST = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [make_pod()]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with manifests, and an environment that says nothing about revisions or clusters."""
    for name in (VARIABLE, "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "web.yaml").write_text(yaml.safe_dump(deployment("web", "shop")))
    shutil.copy(EMBEDDED / "stable" / "values", tmp_path)
    return tmp_path


def run(place: Path, command: str, *arguments: str) -> Result:
    words = {"FILE": str(place / "pods" / "web.yaml"), "FOLDER": str(place / "pods"), "VALUES": str(place / "values")}
    text = json.dumps(LIST) if command.startswith("krm") else None
    return invoke(*(words.get(word, word) for word in command.split()), *arguments, text=text)


ALL = {**COMMANDS, **FILES_OF_A_CLUSTER, **IN_FILES}


@pytest.mark.parametrize("command", ALL.values(), ids=list(ALL))
def test_without_a_source_a_command_ends_with_78_and_names_the_ways_to_give_one(place: Path, command: str) -> None:
    result = run(place, command)

    assert_fails(result, 78, NO_SOURCE)
    assert DIRECTORY in result.stderr
    assert result.stderr.endswith(EXAMPLES)
    assert (CLUSTER in result.stderr) == (command in COMMANDS.values())
    assert ("--injectConfigFile FILE" in result.stderr) == (
        command.split(maxsplit=1)[0] in ("kube-inject", "template") and not command.startswith("template test")
    )


@pytest.mark.parametrize("command", ALL.values(), ids=list(ALL))
def test_an_empty_variable_is_an_error(place: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    reached(monkeypatch, FakeKube(*revision("1-24", "1.24.6"), tag("prod", "1-24")))
    monkeypatch.setenv(VARIABLE, "")

    assert_fails(run(place, command), 78, f"{VARIABLE}: the variable is empty; set it to a path, or unset it")


@pytest.mark.parametrize(
    "command", ["tag list", "tag set prod --revision 1-24", "webhook apply", "revision remove 1-24"]
)
def test_an_empty_variable_is_an_error_for_commands_that_change_tags(
    place: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    kube = FakeKube(*revision("1-24", "1.24.6"))
    reached(monkeypatch, kube)
    monkeypatch.setenv(VARIABLE, "")

    assert_fails(run(place, command), 78, f"{VARIABLE}: the variable is empty")
    assert kube.applied == []


@pytest.mark.parametrize("command", ALL.values(), ids=list(ALL))
def test_the_two_examples_are_used_on_request(place: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv(VARIABLE, "")
    if command == "template test FOLDER":
        command += " --update"

    result = run(place, command, "--embedded")

    assert result.exit_code in (0, 1), result.stderr
    assert "error: no" not in result.stderr


@pytest.mark.parametrize("command", ALL.values(), ids=list(ALL))
def test_the_examples_and_a_directory_exclude_each_other(place: Path, command: str) -> None:
    result = run(place, command, "--embedded", "--revisions-dir", str(place))

    assert_fails(result, 64, "--embedded and --revisions-dir exclude each other; give one of the two")


def test_the_examples_and_a_file_exclude_each_other(place: Path) -> None:
    (place / "config").write_text(CONFIG)

    result = run(place, "kube-inject FILE", "--embedded", "--injectConfigFile", str(place / "config"))

    assert_fails(result, 64, "--embedded and --injectConfigFile exclude each other; give one of the two")


def test_a_file_needs_no_variable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    config = ("--injectConfigFile", str(EMBEDDED / "stable" / "config"), "--set-env", "A=b")

    result = run(place, "kube-inject FILE --valuesFile VALUES", *config)

    assert VARIABLE not in result.stderr
    assert result.exit_code == 65  # a template in Jinja needs its revision.yaml


@pytest.mark.parametrize("missing", ["nope", "nope:gone", ""])
def test_missing_files_of_kubeconfig_are_no_source(place: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setenv("KUBECONFIG", missing)

    assert_fails(run(place, "kube-inject FILE"), 78, NO_SOURCE)


def test_the_directory_of_the_variable_comes_before_the_cluster(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kube = FakeKube(*revision("1-30", "1.30.0"))
    reached(monkeypatch, kube)
    write_revision(place / "revisions" / "1-24")
    monkeypatch.setenv(VARIABLE, str(place / "revisions"))

    assert "1-24" in run(place, "revision list").stdout
    assert kube.requests == []


@pytest.mark.parametrize("command", ["revision list", "webhook generate", "webhook generate --tag prod"])
def test_without_a_directory_the_revisions_are_those_of_the_cluster(
    place: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    reached(monkeypatch, FakeKube(*revision("1-24", "1.24.6"), tag("prod", "1-24")))

    result = run(place, command, "--context", "x")

    assert result.exit_code == 0
    assert "prod" in result.stdout
    assert not {"stable", "canary"} & set(result.stdout.replace("-", " ").split())


def test_the_names_of_analyzed_files_are_those_of_the_cluster(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*revision("1-24", "1.24.6"), tag("prod", "1-24")))
    path = written(place, labelled("shop", "prod"), labelled("old", "gone"), make_pod(namespace="shop", name="web"))

    result = invoke("analyze", path, "-A", "--context", "x")

    assert "names `gone`" in result.stdout
    assert "names `prod`" not in result.stdout


def test_a_cluster_without_revisions_has_no_webhooks_to_generate(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube())

    assert_fails(
        run(place, "webhook generate --context x"), 64, "namespace istio-system: no Istio revision found; give "
    )
