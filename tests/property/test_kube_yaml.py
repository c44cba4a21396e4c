"""For any JSON data: what is written as YAML reads back as the same data, and no text breaks the reader."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from injector.errors import ManifestError
from injector.golang.json import go_json, load_json
from injector.kube.yaml import load_yaml, split_documents
from tests.fuzz.jsondata import close
from tests.fuzz.yaml_target import written
from tests.sizes import sized

TEXTS = st.text(max_size=12) | st.text("yYnNoO01e.:-+_ xX\n\t#'\"&*!|>%@`{}[],<~?", max_size=12)
# Go writes the merge key unquoted, and cannot read it back either.
KEYS = TEXTS.filter(lambda key: key != "<<")
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)
WORDS = st.lists(st.text("abXY019-:#'\"{}[],&*?|>%@`.!~_/=$\\", max_size=24), max_size=14).map(" ".join)
LINES = st.lists(WORDS, max_size=4).map("\n".join)
SENTENCES = st.recursive(
    WORDS | LINES | TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | KEYS, inner, max_size=4),
    max_leaves=12,
)
YAML = st.text("ab01 :-\n\t#'\"&*!|>%{}[],<~?.", max_size=60)


@settings(max_examples=sized(80, 200))
@given(document=DOCUMENTS | SENTENCES, fold=st.booleans())
def test_what_is_written_as_yaml_reads_back_and_is_what_libyaml_writes(document: Any, fold: bool) -> None:
    written(document, fold=fold)


@given(document=DOCUMENTS)
def test_json_is_yaml(document: Any) -> None:
    # But for surrogate pairs, as which JSON escapes what is beyond the first plane.
    assume("\\ud" not in json.dumps(document))

    assert close(load_yaml(json.dumps(document)), document)


@given(document=DOCUMENTS)
def test_gos_json_reads_back(document: Any) -> None:
    assert close(load_json(go_json(document)), document)


@given(text=YAML)
def test_a_text_is_read_or_refused_with_an_error_of_ours(text: str) -> None:
    with suppress(ManifestError):
        load_yaml(text)


@given(parts=st.lists(st.text("ab: -\n#", max_size=20).filter(lambda text: "---" not in text), max_size=5))
def test_documents_are_what_stands_between_separators(parts: list[str]) -> None:
    bodies = [part if part.endswith("\n") else part + "\n" for part in parts if part]

    assert [document.text for document in split_documents("---\n".join(bodies))] == bodies
