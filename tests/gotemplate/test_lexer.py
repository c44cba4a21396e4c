from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from injector.gotemplate.lexer import tokens
from injector.gotemplate.tokens import Kind


def _kinds(text: str, left: str = "{{", right: str = "}}") -> list[Kind]:
    return [token.kind for token in tokens(text, left, right)]


def test_text_and_actions_alternate() -> None:
    assert _kinds("a{{ .b }}c") == [
        Kind.TEXT,
        Kind.LEFT_DELIM,
        Kind.SPACE,
        Kind.FIELD,
        Kind.SPACE,
        Kind.RIGHT_DELIM,
        Kind.TEXT,
        Kind.EOF,
    ]


def test_trim_markers_take_the_space_around_them() -> None:
    assert [token.text for token in tokens("a \n {{- 1 -}} \n b") if token.kind is Kind.TEXT] == ["a", "b"]


def test_any_delimiters_delimit() -> None:
    assert _kinds("[[ 1 ]]{{", "[[", "]]")[-2:] == [Kind.TEXT, Kind.EOF]


def test_positions_count_bytes_and_lines_count_from_one() -> None:
    field = next(token for token in tokens("☃\n{{.x}}") if token.kind is Kind.FIELD)
    assert (field.pos, field.line) == (6, 2)


def test_a_fault_is_the_last_token() -> None:
    found = list(tokens("{{ 'x"))
    assert (found[-1].kind, found[-1].text) == (Kind.ERROR, "unterminated character constant")


@given(st.text(alphabet="{}-/*.|$()\"'`ab1 \n:=,", max_size=40))
def test_every_text_ends_in_the_end_or_a_fault(text: str) -> None:
    assert list(tokens(text))[-1].kind in (Kind.EOF, Kind.ERROR)
