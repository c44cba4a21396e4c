from __future__ import annotations

import pytest

from injector.gotemplate.text import is_alphanumeric, is_printable, quote, unicode_point, unquote


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b~[]'`", '"a b~[]\'`"'),
        ("a\\b", '"a\\\\b"'),
        ("a\tb", '"a\\tb"'),
        ('"', '"\\""'),
        ("☃", '"☃"'),
        ("\x00", '"\\x00"'),
        ("\x7f", '"\\x7f"'),
        ("\udcff", '"\\xff"'),
    ],
)
def test_text_is_quoted_as_go_quotes_it(text: str, expected: str) -> None:
    assert quote(text) == expected


def test_quoting_for_ascii_escapes_the_rest() -> None:
    assert quote("☃😀", ascii_only=True) == '"\\u2603\\U0001f600"'


@pytest.mark.parametrize(
    ("text", "expected"), [('"a\\x41"', "aA"), ("`raw\\n`", "raw\\n"), ('"\\101"', "A"), ('"\\u00e9"', "é")]
)
def test_quoted_text_is_read_as_go_reads_it(text: str, expected: str) -> None:
    assert unquote(text) == expected


@pytest.mark.parametrize("text", ['"', '"a', "'a'", '"\\q"', '"\\xZZ"', '"\\ud800"', '"a\nb"'])
def test_what_is_no_quoted_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        unquote(text)


def test_characters_are_told_as_go_tells_them() -> None:
    assert is_alphanumeric("_")
    assert is_alphanumeric("é")
    assert not is_alphanumeric("☃")
    assert is_printable(" ")
    assert not is_printable("\u00a0")
    assert unicode_point("!") == "U+0021 '!'"
