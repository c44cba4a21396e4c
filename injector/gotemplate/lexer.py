"""Template text into tokens: Go's text/template/parse lexer (lex.go, Go 1.26).

Positions are byte offsets into the UTF-8 text, as Go reports them; lines count from 1. The lexer never fails: what it cannot read
becomes a token of kind ``ERROR`` that carries the reason, and it stops there.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from injector.golang.strconv import byte_length, is_alphanumeric, is_printable, quote, unicode_point

Kind = IntEnum(
    "Kind",
    "ERROR BOOL CHAR CHAR_CONSTANT COMPLEX ASSIGN DECLARE EOF FIELD IDENTIFIER LEFT_DELIM LEFT_PAREN NUMBER PIPE RAW_STRING RIGHT_DELIM"
    " RIGHT_PAREN SPACE STRING TEXT VARIABLE"
    " KEYWORD BLOCK BREAK CONTINUE DOT DEFINE ELSE END IF NIL RANGE TEMPLATE WITH",
)
"""Kinds of tokens; those after KEYWORD are keywords."""
KEYWORDS: Final = {"." if kind is Kind.DOT else kind.name.lower(): kind for kind in Kind if kind > Kind.KEYWORD}


_MAX_QUOTED: Final = 10
"""Errors show the beginning of a token: ten characters, if it has more bytes."""


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
        if byte_length(self.text) > _MAX_QUOTED:
            return f"{quote(self.text[:_MAX_QUOTED])}..."
        return quote(self.text)


_LOOP_WORDS: Final = ("break", "continue")
_SPACE: Final = " \t\r\n"
_TERMINATORS: Final = _SPACE + ".,|:)("
_MARKS: Final = {"=": Kind.ASSIGN, "|": Kind.PIPE, "(": Kind.LEFT_PAREN, ")": Kind.RIGHT_PAREN}
_NUMBER_START: Final = "+-.0123456789"
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|0[oO][0-7_]*(?:\.[0-7_]*)?"
    r"|0[bB][01_]*(?:\.[01_]*)?|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)
_QUOTED: Final = {
    '"': (Kind.STRING, re.compile(r'"(?:[^"\\\n]|\\[^\n])*"'), "unterminated quoted string"),
    "'": (Kind.CHAR_CONSTANT, re.compile(r"'(?:[^'\\\n]|\\[^\n])*'"), "unterminated character constant"),
    "`": (Kind.RAW_STRING, re.compile("`[^`]*`"), "unterminated raw quoted string"),
}


def tokens(text: str, left: str = "{{", right: str = "}}", *, words: Container[str] = ()) -> Iterator[Token]:
    """Yield the tokens of a template; the last is EOF or ERROR. ``break`` and ``continue`` are keywords unless ``words`` has them."""
    lexer = _Lexer(text, left or "{{", right or "}}", words)
    try:
        yield from lexer.template()
    except _LexError as error:
        yield Token(Kind.ERROR, lexer.byte_pos(), str(error), lexer.line)


class _LexError(Exception):
    """The token at the present position cannot be read."""


class _Lexer:
    """Yields tokens; ``pos`` and ``line`` are where the next token starts."""

    def __init__(self, text: str, left: str, right: str, words: Container[str]) -> None:
        self.input = text
        self.left = left
        self.right = right
        self.words = words
        self.pos = 0
        self.line = 1
        self.counted = 0
        self.counted_bytes = 0
        # A trim marker has a space of its own, which is not a token. After a right delimiter it takes all following space.
        self.space = re.compile(rf"[{_SPACE}]+?(?=[{_SPACE}]-{re.escape(right)})|[{_SPACE}]+")
        self.opening = re.compile(rf"{re.escape(left)}(?P<trim>-[{_SPACE}])?")
        self.closing = re.compile(rf"(?P<trim>[{_SPACE}]-)?(?P<delimiter>{re.escape(right)})(?(trim)[{_SPACE}]*)")

    def byte_pos(self) -> int:
        self.counted_bytes += byte_length(self.input[self.counted : self.pos])
        self.counted = self.pos
        return self.counted_bytes

    def token(self, kind: Kind, end: int) -> Token:
        """Return the token that ends at ``end``, and move there."""
        token = Token(kind, self.byte_pos(), self.input[self.pos : end], self.line)
        self.skip(end)
        return token

    def skip(self, end: int) -> None:
        self.line += self.input.count("\n", self.pos, end)
        self.pos = end

    def template(self) -> Iterator[Token]:
        """Yield text, and the tokens of actions."""
        while (opening := self.opening.search(self.input, self.pos)) is not None:
            text = self.input[self.pos : opening.start()]
            trimmed = text.rstrip(_SPACE) if opening["trim"] else text
            if trimmed:
                yield self.token(Kind.TEXT, self.pos + len(trimmed))
            self.skip(opening.start())
            if self.input.startswith("/*", opening.end()):
                self.skip(opening.end())
                self.comment()
            else:
                yield self.token(Kind.LEFT_DELIM, self.pos + len(self.left))
                self.skip(opening.end())
                yield from self.action()
        if self.pos < len(self.input):
            yield self.token(Kind.TEXT, len(self.input))
        yield self.token(Kind.EOF, self.pos)

    def comment(self) -> None:
        end = self.input.find("*/", self.pos + 2)
        if end < 0:
            raise _LexError("unclosed comment")
        closing = self.closing.match(self.input, end + 2)
        if closing is None:
            raise _LexError("comment ends before closing delimiter")
        self.skip(closing.end())

    def action(self) -> Iterator[Token]:
        """Yield the tokens up to the right delimiter and the delimiter itself."""
        parens = 0
        while (closing := self.closing.match(self.input, self.pos)) is None:
            kind, end = self.scan()
            parens += (kind is Kind.LEFT_PAREN) - (kind is Kind.RIGHT_PAREN)
            if parens < 0:
                raise _LexError("unexpected right paren")
            yield self.token(kind, end)
        if parens:
            raise _LexError("unclosed left paren")
        self.skip(closing.start("delimiter"))
        yield self.token(Kind.RIGHT_DELIM, closing.end("delimiter"))
        self.skip(closing.end())

    def scan(self) -> tuple[Kind, int]:
        """Return kind and end of the token at the present position, inside an action."""
        char, following = self.input[self.pos : self.pos + 1], self.input[self.pos + 1 : self.pos + 2]
        if not char:
            raise _LexError("unclosed action")
        if (space := self.space.match(self.input, self.pos)) is not None:
            return Kind.SPACE, space.end()
        if char in _MARKS:
            return _MARKS[char], self.pos + 1
        if char == ":":
            if following != "=":
                raise _LexError("expected :=")
            return Kind.DECLARE, self.pos + 2
        if char in _QUOTED:
            kind, pattern, fault = _QUOTED[char]
            quoted = pattern.match(self.input, self.pos)
            if quoted is None:
                raise _LexError(fault)
            return kind, quoted.end()
        if char == "$":
            return Kind.VARIABLE, self.name_end()
        if char == "." and following and following not in "0123456789":
            end = self.name_end()
            return Kind.DOT if end == self.pos + 1 else Kind.FIELD, end
        if char in _NUMBER_START:
            return self.number()
        if is_alphanumeric(char):
            return self.word()
        if char.isascii() and is_printable(char):
            return Kind.CHAR, self.pos + 1
        raise _LexError(f"unrecognized character in action: {unicode_point(char)}")

    def word(self) -> tuple[Kind, int]:
        end = self.check_end(self.word_end(self.pos))
        word = self.input[self.pos : end]
        if word in ("true", "false"):
            return Kind.BOOL, end
        is_function = word in _LOOP_WORDS and word in self.words
        return Kind.IDENTIFIER if is_function else KEYWORDS.get(word, Kind.IDENTIFIER), end

    def name_end(self) -> int:
        """Return the end of a field or variable: its mark alone, or a word after it."""
        begin = self.pos + 1
        return self.check_end(begin if self.is_terminator(begin) else self.word_end(begin))

    def word_end(self, at: int) -> int:
        while at < len(self.input) and is_alphanumeric(self.input[at]):
            at += 1
        return at

    def check_end(self, end: int) -> int:
        if not self.is_terminator(end):
            raise _LexError(f"bad character {unicode_point(self.input[end])}")
        return end

    def is_terminator(self, at: int) -> bool:
        return self.input[at : at + 1] in _TERMINATORS or self.input.startswith(self.right, at)

    def number(self) -> tuple[Kind, int]:
        end = self.number_end(self.pos)
        if self.input[end : end + 1] not in ("+", "-"):
            return Kind.NUMBER, end
        # Complex: 1+2i. No spaces, and it must end in i.
        end = self.number_end(end)
        if self.input[end - 1] != "i":
            raise self.bad_number(end)
        return Kind.COMPLEX, end

    def number_end(self, at: int) -> int:
        match = _NUMBER.match(self.input, at)
        end = match.end() if match else at
        if is_alphanumeric(self.input[end : end + 1]):
            raise self.bad_number(end + 1)
        return end

    def bad_number(self, end: int) -> _LexError:
        return _LexError(f"bad number syntax: {quote(self.input[self.pos : end])}")
