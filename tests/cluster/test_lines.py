from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from injector.cluster.lines import LineCutter, LineTooLongError


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=12).filter(lambda text: b"\n" not in text and text.strip())), st.data())
def test_lines_are_whole_however_the_network_cuts_them(lines: list[bytes], data: st.DataObject) -> None:
    body = b"".join(text + b"\n" for text in lines)
    cutter, found = LineCutter(), []
    while body:
        size = data.draw(st.integers(1, len(body)))
        found += cutter.feed(body[:size])
        body = body[size:]

    assert found == lines


def test_a_line_that_was_cut_off_is_never_given() -> None:
    cutter = LineCutter()

    assert cutter.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert cutter.feed(b"") == []


def test_empty_lines_are_left_out() -> None:
    assert LineCutter().feed(b"\n \r\na\n\n") == [b"a"]


@pytest.mark.parametrize("pieces", [[b"12345"], [b"123", b"45"], [b"a\n123", b"45"], [b"12345\n"]])
def test_a_line_that_is_too_long_is_refused_before_it_ends(pieces: list[bytes]) -> None:
    cutter = LineCutter(4)
    for piece in pieces[:-1]:
        cutter.feed(piece)

    with pytest.raises(LineTooLongError, match="longer than 4 bytes"):
        cutter.feed(pieces[-1])
