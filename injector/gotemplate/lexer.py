"""Template text into tokens: Go's text/template/parse lexer (lex.go, Go 1.26).

Positions are byte offsets into the UTF-8 text, as Go reports them; lines count from 1. The lexer never fails: what it cannot read
becomes a token of kind ``ERROR`` that carries the reason, and it stops there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from injector.golang.strconv import is_alphanumeric, is_printable, quote, to_bytes, unicode_point

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator


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
        if len(to_bytes(self.text)) > _SHOWN:
            return f"{quote(self.text[:_SHOWN])}..."
        return quote(self.text)


_LOOP_WORDS: Final = ("break", "continue")
_SPACE: Final = " \t\r\n"
_SPACE_CHARS: Final = frozenset(_SPACE)
_EOF: Final = ""
_SINGLE: Final = {"=": Kind.ASSIGN, "|": Kind.PIPE}


def tokens(text: str, left: str = "{{", right: str = "}}", *, words: Container[str] = ()) -> Iterator[Token]:
    """Yield the tokens of a template; the last is EOF or ERROR.

    Args:
        text: the source.
        left: the opening delimiter.
        right: the closing delimiter.
        words: names of functions: ``break`` and ``continue`` among them are not keywords.
    """
    lexer = _Lexer(text, left, right, words)
    state: Callable[[], object] | None = lexer.text
    while state is not None:
        state = state()  # type: ignore[assignment] # each state returns the next, or None
        yield from lexer.ready
        lexer.ready.clear()


class _Lexer:
    """The state machine; each state method emits into ``ready`` and returns the next state."""

    def __init__(self, text: str, left: str, right: str, words: Container[str]) -> None:
        self.input = text
        self.words = words
        self.left = left or "{{"
        self.right = right or "}}"
        self.pos = 0
        self.start = 0
        self.line = 1
        self.start_line = 1
        self.parens = 0
        self.ready: list[Token] = []
        self.ascii = text.isascii()
        self.counted = 0
        self.counted_bytes = 0

    def byte_pos(self) -> int:
        if self.ascii:
            return self.start
        self.counted_bytes += len(to_bytes(self.input[self.counted : self.start]))
        self.counted = self.start
        return self.counted_bytes

    def emit(self, kind: Kind) -> None:
        text = self.input[self.start : self.pos]
        self.ready.append(Token(kind, self.byte_pos(), text, self.start_line))
        self.line += text.count("\n")
        self.start, self.start_line = self.pos, self.line

    def ignore(self) -> None:
        self.line += self.input.count("\n", self.start, self.pos)
        self.start, self.start_line = self.pos, self.line

    def error(self, reason: str) -> None:
        self.ready.append(Token(Kind.ERROR, self.byte_pos(), reason, self.start_line))

    def next(self) -> str:
        if self.pos >= len(self.input):
            return _EOF
        self.pos += 1
        return self.input[self.pos - 1]

    def peek(self) -> str:
        return self.input[self.pos] if self.pos < len(self.input) else _EOF

    def accept(self, valid: str) -> bool:
        if self.pos < len(self.input) and self.input[self.pos] in valid:
            self.pos += 1
            return True
        return False

    def accept_run(self, valid: str) -> None:
        while self.accept(valid):
            pass

    def has_right_trim(self, at: int) -> bool:
        return self.input[at : at + 1] in _SPACE_CHARS and self.input[at + 1 : at + 2] == "-"

    def at_right_delim(self) -> tuple[bool, bool]:
        if self.has_right_trim(self.pos) and self.input.startswith(self.right, self.pos + 2):
            return True, True
        return self.input.startswith(self.right, self.pos), False

    def skip_spaces(self) -> None:
        self.accept_run(_SPACE)

    def text(self) -> Callable[[], object] | None:
        found = self.input.find(self.left, self.pos)
        if found < 0:
            self.pos = len(self.input)
            if self.pos > self.start:
                self.emit(Kind.TEXT)
            self.emit(Kind.EOF)
            return None
        if found > self.pos:
            self.pos = found
            marker = found + len(self.left)
            if self.input[marker : marker + 1] == "-" and self.input[marker + 1 : marker + 2] in _SPACE_CHARS:
                self.pos = self.start + len(self.input[self.start : found].rstrip(_SPACE))
            if self.pos > self.start:
                self.emit(Kind.TEXT)
            self.pos = found
            self.ignore()
        return self.left_delim

    def left_delim(self) -> Callable[[], object] | None:
        self.pos += len(self.left)
        trims = self.peek() == "-" and self.input[self.pos + 1 : self.pos + 2] in _SPACE_CHARS
        after = 2 if trims else 0
        if self.input.startswith("/*", self.pos + after):
            self.pos += after
            self.ignore()
            return self.comment
        self.emit(Kind.LEFT_DELIM)
        self.pos += after
        self.ignore()
        self.parens = 0
        return self.inside_action

    def comment(self) -> Callable[[], object] | None:
        end = self.input.find("*/", self.pos + 2)
        if end < 0:
            self.error("unclosed comment")
            return None
        self.pos = end + 2
        found, trims = self.at_right_delim()
        if not found:
            self.error("comment ends before closing delimiter")
            return None
        self.pos += 2 * trims + len(self.right)
        if trims:
            self.skip_spaces()
        self.ignore()
        return self.text

    def right_delim(self) -> Callable[[], object] | None:
        _, trims = self.at_right_delim()
        if trims:
            self.pos += 2
            self.ignore()
        self.pos += len(self.right)
        self.emit(Kind.RIGHT_DELIM)
        if trims:
            self.skip_spaces()
            self.ignore()
        return self.text

    def inside_action(self) -> Callable[[], object] | None:
        if self.at_right_delim()[0]:
            if self.parens == 0:
                return self.right_delim
            self.error("unclosed left paren")
            return None
        char = self.next()
        if char == _EOF:
            self.error("unclosed action")
            return None
        if char in _SPACE:
            self.pos -= 1
            return self.space
        state = self._STARTS.get(char)
        if state is not None:
            return state.__get__(self)()  # type: ignore[no-any-return] # __get__ binds it
        if char.isdigit() and char.isascii():
            self.pos -= 1
            return self.number()
        if is_alphanumeric(char):
            self.pos -= 1
            return self.identifier()
        if char.isascii() and is_printable(char):
            self.emit(Kind.CHAR)
            return self.inside_action
        self.error(f"unrecognized character in action: {unicode_point(char)}")
        return None

    def single(self) -> Callable[[], object] | None:
        self.emit(_SINGLE[self.input[self.pos - 1]])
        return self.inside_action

    def declare(self) -> Callable[[], object] | None:
        if self.next() != "=":
            self.error("expected :=")
            return None
        self.emit(Kind.DECLARE)
        return self.inside_action

    def dot(self) -> Callable[[], object] | None:
        following = self.peek()
        if following != _EOF and not ("0" <= following <= "9"):
            return self.field_or_variable(Kind.FIELD)
        self.pos -= 1
        return self.number()

    def sign(self) -> Callable[[], object] | None:
        self.pos -= 1
        return self.number()

    def left_paren(self) -> Callable[[], object] | None:
        self.emit(Kind.LEFT_PAREN)
        self.parens += 1
        return self.inside_action

    def right_paren(self) -> Callable[[], object] | None:
        self.parens -= 1
        if self.parens < 0:
            self.error("unexpected right paren")
            return None
        self.emit(Kind.RIGHT_PAREN)
        return self.inside_action

    def space(self) -> Callable[[], object] | None:
        begin = self.pos
        self.skip_spaces()
        count = self.pos - begin
        # The last space may belong to a trimming right delimiter.
        if self.has_right_trim(self.pos - 1) and self.input.startswith(self.right, self.pos + 1):
            self.pos -= 1
            if count == 1:
                return self.right_delim
        self.emit(Kind.SPACE)
        return self.inside_action

    def identifier(self) -> Callable[[], object] | None:
        while self.peek() != _EOF and is_alphanumeric(self.peek()):
            self.pos += 1
        if not self.at_terminator():
            self.bad_character()
            return None
        word = self.input[self.start : self.pos]
        if word in KEYWORDS and not (word in _LOOP_WORDS and word in self.words):
            self.emit(KEYWORDS[word])
        elif word in ("true", "false"):
            self.emit(Kind.BOOL)
        else:
            self.emit(Kind.IDENTIFIER)
        return self.inside_action

    def variable(self) -> Callable[[], object] | None:
        if self.at_terminator():
            self.emit(Kind.VARIABLE)
            return self.inside_action
        return self.field_or_variable(Kind.VARIABLE)

    def field_or_variable(self, kind: Kind) -> Callable[[], object] | None:
        if self.at_terminator():
            self.emit(Kind.VARIABLE if kind is Kind.VARIABLE else Kind.DOT)
            return self.inside_action
        while self.peek() != _EOF and is_alphanumeric(self.peek()):
            self.pos += 1
        if not self.at_terminator():
            self.bad_character()
            return None
        self.emit(kind)
        return self.inside_action

    def bad_character(self) -> None:
        self.error(f"bad character {unicode_point(self.peek())}")

    def at_terminator(self) -> bool:
        char = self.peek()
        return char == _EOF or char in _SPACE or char in ".,|:)(" or self.input.startswith(self.right, self.pos)

    def char_constant(self) -> Callable[[], object] | None:
        return self.quoted("'", Kind.CHAR_CONSTANT, "unterminated character constant")

    def string(self) -> Callable[[], object] | None:
        return self.quoted('"', Kind.STRING, "unterminated quoted string")

    def quoted(self, mark: str, kind: Kind, reason: str) -> Callable[[], object] | None:
        while True:
            char = self.next()
            if char == "\\" and self.peek() not in (_EOF, "\n"):
                self.pos += 1
            elif char in (_EOF, "\n", "\\"):
                self.error(reason)
                return None
            elif char == mark:
                self.emit(kind)
                return self.inside_action

    def raw_string(self) -> Callable[[], object] | None:
        end = self.input.find("`", self.pos)
        if end < 0:
            self.error("unterminated raw quoted string")
            return None
        self.pos = end + 1
        self.emit(Kind.RAW_STRING)
        return self.inside_action

    def number(self) -> Callable[[], object] | None:
        if not self.scan_number():
            self.bad_number()
            return None
        if self.peek() in ("+", "-"):
            # Complex: 1+2i. No spaces, and it must end in i.
            if not self.scan_number() or self.input[self.pos - 1] != "i":
                self.bad_number()
                return None
            self.emit(Kind.COMPLEX)
        else:
            self.emit(Kind.NUMBER)
        return self.inside_action

    def bad_number(self) -> None:
        self.error(f"bad number syntax: {quote(self.input[self.start : self.pos])}")

    def scan_number(self) -> bool:
        self.accept("+-")
        digits = "0123456789_"
        if self.accept("0"):
            if self.accept("xX"):
                digits = "0123456789abcdefABCDEF_"
            elif self.accept("oO"):
                digits = "01234567_"
            elif self.accept("bB"):
                digits = "01_"
        self.accept_run(digits)
        if self.accept("."):
            self.accept_run(digits)
        exponent = {11: "eE", 23: "pP"}.get(len(digits), "")
        if exponent and self.accept(exponent):
            self.accept("+-")
            self.accept_run("0123456789_")
        self.accept("i")
        if self.peek() != _EOF and is_alphanumeric(self.peek()):
            self.pos += 1
            return False
        return True

    _STARTS: Final = {
        "=": single,
        "|": single,
        ":": declare,
        '"': string,
        "`": raw_string,
        "$": variable,
        "'": char_constant,
        ".": dot,
        "+": sign,
        "-": sign,
        "(": left_paren,
        ")": right_paren,
    }
