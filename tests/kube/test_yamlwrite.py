"""Recorded from Go 1.26 with sigs.k8s.io/yaml v1.6.0 by recorder/yamlwrite: the YAML of JSON values."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import DataError
from injector.kube.escaping import has_controls
from injector.kube.yaml import dump_yaml, load_yaml
from tests.kube.recorded import recorded

CASES = recorded("yaml_write")
ODD = re.compile("[\x85\u2028\u2029\ufeff]")
"""Line ends of Unicode and byte order marks: Go loses some of them, and writes others in its own way."""


def has_odd_text(value: Any) -> bool:
    return ODD.search(orjson.dumps(value).decode()) is not None


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(CASES) > 900


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


def test_an_infinite_number_is_an_error() -> None:
    with pytest.raises(DataError, match=r"json: unsupported value: \+Inf"):
        dump_yaml({"a": float("inf")})


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
