from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.injection.guard import (
    DOCUMENT_FILLERS,
    FILLERS,
    MORE_FILLERS,
    Filler,
    decodes,
    is_dangerous,
    is_document,
    is_encoded,
    none_dangerous,
)
from injector.revisions.build import build
from tests.revisions.fakes import make_raw

DANGEROUS = (
    *("it's", 'say "hi"', "a\\b", "a\nb", "a\rb", "a\tb", "a\x00b", "a\x85b", "a\u2028b", "a\ufeff", "a\ud800"),
    *("a: b", "a:", "a:,b", "a:}", "a #b", "#b", "{a", "a}", "[a", "a]", " a", "a ", "&a", "*a", "!a", "|", "> a"),
    *("%a", "@a", "`a", ",a", "-", "- a", "?", "? a", ": a", "---", "--- a", "...", "\n"),
)
HARMLESS = (
    *("", "a", "a-b", "-a", "--flag=x", "a:b", "http://a:80/b?c=d&e", "a#b", "10.0.0.0/8,10.1.0.0/16", "*", "a*b"),
    *(
        "registry.example.com/proxyv2:1.2",
        "misc:debug,http:info",
        "$(NAME)",
        "a%20b",
        "1e3",
        "true",
        "ä",
        "a..b",
        "a--",
        "a b",
    ),
)
EVERY = (*FILLERS, *MORE_FILLERS)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("text", DANGEROUS)
def test_syntax_of_yaml_is_dangerous(text: str) -> None:
    assert is_dangerous(text)
    assert not none_dangerous(["a", text, "b"])


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_texts_are_not_dangerous_and_stay_as_they_are(text: str) -> None:
    assert not is_dangerous(text)
    assert all(filler.fill(text) == text for filler in FILLERS)


def test_ordinary_texts_are_recognised_together() -> None:
    assert none_dangerous([text for text in HARMLESS if not set(text) & set(" *&%#")])
    assert none_dangerous([])


@given(texts=st.lists(st.text("ax-:?,.#*{\n \0'\u2028", max_size=4), max_size=4))
def test_the_fast_look_misses_nothing(texts: list[str]) -> None:
    assert not (none_dangerous(texts) and any(map(is_dangerous, texts)))


@given(text=st.text("ax-:?,.#*{\n \r\0'\u2028", min_size=1))
def test_fillers_of_any_text_are_harmless_as_long_as_it_and_differ_where_it_is_dangerous(text: str) -> None:
    filled = [filler.fill(text) for filler in EVERY]

    assert not any(map(is_dangerous, filled))
    assert {len(each) for each in filled} == {len(text)}
    assert (len(set(filled[:2])) > 1) is is_dangerous(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b 'c'", "a/b xcx"),
        (" 5\n", "x5x"),
        ("- a", "x a"),
        ("a \n b", "axxxb"),
        ("a: b,c:80", "ax b,c:80"),
        ("...", "xxx"),
    ],
)
def test_all_other_characters_stay(text: str, expected: str) -> None:
    assert FILLERS[0].fill(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", True),
        ('{"a": [1]}\n', True),
        ('"a"', True),
        ("[]", True),
        ("5", False),
        ("{a}", False),
        ('{"a": 1', False),
    ],
)
def test_json_is_a_document(text: str, *, expected: bool) -> None:
    assert is_document(text) is expected


@pytest.mark.parametrize(
    "value", [{}, {"a": ["it's", {"b: c": 1.50}], "d": "e"}, ["\\", '"', "\n", "ü"], "it's", [True, None]]
)
def test_a_document_keeps_its_structure_and_its_harmless_texts(value: object) -> None:
    text = json.dumps(value, indent=1)
    compact, spaced = (json.loads(filler.fill(text)) for filler in DOCUMENT_FILLERS)

    assert compact == inert(value, FILLERS[0])
    assert spaced == inert(value, FILLERS[1])


def inert(value: object, filler: Filler) -> object:
    if isinstance(value, dict):
        return {filler.fill(key): inert(item, filler) for key, item in value.items()}
    if isinstance(value, list):
        return [inert(item, filler) for item in value]
    return filler.fill(value) if isinstance(value, str) else value


@pytest.mark.parametrize("text", ["it's", encoded("a\n- b"), "aGVs/G8=", "https://a/%22b", "REGISTRY.example.com/a"])
def test_templates_that_decode_make_any_text_dangerous_that_is_not_a_plain_name(text: str) -> None:
    filled = [replace(filler, decoding=True).fill(text) for filler in FILLERS]

    assert is_encoded(text)
    assert filled[0] != filled[1]
    assert not any("%" in each or is_dangerous(each) for each in filled)


@pytest.mark.parametrize("text", ["shop", "web-frontend-2", "deployment", "", "1.2"])
def test_plain_names_are_not_dangerous_even_then(text: str) -> None:
    assert not is_encoded(text)
    assert all(replace(filler, decoding=True).fill(text) == text for filler in FILLERS)


def test_a_plain_name_that_decodes_to_syntax_is_dangerous() -> None:
    assert '"' in base64.b64decode("agci").decode()
    assert is_encoded("agci")


@pytest.mark.parametrize("start", range(4))
def test_wherever_the_decoding_of_the_second_filler_begins_it_gives_harmless_text(start: int) -> None:
    text = replace(FILLERS[1], decoding=True).fill(encoded("it's\n- a: b" * 5))[start:]

    assert set(base64.b64decode(text[: len(text) // 4 * 4])) == {ord("U")}


def test_a_filler_of_an_encoded_text_decodes_to_a_filler_of_it() -> None:
    text = replace(FILLERS[0], decoding=True).fill(encoded("it's\na: b"))

    assert base64.b64decode(text) == b"itxsxax b"


@pytest.mark.parametrize(("pipe", "expected"), [("b64dec", True), ("urlParse | toJson", True), ("b64enc", False)])
def test_templates_tell_whether_they_decode(pipe: str, *, expected: bool) -> None:
    config = json.dumps({"policy": "enabled", "templates": {"sidecar": "{{ .Revision | " + pipe + " }}"}})
    revision = build(make_raw("rev", config=config, settings={"istioVersion": "1.30"}))

    assert decodes(revision.templates) is expected
