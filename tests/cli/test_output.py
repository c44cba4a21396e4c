from __future__ import annotations

import pytest

from injector.cli.output import data_text, printable, table, with_progress


@pytest.mark.parametrize(("output", "text"), [("json", '{\n  "a": "\u00e9"\n}\n'), ("yaml", "a: \u00e9\n")])
def test_data_for_programs_is_json_or_yaml(output: str, text: str) -> None:
    assert data_text({"a": "\u00e9"}, output) == text


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("NAME", "N"), [("a-long-name", "1"), ("b", "")]) == "NAME          N\na-long-name   1\nb\n"


def test_a_table_without_rows_is_its_headings() -> None:
    assert table(("NAME", "WHY"), []) == "NAME   WHY\n"


@pytest.mark.parametrize(
    ("text", "shown"), [("a b", "a b"), ("", '""'), (" a", '" a"'), ("a\nb", '"a\\nb"'), ("\x1b[2J", '"\\u001b[2J"')]
)
def test_unprintable_text_is_quoted(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_without_a_terminal_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(with_progress(["a", "b"], "work")) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_bar_is_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    assert list(with_progress(["a", "b"], "work")) == ["a", "b"]
    assert capsys.readouterr() == ("", ""), "two are done at once"
    assert len(list(with_progress(range(100), "work"))) == 100
    out, err = capsys.readouterr()
    assert out == ""
    assert "work" in err
