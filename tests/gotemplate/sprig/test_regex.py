"""Sprig's regular expressions: linear time, bytes and replacements."""

from __future__ import annotations

import gc

import pytest
import re2

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig import regex


def test_an_expression_that_backtracks_elsewhere_takes_linear_time_here() -> None:
    assert regex.must_match("^(a+)+$", "a" * 5000 + "b") is False


def test_no_more_expressions_are_kept_than_are_used() -> None:
    patterns = {f"^only {number}$" for number in range(40)}
    for pattern in patterns:
        assert regex.must_match(pattern, pattern[1:-1]) is True

    # The engine's Python part would keep 128 of its own.
    expression = type(re2.compile(""))
    objects = [obj for obj in gc.get_objects() if isinstance(obj, expression) and obj.pattern in patterns]
    assert 0 < len(objects) <= 16


def test_a_replacement_may_not_grow_beyond_any_output() -> None:
    with pytest.raises(FuncError, match="too large"):
        regex.replace_all("", "x" * 2000, "y" * 2000)


# What Go 1.26 answers; its strings are bytes, and those that are no UTF-8 stand as lone surrogates here.
def test_bytes_that_are_not_utf8_match_as_the_replacement_character() -> None:
    text = "a\udcffb a\udce2 \udcffa☃"

    assert list(regex.find_all("(a.)(b)?", text, -1)) == ["a\udcffb", "a\udce2", "a☃"]
    assert regex.regex_find("..", "\udcff\udcfe") == "\udcff\udcfe"
    assert regex.must_match("^\ufffd$", "\udcff")
    assert regex.replace_all("(a.)(b)?", "xa\udcffb\udcfe", "<$1|$2>\udcfd") == "x<a\udcff|b>\udcfd\udcfe"
    assert list(regex.regex_split("b*", "a\udcffbbc\udcfe", -1)) == ["a", "\udcff", "c", "\udcfe"]


def test_an_expression_that_is_no_utf8_is_refused_from_there_on() -> None:
    with pytest.raises(FuncError) as caught:
        regex.must_match("ab\udcffcd", "x")
    assert str(caught.value) == "error parsing regexp: invalid UTF-8: `\udcffcd`"


@pytest.mark.parametrize("group", ["$9", "$01", "${nope}", f"${'9' * 5000}"])
def test_a_group_that_is_not_there_is_empty_in_a_replacement(group: str) -> None:
    assert regex.replace_all("(a)(?P<n>b)?", "xab", f"<$1|${{n}}|{group}>") == "x<a|b|>"
