from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from injector.kube.yaml.write import BLOCKS, BlockWriter, NotPlainError, emitted

WIDE = 2**31 - 1


def written(value: Any, width: int = WIDE) -> str:
    """YAML by a writer that quotes ``yes`` alone."""
    return BlockWriter(lambda text: text in ("", "yes"), str, sorted).text(value, width)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": "x"}, "a: x\nb: 1\n"),
        ({"a": {"b": ["x", {"c": "y", "d": "z"}]}}, "a:\n  b:\n  - x\n  - c: y\n    d: z\n"),
        ([["a", "b"], []], "- - a\n  - b\n- []\n"),
        ({"a": {}, "b": []}, "a: {}\nb: []\n"),
        ({"a": "yes", "yes": ""}, 'a: "yes"\n"yes": ""\n'),
        ({"a": "it's: so"}, "a: 'it''s: so'\n"),
        ({"a": '{"b":1}', "c": "- d", "e": "-d", "f": "...g"}, "a: '{\"b\":1}'\nc: '- d'\ne: -d\nf: '...g'\n"),
        ({"a": "one\n\n two\n"}, "a: |\n  one\n\n   two\n"),
        (["one\ntwo"], "- |-\n  one\n  two\n"),
    ],
)
def test_values_stand_as_libyaml_writes_them(value: Any, expected: str) -> None:
    assert written(value) == expected


def test_texts_are_wrapped_at_the_space_after_the_width() -> None:
    assert written({"a": {"b": "one two three"}}, 10) == "a:\n  b: one two\n    three\n"
    assert written({"b": "# one two  three "}, 5) == "b: '# one\n  two  three '\n"


@pytest.mark.parametrize(
    "value",
    [
        "text",
        None,
        {},
        {"a": "\t"},
        {"a": "ä"},
        {"a": " x\ny"},
        {"a": "x \ny"},
        {"a": "x\n\n"},
        {"a\n": 1},
        {"a" * 129: 1},
    ],
)
def test_what_is_unusual_is_for_libyaml_to_write(value: Any) -> None:
    with pytest.raises(NotPlainError):
        written(value)


def test_a_text_in_double_quotes_is_neither_escaped_nor_wrapped_here() -> None:
    writer = BlockWriter(lambda _: True, str, sorted)
    for text in ('say "yes"', "back\\slash", "one two three"):
        with pytest.raises(NotPlainError):
            writer.text([text], 5)


@pytest.mark.parametrize(
    "others", [({"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}), ({"a": None}, {"a": "null"}, {"a": []}, {"a": {}})]
)
def test_objects_that_are_remembered_are_not_taken_for_each_other(others: tuple[dict[str, Any], ...]) -> None:
    def writer() -> BlockWriter:
        return BlockWriter(lambda text: text in ("1", "null"), json.dumps, sorted)

    fresh = [writer().text([other], WIDE) for other in others]
    remembering = writer()

    assert len(set(fresh)) == len(others)
    assert [remembering.text([other], WIDE) for other in others * 2] == fresh * 2


def test_what_is_remembered_is_written_at_its_place_and_width() -> None:
    item = {"a": "x " * 30 + "x", "b": {"c": "one\ntwo"}}
    value = {"list": [item, item], "deep": {"list": [[item]], "item": item}}
    writer = BlockWriter(lambda _: False, str, sorted)

    for width in (WIDE, 40, WIDE):
        assert yaml.safe_load(writer.text(value, width)) == value
    assert writer.text(value, 40) == written(value, 40) != written(value)


def test_not_more_is_remembered_than_agreed() -> None:
    writer = BlockWriter(lambda _: False, str, sorted)
    for number in range(3 * BLOCKS):
        writer.text([{"a": f"x{number}"}], WIDE)

    assert len(writer.blocks) <= BLOCKS


def test_what_is_nested_deeply_is_written_and_not_remembered() -> None:
    writer = BlockWriter(lambda _: False, str, sorted)
    deep: dict[str, Any] = {"a": 1}
    for _ in range(150):
        deep = {"a": deep}
    text = writer.text([deep], WIDE)

    assert (yaml.safe_load(text), len(text) > 20_000) == ([deep], True)
    assert writer.blocks
    assert max(map(len, writer.blocks.values())) <= 4 * 1024


# A quote of the text itself is a word like any other; the one that closes a quoted text is none.
@pytest.mark.parametrize(
    ("text", "expected"),
    [("one two three '", "a: one two three\n  '\n"), ("one: two three ", "a: 'one: two three '\n")],
)
def test_a_line_breaks_before_a_quote_that_closes_nothing(text: str, expected: str) -> None:
    assert written({"a": text}, 12) == expected == emitted({"a": text}, 12)
