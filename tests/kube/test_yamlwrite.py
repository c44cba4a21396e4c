"""Recorded from Go 1.26 with sigs.k8s.io/yaml v1.6.0 by recorder/yamlwrite: the YAML of JSON values."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import DataError
from injector.kube.escaping import escape_controls, escape_line, has_controls
from injector.kube.yaml import dump_yaml, load_yaml
from injector.kube.yaml.write import with_entry, with_values, without_entry
from tests.cases import cases
from tests.kube.recorded import recorded

CASES = recorded("yaml_write", more_than=900)
ODD = re.compile("[\x85\u2028\u2029\ufeff]")
"""Line ends of Unicode and byte order marks: Go loses some of them, and writes others in its own way."""


def has_odd_text(value: Any) -> bool:
    return ODD.search(orjson.dumps(value).decode()) is not None


def test_texts_equal_gos_byte_for_byte() -> None:
    cases = [case for case in CASES if "yaml" in case and not has_odd_text(case["value"])]

    assert [dump_yaml(case["value"]) for case in cases] == [case["yaml"] for case in cases]


def test_what_go_cannot_write_or_writes_oddly_reads_back() -> None:
    values = [case["value"] for case in CASES if "error" in case or has_odd_text(case["value"])]

    assert len(values) > 20
    assert [load_yaml(dump_yaml(value)) for value in values] == values


def test_without_folding_a_line_is_as_long_as_it_is() -> None:
    text = "word " * 50 + "end"

    assert dump_yaml({"a": text}, fold=False) == f"a: {text}\n"
    assert dump_yaml({"a": text}).count("\n") == 4


def test_a_literal_that_ends_like_a_document_keeps_its_end() -> None:
    assert dump_yaml("a\n...\n") == "|\n  a\n  ...\n"
    assert dump_yaml("...") == "'...'\n"


def test_keys_of_many_digits_are_sorted_at_once() -> None:
    assert dump_yaml({"2" * 1_000_000: "two", "1" * 1_000_000: "one"}).startswith("? 2222")


def test_an_infinite_number_is_an_error() -> None:
    with pytest.raises(DataError, match=r"json: unsupported value: \+Inf"):
        dump_yaml([{"infinite": float("inf")}])


HIDDEN = "\u202e\u2066\u2028\u200f\u061c\x85\x1b\x7f"


@given(
    st.recursive(
        st.text(st.sampled_from(f"ab0: -#'\"\\\n{HIDDEN}\u00e4"), max_size=100) | st.none(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("a\u202e\u2028x", max_size=9), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    st.booleans(),
)
def test_text_for_a_terminal_has_no_control_character_and_reads_back(value: Any, fold: bool) -> None:
    text = dump_yaml(value, fold=fold, escape=True)

    assert not has_controls(text)
    assert load_yaml(text) == value


@given(st.dictionaries(st.text("ab\u00e4: \n"), st.text("ab\u00e4\u4e2d: \n\t"), max_size=4))
def test_text_for_a_terminal_differs_only_for_control_characters(value: dict[str, str]) -> None:
    assert dump_yaml(value, escape=True) == dump_yaml(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": "x"}, "a: x\nb: 1\n"),
        ({"a": {"b": ["x", {"c": "v", "d": "z"}]}}, "a:\n  b:\n  - x\n  - c: v\n    d: z\n"),
        ([["a", "b"], []], "- - a\n  - b\n- []\n"),
        ({"a": {}, "b": []}, "a: {}\nb: []\n"),
        ({"a": "yes", "yes": ""}, 'a: "yes"\n"yes": ""\n'),
        ({"a": "it's: so"}, "a: 'it''s: so'\n"),
        ({"a": '{"b":1}', "c": "- d", "e": "-d", "f": "...g"}, "a: '{\"b\":1}'\nc: '- d'\ne: -d\nf: '...g'\n"),
        ({"a": "one\n\n two\n"}, "a: |\n  one\n\n   two\n"),
        (["one\ntwo"], "- |-\n  one\n  two\n"),
    ],
)
def test_values_are_written_in_block_style(value: Any, expected: str) -> None:
    assert dump_yaml(value) == expected


UNUSUAL = ("\t", "\u00e4", " x\ny", "x \ny", "x\n\n", "1\\", 'y"', "1 " * 50)


@pytest.mark.parametrize("value", ["text", None, {}, {"a\n": 1}, {"a" * 129: 1}, *({"a": text} for text in UNUSUAL)])
def test_unusual_values_read_back(value: Any) -> None:
    assert load_yaml(dump_yaml(value)) == value


def test_deeply_nested_values_are_written() -> None:
    deep: dict[str, Any] = {"a": 1}
    for _ in range(150):
        deep = {"a": deep}

    assert (yaml.safe_load(dump_yaml([deep])), len(dump_yaml([deep])) > 20_000) == ([deep], True)


CONTROLS = [
    *map(chr, (*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0))),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\udc80",
]


@pytest.mark.parametrize("char", CONTROLS)
def test_a_control_character_is_an_escape_of_json(char: str) -> None:
    for escape in (escape_controls, escape_line):
        assert escape(f"a{char}b") == f"a\\u{ord(char):04x}b"
        assert json.loads(f'"{escape(char)}"') == char
    assert has_controls(f"a{char}b")


@pytest.mark.parametrize(
    "text", ["", "plain text", "two\nlines", "a\tb", "a\r\nb", "\u00e4\u4e2d\U0001f600 \u05d0\u0627", "\u00a0"]
)
def test_what_people_write_stays(text: str) -> None:
    assert escape_controls(text) == text
    assert not has_controls(text)


def test_a_line_has_no_line_end() -> None:
    assert escape_line("a\nb\tc\r\nd") == "a\\nb\\tc\\r\\nd"


@given(st.text())
def test_escaping_twice_is_escaping_once(text: str) -> None:
    once = escape_controls(text)

    assert escape_controls(once) == once
    assert has_controls(text) == (once != text)


TAGS = """\
# who follows whom
default: 1-24  # since May

canary:  # by weight
  1-24: 90
  # the new one
  1-30: 10
"prod": {1-24: 1}
# the end
"""


@cases("key", "value", "old", "new")
def test_one_entry_changes_and_all_else_stays(key: str, value: str, old: str, new: str) -> None:
    changed = with_entry(TAGS, key, value)

    assert changed == TAGS.replace(old, new)
    assert list(load_yaml(changed)) == list({**load_yaml(TAGS), key: value})


@cases("key", "gone")
def test_an_entry_goes_with_its_lines(key: str, gone: str) -> None:
    assert without_entry(TAGS, key) == TAGS.replace(gone, "")


@cases("text", "expected")
def test_a_first_entry_and_a_last_one_have_lines_of_their_own(text: str, expected: str) -> None:
    assert with_entry(text, "a", "b") == expected


def test_the_last_line_may_lack_its_end() -> None:
    assert without_entry("a: b\nx: y", "x") == "a: b\n"


def test_a_value_may_stand_on_the_line_below() -> None:
    assert with_entry("a:\n  b\nx: y\n", "a", "c") == "a: c\nx: y\n"


@pytest.mark.parametrize("text", ["{a: b}\n", "- a\n", "a\n", "a: b\na: c\n", "? a\n: b\n", "a: [\n"])
def test_what_has_no_simple_place_is_given_up(text: str) -> None:
    assert with_entry(text, "a", "c") is None


@cases("text", "expected")
def test_values_at_paths_change_and_all_else_stays(text: str, expected: str | None) -> None:
    assert with_values(text, {("a", 1, "b"): {"x": ["y"]}, ("c",): [1]}) == expected


@pytest.mark.parametrize("text", ["", "{a: b}\n", "--- {a: b}\n", "x: y\n", "a: b\na: c\n", "a: [\n"])
def test_what_has_no_lines_of_its_own_is_not_removed(text: str) -> None:
    assert without_entry(text, "a") is None
