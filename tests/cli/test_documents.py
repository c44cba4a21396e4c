from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

import pytest

from injector.cli.inputs import Manifest, changed_documents
from injector.errors import AnnotationError, ManifestError


def marked(obj: dict[str, Any]) -> dict[str, Any] | None:
    """A change of pods alone."""
    return {**obj, "marked": True} if obj.get("kind") == "Pod" else None


def refused(obj: dict[str, Any]) -> dict[str, Any] | None:
    raise AnnotationError("is wrong", where=obj.get("where", ""), hint="correct it")


def test_each_document_of_each_manifest_is_changed_or_kept() -> None:
    manifests = [Manifest("a", "kind: Pod\n---\n# kept\nkind: Service\n"), Manifest("b", "kind: Pod\n")]

    found = changed_documents(manifests, marked)

    assert [(each.text, each.after) for each in found] == [
        ("kind: Pod\n", {"kind": "Pod", "marked": True}),
        ("# kept\nkind: Service\n", None),
        ("kind: Pod\n", {"kind": "Pod", "marked": True}),
    ]


@pytest.mark.parametrize("text", ["# nothing\n", "- 1\n", "text\n", "42\n"])
def test_what_is_no_object_passes_through(text: str) -> None:
    (found,) = changed_documents([Manifest("a", text)], refused)

    assert (found.text, found.after) == (text, None)


def test_the_collector_is_left_as_it_was_also_after_an_error() -> None:
    before, during = gc.get_threshold(), []

    def looking(obj: dict[str, Any]) -> dict[str, Any] | None:
        during.append(gc.get_threshold())
        return refused(obj)

    with suppress(AnnotationError):
        changed_documents([Manifest("a", "kind: Pod\n")], looking)

    assert gc.get_threshold() == before
    assert during != [before]


def test_yaml_that_cannot_be_read_names_the_file_and_its_line_there() -> None:
    with pytest.raises(ManifestError, match=r"^a\.yaml: yaml: line 5: "):
        changed_documents([Manifest("a.yaml", "kind: Pod\n---\n\n# x\n\ta: 1\n")], marked)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Pod\nmetadata: {name: hello}\n", "a.yaml:1: Pod hello: is wrong; correct it"),
        ("x: 1\n---\n\n# first\nkind: Pod\nwhere: image\n", "a.yaml:5: Pod: image: is wrong; correct it"),
        ("kind: Job\nmetadata: {generateName: h-}\n", "a.yaml:1: Job h-: is wrong; correct it"),
        ("a: 1\nmetadata: 7\n", "a.yaml:1: is wrong; correct it"),
    ],
)
def test_an_object_that_cannot_be_changed_is_named_with_file_and_line(text: str, says: str) -> None:
    def change(obj: dict[str, Any]) -> dict[str, Any] | None:
        return None if "x" in obj else refused(obj)

    with pytest.raises(AnnotationError) as caught:
        changed_documents([Manifest("a.yaml", text)], change)

    assert str(caught.value) == says
