from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from injector.cli import main
from tests.revisions.fakes import CONFIG

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "webhooks"
TAGS = "# ours\nprod: 1-24  # since May\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two revisions and a tag."""
    for name in ("1-24", "1-30"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(CONFIG)
    (tmp_path / "tags.yaml").write_text(TAGS)
    return tmp_path


def labelled(directory: Path) -> None:
    """Let two namespaces follow `prod`."""
    (directory / "1-24" / "revision.yaml").write_text(
        "namespaces: {shop: {labels: {istio.io/rev: prod}}, bank: {labels: {istio.io/rev: prod}}}\n"
    )


def run(directory: Path, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["tag", *arguments, "--revisions-dir", str(directory)], input=answer)


def tags_of(directory: Path) -> str:
    return (directory / "tags.yaml").read_text()


def test_a_tag_is_set_and_istioctls_words_say_how_to_use_it(directory: Path) -> None:
    result = run(directory, "set", "canary", "--revision", "1-30")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        'Revision tag "canary" created, referencing control plane revision "1-30". To enable injection using this\n'
        "revision tag, use 'kubectl label namespace <NAMESPACE> istio.io/rev=canary'\n"
    )
    assert tags_of(directory) == f"{TAGS}canary: 1-30\n"


def test_a_tag_moves_where_that_is_meant(directory: Path) -> None:
    refused = run(directory, "set", "prod", "-r", "1-30", "-y")
    assert (refused.exit_code, refused.stdout, tags_of(directory)) == (1, "", TAGS)
    assert refused.stderr.startswith('error: revision tag "prod" already exists, and --overwrite is false; ')

    assert run(directory, "set", "prod", "-r", "1-30", "--overwrite").exit_code == 0
    assert tags_of(directory) == TAGS.replace("1-24", "1-30")


@pytest.mark.parametrize(
    ("arguments", "entry"),
    [
        (["--weight", "1-24=90", "--weight", "1-30=10"], "{1-24: 90, 1-30: 10}"),
        (["--weight", "1-24=90", "--weight", "1-30=10", "-r", "1-30"], "{1-24: 90, 1-30: 10}"),
        (["--revision", "1-24", "--weight", "1-30=10"], "{1-24: 90, 1-30: 10}"),
        (["--weight", "1-24=1", "--weight", "1-30=0"], "{1-24: 1, 1-30: 0}"),
        (["--weight", "1-30=100"], "{1-30: 100}"),
    ],
)
def test_a_tag_can_have_weights(directory: Path, arguments: list[str], entry: str) -> None:
    result = run(directory, "set", "canary", *arguments)

    assert (result.exit_code, result.stderr) == (0, "")
    assert tags_of(directory) == f"{TAGS}canary: {entry}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["set", "a", "-r", "nope"], 1, 'with revision "nope"; known revisions are 1-24, 1-30'),
        (["set", "1-30", "-r", "1-24", "--overwrite"], 1, 'cannot create revision tag "1-30": found existing'),
        (["set", "a"], 64, "--revision: the tag needs a revision"),
        (["set", "A", "-r", "1-24"], 64, "TAG: 'A' cannot name a tag"),
        (["set", "net", "-r", "1-24"], 64, "TAG: `net` cannot name a tag"),
        (["set", "a", "-r", "x_y"], 64, "--revision: 'x_y' cannot name a revision"),
        (["set", "a", "--weight", "1-24"], 64, "--weight: '1-24' is no weight; write REVISION=N"),
        (["set", "a", "--weight", "1-24=-1"], 64, "--weight: '1-24=-1' is no weight"),
        (["set", "a", "--weight", "B=1"], 64, "--weight: 'B' cannot name a revision"),
        (["set", "a", "--weight", "1-24=0"], 64, "--weight: every weight is 0"),
        (["set", "a", "--weight", "1-24=1", "--weight", "1-24=2"], 64, "--weight: a revision has two weights"),
        (["set", "a", "-r", "1-24", "--weight", "1-30=100"], 64, "--weight: the weights leave nothing of 100"),
        (["remove", "a"], 1, 'cannot remove tag "a": cannot find MutatingWebhookConfiguration or Service for tag'),
        (["remove", "A"], 64, "TAG: 'A' cannot name a tag"),
        (["generate", "prod", "-r", "1-30"], 1, 'revision tag "prod" already exists, and --overwrite is false'),
        (["generate", "a", "-r", "nope"], 1, 'with revision "nope"'),
        (["generate", "a"], 64, "Missing option"),
        (["generate", "a", "-r", "1-24", "--webhook-name", "x_y"], 64, "--webhook-name: 'x_y' cannot name"),
    ],
)
def test_what_is_refused_changes_nothing(directory: Path, arguments: list[str], code: int, says: str) -> None:
    result = run(directory, *arguments)

    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert tags_of(directory) == TAGS


def test_the_list_is_istioctls(directory: Path) -> None:
    if not CORPUS.is_dir():
        pytest.skip("../shared/corpus is not beside the project")
    (directory / "tags.yaml").write_text("prod: 1-30\ndefault: 1-24\n")

    assert run(directory, "list", "-o", "json").stdout == (CORPUS / "tag-list.json").read_text()


def test_the_list_has_weights_and_namespaces(directory: Path) -> None:
    labelled(directory)
    run(directory, "set", "canary", "--weight", "1-30=90", "--weight", "1-24=10")

    expected = [
        {"tag": "prod", "revision": "1-24", "namespaces": ["bank", "shop"]},
        {"tag": "canary", "revision": "1-30", "namespaces": [], "weights": {"1-30": 90, "1-24": 10}},
    ]
    assert json.loads(run(directory, "list", "-o", "json").stdout) == expected
    assert yaml.safe_load(run(directory, "list", "-o", "yaml").stdout) == expected
    assert run(directory, "list").stdout == (
        "TAG      REVISION          NAMESPACES\n"
        "prod     1-24              bank,shop\n"
        "canary   1-30=90,1-24=10   -\n"
    )  # fmt: skip


def test_no_tags_are_no_error(directory: Path) -> None:
    (directory / "tags.yaml").unlink()

    assert run(directory, "list").output == "No Istio revision tags found.\n"
    assert json.loads(run(directory, "list", "-o", "json").stdout) == []
    assert run(directory, "list", "-o", "yaml").stdout == "[]\n"


def test_a_tag_that_no_namespace_uses_is_removed_without_a_question(directory: Path) -> None:
    result = run(directory, "remove", "prod")

    assert (result.exit_code, result.output) == (0, "Revision tag prod removed\n")
    assert tags_of(directory) == "# ours\n"


@pytest.mark.parametrize(
    ("flags", "answer", "code", "left"),
    [
        ([], "y\n", 0, "# ours\n"),
        ([], "n\n", 1, TAGS),
        ([], "", 1, TAGS),
        (["-y"], "", 0, "# ours\n"),
        (["--force"], "", 0, "# ours\n"),
    ],
)
def test_a_tag_that_namespaces_use_is_removed_when_that_is_meant(
    directory: Path, flags: list[str], answer: str, code: int, left: str
) -> None:
    labelled(directory)

    result = run(directory, "remove", "prod", *flags, answer=answer)

    assert (result.exit_code, tags_of(directory)) == (code, left)
    asked = 'Caution, found 2 namespace(s) still injected by tag "prod": bank shop' in result.stderr
    assert asked == (not flags)
    assert ("Aborting operation." in result.stderr) == (code == 1)


def test_force_takes_a_tag_that_is_not_there(directory: Path) -> None:
    result = run(directory, "remove", "nope", "--force")

    assert (result.exit_code, result.output) == (0, "Revision tag nope is not there\n")
    assert tags_of(directory) == TAGS


def test_generate_prints_the_configuration_and_writes_nothing(directory: Path) -> None:
    result = run(
        directory, "generate", "prod", "-r", "1-30", "--overwrite", "--webhook-name", "my-hook", "--service", "our"
    )

    assert (result.exit_code, result.stderr, tags_of(directory)) == (0, "", TAGS)
    configuration = yaml.safe_load(result.stdout)
    assert configuration["metadata"]["name"] == "my-hook"
    assert configuration["metadata"]["labels"]["istio.io/rev"] == "1-30"
    assert configuration["webhooks"][0]["clientConfig"]["service"] == {
        "name": "our", "namespace": "injector-system", "path": "/inject/prod", "port": 443,
    }  # fmt: skip


def test_without_a_directory_generate_has_nothing_to_check() -> None:
    result = CliRunner().invoke(main, ["tag", "generate", "default", "-r", "1-24", "--auto-inject-namespaces"])

    assert (result.exit_code, result.stderr) == (0, "")
    assert [webhook["name"].split(".sidecar")[0] for webhook in yaml.safe_load(result.stdout)["webhooks"]] == [
        "rev.namespace", "rev.object", "namespace", "object", "auto",
    ]  # fmt: skip


@pytest.mark.parametrize("arguments", [["list"], ["set", "a", "-r", "b"], ["remove", "a"]])
def test_what_changes_tags_needs_to_know_where(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["tag", *arguments])

    assert result.exit_code == 64
    assert "Missing option '--revisions-dir'" in result.stderr
