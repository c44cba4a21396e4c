from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.errors import ParseError
from injector.gotemplate.parser import parse
from tests.property.templates import TEMPLATES

# A slow machine proves nothing.
TIMELESS = settings(deadline=None)


def sources(text: str) -> dict[str, str]:
    """Each template of a text, as its tree prints it."""
    return {name: str(tree.root) for name, tree in parse("t", text, functions=BUILTINS).items()}


@TIMELESS
@given(TEMPLATES)
def test_parsing_what_a_tree_prints_gives_the_tree_again(text: str) -> None:
    found = sources(text)
    again = sources(f'{found["t"]}{{{{define "d"}}}}{found["d"]}{{{{end}}}}') if "d" in found else sources(found["t"])
    assert again == found


@TIMELESS
@given(TEMPLATES, st.integers(0, 300), st.integers(0, 300), st.text(alphabet="{}()|.$\"'`:=- ax1\n", max_size=3))
def test_a_spoilt_template_parses_or_is_refused_with_its_line(text: str, begin: int, end: int, put: str) -> None:
    spoilt = text[:begin] + put + text[end:]

    assert 1 <= refused_at(spoilt) <= spoilt.count("\n") + 1


@TIMELESS
@given(st.text(max_size=80))
def test_any_text_inside_an_action_parses_or_is_refused(text: str) -> None:
    assert 1 <= refused_at(f"{{{{{text}}}}}") <= text.count("\n") + 1


def refused_at(text: str) -> int:
    """The line that the parser refuses a text at; the first where it takes it. Any other error is a fault."""
    try:
        parse("t", text, functions=BUILTINS)
    except ParseError as error:
        return error.line
    return 1
