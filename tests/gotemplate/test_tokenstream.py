from __future__ import annotations

import pytest

from injector.gotemplate.errors import ParseError
from injector.gotemplate.lexer import Kind, tokens
from injector.gotemplate.parser import TokenStream


def stream(text: str) -> TokenStream:
    return TokenStream("t", tokens(text))


def test_a_token_put_back_comes_again() -> None:
    found = stream("{{.a}}")
    first = found.next()
    found.backup()
    assert found.peek() is first
    assert found.next() is first
    assert found.next().text == ".a"


def test_spaces_can_be_passed_over() -> None:
    found = stream("{{ .a }}")
    found.next()
    assert found.peek_non_space().text == ".a"
    assert found.next_non_space().text == ".a"
    assert found.next().kind is Kind.SPACE


def test_three_tokens_can_be_put_back() -> None:
    found = stream("{{$x .a}}")
    found.next()
    variable, space, _ = found.next(), found.next(), found.next()
    found.backup3(variable, space)
    assert [found.next().text for _ in range(3)] == ["$x", " ", ".a"]


def test_the_end_comes_for_ever() -> None:
    found = stream("")
    assert [found.next().kind, found.next().kind] == [Kind.EOF, Kind.EOF]


def test_an_unexpected_token_is_an_error_at_its_line() -> None:
    found = stream("\n{{.a}}")
    found.next()
    with pytest.raises(ParseError) as caught:
        found.expect(Kind.FIELD, "place")
    assert str(caught.value) == 'template: t:2: unexpected "{{" in place'


def test_a_fault_of_the_text_says_where_its_action_began() -> None:
    found = stream("{{\n\n'")
    found.next()
    found.action_line = 1
    with pytest.raises(ParseError) as caught:
        found.expect(Kind.FIELD, "place")
    assert str(caught.value) == "template: t:3: unterminated character constant in action started at t:1"
