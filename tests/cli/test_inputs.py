from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from injector.cli.inputs import Manifest, read_manifests
from injector.errors import ManifestError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def names(manifests: list[Manifest], root: Path) -> list[str]:
    return [manifest.name.removeprefix(f"{root}/") for manifest in manifests]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Manifests in a folder and in a folder of it."""
    (tmp_path / "inner").mkdir()
    for name in ("b.yaml", "a.yml", "c.json", "notes.txt", "inner/d.yaml"):
        (tmp_path / name).write_text(f"name: {name}\n")
    return tmp_path


def test_files_come_in_the_order_given_and_keep_their_names(tree: Path) -> None:
    found = read_manifests([f"{tree}/b.yaml", f"{tree}/notes.txt"], recursive=False)

    assert found == [Manifest(f"{tree}/b.yaml", "name: b.yaml\n"), Manifest(f"{tree}/notes.txt", "name: notes.txt\n")]


@pytest.mark.parametrize(
    ("recursive", "expected"),
    [(False, ["a.yml", "b.yaml", "c.json"]), (True, ["a.yml", "b.yaml", "c.json", "inner/d.yaml"])],
)
def test_a_folder_means_its_manifests_by_name(tree: Path, recursive: bool, expected: list[str]) -> None:
    assert names(read_manifests([str(tree)], recursive=recursive), tree) == expected


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("ä: 1".encode())))

    assert read_manifests(["-"], recursive=False) == [Manifest("stdin", "ä: 1")]


def test_a_byte_order_mark_is_dropped_and_line_ends_stay(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\n")

    assert read_manifests([f"{tmp_path}/a.yaml"], recursive=False)[0].text == "a: 1\r\n"


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a: 1\nb: \xff\n")

    with pytest.raises(ManifestError, match=r"a.yaml:2: this is not UTF-8; save the file as UTF-8"):
        read_manifests([f"{tmp_path}/a.yaml"], recursive=False)


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"nope.yaml: cannot be read: No such file or directory; check the path"):
        read_manifests([f"{tmp_path}/nope.yaml"], recursive=False)


@pytest.mark.parametrize(("recursive", "advice"), [(False, "add -R"), (True, "put a manifest there")])
def test_a_folder_without_manifests_is_bad_input(tmp_path: Path, recursive: bool, advice: str) -> None:
    with pytest.raises(ManifestError, match=f"the folder has no .yaml, .yml or .json file; {advice}"):
        read_manifests([str(tmp_path)], recursive=recursive)


@pytest.mark.parametrize(("given", "says"), [([], "no file was named"), (["-", "-"], "stdin can be read only once")])
def test_naming_nothing_or_stdin_twice_is_a_wrong_argument(given: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_manifests(given, recursive=False)
