r"""Control characters that a terminal would obey, written as escapes.

A manifest or an object of the cluster can hold escape sequences, which change what a terminal shows or does, and bidirectional
controls, which make text read differently than programs read it (CVE-2021-42574). ``\u001b`` and ``\u202e`` are escapes in JSON and in
double-quoted YAML, and plain to read elsewhere.
"""

from __future__ import annotations

import json
import re
from typing import Final

# C0 but for tabs and ends of lines, delete, C1, bidirectional controls, line and paragraph separators, and bytes that are not UTF-8.
_BIDIRECTIONAL: Final = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROLS: Final = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{_BIDIRECTIONAL}\ud800-\udfff]|\r(?!\n)")
_CONTROLS_AND_LINES: Final = re.compile(f"[\x00-\x1f\x7f-\x9f{_BIDIRECTIONAL}\ud800-\udfff]")
_WORDS: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def has_controls(text: str) -> bool:
    """Tell whether ``escape_controls`` changes a text."""
    return not (text.isascii() and text.isprintable()) and _CONTROLS.search(text) is not None


def escape_controls(text: str) -> str:
    """Return a text of several lines with its control characters as escapes; tabs and the ends of lines stay."""
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub(_escape, text)


def escape_line(text: str) -> str:
    """Return a text for a single line: tabs and line feeds are escapes too."""
    return text if text.isascii() and text.isprintable() else _CONTROLS_AND_LINES.sub(_escape, text)


def printable(text: str) -> str:
    """Return the text, in quotes if a terminal would not show it as it is."""
    return text if text.isprintable() and text.strip() == text and text else json.dumps(text)


def _escape(match: re.Match[str]) -> str:
    return _WORDS.get(match[0]) or f"\\u{ord(match[0]):04x}"
