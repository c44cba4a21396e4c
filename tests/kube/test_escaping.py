from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.kube.escaping import escape_controls, escape_line, has_controls

CONTROLS = [
    *map(chr, (*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0))),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\udc80",
]


@pytest.mark.parametrize("char", CONTROLS)
def test_a_control_character_is_an_escape_of_json(char: str) -> None:
    for escape in (escape_controls, escape_line):
        assert escape(f"a{char}b") == f"a\\u{ord(char):04x}b"
        assert json.loads(f'"{escape(char)}"') == char
    assert has_controls(f"a{char}b")


@pytest.mark.parametrize(
    "text", ["", "plain text", "two\nlines", "a\tb", "a\r\nb", "\u00e4\u4e2d\U0001f600 \u05d0\u0627", "\u00a0"]
)
def test_what_people_write_stays(text: str) -> None:
    assert escape_controls(text) == text
    assert not has_controls(text)


def test_a_line_has_no_line_end() -> None:
    assert escape_line("a\nb\tc\r\nd") == "a\\nb\\tc\\r\\nd"


@given(st.text())
def test_escaping_twice_is_escaping_once(text: str) -> None:
    once = escape_controls(text)

    assert escape_controls(once) == once
    assert has_controls(text) == (once != text)
