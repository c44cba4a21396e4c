from __future__ import annotations

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import sprint, sprintf, sprintln
from tests.gotemplate.recorded import typed_differences


def test_every_verb_and_flag_prints_every_kind_as_go_does() -> None:
    assert typed_differences(lambda case: "printf" in case["template"]) == []


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), ""),
        ((1, 2, "a", "b", 3), "1 2ab3"),
        (("a", 1, 2, "b"), "a1 2b"),
        ((1_000_000.0,), "1e+06"),
        ((None, None), "<nil> <nil>"),
    ],
)
def test_operands_have_a_space_between_them_unless_one_is_a_string(args: tuple[object, ...], expected: str) -> None:
    assert sprint(*args) == expected


def test_a_line_has_spaces_between_all_operands() -> None:
    assert sprintln("a", 1, "b") == "a 1 b\n"


@pytest.mark.parametrize(
    ("template", "args", "expected"),
    [
        ("%d%%", (5,), "5%"),
        ("%d %d", (1,), "1 %!d(MISSING)"),
        ("%d", (1, "x"), "1%!(EXTRA string=x)"),
        ("%[2]d %[1]d", (1, 2), "2 1"),
        ("%[2]*[1]d|", (5, 3), "  5|"),
        ("%[3]d", (1, 2), "%!d(BADINDEX)"),
        ("%[1]2d", (1,), "%!d(BADINDEX)"),
        ("%*d", ("x", 1), "%!(BADWIDTH)1"),
        ("%.*f", (-1, 1.0), "%!(BADPREC)1.000000"),
        ("%-*d|", (3, 1), "1  |"),
        ("%*d|", (-3, 1), "1  |"),
        ("%", (), "%!(NOVERB)"),
        ("%.", (1,), "%!.(int=1)"),
        ("%!", (1,), "%!!(int=1)"),
        ("%99999999d", (1,), "%!(NOVERB)%!(EXTRA int=1)"),
    ],
)
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
