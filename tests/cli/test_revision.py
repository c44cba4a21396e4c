"""``injector revision``: list, verify, remove and init."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from injector.cluster.resources import WEBHOOKS
from injector.istio.webhooks.configurations import WebhookOptions, revision_webhook, tag_webhook
from tests.cases import cases
from tests.cli.clusters import assert_fails, invoke
from tests.cluster.fakeapi import FakeApi
from tests.revisions.fakes import CONFIG, VALUES, write_revision


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two good revisions and two tags."""
    for name, version in (("1-24", "1.24.6"), ("1-30", "1.30.1")):
        write_revision(tmp_path / name, values=VALUES.replace("1.24.6", version))
    (tmp_path / "tags.yaml").write_text("default: 1-24\nprod: 1-24\n")
    return tmp_path


def break_one(directory: Path) -> None:
    write_revision(directory / "bad", "templates: {sidecar: '{{ .x'}")


def test_the_list_says_which_istio_and_why(directory: Path) -> None:
    result = invoke("revision", "list", "--revisions-dir", str(directory))

    assert (result.exit_code, result.stderr) == (0, "")
    head, first, second = (line.split("   ") for line in result.stdout.splitlines())
    assert head[0].strip() == "REVISION"
    assert [cell.strip() for cell in first if cell.strip()][:6] == [
        "1-24", "1.24", "values.global.tag is 1.24.6", "go", "default,prod", "yes",
    ]  # fmt: skip
    assert [cell.strip() for cell in second if cell.strip()][:5] == [
        "1-30", "1.30", "values.global.tag is 1.30.1", "go", "-",
    ]  # fmt: skip


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_the_list_is_available_as_data(directory: Path, output: str) -> None:
    result = invoke("revision", "list", "--revisionsDir", str(directory), "-o", output)

    rows = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    assert [(row["name"], row["istioVersion"], row["tags"], row["default"]) for row in rows] == [
        ("1-24", "1.24", ["default", "prod"], True),
        ("1-30", "1.30", [], False),
    ]
    assert rows[0]["origin"] == str(directory / "1-24")


def test_a_broken_revision_is_listed_and_named_on_stderr(directory: Path) -> None:
    break_one(directory)

    result = invoke("revision", "list", "--revisions-dir", str(directory))

    assert result.exit_code == 0
    assert any(line.split()[:3] == ["bad", "-", "broken"] for line in result.stdout.splitlines())
    assert result.stderr.startswith(f"warning: revision bad: {directory}/bad: ")


def test_verify_and_the_list_tell_of_an_istio_newer_than_any_supported_one(tmp_path: Path) -> None:
    write_revision(tmp_path / "next", values=VALUES.replace("1.24.6", "1.32.0"))
    said = "values.global.tag is 1.32.0, newer than Istio 1.31, the newest supported"

    verified = invoke("revision", "verify", "--revisions-dir", str(tmp_path))
    listed = invoke("revision", "list", "--revisions-dir", str(tmp_path))

    note = f"next: note: {said}: pods are injected as by Istio 1.32 in development"
    assert (verified.exit_code, verified.output) == (0, f"next: ok\n{note}\n")
    assert said in listed.stdout


@pytest.mark.parametrize("unknown", [".ProxyDebugImage", "newHelper"])
def test_a_newer_istio_whose_template_needs_what_is_unknown_is_refused(tmp_path: Path, unknown: str) -> None:
    config = f"policy: enabled\ntemplates: {{sidecar: '{{{{ {unknown} }}}}'}}"
    write_revision(tmp_path / "next", config, values=VALUES.replace("1.24.6", "1.32.0"))

    result = invoke("revision", "verify", "--revisions-dir", str(tmp_path))

    assert result.exit_code == 65
    assert unknown.removeprefix(".") in result.output
    assert "values.global.tag is 1.32.0, newer than Istio 1.31, the newest supported" in result.output


def test_verify_fails_for_a_revision_that_does_not_render(directory: Path) -> None:
    break_one(directory)
    (directory / "tags.yaml").write_text("prod: gone\n")

    result = invoke("revision", "verify", "--revisions-dir", str(directory))

    lines = result.stdout.splitlines()
    assert result.exit_code == 65
    assert lines[:2] == ["1-24: ok", "1-30: ok"]
    assert lines[2].startswith(f"bad: error: {directory}/bad: ")
    assert lines[3].startswith("error: tag `prod`: it names `gone`")


def test_verify_notes_a_revision_that_injects_nothing(directory: Path) -> None:
    (directory / "1-24" / "config").write_text(CONFIG.replace("enabled", "perhaps"))

    result = invoke("revision", "verify", "--revisions-dir", str(directory))

    assert result.exit_code == 0
    assert "1-24: note: illegal_policy: " in result.stdout


@pytest.mark.parametrize(("flags", "status"), [([], 0), (["--strict"], 65)])
def test_a_template_for_some_pods_is_a_warning_which_strict_counts(
    directory: Path, flags: list[str], status: int
) -> None:
    (directory / "1-24" / "config").write_text(f"{CONFIG}      - name: main\n        env: []\n")

    result = invoke("revision", "verify", "--revisions-dir", str(directory), *flags)

    assert result.exit_code == status
    assert "1-24: ok\n1-24: warning: fails on built-in pod plain, so it may fail on others: spec.conta" in result.stdout


def test_the_embedded_revisions_are_in_order() -> None:
    result = invoke("revision", "verify", "--embedded")

    assert (result.exit_code, result.stdout) == (0, "canary: ok\nstable: ok\n")


def test_a_missing_directory_is_invalid_input(tmp_path: Path) -> None:
    result = invoke("revision", "verify", "--revisions-dir", str(tmp_path / "nope"))

    assert_fails(result, 65, "nope: cannot be read as a directory of revisions")


@pytest.mark.parametrize("command", ["list", "verify"])
def test_a_directory_without_a_revision_is_invalid_input(tmp_path: Path, command: str) -> None:
    (tmp_path / "config").write_text("policy: enabled")

    result = invoke("revision", command, "--revisions-dir", str(tmp_path))

    assert_fails(result, 65, f"{tmp_path}: there is no revision; give --revisions-dir a folder with one folder for")


def remove(directory: Path, *arguments: str, answer: str = "") -> Result:
    return invoke("revision", "remove", *arguments, "--revisions-dir", str(directory), text=answer)


@pytest.mark.parametrize(
    ("flags", "answer", "code"), [([], "y\n", 0), ([], "n\n", 1), ([], "", 1), (["-y"], "", 0), (["--force"], "", 0)]
)
def test_an_unused_revision_is_removed_after_confirmation(
    directory: Path, flags: list[str], answer: str, code: int
) -> None:
    result = remove(directory, "1-30", *flags, answer=answer)

    assert (result.exit_code, (directory / "1-30").exists()) == (code, code == 1)
    assert result.stdout == ("" if code else "Revision 1-30 removed\n")
    has_question = f'Remove the folder {directory}/1-30 of revision "1-30"?' in result.stderr
    assert has_question == (not flags)


def test_a_revision_in_use_is_removed_only_by_force(directory: Path) -> None:
    (directory / "1-30" / "revision.yaml").write_text("namespaces: {bank: {labels: {istio.io/rev: 1-24}}}\n")

    refused = remove(directory, "1-24", "-y")
    assert (refused.exit_code, refused.stdout, (directory / "1-24").exists()) == (1, "", True)
    assert refused.stderr == (
        'error: cannot remove revision "1-24": it is in use by tag default, tag prod, namespace bank; '
        "move, relabel or restart them first, or add --force: new pods then get no sidecars\n"
    )

    assert remove(directory, "1-24", "--force").exit_code == 0
    assert not (directory / "1-24").exists()


@cases("name", "code", "says")
def test_an_unknown_revision_is_not_removed(directory: Path, name: str, code: int, says: str) -> None:
    before = sorted(directory.iterdir())

    result = remove(directory, name, "--force")

    assert (result.exit_code, result.stdout, sorted(directory.iterdir())) == (code, "", before)
    assert says in result.stderr


def test_without_a_directory_the_webhooks_of_the_clusters_revision_are_removed(cluster: FakeApi) -> None:
    cluster.put(WEBHOOKS, revision_webhook("1-24", WebhookOptions()), tag_webhook("prod", "1-30", WebhookOptions()))

    result = invoke("revision", "remove", "1-24", text="y\n")

    assert (result.exit_code, result.stdout) == (0, "Revision 1-24 removed\n")
    assert 'Remove the webhooks of revision "1-24"?' in result.stderr
    assert [name for _, _, name in cluster.objects] == ["istio-revision-tag-prod"]


def test_init_writes_a_directory_that_serves_and_overwrites_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "mine"

    done = invoke("revision", "init", str(folder))

    assert (done.exit_code, done.output) == (0, f"wrote {folder}\n")
    assert invoke("revision", "verify", "--revisions-dir", str(folder)).exit_code == 0
    assert_fails(invoke("revision", "init", str(folder)), 64, "already exists; name a new")
