from __future__ import annotations

import pytest

from injector.gotemplate.sprig.gotime import by_bytes, quoted


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain ~", '"plain ~"'),
        ('"\\', '"\\"\\\\"'),
        ("é\x01", '"\\xc3\\xa9\\x01"'),
        ("\x7f\n", '"\x7f\\x0a"'),
        ("\udcff", '"\\xff"'),
    ],
)
def test_what_is_no_printed_ascii_is_escaped_byte_by_byte(text: str, expected: str) -> None:
    assert quoted(text) == expected


def test_a_text_has_a_character_for_each_of_its_bytes() -> None:
    assert by_bytes("a☃") == "a\xe2\x98\x83"
