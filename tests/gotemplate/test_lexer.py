"""Tokens of a template text."""

from __future__ import annotations

import pytest

from injector.gotemplate.lexer import KEYWORDS, Kind, Token, tokens
from tests.cases import cases


def kinds(text: str, left: str = "{{", right: str = "}}") -> list[Kind]:
    return [token.kind for token in tokens(text, left, right)]


def inside(action: str) -> list[tuple[Kind, str]]:
    """The tokens of an action, without its delimiters and the end."""
    return [(token.kind, token.text) for token in list(tokens(f"{{{{{action}}}}}"))[1:-2]]


def fault(text: str) -> tuple[str, int]:
    """What is wrong with a text, and at which line."""
    last = list(tokens(text))[-1]
    assert last.kind is Kind.ERROR
    return last.text, last.line


def test_text_and_actions_alternate() -> None:
    names = " ".join(kind.name for kind in kinds("a{{ .b }}c"))
    assert names == "TEXT LEFT_DELIM SPACE FIELD SPACE RIGHT_DELIM TEXT EOF"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (".x.y", [(Kind.FIELD, ".x"), (Kind.FIELD, ".y")]),
        (".", [(Kind.DOT, ".")]),
        ("$", [(Kind.VARIABLE, "$")]),
        ("$x.y", [(Kind.VARIABLE, "$x"), (Kind.FIELD, ".y")]),
        ("é", [(Kind.IDENTIFIER, "é")]),
        ("true", [(Kind.BOOL, "true")]),
        ("range", [(Kind.RANGE, "range")]),
        ("'\\''", [(Kind.CHAR_CONSTANT, "'\\''")]),
        ('"\\""', [(Kind.STRING, '"\\""')]),
        ("`a\nb`", [(Kind.RAW_STRING, "`a\nb`")]),
        (".5", [(Kind.NUMBER, ".5")]),
        ("-1.5e3", [(Kind.NUMBER, "-1.5e3")]),
        ("0x1p-2", [(Kind.NUMBER, "0x1p-2")]),
        ("1_000i", [(Kind.NUMBER, "1_000i")]),
        ("1+2i", [(Kind.COMPLEX, "1+2i")]),
        (":=", [(Kind.DECLARE, ":=")]),
        ("=|,%", [(Kind.ASSIGN, "="), (Kind.PIPE, "|"), (Kind.CHAR, ","), (Kind.CHAR, "%")]),
        ("(a)", [(Kind.LEFT_PAREN, "("), (Kind.IDENTIFIER, "a"), (Kind.RIGHT_PAREN, ")")]),
        ("a \t\r\nb", [(Kind.IDENTIFIER, "a"), (Kind.SPACE, " \t\r\n"), (Kind.IDENTIFIER, "b")]),
    ],
)
def test_an_action_holds_words_numbers_strings_and_marks(action: str, expected: list[tuple[Kind, str]]) -> None:
    assert inside(action) == expected


def test_break_and_continue_are_words_where_functions_have_these_names() -> None:
    assert inside("break") == [(Kind.BREAK, "break")]
    named = [token.kind for token in tokens("{{break}}{{continue}}", words={"break"})]
    assert (named[1], named[4]) == (Kind.IDENTIFIER, Kind.CONTINUE)


@cases("text", "expected")
def test_trim_markers_take_the_space_around_them(text: str, expected: list[str]) -> None:
    assert [token.text for token in tokens(text) if token.kind is Kind.TEXT] == expected


@pytest.mark.parametrize(("left", "right"), [("[[", "]]"), ("<", ">"), ("é", "ü"), ("--", "--"), ("", "")])
def test_any_delimiters_delimit(left: str, right: str) -> None:
    text = f"a{left or '{{'} .x {right or '}}'}b"
    assert kinds(text, left, right) == kinds("a{{ .x }}b")


def test_positions_count_bytes_and_lines_count_from_one() -> None:
    field = next(token for token in tokens("☃\n{{.x}}") if token.kind is Kind.FIELD)
    assert (field.pos, field.line) == (6, 2)


@cases("text", "reason", "line")
def test_a_fault_is_the_last_token(text: str, reason: str, line: int) -> None:
    assert fault(text) == (reason, line)


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (Token(Kind.EOF, 0, "", 1), "EOF"),
        (Token(Kind.ERROR, 0, "unclosed action", 1), "unclosed action"),
        (Token(Kind.RANGE, 0, "range", 1), "<range>"),
        (Token(Kind.DOT, 0, ".", 1), "<.>"),
        (Token(Kind.STRING, 0, '"a"', 1), '"\\"a\\""'),
        (Token(Kind.TEXT, 0, "0123456789", 1), '"0123456789"'),
        (Token(Kind.TEXT, 0, "0123456789a", 1), '"0123456789"...'),
        (Token(Kind.FIELD, 0, ".étemplate", 1), '".étemplate"...'),
    ],
)
def test_errors_name_a_token_as_go_does(token: Token, expected: str) -> None:
    assert str(token) == expected


def test_keywords_come_after_all_other_kinds() -> None:
    assert all(kind > Kind.KEYWORD for kind in KEYWORDS.values())
    assert Kind.VARIABLE < Kind.KEYWORD
