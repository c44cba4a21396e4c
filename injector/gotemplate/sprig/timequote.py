"""Texts in quotes as the errors of Go's package time have them."""

from __future__ import annotations

import re
from typing import Final

_ESCAPED: Final = re.compile(r'["\\]|[^\x20-\x7f]')


def by_bytes(text: str) -> str:
    """Return a text with a character for each of its bytes."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def quoted(text: str) -> str:
    """Return a text in quotes: what is no ASCII is escaped byte by byte."""
    return quoted_bytes(by_bytes(text))


def quoted_bytes(text: str) -> str:
    """Return bytes, one to a character, in quotes."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}" if match[0] in '"\\' else f"\\x{ord(match[0]):02x}"
