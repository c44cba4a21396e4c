from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.errors import ConfigError
from injector.revisions.directory import DirectorySource, read_folder
from tests.revisions.fakes import CONFIG

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, **files: str) -> Path:
    """Make a revision's folder; a name's double underscore is a dot."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_a_folder_holds_the_keys_of_the_config_maps(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "1-24",
        config=CONFIG,
        values="{}",
        mesh="a: 1",
        meshNetworks="b: 2",
        revision__yaml='istioVersion: "1.24"\nenv: {PLATFORM: openshift}',
    )

    raw = read_folder(folder)

    assert (raw.name, raw.config, raw.values, raw.mesh, raw.mesh_networks) == ("1-24", CONFIG, "{}", "a: 1", "b: 2")
    assert raw.settings == {"istioVersion": "1.24", "env": {"PLATFORM": "openshift"}}
    assert raw.origin == str(folder)


def test_only_the_config_must_be_there(tmp_path: Path) -> None:
    raw = read_folder(write(tmp_path / "a", config__yaml=CONFIG))

    assert (raw.config, raw.values, raw.mesh, raw.mesh_networks, raw.settings) == (CONFIG, None, None, None, {})


def test_a_mounted_config_map_is_read_through_its_links(tmp_path: Path) -> None:
    data = write(tmp_path / "mount" / "..2026_01_01", config=CONFIG)
    (tmp_path / "mount" / "..data").symlink_to(data.name)
    (tmp_path / "mount" / "config").symlink_to("..data/config")
    (tmp_path / "revisions").mkdir()
    (tmp_path / "revisions" / "1-24").symlink_to(tmp_path / "mount")

    state = DirectorySource(tmp_path / "revisions").read()

    assert [(raw.name, raw.config) for raw in state.revisions] == [("1-24", CONFIG)]
    assert state.failures == {}


def test_a_directory_that_is_itself_a_mounted_config_map_has_tags_and_no_dotted_revisions(tmp_path: Path) -> None:
    write(tmp_path / "..2026", tags__yaml="prod: a")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "tags.yaml").symlink_to("..data/tags.yaml")

    state = DirectorySource(tmp_path).read()

    assert (list(state.revisions), list(state.tags)) == ([], ["prod"])


def test_revisions_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write(tmp_path / name, config=CONFIG)
    (tmp_path / "README.md").write_text("no revision")

    assert [raw.name for raw in DirectorySource(tmp_path).read().revisions] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "files", "says"),
    [
        ("a", {}, "it has no `config`"),
        ("A", {"config": CONFIG}, "'A' cannot name a revision"),
        ("cluster", {"config": CONFIG}, "`cluster` cannot name a revision"),
        ("a", {"config": CONFIG, "revision__yaml": "- x"}, "it is no mapping"),
        ("a", {"config": CONFIG, "revision__yaml": "a: [\n"}, "yaml: line"),
    ],
)
def test_what_is_wrong_with_one_folder_leaves_the_others(
    tmp_path: Path, name: str, files: dict[str, str], says: str
) -> None:
    write(tmp_path / "good", config=CONFIG)
    write(tmp_path / name, **files)

    state = DirectorySource(tmp_path).read()

    assert [raw.name for raw in state.revisions] == ["good"]
    assert list(state.failures) == [name]
    assert says in str(state.failures[name])
    assert str(tmp_path / name) in str(state.failures[name])


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", config=CONFIG)
    (folder / "values").write_bytes(b"ok\xff")

    with pytest.raises(ConfigError, match="values: is not UTF-8 at byte 2; save it as UTF-8"):
        read_folder(folder)


@pytest.mark.parametrize("name", ["config", "values", "mesh", "meshNetworks", "revision.yaml"])
def test_a_file_that_is_empty_is_about_to_be_written_and_names_itself(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "a", config=CONFIG)
    (folder / name).write_text("\n")

    with pytest.raises(ConfigError, match=f"{name}: is empty; write it, or delete it"):
        read_folder(folder)


def test_tags_that_are_empty_are_not_no_tags(tmp_path: Path) -> None:
    write(tmp_path / "a", config=CONFIG)
    (tmp_path / "tags.yaml").touch()

    state = DirectorySource(tmp_path).read()

    assert ([raw.name for raw in state.revisions], state.tags) == (["a"], {})
    assert "tags.yaml: is empty" in str(state.tags_error)


def test_a_folder_in_a_files_place_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", config=CONFIG)
    (folder / "mesh").mkdir()

    with pytest.raises(ConfigError, match="mesh: cannot be read: Is a directory"):
        read_folder(folder)


def test_tags_that_cannot_be_read_are_an_error_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "a", config=CONFIG)
    (tmp_path / "tags.yaml").write_text("- a")

    state = DirectorySource(tmp_path).read()

    assert ([raw.name for raw in state.revisions], state.tags) == (["a"], {})
    assert "no mapping of tags" in str(state.tags_error)


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_directory_that_is_none_is_named_with_its_flag(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=f"{name}: cannot be read as a directory of revisions: .*--revisions-dir"):
        DirectorySource(tmp_path / name).read()


def test_a_file_that_cannot_be_read_is_named_with_the_systems_words(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", config=CONFIG)
    (folder / "config").unlink()
    (folder / "config").symlink_to("config")

    with pytest.raises(ConfigError, match="config: cannot be read: Too many levels of symbolic links"):
        read_folder(folder)
