from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.cli.flags import Behaviour
from injector.cli.selection import Selection, find_revision, selected_revision
from injector.errors import ConfigError, DataError, UsageError
from injector.revisions.source import SourceState
from injector.revisions.tags import parse_tags
from tests.revisions.fakes import CONFIG, VALUES, make_raw

if TYPE_CHECKING:
    from pathlib import Path

    from injector.istio.revision import Revision

NOTHING = Behaviour(None, (), ())
STATE = SourceState(
    (make_raw("a"), make_raw("b")), {"broken": ConfigError("it has no `config`")}, parse_tags("prod: b\nbad: broken")
)


def select(behaviour: Behaviour = NOTHING, **given: Any) -> Revision:
    """What the given flags select."""
    known = dict.fromkeys(("revision", "revisions_dir", "config", "values", "mesh"))
    return selected_revision(Selection(**{**known, **given}), behaviour)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of two revisions, with their tags, and files of one more."""
    for name in ("a", "b"):
        (tmp_path / "revisions" / name).mkdir(parents=True)
        (tmp_path / "revisions" / name / "config").write_text(CONFIG)
        (tmp_path / "revisions" / name / "values").write_text(VALUES)
    (tmp_path / "revisions" / "tags.yaml").write_text("prod: b\ndefault: a\n")
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "values.json").write_text('{"global": {"tag": "1.30.2"}}')
    return tmp_path


@pytest.mark.parametrize(("name", "expected"), [("a", "a"), ("prod", "b")])
def test_a_revision_is_picked_by_its_name_or_a_tag(name: str, expected: str) -> None:
    assert find_revision(STATE, name, where="x").name == expected


@pytest.mark.parametrize("name", ["broken", "bad"])
def test_a_revision_that_cannot_be_read_says_why(name: str) -> None:
    with pytest.raises(ConfigError, match="it has no `config`"):
        find_revision(STATE, name, where="x")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"^x: there is no revision or tag 'nope'; known are a, b, bad, broken, prod$"):
        find_revision(STATE, "nope", where="x")


def test_without_a_name_and_a_default_the_flag_is_asked_for() -> None:
    with pytest.raises(
        UsageError,
        match=r"^x: no default revision; .*create the tag `default`; known are a, b",
    ):
        find_revision(STATE, "", where="x")


def test_an_unknown_name_may_be_a_tag_that_could_not_be_read() -> None:
    state = SourceState((make_raw("a"),), tags_error=ConfigError("tags.yaml is broken"))

    with pytest.raises(ConfigError, match=r"tags\.yaml is broken"):
        find_revision(state, "prod", where="x")


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


def test_values_and_flags_stand_in_for_those_of_a_folder(folder: Path) -> None:
    behaviour = Behaviour(None, ("PLATFORM=openshift",), ())

    revision = select(behaviour, revisions_dir=folder / "revisions", values=folder / "values.json")

    assert (revision.istio_version, revision.env) == ("1.30", {"PLATFORM": "openshift"})


def test_a_file_that_stands_in_is_named_by_its_errors(folder: Path) -> None:
    (folder / "values.json").write_text("{")

    with pytest.raises(DataError, match=r"values\.json"):
        select(revisions_dir=folder / "revisions", values=folder / "values.json")


def test_two_configurations_are_a_contradiction(folder: Path) -> None:
    with pytest.raises(UsageError, match="name two configurations"):
        select(revisions_dir=folder, config=folder / "config.yaml")


def test_a_name_that_no_revision_can_have_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="--revision: 'No' cannot name a revision"):
        select(config=folder / "config.yaml", revision="No")


def test_without_flags_it_is_the_embedded_default() -> None:
    assert select().name == "stable"
