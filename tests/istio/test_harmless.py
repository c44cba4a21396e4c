from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.gotemplate.values import Map, Slice
from injector.istio.harmless import Harmless, alike, decoded, harmless, like, none_suspicious, suspicious, tamed

SUSPICIOUS = (
    *("it's", 'say "hi"', "a\\b", "a\nb", "a\rb", "a\tb", "a\x00b", "a\x85b", "a\u2028b", "a\ufeff"),
    *("a: b", "a:", "a:,b", "a:}", "a #b", "#b", "{a", "a}", "[a", "a]", " a", "a ", "&a", "*a", "!a", "|", "> a"),
    *("%a", "@a", "`a", ",a", "-", "- a", "?", "? a", ": a", "---", "--- a", "...", "\n"),
)
PLAIN = (
    *(
        "",
        "a",
        "a-b",
        "-a",
        "--flag=x",
        "a:b",
        "http://a:80/b?c=d&e",
        "a#b",
        "10.0.0.0/8,10.1.0.0/16",
        "*",
        "a*b",
        "a b",
    ),
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
    ),
)


@pytest.mark.parametrize("text", SUSPICIOUS)
def test_what_yaml_reads_as_syntax_is_suspicious_and_what_replaces_it_is_not(text: str) -> None:
    assert suspicious(text)
    assert not suspicious(harmless(text))
    assert not none_suspicious(["a", text, "b"])


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_texts_are_not_suspicious(text: str) -> None:
    assert not suspicious(text)


def test_ordinary_texts_are_seen_to_be_so_together() -> None:
    assert none_suspicious([text for text in PLAIN if not set(text) & set(" *&%#")])
    assert none_suspicious([])


@given(texts=st.lists(st.text("ax-:?,.#*{\n \0'\u2028", max_size=4), max_size=4))
def test_the_fast_look_misses_nothing(texts: list[str]) -> None:
    assert not (none_suspicious(texts) and any(map(suspicious, texts)))


@given(text=st.text(min_size=1))
def test_what_replaces_any_text_is_harmless_and_not_empty(text: str) -> None:
    found = harmless(text)

    assert found
    assert not suspicious(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a/b 'c'", "a/b xcx"), (" 5\n", "5"), ("- a", "x a"), ("\n", "x"), ("a: b,c:80", "ax b,c:80"), ("...", "x")],
)
def test_all_other_characters_stay(text: str, expected: str) -> None:
    assert harmless(text) == expected


@pytest.mark.parametrize(
    ("real", "meant", "expected"),
    [
        ("pre-it's-post", "pre-itxs-post", True),
        ("a b ", "a b", True),
        ("app", "app", True),
        ("app", "istio-proxy", False),
        ("a", "", False),
    ],
)
def test_texts_are_alike_that_differ_in_what_is_replaced_alone(real: str, meant: str, *, expected: bool) -> None:
    assert alike(real, meant) is expected


def test_data_is_tamed_to_its_keys() -> None:
    found = tamed({"a'b": ["c: d", {"e": 1}], "f": "g"})

    assert found == {"axb": ["cx d", {"e": 1}], "f": "g"}
    assert found["axb"][0].real == "c: d"


def test_of_a_harmless_text_the_real_one_is_decoded() -> None:
    text = json.dumps({"a": "it's"})

    assert decoded(text, json.loads) == {"a": "it's"}
    assert decoded(Harmless.of(text), json.loads) == {"a": "itxs"}


@pytest.mark.parametrize(
    "value", [Map("string", "string", {"a": "b"}, nil=False), Slice("string", ["a"]), ["a"], {"a": 1}]
)
def test_a_collection_like_another_has_its_type(value: Any) -> None:
    found = like(value, value)

    assert (type(found), found) == (type(value), value)
    assert getattr(found, "go_type", "") == getattr(value, "go_type", "")
