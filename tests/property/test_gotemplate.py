"""Go templates of any text: lexing, parsing, budgets, and fields that are read once."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from injector.gotemplate import Budget, BudgetError, ExecError, Func, ParseError, compile_template
from injector.gotemplate.lexer import Kind, Token, tokens
from injector.gotemplate.sprig import txt_func_map
from tests.cases import cases
from tests.fuzz import template_target
from tests.property.templates import BODIES, TEMPLATES
from tests.sizes import sized

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 300), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abl"), inner, max_size=3)),
    max_leaves=10,
)
PIECES = ["{{", "}}", "{{- ", " -}}", "/*", "*/", *"()|.$\"`'\\1é☃ \n", ":=", ".x", "0x"]
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
DELIMITERS = st.sampled_from([("{{", "}}"), ("[[", "]]"), ("<", ">"), ("-", "-"), ("é", "☃"), (" ", "\n")])


def lexed(text: str, delimiters: tuple[str, str]) -> list[Token]:
    return list(tokens(text, *delimiters))


@given(TEXTS, DELIMITERS)
def test_every_text_ends_in_its_end_or_in_a_fault(text: str, delimiters: tuple[str, str]) -> None:
    results = lexed(text, delimiters)
    assert results[-1].kind in (Kind.EOF, Kind.ERROR)
    assert all(token.kind not in (Kind.EOF, Kind.ERROR) for token in results[:-1])


@given(TEXTS, DELIMITERS)
def test_tokens_are_parts_of_the_text_in_its_order(text: str, delimiters: tuple[str, str]) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    end = 0
    for token in lexed(text, delimiters)[:-1]:
        part = token.text.encode("utf-8", "surrogatepass")
        assert token.pos >= end
        assert raw[token.pos : token.pos + len(part)] == part
        assert token.line == 1 + raw[: token.pos].count(b"\n")
        end = token.pos + len(part)


@given(TEXTS, DELIMITERS)
def test_between_tokens_there_is_nothing_but_space_trim_markers_and_comments(
    text: str, delimiters: tuple[str, str]
) -> None:
    results = lexed(text, delimiters)
    raw = text.encode("utf-8", "surrogatepass")
    if results[-1].kind is Kind.ERROR or "/*" in text:
        return
    end = 0
    for token in results:
        # An empty action can have two trim markers.
        between = raw[end : token.pos].translate(None, b" \t\r\n")
        assert between in (b"", b"-") or (between == b"--" and token.kind is Kind.RIGHT_DELIM)
        end = token.pos + len(token.text.encode("utf-8", "surrogatepass"))
    assert end == len(raw)


@given(st.text(max_size=60).filter(lambda text: "{{" not in text))
def test_text_without_delimiters_is_itself(text: str) -> None:
    assert "".join(token.text for token in tokens(text)) == text


SPOILT = st.builds(
    lambda text, begin, end, put: text[:begin] + put + text[end:],
    TEMPLATES,
    st.integers(0, 300),
    st.integers(0, 300),
    st.text(alphabet="{}()|.$\"'`:=- ax1\n", max_size=3),
)


@settings(max_examples=sized(120, 300))
@given(TEMPLATES | SPOILT | st.text(max_size=80).map(lambda text: f"{{{{{text}}}}}"))
def test_a_text_is_refused_with_its_line_or_is_a_template_that_prints_as_itself(text: str) -> None:
    template_target.run(b"\0" + text.encode("utf-8", "surrogateescape"))


@dataclass
class Clock:
    """A clock that stands still, and counts how often it was looked at."""

    looks: int = field(default=0)

    def __call__(self) -> float:
        self.looks += 1
        return 0.0


@given(TEMPLATES, VALUES)
def test_a_template_renders_or_fails_as_templates_fail(text: str, data: Any) -> None:
    with contextlib.suppress(ExecError, ParseError):
        rendered = compile_template("t", text, funcs={}).execute(data, budget=Budget(clock=Clock()))
        assert len(rendered.encode("utf-8", "surrogateescape")) <= Budget().output


@given(TEMPLATES, VALUES, st.integers(0, 60))
def test_output_never_exceeds_its_budget(text: str, data: Any, size: int) -> None:
    with contextlib.suppress(ExecError, ParseError):
        rendered = compile_template("t", text, funcs={}).execute(data, budget=Budget(output=size, clock=Clock()))
        assert len(rendered.encode("utf-8", "surrogateescape")) <= size


@given(st.integers(1, 6), st.integers(0, 400))
def test_loops_inside_each_other_stop_when_the_steps_are_spent(depth: int, steps: int) -> None:
    text = "{{range 100000}}" * depth + "x" + "{{end}}" * depth
    template = compile_template("t", text, funcs={})
    with pytest.raises(BudgetError) as caught:
        template.execute(None, budget=Budget(steps=steps, clock=Clock()))
    assert caught.value.reason == f"the template's budget is spent: more than {steps} steps"


@settings(max_examples=20)
@given(st.integers(1, 100), st.integers(1, 3))
def test_templates_that_call_each_other_stop(depth: int, calls: int) -> None:
    text = '{{define "x"}}' + '{{template "x"}}' * calls + '{{end}}{{template "x"}}'
    with pytest.raises(BudgetError) as caught:
        compile_template("t", text, funcs={}).execute(None, budget=Budget(depth=depth, clock=Clock()))
    assert caught.value.reason == f"the template's budget is spent: templates nested deeper than {depth}"


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


@given(TEMPLATES, VALUES)
def test_reading_once_gives_what_reading_each_time_gives(text: str, data: Any) -> None:
    assert outcome(text, data) == outcome(text + "{{if false}}{{touch}}{{end}}", data)


@given(st.lists(BODIES, max_size=4), VALUES)
def test_calling_once_gives_what_calling_each_time_gives(bodies: list[str], data: Any) -> None:
    text = f'{{{{$x := 1}}}}{{{{define "d"}}}}{{{{end}}}}{"".join(bodies * 2)}'

    assert outcome(text, data) == outcome(text + "{{if false}}{{touch}}{{end}}", data)


@cases("text", "expected")
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


def test_a_function_runs_once_for_the_same_arguments_unless_its_result_may_differ() -> None:
    calls: list[str] = []

    def note(text: str) -> str:
        calls.append(text)
        return str(len(calls))

    text = '{{ f .a }}{{ if f .a }}{{ f .a }}{{ f "b" }}{{ end }}{{ f "b" }}'
    hermetic = {"f": Func("f", "func(string) string", note)}
    assert compile_template("t", text, funcs=hermetic).execute({"a": "x"}) == "1123"
    assert calls == ["x", "b", "b"]
    other = {"f": Func("f", "func(string) string", note, hermetic=False)}
    assert compile_template("t", text, funcs=other).execute({"a": "x"}) == "4678"
