"""Tokens of templates (text/template/parse/lex.go, Go 1.26)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from injector.gotemplate.text import quote


class Kind(IntEnum):
    """Kinds of tokens; those after KEYWORD are keywords."""

    ERROR = 0
    BOOL = 1
    CHAR = 2
    CHAR_CONSTANT = 3
    COMMENT = 4
    COMPLEX = 5
    ASSIGN = 6
    DECLARE = 7
    EOF = 8
    FIELD = 9
    IDENTIFIER = 10
    LEFT_DELIM = 11
    LEFT_PAREN = 12
    NUMBER = 13
    PIPE = 14
    RAW_STRING = 15
    RIGHT_DELIM = 16
    RIGHT_PAREN = 17
    SPACE = 18
    STRING = 19
    TEXT = 20
    VARIABLE = 21
    KEYWORD = 22
    BLOCK = 23
    BREAK = 24
    CONTINUE = 25
    DOT = 26
    DEFINE = 27
    ELSE = 28
    END = 29
    IF = 30
    NIL = 31
    RANGE = 32
    TEMPLATE = 33
    WITH = 34


KEYWORDS: Final = {
    ".": Kind.DOT,
    "block": Kind.BLOCK,
    "break": Kind.BREAK,
    "continue": Kind.CONTINUE,
    "define": Kind.DEFINE,
    "else": Kind.ELSE,
    "end": Kind.END,
    "if": Kind.IF,
    "range": Kind.RANGE,
    "nil": Kind.NIL,
    "template": Kind.TEMPLATE,
    "with": Kind.WITH,
}


# Errors show the beginning of a token: ten characters, if it has more bytes.
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind, byte position, text and line."""

    kind: Kind
    pos: int
    text: str
    line: int

    def __str__(self) -> str:
        """Return the token as Go's parser names it in errors."""
        if self.kind is Kind.EOF:
            return "EOF"
        if self.kind is Kind.ERROR:
            return self.text
        if self.kind > Kind.KEYWORD:
            return f"<{self.text}>"
        if len(self.text.encode("utf-8", "surrogateescape")) > _SHOWN:
            return f"{quote(self.text[:_SHOWN])}..."
        return quote(self.text)
