from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from injector.cli import main
from tests.revisions.fakes import CONFIG

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two revisions, one of them the default, and a tag."""
    for name in ("1-24", "default"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(CONFIG)
    (tmp_path / "tags.yaml").write_text("prod: 1-24\n")
    return tmp_path


def generate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["webhook", "generate", *arguments])


def documents(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def names(result: Result) -> list[str]:
    return [document["metadata"]["name"] for document in documents(result)]


def test_every_revision_and_tag_of_a_directory_has_its_configuration(directory: Path) -> None:
    result = generate("--revisions-dir", str(directory))

    assert names(result) == ["istio-sidecar-injector-1-24", "istio-sidecar-injector", "istio-revision-tag-prod"]
    assert [document["webhooks"][0]["clientConfig"]["service"]["path"] for document in documents(result)] == [
        "/inject/1-24", "/inject/default", "/inject/prod",
    ]  # fmt: skip
    assert result.stderr == ""


def test_without_a_directory_they_are_the_embedded_revisions() -> None:
    assert names(generate()) == [
        "istio-sidecar-injector-canary", "istio-sidecar-injector-stable", "istio-revision-tag-default",
    ]  # fmt: skip


def test_the_default_tag_takes_over_from_the_revision_of_its_name(directory: Path) -> None:
    (directory / "tags.yaml").write_text("default: 1-24\n")

    _, revision, tag = documents(generate("--revisions-dir", str(directory)))

    never = {"matchLabels": {"istio.io/deactivated": "never-match"}}
    assert all(webhook["namespaceSelector"] == never for webhook in revision["webhooks"])
    assert [len(tag["webhooks"]), tag["metadata"]["labels"]["istio.io/rev"]] == [4, "1-24"]


def test_what_cannot_be_served_has_none_and_is_named(directory: Path) -> None:
    (directory / "bad").mkdir()
    (directory / "tags.yaml").write_text("prod: 1-24\nold: gone\n")

    result = generate("--revisions-dir", str(directory))

    assert len(names(result)) == 3
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"warning: {directory}/bad: ")
    assert lines[1].startswith("warning: tag `old`: it names `gone`")


def test_one_revision_or_tag_can_be_asked_for(directory: Path) -> None:
    where = ["--revisions-dir", str(directory)]

    assert names(generate("--revision", "1-24", *where)) == ["istio-sidecar-injector-1-24"]
    assert names(generate("--tag", "prod", *where)) == ["istio-revision-tag-prod"]
    assert names(generate("-r", "1-99")) == ["istio-sidecar-injector-1-99"]


def test_the_flags_reach_every_webhook(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n")

    (document,) = documents(
        generate(
            "-r",
            "default",
            "--url",
            "https://injector.example:9443",
            "--ca-bundle",
            str(bundle),
            "--timeout",
            "5s",
            "--failure-policy",
            "Ignore",
            "--reinvocation-policy",
            "IfNeeded",
            "-i",
            "mesh",
            "--auto-inject-namespaces",
        )
    )

    assert document["metadata"]["name"] == "istio-sidecar-injector-mesh"
    assert len(document["webhooks"]) == 5
    for webhook in document["webhooks"]:
        assert webhook["clientConfig"]["url"] == "https://injector.example:9443/inject/default"
        assert webhook["clientConfig"]["caBundle"].startswith("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t")
        assert (webhook["timeoutSeconds"], webhook["failurePolicy"], webhook["reinvocationPolicy"]) == (
            5, "Ignore", "IfNeeded",
        )  # fmt: skip


@pytest.mark.parametrize("action", ["warn", "deny"])
def test_for_names_that_nobody_serves_there_is_one_configuration_whatever_is_served(
    directory: Path, action: str
) -> None:
    (document,) = documents(generate("--unserved", action, "--failure-policy", "Fail", "--timeout", "3s"))

    assert document["metadata"]["name"] == "injector-unserved"
    assert {webhook["failurePolicy"] for webhook in document["webhooks"]} == {"Ignore"}
    assert {webhook["timeoutSeconds"] for webhook in document["webhooks"]} == {3}
    assert [webhook["clientConfig"]["service"]["path"] for webhook in document["webhooks"]] == [
        f"/unserved/{action}/namespace", f"/unserved/{action}/pod",
    ]  # fmt: skip
    assert documents(generate("--unserved", action, "--revisions-dir", str(directory), "--timeout", "3s")) == [document]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--unserved", "ignore"], 64, "'ignore' is not one of 'warn', 'deny'"),
        (["--unserved", "warn", "-r", "a"], 64, "--unserved: it is written for every name that is not served"),
        (["--unserved", "deny", "--tag", "a"], 64, "--unserved: it is written for every name that is not served"),
        (["-r", "a", "--tag", "b"], 64, "--tag: it is either a revision or a tag"),
        (["--tag", "b"], 64, "--tag: nothing says which revision the tag leads to; give --revisions-dir"),
        (["-r", "A"], 64, "--revision: 'A' cannot name a revision"),
        (["--revisions-dir", "DIR", "-r", "nope"], 1, 'with revision "nope"; known revisions are 1-24, default'),
        (["--revisions-dir", "DIR", "--tag", "nope"], 1, 'for tag "nope"; known tags are prod'),
        (["--revisions-dir", "DIR/nope"], 65, "nope: cannot be read as a directory of revisions"),
    ],
)
def test_what_is_asked_wrongly_prints_nothing(directory: Path, arguments: list[str], code: int, says: str) -> None:
    result = generate(*(argument.replace("DIR", str(directory)) for argument in arguments))

    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
