from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from injector.gotemplate.lexer import Kind, Token, tokens

PIECES = [
    "{{",
    "}}",
    "{{- ",
    " -}}",
    "/*",
    "*/",
    "(",
    ")",
    "|",
    ":=",
    ".x",
    "$",
    '"',
    "`",
    "'",
    "\\",
    "1",
    "0x",
    "é",
    "☃",
    " ",
    "\n",
]
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
DELIMITERS = st.sampled_from([("{{", "}}"), ("[[", "]]"), ("<", ">"), ("-", "-"), ("é", "☃"), (" ", "\n")])

# A slow machine proves nothing.
TIMELESS = settings(deadline=None)


def lexed(text: str, delimiters: tuple[str, str]) -> list[Token]:
    return list(tokens(text, *delimiters))


@TIMELESS
@given(TEXTS, DELIMITERS)
def test_every_text_ends_in_its_end_or_in_a_fault(text: str, delimiters: tuple[str, str]) -> None:
    found = lexed(text, delimiters)
    assert found[-1].kind in (Kind.EOF, Kind.ERROR)
    assert all(token.kind not in (Kind.EOF, Kind.ERROR) for token in found[:-1])


@TIMELESS
@given(TEXTS, DELIMITERS)
def test_tokens_are_parts_of_the_text_in_its_order(text: str, delimiters: tuple[str, str]) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    end = 0
    for token in lexed(text, delimiters)[:-1]:
        part = token.text.encode("utf-8", "surrogatepass")
        assert token.pos >= end
        assert raw[token.pos : token.pos + len(part)] == part
        assert token.line == 1 + raw[: token.pos].count(b"\n")
        end = token.pos + len(part)


@TIMELESS
@given(TEXTS, DELIMITERS)
def test_between_tokens_there_is_nothing_but_space_trim_markers_and_comments(
    text: str, delimiters: tuple[str, str]
) -> None:
    found = lexed(text, delimiters)
    raw = text.encode("utf-8", "surrogatepass")
    if found[-1].kind is Kind.ERROR or "/*" in text:
        return
    end = 0
    for token in found:
        assert raw[end : token.pos].strip(b" \t\r\n") in (b"", b"-")
        end = token.pos + len(token.text.encode("utf-8", "surrogatepass"))
    assert end == len(raw)


@TIMELESS
@given(st.text(max_size=60).filter(lambda text: "{{" not in text))
def test_text_without_delimiters_is_itself(text: str) -> None:
    assert "".join(token.text for token in tokens(text)) == text
