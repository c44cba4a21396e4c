"""Output of commands: control characters are escaped, and questions need a terminal."""

from __future__ import annotations

import re

import pytest

from injector.cli.output import HEADINGS, LiveText, data_text, table, with_progress
from injector.kube.escaping import printable


@pytest.mark.parametrize(("output", "text"), [("json", '{\n  "a": "\u00e9"\n}\n'), ("yaml", "a: \u00e9\n")])
def test_data_for_programs_is_json_or_yaml(output: str, text: str) -> None:
    assert data_text({"a": "\u00e9"}, output) == text


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("NAME", "N"), [("a-long-name", "1"), ("b", "")]) == "NAME          N\na-long-name   1\nb\n"


def test_a_table_without_rows_is_its_headings() -> None:
    assert table(("NAME", "WHY"), []) == "NAME   WHY\n"


@pytest.mark.parametrize(
    ("text", "quoted"), [("a b", "a b"), ("", '""'), (" a", '" a"'), ("a\nb", '"a\\nb"'), ("\x1b[2J", '"\\u001b[2J"')]
)
def test_unprintable_text_is_quoted(text: str, quoted: str) -> None:
    assert printable(text) == quoted


def test_without_a_terminal_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(with_progress(["a", "b"], "work")) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_bar_is_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert list(with_progress(range(100), "work")) == list(range(100))
    monkeypatch.setenv("TERM", "xterm")

    assert list(with_progress(["a", "b"], "work")) == ["a", "b"]
    assert capsys.readouterr() == ("", ""), "two are done at once, and a dumb terminal cannot replace text"
    assert len(list(with_progress(range(100), "work"))) == 100
    out, err = capsys.readouterr()
    assert out == ""
    assert "work" in err


def screen(written: str) -> list[str]:
    """The lines that a terminal shows after text with the sequences of LiveText. Colors are left out."""
    lines, row = [""], 0
    for piece in re.findall(r"\x1b\[\d*[A-Za-z]|\n|[^\x1b\n]+", re.sub(r"\x1b\[\d*m", "", written)):
        match piece[-1], piece[:2]:
            case "F", "\x1b[":
                row -= int(piece[2:-1])
                lines[row] = "\r" + lines[row]  # the cursor is at the start of the line
            case "K", "\x1b[":
                lines[row] = lines[row].partition("\r")[0]
            case "J", "\x1b[":
                lines = [*lines[:row], ""]
            case "\n", _:
                row += 1
                lines += [""] * (row == len(lines))
                lines[row] = "\r" + lines[row]
            case _:
                before, _, after = lines[row].partition("\r")
                lines[row] = before + piece + "\r" + after[len(piece) :]
    return [line.replace("\r", "") for line in lines]


@pytest.mark.parametrize("no_color", ["", "1"])
def test_on_a_terminal_each_text_replaces_the_one_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_color: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name, value in {"COLUMNS": "20", "LINES": "8", "TERM": "xterm", "NO_COLOR": no_color}.items():
        monkeypatch.setenv(name, value)
    live, written = LiveText(HEADINGS), "before\n"
    for text, lines in (
        ("WAVE\ndev   2 waiting\n", ["WAVE", "dev   2 waiting"]),
        ("WAVE\n\nrest  x\x1b[2J\n", ["WAVE", "", "rest  x\\u001b[2J"]),
        ("a very long line which is wrapped\n", ["a very long line whi", "ch is wrapped"]),
        ("\n".join("abcdefghij"), [*"abcdef", "..."]),
        ("end\n", ["end"]),
    ):
        live.show(text)
        written += capsys.readouterr().out
        assert screen(written) == ["before", *lines, ""]
    assert ("\x1b[1mWAVE" in written) == (not no_color)
