from __future__ import annotations

import pytest

from injector.cli.output import printable, table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("NAME", "N"), [("a-long-name", "1"), ("b", "")]) == "NAME          N\na-long-name   1\nb\n"


def test_a_table_without_rows_is_its_headings() -> None:
    assert table(("NAME", "WHY"), []) == "NAME   WHY\n"


@pytest.mark.parametrize(
    ("text", "shown"), [("a b", "a b"), ("", '""'), (" a", '" a"'), ("a\nb", '"a\\nb"'), ("\x1b[2J", '"\\u001b[2J"')]
)
def test_what_a_terminal_would_not_show_is_quoted(text: str, shown: str) -> None:
    assert printable(text) == shown
