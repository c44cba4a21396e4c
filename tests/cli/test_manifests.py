"""Manifests as input of commands: files, folders, standard input and their errors."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from injector.cli.manifests import manifest_text, read_workloads, write_manifests
from injector.cli.output import print_warning
from injector.errors import AnnotationError, InjectorError, ManifestError, MultipleError
from injector.fleet.manifests import (
    ChangedDocument,
    Manifest,
    WorkloadFiles,
    change_documents,
    read_manifests,
)
from injector.kube.objects import for_each_item
from tests.cases import cases


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
    manifests = read_manifests([f"{tree}/b.yaml", f"{tree}/notes.txt"], recursive=False)

    assert manifests == [
        Manifest(f"{tree}/b.yaml", "name: b.yaml\n"),
        Manifest(f"{tree}/notes.txt", "name: notes.txt\n"),
    ]


@pytest.mark.parametrize(
    ("recursive", "expected"),
    [(False, ["a.yml", "b.yaml", "c.json"]), (True, ["a.yml", "b.yaml", "c.json", "inner/d.yaml"])],
)
def test_a_folder_stands_for_its_manifests_by_name(tree: Path, recursive: bool, expected: list[str]) -> None:
    assert names(read_manifests([str(tree)], recursive=recursive), tree) == expected


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("ä: 1".encode())))

    assert read_manifests(["-"], recursive=False) == [Manifest("stdin", "ä: 1")]


def test_a_byte_order_mark_is_dropped_and_line_ends_stay(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\n")

    assert read_manifests([f"{tmp_path}/a.yaml"], recursive=False)[0].text == "a: 1\r\n"


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a: 1\nb: \xff\n")

    with pytest.raises(ManifestError, match=r"a.yaml:2: not valid UTF-8; save the file as UTF-8"):
        read_manifests([f"{tmp_path}/a.yaml"], recursive=False)


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listdir(name: str) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", name)

    monkeypatch.setattr(os, "listdir", listdir)

    with pytest.raises(ManifestError, match="cannot be read: Permission denied; check its permissions"):
        read_manifests([str(tmp_path)], recursive=False)


@pytest.mark.parametrize(("recursive", "advice"), [(False, "give -R"), (True, "add a manifest to it")])
def test_a_folder_without_manifests_is_bad_input(tmp_path: Path, recursive: bool, advice: str) -> None:
    with pytest.raises(ManifestError, match=f"the folder has no .yaml, .yml or .json file; {advice}"):
        read_manifests([str(tmp_path)], recursive=recursive)


def marked(obj: dict[str, Any]) -> dict[str, Any] | None:
    """A change of pods alone."""
    return {**obj, "marked": True} if obj.get("kind") == "Pod" else None


def refused(obj: dict[str, Any]) -> dict[str, Any] | None:
    raise AnnotationError("is wrong", where=obj.get("where", ""), hint="correct it")


def test_each_document_of_each_manifest_is_changed_or_kept() -> None:
    manifests = [Manifest("a", "kind: Pod\n---\n# kept\nkind: Service\n"), Manifest("b", "kind: Pod\n")]

    documents = list(change_documents(manifests, marked, warn=print_warning))

    assert [(document.text, document.after) for document in documents] == [
        ("kind: Pod\n", {"kind": "Pod", "marked": True}),
        ("# kept\nkind: Service\n", None),
        ("kind: Pod\n", {"kind": "Pod", "marked": True}),
    ]


@pytest.mark.parametrize("text", ["# nothing\n", "- 1\n", "text\n", "42\n"])
def test_documents_that_are_not_objects_pass_through(text: str) -> None:
    (document,) = change_documents([Manifest("a", text)], refused, warn=print_warning)

    assert (document.text, document.after) == (text, None)


def test_yaml_that_cannot_be_read_names_the_file_and_its_line_there() -> None:
    with pytest.raises(ManifestError, match=r"^a\.yaml: yaml: line 5: "):
        list(change_documents([Manifest("a.yaml", "kind: Pod\n---\n\n# x\n\ta: 1\n")], marked, warn=print_warning))


def test_a_document_is_changed_when_it_is_asked_for() -> None:
    """So 20,000 workloads are never in memory at once."""
    objects: list[dict[str, Any]] = []
    documents = change_documents([Manifest("a", "kind: Pod\n---\nkind: Job\n")], objects.append, warn=print_warning)

    next(documents)

    assert objects == [{"kind": "Pod"}]


def test_every_faulty_object_is_named_also_in_lists_and_at_most_twenty() -> None:
    listed = [{"kind": "Pod", "metadata": {"name": f"p{index}"}} for index in range(30)]
    text = "kind: Pod\nmetadata: {name: first}\n---\n" + json.dumps({"kind": "List", "items": listed})

    def change(obj: dict[str, Any]) -> dict[str, Any] | None:
        return {"items": list(for_each_item(obj, change))} if "items" in obj else refused(obj)

    with pytest.raises(MultipleError) as caught:
        list(change_documents([Manifest("a.yaml", text)], change, warn=print_warning))

    said = str(caught.value).splitlines()
    assert said[:2] == ["a.yaml:1: Pod first: is wrong; correct it", "a.yaml:4: Pod p0: is wrong; correct it"]
    assert len(said) == 20


@cases("text", "says")
def test_an_object_that_cannot_be_changed_is_named_with_file_and_line(text: str, says: str) -> None:
    def change(obj: dict[str, Any]) -> dict[str, Any] | None:
        return None if "x" in obj else refused(obj)

    with pytest.raises(AnnotationError) as caught:
        list(change_documents([Manifest("a.yaml", text)], change, warn=print_warning))

    assert str(caught.value) == says


SHOP = "kind: Namespace\nmetadata: {name: shop, labels: {istio.io/rev: prod, size: 1}}\n"
PODS = "kind: Pod\nmetadata: {name: a, namespace: shop}\n---\nkind: Pod\nmetadata: {name: b}\n"


def read(folder: Path, text: str, namespace: str | None = None) -> list[str]:
    (folder / "m.yaml").write_text(text)
    return list(map(str, read_workloads(WorkloadFiles((str(folder / "m.yaml"),), namespace=namespace))))


def test_every_workload_is_read_in_order_with_its_namespace(tmp_path: Path) -> None:
    assert read(tmp_path, f"{SHOP}---\n{PODS}") == ["Pod shop/a", "Pod default/b"]


def test_workloads_without_a_namespace_get_the_one_of_the_flag(tmp_path: Path) -> None:
    assert read(tmp_path, PODS, "lent") == ["Pod shop/a", "Pod lent/b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SHOP, "m.yaml: the files have no workload; give a manifest with a Pod"),
        ("kind: Pod\n---\nkind: Deployment\nmetadata: {name: d}\n", "m.yaml:3: Deployment d: "),
        ("kind: Namespace\nmetadata: text\n", "m.yaml:1: Namespace: "),
        ("kind: Pod\n\ta: b\n", "m.yaml: yaml: line 2"),
    ],
)
def test_errors_name_the_file_and_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ManifestError) as raised:
        read(tmp_path, text)

    assert says in str(raised.value)


UNCHANGED = ChangedDocument("# as it was\nkind:   Service\n", {"kind": "Service"}, None)
CHANGED = ChangedDocument("kind: Pod\n", {"kind": "Pod"}, {"kind": "Pod", "spec": {"size": 1}})


EMPTY = ChangedDocument("# nothing\n", None, None)


@pytest.mark.parametrize(
    ("documents", "text"),
    [
        ([UNCHANGED, CHANGED], "# as it was\nkind:   Service\n---\nkind: Pod\nspec:\n  size: 1\n---\n"),
        ([ChangedDocument("a: 1", {"a": 1}, None)], "a: 1\n---\n"),
    ],
)
def test_yaml_ends_every_document_as_istioctl_does_and_keeps_what_passes_through(
    documents: list[ChangedDocument], text: str
) -> None:
    assert "".join(manifest_text(documents, "yaml")) == text


@pytest.mark.parametrize(
    ("documents", "data"),
    [
        ([CHANGED], CHANGED.after),
        ([UNCHANGED, EMPTY, CHANGED], {"apiVersion": "v1", "kind": "List", "items": [UNCHANGED.before, CHANGED.after]}),
    ],
)
def test_json_is_the_object_or_a_list_without_empty_documents(documents: list[ChangedDocument], data: Any) -> None:
    assert json.loads("".join(manifest_text(documents, "json"))) == data


def test_a_patch_is_one_line_for_each_document() -> None:
    lines = "".join(manifest_text([UNCHANGED, CHANGED], "patch")).splitlines()

    assert [json.loads(line) for line in lines] == [[], [{"op": "add", "path": "/spec", "value": {"size": 1}}]]


def written(text: str, path: Path | None) -> None:
    """Write one document that passes through."""
    write_manifests([ChangedDocument(text, None, None)], "yaml", path)


def test_without_a_file_it_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    written("ä\n", None)

    assert capsys.readouterr() == ("ä\n---\n", "")


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.yaml"
    path.write_text("old")
    path.chmod(0o640)

    written("new\n", path)

    assert path.read_text() == "new\n---\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["out.yaml"]


def test_a_new_file_has_the_mode_that_the_user_gives_files(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        written("x", tmp_path / "out.yaml")
    finally:
        os.umask(mask)

    assert stat.S_IMODE((tmp_path / "out.yaml").stat().st_mode) == 0o640


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")

    written("new", tmp_path / "link")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new\n---\n"


def test_a_device_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "null"
    path.symlink_to("/dev/null")

    written("x", path)

    assert path.is_char_device()


@pytest.mark.parametrize("name", ["nope/out.yaml", "."])
def test_an_output_file_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InjectorError, match="cannot be written: ") as caught:
        written("x", tmp_path / name)

    assert caught.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []
