"""Go's view of characters and of quoted text (package unicode, strconv.Quote and strconv.Unquote).

A Go string is bytes; here it is a Python string in which bytes that are no UTF-8 stand as lone surrogates (``surrogateescape``).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_LETTERS: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo"})
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_QUOTED: Final = {value: f"\\{name}" for name, value in _ESCAPES.items()}
_OCTAL = re.compile(r"[0-7]{3}", re.ASCII)
_PLAIN = re.compile(r"[ -\[\]-~]*+")
_HEX = re.compile(r"[0-9a-fA-F]+", re.ASCII)
_MAX_RUNE: Final = 0x10FFFF


def is_alphanumeric(char: str) -> bool:
    """Return whether Go's lexer takes a character into a word: an underscore, a letter or a digit."""
    if char.isascii():
        return char.isalnum() or char == "_"
    return unicodedata.category(char) in _LETTERS or unicodedata.category(char) == "Nd"


def is_printable(char: str) -> bool:
    """Return whether strconv.IsPrint holds: letters, marks, numbers, punctuation, symbols and the ASCII space."""
    if char.isascii():
        return " " <= char <= "~"
    return unicodedata.category(char)[0] in "LMNPS"


def unicode_point(char: str) -> str:
    """Return a character as ``%#U`` prints it; the end of the text is -1."""
    if not char:
        return "U+FFFFFFFFFFFFFFFF"
    shown = f" '{char}'" if is_printable(char) else ""
    return f"U+{ord(char):04X}{shown}"


def quote(text: str, mark: str = '"', *, ascii_only: bool = False) -> str:
    """Return ``text`` in quotes as strconv.Quote (or QuoteToASCII) does."""
    if _PLAIN.fullmatch(text) and mark not in text:
        return f"{mark}{text}{mark}"
    return mark + "".join(_quoted_char(char, mark, ascii_only=ascii_only) for char in text) + mark


def _quoted_char(char: str, mark: str, *, ascii_only: bool) -> str:
    if char == mark:
        return f"\\{char}"
    if char in _QUOTED:
        return _QUOTED[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 - a byte that is no UTF-8, by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if (char.isascii() or not ascii_only) and is_printable(char):
        return char
    if code < 0x20 or code == 0x7F:  # noqa: PLR2004 - control characters
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - the basic plane


def unquote(text: str) -> str:
    """Return what a quoted Go string stands for.

    Raises:
        ValueError: ``invalid syntax``, strconv's words.
    """
    if len(text) < 2 or text[0] != text[-1]:  # noqa: PLR2004 - the two quotes
        raise ValueError("invalid syntax")
    mark, body = text[0], text[1:-1]
    if mark == "`":
        if "`" in body:
            raise ValueError("invalid syntax")
        return body.replace("\r", "")
    if mark != '"' or "\n" in body:
        raise ValueError("invalid syntax")
    parts: list[bytes] = []
    index = 0
    while index < len(body):
        value, index = unquote_char(body, index, mark)
        parts.append(value)
    return b"".join(parts).decode("utf-8", "surrogateescape")


def unquote_char(text: str, index: int, mark: str) -> tuple[bytes, int]:
    """Return the bytes of the character or escape at ``index`` and the index after it (strconv.UnquoteChar).

    Raises:
        ValueError: ``invalid syntax``.
    """
    char = text[index]
    if char == mark:
        raise ValueError("invalid syntax")
    if char != "\\":
        return char.encode("utf-8", "surrogateescape"), index + 1
    name = text[index + 1 : index + 2]
    if name in _ESCAPES and name:
        return _ESCAPES[name].encode(), index + 2
    if name in ("'", '"'):
        if name != mark:
            raise ValueError("invalid syntax")
        return name.encode(), index + 2
    if name in "xuU" and name:
        return _hex_escape(text, index, name)
    match = _OCTAL.match(text, index + 1)
    if match is None or int(match[0], 8) > 255:  # noqa: PLR2004 - one byte
        raise ValueError("invalid syntax")
    return bytes([int(match[0], 8)]), index + 4


def _hex_escape(text: str, index: int, name: str) -> tuple[bytes, int]:
    width = {"x": 2, "u": 4, "U": 8}[name]
    digits = text[index + 2 : index + 2 + width]
    if len(digits) != width or not _HEX.fullmatch(digits):
        raise ValueError("invalid syntax")
    code = int(digits, 16)
    if name == "x":
        return bytes([code]), index + 2 + width
    if code > _MAX_RUNE or 0xD800 <= code < 0xE000:  # noqa: PLR2004 - surrogates are no characters
        raise ValueError("invalid syntax")
    return chr(code).encode(), index + 2 + width
