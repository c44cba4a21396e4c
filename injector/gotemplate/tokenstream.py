"""The parser's view of the tokens: three tokens of lookahead, and errors at the token read last (text/template/parse/parse.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from injector.gotemplate.errors import ParseError
from injector.gotemplate.tokens import Kind, Token

if TYPE_CHECKING:
    from collections.abc import Iterator

_EMPTY: Final = Token(Kind.EOF, 0, "", 0)


class TokenStream:
    """Tokens with lookahead.

    Spaces are tokens, so that deciding whether a variable is declared takes three of them: the variable, the space, what follows.
    """

    def __init__(self, name: str, lexer: Iterator[Token]) -> None:
        self.name = name
        self.lexer = lexer
        self.token = [_EMPTY, _EMPTY, _EMPTY]
        self.peek_count = 0
        self.action_line = 0

    def fetch(self) -> Token:
        """Return the lexer's next token; the last one for ever after."""
        return next(self.lexer, self.token[0])

    def next(self) -> Token:
        """Take the next token."""
        if self.peek_count > 0:
            self.peek_count -= 1
        else:
            self.token[0] = self.fetch()
        return self.token[self.peek_count]

    def backup(self) -> None:
        """Put the token taken last back."""
        self.peek_count += 1

    def backup2(self, first: Token) -> None:
        """Put ``first`` back before the token taken last."""
        self.token[1] = first
        self.peek_count = 2

    def backup3(self, second: Token, first: Token) -> None:
        """Put two tokens back before the one taken last."""
        self.token[1], self.token[2] = first, second
        self.peek_count = 3

    def peek(self) -> Token:
        """Return the next token without taking it."""
        if self.peek_count > 0:
            return self.token[self.peek_count - 1]
        self.peek_count = 1
        self.token[0] = self.fetch()
        return self.token[0]

    def next_non_space(self) -> Token:
        """Take the next token that is no space."""
        token = self.next()
        while token.kind is Kind.SPACE:
            token = self.next()
        return token

    def peek_non_space(self) -> Token:
        """Return the next token that is no space; spaces before it are gone."""
        token = self.next_non_space()
        self.backup()
        return token

    def fail(self, reason: str) -> NoReturn:
        """Raise an error at the line of the token that the lexer gave last."""
        raise ParseError(self.name, self.token[0].line, reason)

    def unexpected(self, token: Token, context: str) -> NoReturn:
        """Raise the error of a token that does not belong here, or of a text that is no token."""
        if token.kind is Kind.ERROR:
            extra = ""
            if self.action_line not in (0, token.line):
                extra = f" in action started at {self.name}:{self.action_line}"
                if token.text.endswith(" action"):
                    extra = extra.removeprefix(" in action")
            self.fail(f"{token}{extra}")
        self.fail(f"unexpected {token} in {context}")

    def expect(self, kind: Kind, context: str) -> Token:
        """Take the next token that is no space; it has to be of a kind."""
        token = self.next_non_space()
        if token.kind is not kind:
            self.unexpected(token, context)
        return token
