"""Tables as kubectl prints them: columns of text, three blanks apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows below their headings, each column as wide as its widest cell."""
    lines = [columns, *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "".join(
        f"{'   '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()}\n"
        for line in lines
    )
