"""What Go's encoding/json says of a text that is no JSON (scanner.go)."""

from __future__ import annotations

from typing import Final

from injector.gotemplate.text import quote

_SPACE: Final = " \t\r\n"
_END: Final = "unexpected end of JSON input"
_LITERALS: Final = ("true", "false", "null")
_MAX_DEPTH: Final = 400


class _FaultError(Exception):
    """The text of a fault, on its way up."""


def json_fault(text: str) -> str:
    """Return Go's words for the first fault of a text, empty where it is JSON."""
    scanner = _Scanner(text)
    try:
        scanner.value(0)
        scanner.skip()
        if scanner.at < len(text):
            scanner.invalid("after top-level value")
    except _FaultError as fault:
        return str(fault)
    return ""


class _Scanner:
    """Reads JSON and stops at its first fault."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def invalid(self, context: str, *, ends: bool = True) -> None:
        """Raise a fault; a value that the end may cut short (``ends`` False) sees the end as a space, as Go's scanner does."""
        if self.at >= len(self.text) and ends:
            raise _FaultError(_END)
        # Go's scanner sees bytes.
        char = chr((self.text[self.at : self.at + 1] or " ").encode("utf-8", "surrogateescape")[0])
        shown = {"'": "'\\''", '"': "'\"'"}.get(char) or quote(char, "'")
        raise _FaultError(f"invalid character {shown} {context}")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self) -> None:
        while self.peek() and self.peek() in _SPACE:
            self.at += 1

    def value(self, depth: int) -> None:
        self.skip()
        char = self.peek()
        if depth > _MAX_DEPTH:
            raise _FaultError("exceeded max depth")
        if char == "{":
            self.members(depth)
        elif char == "[":
            self.elements(depth)
        elif char == '"':
            self.string()
        elif char == "-" or char.isdigit():
            self.number()
        else:
            self.literal()

    def literal(self) -> None:
        name = next((name for name in _LITERALS if self.peek() and name.startswith(self.peek())), "")
        if not name:
            self.invalid("looking for beginning of value")
        for char in name:
            if self.peek() != char:
                self.invalid(f"in literal {name} (expecting {quote(char, chr(39))})", ends=False)
            self.at += 1

    def elements(self, depth: int) -> None:
        self.at += 1
        self.skip()
        if self.peek() == "]":
            self.at += 1
            return
        while True:
            self.value(depth + 1)
            self.skip()
            if self.peek() == "]":
                self.at += 1
                return
            if self.peek() != ",":
                self.invalid("after array element")
            self.at += 1

    def members(self, depth: int) -> None:
        self.at += 1
        self.skip()
        if self.peek() == "}":
            self.at += 1
            return
        while True:
            self.skip()
            if self.peek() != '"':
                self.invalid("looking for beginning of object key string")
            self.string()
            self.skip()
            if self.peek() != ":":
                self.invalid("after object key")
            self.at += 1
            self.value(depth + 1)
            self.skip()
            if self.peek() == "}":
                self.at += 1
                return
            if self.peek() != ",":
                self.invalid("after object key:value pair")
            self.at += 1

    def string(self) -> None:
        self.at += 1
        while self.peek() != '"':
            if self.peek() == "\\":
                self.at += 1
                self.escape()
            elif not self.peek() or self.peek() < " ":
                self.invalid("in string literal")
            self.at += 1
        self.at += 1

    def escape(self) -> None:
        if not self.peek() or self.peek() not in 'bfnrt\\/"u':
            self.invalid("in string escape code")
        if self.peek() == "u":
            for _ in range(4):
                self.at += 1
                if not self.peek() or self.peek() not in "0123456789abcdefABCDEF":
                    self.invalid("in \\u hexadecimal character escape")

    def number(self) -> None:
        if self.peek() == "-":
            self.at += 1
            if not self.peek().isdigit():
                self.invalid("in numeric literal", ends=False)
        if self.peek() == "0":
            self.at += 1
        else:
            self.digits()
        if self.peek() == ".":
            self.at += 1
            if not self.peek().isdigit():
                self.invalid("after decimal point in numeric literal", ends=False)
            self.digits()
        if self.peek() in ("e", "E"):
            self.at += 1
            if self.peek() in ("+", "-"):
                self.at += 1
            if not self.peek().isdigit():
                self.invalid("in exponent of numeric literal", ends=False)
            self.digits()

    def digits(self) -> None:
        while self.peek().isdigit():
            self.at += 1
