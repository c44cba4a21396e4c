"""A field that was read before in a block is not read again, unless the template calls a function that changes values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from injector.gotemplate import ExecError, Func, ParseError, compile_template
from injector.gotemplate.sprig import txt_func_map
from tests.property.templates import TEMPLATES

TIMELESS = settings(deadline=None)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 300), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abl"), inner, max_size=3)),
    max_leaves=10,
)
TOUCH = Func("touch", "func() string", str, mutates=True)
SPRIG = txt_func_map()


def outcome(text: str, data: Any) -> str:
    """What a template renders, or why it does not, but for the place of an action that only the other text has."""
    try:
        return compile_template("t", text, funcs={"touch": TOUCH}).execute(data)
    except ParseError as error:
        return f"does not parse: {error}"
    except ExecError as error:
        return f"fails: {error}"


@TIMELESS
@given(TEMPLATES, VALUES)
def test_reading_once_gives_what_reading_each_time_gives(text: str, data: Any) -> None:
    assert outcome(text, data) == outcome(text + "{{if false}}{{touch}}{{end}}", data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{ .d.a }}{{ $_ := set .d "a" "2" }}{{ .d.a }}', "12"),
        ('{{ .d.a }}{{ template "t2" . }}{{ .d.a }}{{ define "t2" }}{{ $_ := set .d "a" "2" }}{{ end }}', "12"),
        ('{{ .d.a }}{{ $_ := unset .d "a" }}{{ .d.a }}', "1<no value>"),
        ("{{ $x := .d }}{{ $x.a }}{{ $x = .e }}{{ $x.a }}", "13"),
        ("{{ $x := .d }}{{ range .l }}{{ $x.a }}{{ $x = . }}{{ end }}{{ $x.a }}", "145"),
        ("{{ range .l }}{{ .a }}{{ .a }}{{ end }}", "4455"),
        (
            "{{ range $i, $e := .l }}{{ $e.a }}{{ else }}{{ $e.a }}{{ end }}{{ range $e := .l }}{{ $e.a }}{{ end }}",
            "4545",
        ),
        ("{{ with .d }}{{ .a }}{{ end }}{{ with .e }}{{ .a }}{{ end }}{{ .d.a }}", "131"),
        ("{{ if .no }}{{ .d.a }}{{ else }}{{ .e.a }}{{ end }}{{ .d.a }}{{ .e.a }}", "313"),
        ("{{ if and .no .d.a }}{{ end }}{{ .d.a }}{{ or .d.a .e.a }}", "11"),
        ('{{ define "x" }}{{ .a }}{{ .a }}{{ end }}{{ template "x" .d }}{{ template "x" .e }}', "1133"),
    ],
)
def test_what_changed_is_read_again(text: str, expected: str) -> None:
    data = {"d": {"a": "1"}, "e": {"a": "3"}, "l": [{"a": "4"}, {"a": "5"}]}

    assert compile_template("t", text, funcs=SPRIG).execute(data) == expected


def test_a_field_that_is_read_twice_is_looked_up_once() -> None:
    class Counting(dict[str, Any]):
        """A map that is none of the plain ones, and notes each look."""

        looks = 0

        def __contains__(self, key: object) -> bool:
            Counting.looks += 1
            return super().__contains__(key)

    text = "{{ .d.a }}{{ if .d.a }}{{ .d.a }}{{ end }}"
    assert compile_template("t", text, funcs={}).execute({"d": Counting(a="x")}) == "xx"
    assert Counting.looks == 1
