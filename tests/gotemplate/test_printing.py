from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import Spec, print_operand
from injector.gotemplate.values import Func, Int64, Map, NamedString, Pointer, Slice
from tests.gotemplate.world import record


def shown(value: Any, verb: str = "v", **flags: bool) -> str:
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
    assert (shown(value), shown(value, plus_v=True), shown(value, sharp_v=True)) == (plain, named, syntax)


def test_a_value_that_names_itself_prints_by_its_name() -> None:
    fault = record("main.Fault", Text="x")
    assert shown(fault) == "fault: x"
    assert shown([Pointer("*main.Fault", fault)]) == "[fault: x]"
    assert shown(fault, sharp_v=True) == 'main.Fault{Text:"x"}'


def test_a_name_that_panics_is_said_to() -> None:
    assert shown(record("main.Broken"), "s") == "%!s(PANIC=String method: no text)"


@pytest.mark.parametrize(
    ("value", "verb", "expected"),
    [
        (True, "d", "%!d(bool=true)"),
        ("x", "d", "%!d(string=x)"),
        (None, "d", "%!d(<nil>)"),
        ([1, "a"], "d", "[1 %!d(string=a)]"),
        (Int64(1), "s", "%!s(int64=1)"),
        (1.5, "d", "%!d(float64=1.5)"),
        (1, "p", "%!p(int=1)"),
        (record("main.Fault", Text="x"), "d", "{%!d(string=x)}"),
    ],
)
def test_a_verb_that_a_value_has_not_is_complained_of(value: Any, verb: str, expected: str) -> None:
    assert shown(value, verb) == expected


def test_a_type_is_printed_by_its_verb() -> None:
    assert shown(Map("string", "[]int"), "T") == "map[string][]int"


def test_functions_and_lists_have_an_address() -> None:
    assert shown(Func("f", "func()", print)).startswith("0x")
    assert shown([1], "p").startswith("0x")
    assert shown(Func("f", "func()", print, nil=True)) == "<nil>"


def test_a_pointer_to_a_scalar_shows_it_since_its_address_differs_on_each_run() -> None:
    assert shown(Pointer("*int", 5)) == "5"


def test_a_value_that_is_inside_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(FuncError, match="nests too deeply"):
        shown(loop)


def test_a_value_that_prints_too_large_is_refused() -> None:
    shared: list[Any] = ["x" * 100]
    for _ in range(20):
        shared = [shared, shared]
    with pytest.raises(FuncError, match="result too large"):
        shown(shared)
