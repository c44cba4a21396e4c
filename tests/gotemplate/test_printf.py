from __future__ import annotations

import pytest

from injector.gotemplate.printf import sprint, sprintf, sprintln
from injector.gotemplate.values import Int64, Map, Pointer, Slice, Uint8


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((1, 2, "a", "b", 3), "1 2ab3"),
        ((1_000_000.0,), "1e+06"),
        ((None,), "<nil>"),
        (({"b": 1, "a": [None]},), "map[a:[<nil>] b:1]"),
    ],
)
def test_operands_have_a_space_between_them_unless_one_is_a_string(args: tuple[object, ...], expected: str) -> None:
    assert sprint(*args) == expected


def test_a_line_has_spaces_between_all_operands() -> None:
    assert sprintln("a", 1, "b") == "a 1 b\n"


@pytest.mark.parametrize(
    ("template", "args", "expected"),
    [
        ("%T", (Int64(1),), "int64"),
        ("%v", (Slice("string", ["a", "b"]),), "[a b]"),
        ("%#v", (Slice("string", ["a"]),), '[]string{"a"}'),
        ("%#v", (Map("string", "int", nil=True),), "map[string]int(nil)"),
        ("%#x", (Uint8(255),), "0xff"),
        ("%v", (Pointer("*v1.Pod"),), "<nil>"),
        ("%[2]*[1]d|", (5, 3), "  5|"),
        ("%d %d", (1,), "1 %!d(MISSING)"),
        ("%d", ("x",), "%!d(string=x)"),
    ],
)
def test_typed_values_print_as_go_prints_them(template: str, args: tuple[object, ...], expected: str) -> None:
    assert sprintf(template, *args) == expected


def test_what_names_itself_prints_by_its_name() -> None:
    class Named:
        def go_string(self) -> str:
            return "NAME"

    assert sprint(Named()) == "NAME"
