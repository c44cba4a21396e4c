from __future__ import annotations

import pytest

from injector.errors import DataError, ManifestError
from injector.kube.serial import dump_json, load_json
from injector.kube.yaml import Document, split_documents


def test_documents_are_split_at_separator_lines_and_kept_byte_for_byte() -> None:
    text = "# first\na: 1 \r\n--- # second\nb: |\n  ---\n  x\n---\n---\nc: 1"

    assert split_documents(text) == [
        Document("# first\na: 1 \r\n", 1),
        Document("b: |\n  ---\n  x\n", 4),
        Document("c: 1", 9),
    ]


def test_only_line_feeds_end_lines() -> None:
    assert split_documents("a: x\u2028---\nb: 1\x0c\n") == [Document("a: x\u2028---\nb: 1\x0c\n", 1)]


def test_a_text_without_lines_has_no_documents() -> None:
    assert split_documents("") == []
    assert split_documents("---\n---") == []


def test_dashes_before_text_are_no_separator() -> None:
    with pytest.raises(ManifestError, match="line 2: invalid Yaml document separator: b: 1") as caught:
        split_documents("a: 1\n--- b: 1\n", where="x.yaml")

    assert caught.value.where == "x.yaml"


def test_json_is_read_strictly() -> None:
    assert load_json(b'{"a": [1, 1.5, 18446744073709551616]}') == {"a": [1, 1.5, 2.0**64]}
    for text in ("", "{", "NaN", "[1,]", "{'a': 1}", '"\\ud800"', "[" * 1025 + "]" * 1025):
        with pytest.raises(ManifestError, match="json: line 1: "):
            load_json(text)


def test_json_is_written_compactly_in_utf8() -> None:
    assert dump_json({"b": ["é", 1, None]}) == '{"b":["é",1,null]}'.encode()


def test_what_is_no_json_data_cannot_be_written() -> None:
    with pytest.raises(DataError, match="json: "):
        dump_json({"a": object()})
