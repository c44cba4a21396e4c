from __future__ import annotations

from injector.cli.table import table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("NAME", "N"), [("a-long-name", "1"), ("b", "")]) == "NAME          N\na-long-name   1\nb\n"


def test_a_table_without_rows_is_its_headings() -> None:
    assert table(("NAME", "WHY"), []) == "NAME   WHY\n"
