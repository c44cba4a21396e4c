from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from injector.revisions.files import remove_folder, replace_file


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "tags.yaml"
    path.write_text("old")
    path.chmod(0o640)
    with path.open() as reader:
        replace_file(path, "new, ä\n")

        assert reader.read() == "old"
    assert path.read_text(encoding="utf-8") == "new, ä\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [found.name for found in tmp_path.iterdir()] == ["tags.yaml"]


def test_a_new_file_has_the_mode_that_the_user_gives_files(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        replace_file(tmp_path / "tags.yaml", "x")
    finally:
        os.umask(mask)

    assert stat.S_IMODE((tmp_path / "tags.yaml").stat().st_mode) == 0o640


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tags.yaml"
    path.write_text("old")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, "new")

    assert path.read_text() == "old"
    assert [found.name for found in tmp_path.iterdir()] == ["tags.yaml"]


def test_a_folder_is_removed_with_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "1-24" / "deep").mkdir(parents=True)
    (tmp_path / "1-24" / "config").write_text("x")

    remove_folder(tmp_path / "1-24")

    assert list(tmp_path.iterdir()) == []


def test_of_a_link_to_a_folder_the_link_is_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")

    remove_folder(tmp_path / "link")

    assert [found.name for found in tmp_path.iterdir()] == ["kept"]


def test_a_folder_that_is_not_there_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        remove_folder(tmp_path / "nope")

    assert list(tmp_path.iterdir()) == []
