from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from injector.cli.output import Processed, data_text, rendered, write
from injector.errors import InjectorError

if TYPE_CHECKING:
    from pathlib import Path

KEPT = Processed("# as it was\nkind:   Service\n", {"kind": "Service"}, None)
CHANGED = Processed("kind: Pod\n", {"kind": "Pod"}, {"kind": "Pod", "spec": {"size": 1}})


def test_yaml_ends_every_document_as_istioctl_does_and_keeps_what_passes_through() -> None:
    assert rendered([KEPT, CHANGED], "yaml") == "# as it was\nkind:   Service\n---\nkind: Pod\nspec:\n  size: 1\n---\n"


def test_a_document_without_a_last_line_end_gets_one() -> None:
    assert rendered([Processed("a: 1", {"a": 1}, None)], "yaml") == "a: 1\n---\n"


def test_json_of_one_document_is_the_object() -> None:
    assert json.loads(rendered([CHANGED], "json")) == CHANGED.after


def test_json_of_several_is_a_list_without_the_empty_ones() -> None:
    empty = Processed("# nothing\n", None, None)

    assert json.loads(rendered([KEPT, empty, CHANGED], "json")) == {
        "apiVersion": "v1",
        "kind": "List",
        "items": [KEPT.before, CHANGED.after],
    }


def test_a_patch_is_one_line_for_each_document() -> None:
    lines = rendered([KEPT, CHANGED], "patch").splitlines()

    assert [json.loads(line) for line in lines] == [[], [{"op": "add", "path": "/spec", "value": {"size": 1}}]]


def test_without_a_file_it_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    write("ä\n", None)

    assert capsys.readouterr() == ("ä\n", "")


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.yaml"
    path.write_text("old")
    path.chmod(0o640)

    write("new\n", path)

    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["out.yaml"]


def test_a_new_file_has_the_mode_that_the_user_gives_files(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write("x", tmp_path / "out.yaml")
    finally:
        os.umask(mask)

    assert stat.S_IMODE((tmp_path / "out.yaml").stat().st_mode) == 0o640


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")

    write("new", tmp_path / "link")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_device_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "null"
    path.symlink_to("/dev/null")

    write("x", path)

    assert path.is_char_device()


@pytest.mark.parametrize("name", ["nope/out.yaml", "."])
def test_a_place_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(InjectorError, match="cannot be written: ") as caught:
        write("x", tmp_path / name)

    assert caught.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("output", "text"), [("json", '{\n  "a": "\u00e9"\n}\n'), ("yaml", "a: \u00e9\n")])
def test_data_for_programs_is_json_or_yaml(output: str, text: str) -> None:
    assert data_text({"a": "\u00e9"}, output) == text
