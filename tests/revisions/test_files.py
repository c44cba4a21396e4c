"""Files that are read and replaced whole, and changes that are reported."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from injector.errors import ConfigError
from injector.regularfiles import read_file
from injector.revisions import files
from injector.revisions.files import file_changes, read_text, remove_folder, replace_file
from tests.revisions.fakes import write_revision


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "Resource temporarily unavailable"), (OSError(errno.EIO, "Input/output error"), "Input")],
)
def test_a_regular_file_that_gives_nothing_is_an_error_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: OSError | None, says: str
) -> None:
    """As files of some file systems do that are opened with O_NONBLOCK."""
    reader = MagicMock()
    reader.__enter__.return_value.read.side_effect = [content]
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(os, "fdopen", lambda *_, **__: reader)

    with pytest.raises(ConfigError, match=f"file: cannot be read: {says}"):
        read_text(tmp_path / "file")
    reader.__enter__.return_value.read.side_effect = [content]
    with pytest.raises(OSError, match=says) as caught:
        read_file(tmp_path / "file")
    assert caught.value.filename == str(tmp_path / "file")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("fifo", "is not a regular file; write a file, or a link to one"),
        ("/dev/zero", "is not a regular file; write a file, or a link to one"),
        ("/dev/null", "is not a regular file; write a file, or a link to one"),
        ("large", "is larger than 16 MiB; check what wrote it"),
        ("folder", "cannot be read: Is a directory; make it a readable file"),
        ("socket", "cannot be read: No such device or address; make it a readable file"),
        ("loop", "cannot be read: Too many levels of symbolic links; make it a readable file"),
    ],
)
@pytest.mark.parametrize("linked", [False, True])
def test_only_a_regular_file_of_a_limited_size_is_read(tmp_path: Path, kind: str, says: str, linked: bool) -> None:
    path = tmp_path / "target"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "large":
            with path.open("wb") as file:
                file.truncate(2**24 + 1)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case "loop":
            path.symlink_to(path)
        case _:
            path.symlink_to(kind)
    if linked:
        (tmp_path / "mesh").symlink_to(path)
        path = tmp_path / "mesh"

    with pytest.raises(ConfigError) as caught:
        read_text(path)

    assert str(caught.value) == f"{path}: {says}"


def test_a_file_of_the_largest_size_is_read_and_lines_end_in_any_way(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"x" * 2**24)
    assert len(read_file(path)) == 2**24

    path.write_bytes(b"a\r\nb\rc\n")
    assert read_text(path) == "a\nb\nc\n"


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "tags.yaml"
    path.write_text("old")
    path.chmod(0o640)
    with path.open() as reader:
        replace_file(path, ["new, ä\n"])

        assert reader.read() == "old"
    assert path.read_text(encoding="utf-8") == "new, ä\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["tags.yaml"]


def test_a_new_file_has_the_mode_that_the_user_gives_files(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        replace_file(tmp_path / "tags.yaml", ["x"])
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
        replace_file(path, ["new"])

    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["tags.yaml"]


def test_a_folder_is_removed_with_what_it_holds_and_of_a_link_only_the_link(tmp_path: Path) -> None:
    (tmp_path / "1-24" / "deep").mkdir(parents=True)
    (tmp_path / "1-24" / "config").write_text("x")
    (tmp_path / "link").symlink_to("1-24")

    remove_folder(tmp_path / "link")
    assert [entry.name for entry in tmp_path.iterdir()] == ["1-24"]

    remove_folder(tmp_path / "1-24")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        remove_folder(tmp_path / "nope")

    assert list(tmp_path.iterdir()) == []


LIMIT = 20.0
"""Seconds in which a change must be reported; it takes half of one."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for changes often."""
    monkeypatch.setattr(files, "CHECK_INTERVAL", 0.01)


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    """A folder of one revision, mounted as the kubelet does."""
    folder = tmp_path / "revisions" / "a"
    write_revision(folder / "..1", "old")
    (folder / "..data").symlink_to("..1")
    (folder / "config").symlink_to("..data/config")
    return folder


def swap_link(folder: Path) -> None:
    write_revision(folder / "..2", "new")
    (folder / "..tmp").symlink_to("..2")
    (folder / "..tmp").replace(folder / "..data")


def rename_onto(folder: Path) -> None:
    (folder / "values.tmp").write_text("{}")
    (folder / "values.tmp").replace(folder / "values")


def add_a_revision(folder: Path) -> None:
    (folder.parent / "b").mkdir()


def move_the_tags(folder: Path) -> None:
    (folder.parent / "tags.yaml").write_text("prod: a")


def replace_everything(folder: Path) -> None:
    folder.parent.rename(folder.parent.with_name("old"))
    folder.mkdir(parents=True)


def make_anew(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def write_config(folder: Path) -> None:
    (folder / "config").write_text("new")


def write_longer_config(folder: Path) -> None:
    (folder / "config").write_text("newer")


def move_the_link(folder: Path) -> None:
    home = folder.parents[1]
    (home / "other").mkdir()
    (home / "link").unlink()
    (home / "link").symlink_to(home / "other")


def write_other_tags(folder: Path) -> None:
    (folder.parents[1] / "other" / "tags.yaml").write_text("prod: a")


def make_later(folder: Path) -> None:
    (folder.parents[1] / "later").mkdir()


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        *(
            ("revisions", [change])
            for change in (swap_link, rename_onto, add_a_revision, shutil.rmtree, move_the_tags, replace_everything)
        ),
        ("revisions", [make_anew, write_config, write_longer_config]),
        ("link", [move_the_link, write_other_tags]),
        ("later", [make_later]),
        ("revisions/a/config", [swap_link]),
    ],
)
async def test_every_change_of_a_file_or_below_a_folder_is_reported(
    mount: Path, tmp_path: Path, path: str, changes: list[Callable[[Path], None]]
) -> None:
    (tmp_path / "link").symlink_to(mount.parent)
    async with asyncio.timeout(LIMIT), aclosing(file_changes([tmp_path / path])) as reports:
        await anext(reports)
        for change in changes:
            change(mount)
            await anext(reports)


async def test_it_ends_when_it_is_cancelled(mount: Path) -> None:
    began = asyncio.Event()

    async def follow() -> None:
        async for _ in file_changes([mount]):
            began.set()

    task = asyncio.create_task(follow())
    async with asyncio.timeout(LIMIT):
        await began.wait()
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled()


async def test_a_mount_that_hangs_does_not_stop_the_event_loop(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, checked, states = threading.Event(), threading.Event(), files.file_states

    def file_states(paths: Sequence[Path]) -> dict[Path, tuple[int, int, int]]:
        if checked.is_set():
            assert hangs.wait(LIMIT)
        checked.set()
        return states(paths)

    monkeypatch.setattr(files, "file_states", file_states)
    async with asyncio.timeout(LIMIT), aclosing(file_changes([mount])) as reports:
        await anext(reports)
        swap_link(mount)
        change = asyncio.create_task(anext(reports))
        await asyncio.sleep(0.1)
        assert not change.done()
        hangs.set()
        await change


async def test_a_change_soon_after_another_is_reported_soon(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHECK_INTERVAL", 60.0)
    async with asyncio.timeout(LIMIT), aclosing(file_changes([mount])) as reports:
        await anext(reports)
        for change in (swap_link, rename_onto):
            change(mount)
            await anext(reports)


async def test_no_change_is_reported_for_files_that_stay_the_same(mount: Path) -> None:
    async with aclosing(file_changes([mount.parent])) as reports:
        await anext(reports)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await anext(reports)
