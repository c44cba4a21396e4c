"""Go's fmt: verbs, flags, operands and sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import (
    Spec,
    format_bytes,
    format_complex,
    format_integer,
    format_real,
    format_string,
    hexadecimal,
    print_operand,
    sprint,
    sprintf,
    sprintln,
)
from injector.gotemplate.values import Func, Int64, Map, NamedString, Pointer, Slice
from tests.cases import cases
from tests.gotemplate.recorded import typed_differences
from tests.gotemplate.world import record


def test_every_verb_and_flag_prints_every_kind_as_go_does() -> None:
    assert typed_differences(lambda case: "printf" in case["template"]) == []


@cases("args", "expected")
def test_operands_have_a_space_between_them_unless_one_is_a_string(args: tuple[object, ...], expected: str) -> None:
    assert sprint(*args) == expected


def test_a_line_has_spaces_between_all_operands() -> None:
    assert sprintln("a", 1, "b") == "a 1 b\n"


@cases("template", "args", "expected")
def test_directives_are_read_as_go_reads_them(template: str, args: tuple[object, ...], expected: str) -> None:
    assert sprintf(template, *args) == expected


@pytest.mark.parametrize(
    ("template", "args"),
    [("%1048577d", (1,)), ("%.1048577d", (1,)), ("%01048577d", (1,)), ("%s%s", ("x" * 600_000, "x" * 600_000))],
)
def test_a_text_that_would_be_too_large_is_refused_before_it_is_made(template: str, args: tuple[object, ...]) -> None:
    with pytest.raises(FuncError, match="too large"):
        sprintf(template, *args)


def test_operands_that_would_be_too_large_together_are_refused() -> None:
    with pytest.raises(FuncError, match="result too large"):
        sprint("x" * 600_000, "x" * 600_000)


# What Go 1.26 prints.
@pytest.mark.parametrize(
    ("template", "value", "expected"),
    [
        (f"%{'9' * 5000}d", 1, "%!(NOVERB)%!(EXTRA int=1)"),
        (f"%.{'9' * 5000}f", 1.5, "%!(NOVERB)%!(EXTRA float64=1.5)"),
        (f"%.{'0' * 5000}3f", 1.5, "1.500"),
    ],
)
def test_a_width_of_thousands_of_digits_ends_the_format(template: str, value: object, expected: str) -> None:
    assert sprintf(template, value) == expected


def format_value(value: Any, verb: str = "v", **flags: bool) -> str:
    return print_operand(value, verb, Spec(**flags))


@pytest.mark.parametrize(
    ("value", "plain", "named", "syntax"),
    [
        (None, "<nil>", "<nil>", "<nil>"),
        ([1, "a", None], "[1 a <nil>]", "[1 a <nil>]", '[]interface {}{1, "a", interface {}(nil)}'),
        ({"b": 1, "a": []}, "map[a:[] b:1]", "map[a:[] b:1]", 'map[string]interface {}{"a":[]interface {}{}, "b":1}'),
        (Slice("string", nil=True), "[]", "[]", "[]string(nil)"),
        (Map("string", "int", nil=True), "map[]", "map[]", "map[string]int(nil)"),
        (b"ab", "[97 98]", "[97 98]", "[]byte{0x61, 0x62}"),
        (Pointer("*main.Point"), "<nil>", "<nil>", "(*main.Point)(nil)"),
        (NamedString("main.Name", "n"), "n", "n", '"n"'),
        (record("main.Point", X=1), "{1 0}", "{X:1 Y:0}", "main.Point{X:1, Y:0}"),
        (Pointer("*main.Point", record("main.Point", X=1)), "&{1 0}", "&{X:1 Y:0}", "&main.Point{X:1, Y:0}"),
    ],
)
def test_a_value_has_a_plain_form_one_with_names_and_one_in_gos_syntax(
    value: Any, plain: str, named: str, syntax: str
) -> None:
    assert (format_value(value), format_value(value, plus_v=True), format_value(value, sharp_v=True)) == (
        plain,
        named,
        syntax,
    )


def test_a_value_that_names_itself_prints_by_its_name() -> None:
    fault = record("main.Fault", Text="x")
    assert format_value(fault) == "fault: x"
    assert format_value([Pointer("*main.Fault", fault)]) == "[fault: x]"
    assert format_value(fault, sharp_v=True) == 'main.Fault{Text:"x"}'


def test_a_name_that_panics_is_said_to() -> None:
    assert format_value(record("main.Broken"), "s") == "%!s(PANIC=String method: no text)"


@cases(
    "value",
    "verb",
    "expected",
    also=[(Int64(1), "s", "%!s(int64=1)"), (record("main.Fault", Text="x"), "d", "{%!d(string=x)}")],
)
def test_a_verb_that_a_value_has_not_is_complained_of(value: Any, verb: str, expected: str) -> None:
    assert format_value(value, verb) == expected


def test_a_type_is_printed_by_its_verb() -> None:
    assert format_value(Map("string", "[]int"), "T") == "map[string][]int"


def test_functions_and_lists_have_an_address() -> None:
    assert format_value(Func("f", "func()", print)).startswith("0x")
    assert format_value([1], "p").startswith("0x")
    assert format_value(Func("f", "func()", print, nil=True)) == "<nil>"


def test_a_pointer_to_a_scalar_shows_it_since_its_address_differs_on_each_run() -> None:
    assert format_value(Pointer("*int", 5)) == "5"


def test_a_value_that_is_inside_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(FuncError, match="nests too deeply"):
        format_value(loop)


def test_a_value_that_prints_too_large_is_refused() -> None:
    shared: list[Any] = ["x" * 100]
    for _ in range(20):
        shared = [shared, shared]
    with pytest.raises(FuncError, match="result too large"):
        format_value(shared)


FORMATS: dict[str, Callable[[Any, str, Spec], str | None]] = {
    "string": format_string,
    "integer": format_integer,
    "real": format_real,
}


@cases(
    "kind",
    "value",
    "verb",
    "flags",
    "expected",
    also=[
        ("string", "\udcff", "q", {"sharp": True}, '"\\xff"'),
        ("real", math.nan, "v", {"zero": True, "width": 5}, "  NaN"),
    ],
)
def test_a_value_is_written_by_its_verb_and_flags(
    kind: str, value: Any, verb: str, flags: dict[str, Any], expected: str
) -> None:
    assert FORMATS[kind](value, verb, Spec(**flags)) == expected


def test_bytes_in_hexadecimal_have_prefixes_where_the_flags_ask() -> None:
    assert format_bytes(b"hi", "x", Spec()) == "6869"
    assert format_bytes(b"hi", "X", Spec(space=True, sharp=True)) == "0X68 0X69"
    assert format_bytes(b"hi", "x", Spec(sharp=True, precision=1)) == "0x68"
    assert format_bytes(b"", "x", Spec(sharp=True, width=3)) == "   "


def test_an_unsigned_integer_is_hexadecimal_in_gos_syntax() -> None:
    assert format_integer(10, "v", Spec(sharp_v=True), unsigned=True) == "0xa"
    assert hexadecimal(10, Spec(sharp=True), prefix=False) == "a"


def test_a_complex_number_has_two_parts_and_the_second_a_sign() -> None:
    assert format_complex(1 - 2j, "v", Spec()) == "(1-2i)"
    assert format_complex(1 + 2j, "f", Spec(precision=1, width=5)) == "(  1.0 +2.0i)"


def test_a_verb_that_there_is_not_gives_nothing() -> None:
    assert format_value(True, "d") == "%!d(bool=true)"
    assert format_string("x", "d", Spec()) is None
    assert format_integer(1, "s", Spec()) is None
    assert format_real(1.0, "d", Spec()) is None
    assert format_complex(1j, "d", Spec()) is None


@pytest.mark.parametrize("spec", [Spec(width=2_000_000), Spec(width=2_000_000, zero=True), Spec(precision=2_000_000)])
def test_an_absurd_width_is_refused(spec: Spec) -> None:
    with pytest.raises(FuncError, match="too large"):
        format_integer(1, "d", spec)
