from __future__ import annotations

import pytest

from injector.gotemplate.lexer import KEYWORDS, Kind, Token


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
