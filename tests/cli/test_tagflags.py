from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from injector.cli.tagflags import Place, Target, place_flags, placement_flags, target_flags
from injector.cluster.kubeconfig import Kubeconfig
from injector.errors import UsageError
from injector.istio.webhooks import WebhookOptions
from injector.revisions.tags import Shadow, Tag
from injector.revisions.tagstore import DirectoryTags


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without a kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def target(*arguments: str) -> Target:
    """What the flags of a tag make."""
    made: list[Target] = []

    @click.command()
    @target_flags
    def command(target: Target) -> None:
        made.append(target)

    CliRunner().invoke(command, arguments, catch_exceptions=False)
    return made[0]


def place(*arguments: str, of_objects: bool | None = None) -> Place:
    """What the flags of a place make; ``of_objects`` says whether those of objects mean something in a directory."""
    made: list[Place] = []

    @click.command()
    @(place_flags if of_objects is None else placement_flags(in_directory=of_objects))
    def command(place: Place) -> None:
        made.append(place)

    CliRunner().invoke(command, arguments, catch_exceptions=False)
    return made[0]


def test_a_target_is_a_tag_and_what_becomes_of_its_shadow() -> None:
    assert target("prod", "-r", "1-24") == Target(Tag("prod", (("1-24", 1),)))
    assert target("prod", "-r", "1-24", "--no-shadow").keep_shadow is False
    assert target("prod", "-r", "a", "--weight", "b=10", "--salt", "x", "--shadow", "c=25") == Target(
        Tag("prod", (("a", 90), ("b", 10)), "x", Shadow("c", 25))
    )


def test_without_a_directory_the_place_is_the_cluster() -> None:
    assert place() == Place(None, Kubeconfig(), "istio-system")
    assert place("-c", "x", "--context", "y", "-i", "mesh") == Place(None, Kubeconfig((Path("x"),), "y"), "mesh")
    assert place("--webhook-name", "my-hook", "-i", "mesh", of_objects=False) == Place(
        None, Kubeconfig(), "mesh", WebhookOptions(istio_namespace="mesh"), "my-hook"
    )


def test_a_directory_is_a_place(tmp_path: Path) -> None:
    with place("--revisions-dir", str(tmp_path)).store() as store:
        assert store == DirectoryTags(tmp_path)


@pytest.mark.parametrize(
    ("of_objects", "arguments"),
    [
        (None, ["--context", "x"]),
        (None, ["-i", "mesh"]),
        (True, ["-c", "x"]),
        (False, ["--auto-inject-namespaces"]),
        (False, ["--service-port", "443"]),
        (False, ["--istioNamespace", "istio-system"]),
    ],
)
def test_flags_of_a_cluster_have_no_effect_on_a_directory(of_objects: bool | None, arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="has no effect beside --revisions-dir; leave one of the two out"):
        place("--revisions-dir", "x", *arguments, of_objects=of_objects)


def test_flags_of_objects_mean_something_where_they_are_printed() -> None:
    found = place("--revisions-dir", "x", "-i", "mesh", "--service", "our", of_objects=True)

    assert (found.directory, found.options.endpoint.service, found.istio_namespace) == (Path("x"), "our", "mesh")


def test_a_kubeconfig_of_the_environment_is_nothing_that_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "x")

    assert place("--revisions-dir", "x").directory == Path("x")
