"""Tables as kubectl prints them: columns of text, three blanks apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from injector.kube.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows below their headings, each column as wide as its widest cell."""
    lines = [columns, *([escape_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "".join(
        f"{'   '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()}\n"
        for line in lines
    )


def printable(text: str) -> str:
    """Return the text as it is where a terminal shows it so, else quoted."""
    return text if text.isprintable() and text.strip() == text and text else json.dumps(text)
